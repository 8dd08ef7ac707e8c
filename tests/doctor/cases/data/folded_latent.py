import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(s):
        super().__init__()
        s.a = nn.Linear(10, 32)
        s.mu = nn.Linear(32, 4)
        s.lv = nn.Linear(32, 4)
        s.d = nn.Linear(4, 10)

    def forward(s, x):
        h = torch.relu(s.a(x))
        h = h.t().reshape(h.shape)
        mu, lv = s.mu(h), s.lv(h)
        z = mu + torch.randn_like(mu) * (lv / 2).exp()
        return s.d(z), mu, lv


x = torch.randn(96, 10)
m = VAE()
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(4):
    for (a,) in DataLoader(TensorDataset(x), 16, shuffle=True):
        r, mu, lv = m(a)
        l = nn.functional.mse_loss(r, a) - 0.5 * (1 + lv - mu**2 - lv.exp()).mean()
        o.zero_grad()
        l.backward()
        o.step()
