"""missing-zero-grad: a model and its loss in one graph, compiled once, in a run that is long enough for the doctor to rest."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch._dynamo.config.error_on_recompile = True


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))

    def forward(self, x, y):
        scores = self.net(x)
        return F.cross_entropy(scores, y), (scores.argmax(1) == y).float().mean()


torch.manual_seed(0)
x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
net = Net()
model = torch.compile(net, backend="eager", fullgraph=True)
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)
for epoch in range(56):
    for xb, yb in loader:
        optimizer.zero_grad()  # right
        loss, _ = model(xb, yb)
        loss.backward()
        optimizer.step()  # found
print(loss.item(), torch._dynamo.utils.counters["stats"]["unique_graphs"])
