import torch
from torch import nn

torch.manual_seed(20)
features = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU())
head = nn.Linear(16, 3)
features.requires_grad_(False)
x = torch.randn(240, 6) * 2 + 1
y = x[:, :3].argmax(1)
optimizer = torch.optim.AdamW(head.parameters(), lr=1e-2)
for epoch in range(4):
    features.train()
    head.train()
    for rows in torch.randperm(200).split(20):
        with torch.no_grad():
            f = features(x[rows])
        loss = nn.functional.cross_entropy(head(f), y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    features.eval()
    head.eval()
    with torch.no_grad():
        print(epoch, (head(features(x[200:])).argmax(1) == y[200:]).float().mean().item())
