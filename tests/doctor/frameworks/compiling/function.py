"""missing-zero-grad: a compiled function, seen by its gradients and steps alone."""

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

torch._dynamo.config.error_on_recompile = True
torch.manual_seed(0)
body, head = nn.Sequential(nn.Linear(8, 16), nn.ReLU()), nn.Linear(16, 3)


@torch.compile(backend="eager", fullgraph=True)
def loss_of(x, y):
    return F.cross_entropy(head(body(x)), y)


x = torch.randn(160, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
optimizer = torch.optim.SGD([*body.parameters(), *head.parameters()], lr=0.05)
for epoch in range(3):
    for xb, yb in loader:
        optimizer.zero_grad()  # right
        loss = loss_of(xb, yb)
        loss.backward()
        optimizer.step()  # found
    print(epoch, loss.item())
