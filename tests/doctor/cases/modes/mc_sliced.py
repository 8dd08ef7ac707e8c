# MC dropout on hand-sliced data: the same rows many times, their spread is the answer
import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(300, 6)
y = x[:, 0] * 2
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(5):
    for i in torch.randperm(300).split(30):
        l = nn.functional.mse_loss(net(x[i]).squeeze(1), y[i])
        opt.zero_grad()
        l.backward()
        opt.step()
    with torch.no_grad():
        spread = torch.stack([net(x[:50]) for _ in range(20)]).std(0).mean()
    print(spread.item())
