import torch, torch.nn as nn, torch.nn.functional as F
from torch.utils.data import DataLoader

torch.manual_seed(1)


class VAE(nn.Module):
    def __init__(s):
        super().__init__()
        s.f1 = nn.Linear(64, 32)
        s.f21, s.f22 = nn.Linear(32, 4), nn.Linear(32, 4)
        s.f3, s.f4 = nn.Linear(4, 32), nn.Linear(32, 64)

    def encode(s, x):
        h = F.relu(s.f1(x))
        return s.f21(h), s.f22(h)

    def rep(s, mu, lv):
        return mu + torch.randn_like(mu) * torch.exp(0.5 * lv)

    def decode(s, z):
        return torch.sigmoid(s.f4(F.relu(s.f3(z))))

    def forward(s, x):
        mu, lv = s.encode(x.view(-1, 64))
        return s.decode(s.rep(mu, lv)), mu, lv


m = VAE()
o = torch.optim.Adam(m.parameters(), 1e-3)
D = torch.rand(300, 1, 8, 8).round()
for e in range(4):
    m.train()
    tl = 0
    for x in DataLoader(D[:256], 32, shuffle=True):
        o.zero_grad()
        r, mu, lv = m(x)
        l = F.binary_cross_entropy(r, x.view(-1, 64), reduction="sum") - 0.5 * torch.sum(1 + lv - mu.pow(2) - lv.exp())
        l.backward()
        tl += l.item()
        o.step()
    m.eval()
    with torch.no_grad():
        for i, x in enumerate(DataLoader(D[256:], 32)):
            r, mu, lv = m(x)
        s = m.decode(torch.randn(8, 4)).cpu()
    print(e, tl / 256)
