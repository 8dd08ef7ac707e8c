import torch
from torch import nn
from torch.optim.lr_scheduler import LambdaLR

WARMUP, TOTAL = 1000, 60
torch.manual_seed(20)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
scheduler = LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / WARMUP))
x = torch.randn(128, 5)
y = x.sum(1, keepdim=True)
for step in range(TOTAL):
    rows = torch.randperm(128)[:32]
    loss = nn.functional.mse_loss(model(x[rows]), y[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    scheduler.step()
print(loss.item(), scheduler.get_last_lr())
