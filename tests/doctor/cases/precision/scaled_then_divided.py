import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(21)
SCALE, ACCUM = 1024.0, 2
x = torch.randn(512, 16)
y = x[:, :2].cos()
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
net = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 2))
opt = torch.optim.Adam(net.parameters(), lr=2e-3)
for epoch in range(4):
    for i, (a, b) in enumerate(loader):
        with torch.autocast("cpu", dtype=torch.float16):
            out = net(a)
        loss = (out.float() - b).pow(2).mean()
        (SCALE * loss / ACCUM).backward()
        if (i + 1) % ACCUM == 0:
            for p in net.parameters():
                p.grad /= SCALE
            opt.step()
            opt.zero_grad()
    print(epoch, loss.item())
