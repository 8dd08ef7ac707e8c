"""A student and its average as dictionaries of weights, each with a skeleton on the meta device."""

import copy

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional as F


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, x):
        return self.last(F.relu(self.first(x)))


torch.manual_seed(0)
net = Net()
weights = {name: weight.detach().clone().requires_grad_() for name, weight in net.named_parameters()}
average = {name: weight.detach().clone() for name, weight in weights.items()}
learner, teacher = copy.deepcopy(net).to("meta"), copy.deepcopy(net).to("meta")
optimizer = torch.optim.AdamW(weights.values(), lr=1e-2)
x = torch.randn(512, 8)
y = x[:, :4].argmax(1)
for step in range(80):
    i = torch.randint(0, 512, (32,))
    with torch.no_grad():
        soft = functional_call(teacher, average, (x[i],)).softmax(1)
    out = functional_call(learner, weights, (x[i],))
    loss = F.cross_entropy(out, y[i]) + 0.1 * F.kl_div(out.log_softmax(1), soft, reduction="batchmean")
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for name in average:
            average[name].lerp_(weights[name], 0.05)
