import torch
from torch import nn

torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, 0] > 0).long()
tx, ty, vx, vy = x[:300], y[:300], x[300:], y[300:]
net = nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 2))
opt = torch.optim.Adam(net.parameters(), 1e-2)
for epoch in range(5):
    for i in torch.randperm(300).split(30):
        l = nn.functional.cross_entropy(net(tx[i]), ty[i])
        opt.zero_grad()
        l.backward()
        opt.step()
    with torch.no_grad():
        right = 0
        for s in range(0, 100, 25):
            right += (net(vx[s : s + 25]).argmax(1) == vy[s : s + 25]).sum().item()
    print(epoch, right / 100)
