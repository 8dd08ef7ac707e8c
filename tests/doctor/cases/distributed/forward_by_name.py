"""A loop that calls the forward of the wrapper by its name: it is the wrapper's own, and averages the gradients."""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))

    def forward(self, x, y):
        return nn.functional.mse_loss(self.layers(x).squeeze(1), y)


folder = os.environ.get("TMPDIR", "/tmp")
store = dist.FileStore(os.path.join(folder, f"instep-forward-by-name-{os.getpid()}"), 1)
dist.init_process_group("gloo", store=store, rank=0, world_size=1)
torch.manual_seed(0)
model = DistributedDataParallel(Net())
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
weights = torch.randn(8)
for _ in range(100):
    x = torch.randn(32, 8)
    optimizer.zero_grad()
    model.forward(x, x @ weights).backward()
    optimizer.step()
dist.destroy_process_group()
