import torch
from torch import nn

torch.manual_seed(39)
x = torch.randn(200, 6)
y = (x[:, :2].sum(1) > 0).long()
model = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 2))
opt = torch.optim.AdamW(model.parameters(), lr=5e-3)
epochs = 6
for epoch in range(epochs):
    model[2].p = 0.5 * (1 - epoch / epochs)
    model.train()
    for rows in torch.randperm(160).split(20):
        opt.zero_grad()
        nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        print(epoch, model[2].p, (model(x[160:]).argmax(1) == y[160:]).float().mean().item())
