"""parameter-not-optimized: layers of which each process holds columns or rows, and an optimizer of some of them."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden, self.out = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, x):
        return self.out(self.hidden(x).relu())


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
model = Net()
parallelize_module(model, dist.init_device_mesh("cpu", (1,)), {"hidden": ColwiseParallel(), "out": RowwiseParallel()})
assert all(isinstance(p, DTensor) for p in model.parameters())
optimizer = torch.optim.SGD(model.out.parameters(), lr=0.1)  # wrong, found
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)  # right
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
for epoch in range(4):
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
print(sum(p.full_tensor().double().sum().item() for p in model.parameters()))
dist.destroy_process_group()
