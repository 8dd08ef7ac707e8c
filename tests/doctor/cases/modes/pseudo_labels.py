import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
x = torch.randn(400, 6)
y = (x[:, 0] > 0).long()
lab = DataLoader(TensorDataset(x[:80], y[:80]), batch_size=8, shuffle=True)
unl = DataLoader(TensorDataset(x[80:320]), batch_size=24, shuffle=True)
test = DataLoader(TensorDataset(x[320:], y[320:]), batch_size=40)
m = nn.Sequential(nn.Linear(6, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Dropout(0.1), nn.Linear(32, 2))
opt = torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)
for e in range(4):
    m.train()
    for (a, b), (u,) in zip(lab, unl):
        with torch.no_grad():
            p, pl = torch.max(m(u).softmax(1), 1)
        loss = (
            F.cross_entropy(m(a), b)
            + (F.cross_entropy(m(u + 0.1 * torch.randn_like(u)), pl, reduction="none") * (p > 0.8)).mean()
        )
        opt.zero_grad()
        loss.backward()
        opt.step()
    m.eval()
    with torch.no_grad():
        print(e, sum((m(a).argmax(1) == b).sum().item() for a, b in test) / 80)
