import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(39)
x = torch.randn(480, 8)
y = x[:, :3].argmax(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
body = nn.Sequential(nn.Linear(8, 32), nn.LayerNorm(32), nn.ReLU())
head = nn.Linear(32, 3)
model = nn.Sequential(body, head)
body.requires_grad_(False)
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-2)
for epoch in range(4):
    if epoch == 2:
        body.requires_grad_(True)
        optimizer.add_param_group({"params": body.parameters(), "lr": 1e-3})
    model.train()
    for xb, yb in loader:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(xb), yb)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item(), [g["lr"] for g in optimizer.param_groups])
