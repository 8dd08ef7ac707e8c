import torch, torch.nn as nn, torch.nn.functional as F

torch.manual_seed(0)
X = torch.randn(320, 8)
Y = (X[:, 0] > 0).long()
m = nn.Sequential(nn.Linear(8, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 2))
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(4):
    for i in torch.randperm(320).split(32):
        o.zero_grad()
        l = F.cross_entropy(m(X[i]), Y[i])
        l.backward()
        o.step()
m.train()
m.requires_grad_(False)
for k in m.modules():
    if isinstance(k, nn.BatchNorm1d):
        k.requires_grad_(True)
        k.track_running_stats = False
        k.running_mean = None
        k.running_var = None
o = torch.optim.SGD([p for p in m.parameters() if p.requires_grad], 1e-3, momentum=0.9)
c = 0
for j in range(20):
    x = torch.randn(32, 8) * 1.5 + 0.3
    y = m(x)
    ent = -(y.softmax(1) * y.log_softmax(1)).sum(1).mean()
    ent.backward()
    o.step()
    o.zero_grad()
    c += (y.argmax(1) == (x[:, 0] > 0).long()).sum().item()
print(c / 640)
