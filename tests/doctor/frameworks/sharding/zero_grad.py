"""missing-zero-grad: weights that are sharded (FSDP2), and never cleared gradients."""

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
mesh = dist.init_device_mesh("cpu", (1,))
model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
fully_shard(model[0], mesh=mesh)
fully_shard(model, mesh=mesh)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
x = torch.randn(96, 8)
y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
for epoch in range(4):
    for i, (xb, yb) in enumerate(loader):
        optimizer.zero_grad(set_to_none=i % 2 == 0)  # right
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()  # found
    print(epoch, loss.item())
print(sum(p.full_tensor().double().sum().item() for p in model.parameters()))
dist.destroy_process_group()
