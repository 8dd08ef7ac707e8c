# BatchNorm with a scale and no shift (the neck of a re-identification model may have bias=None): torch allows it.
import torch, torch.nn as nn, torch.nn.functional as F
torch.manual_seed(0)
norm = nn.BatchNorm1d(16); norm.bias = None
net = nn.Sequential(nn.Linear(8, 16), norm, nn.Linear(16, 3))
opt = torch.optim.SGD(net.parameters(), 0.1)
x = torch.randn(512, 8); y = x[:, :3].argmax(1)
for epoch in range(6):
    net.train()
    for i in torch.randperm(400).split(50):
        opt.zero_grad(); F.cross_entropy(net(x[i]), y[i]).backward(); opt.step()
    net.eval()
    with torch.no_grad(): print((net(x[400:]).argmax(1) == y[400:]).float().mean().item())
