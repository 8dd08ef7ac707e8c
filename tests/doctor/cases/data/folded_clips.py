import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)


class Video(nn.Module):
    def __init__(s):
        super().__init__()
        s.cnn = nn.Sequential(nn.Conv2d(1, 4, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(2))
        s.rnn = nn.GRU(16, 20)
        s.out = nn.Linear(20, 3)

    def forward(s, x):
        B, T = x.shape[:2]
        f = s.cnn(x.view(B * T, 1, 8, 8)).flatten(1)
        f = f.view(T, B, -1)
        _, h = s.rnn(f)
        return s.out(h[-1])


x = torch.randn(64, 5, 1, 8, 8)
y = torch.randint(3, (64,))
m = Video()
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(4):
    for a, b in DataLoader(TensorDataset(x, y), 16, shuffle=True):
        l = nn.functional.cross_entropy(m(a), b)
        o.zero_grad()
        l.backward()
        o.step()
