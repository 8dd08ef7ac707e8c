import torch
from torch import nn

torch.manual_seed(0)
data = torch.randn(2000).cumsum(0) / 10


class F(nn.Module):
    def __init__(s):
        super().__init__()
        s.r = nn.GRU(1, 16, batch_first=True)
        s.d = nn.Dropout(0.3)
        s.o = nn.Linear(16, 1)

    def forward(s, x):
        return s.o(s.d(s.r(x)[0][:, -1]))


m = F()
o = torch.optim.Adam(m.parameters(), 1e-3)


def windows(lo, hi, n):
    i = torch.randint(lo, hi - 21, (n,))
    w = torch.stack([data[j : j + 21] for j in i])
    return w[:, :20, None], w[:, 20:]


for step in range(60):
    a, b = windows(0, 1500, 16)
    l = nn.functional.mse_loss(m(a), b)
    o.zero_grad()
    l.backward()
    o.step()
    if step % 20 == 19:
        m.eval  # forgotten parentheses
        with torch.inference_mode():
            losses = [nn.functional.mse_loss(m(a), b).item() for a, b in (windows(1500, 2000, 16) for _ in range(5))]
