import torch
from torch import nn

torch.manual_seed(13)
body = nn.Sequential(nn.Linear(4, 16), nn.ReLU())
head = nn.Linear(16, 3)
optimizer = torch.optim.AdamW([{"params": body.parameters(), "lr": 1e-4}, {"params": head.parameters(), "lr": 1e-3}])
steps = 48
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=[2e-3, 2e-2], total_steps=steps)
x = torch.randn(240, 4)
y = x[:, :3].argmax(1)
for step in range(steps):
    rows = torch.randint(0, 240, (32,))
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(head(body(x[rows])), y[rows])
    loss.backward()
    optimizer.step()
    scheduler.step()
print(loss.item())
