import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

torch.manual_seed(2)
x = torch.randn(1280, 6)
y = x[:, :3].argmax(1)
train = TensorDataset(x, y)
loader = DataLoader(train, batch_size=16, sampler=DistributedSampler(train, num_replicas=2, rank=1))
model = nn.Sequential(nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 3))
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1e-2, total_steps=len(loader))
for step, (xb, yb) in enumerate(loader):
    loss = F.cross_entropy(model(xb), yb)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 10 == 0:
        print(step, loss.item())
