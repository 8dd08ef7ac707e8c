# fresh simulated data every step, time as long as batch is not, model called on lists
import torch
from torch import nn

torch.manual_seed(0)


class Net(nn.Module):
    def __init__(s):
        super().__init__()
        s.conv = nn.Conv1d(3, 8, 3, padding=1)
        s.rnn = nn.RNN(8, 12)
        s.out = nn.Linear(12, 1)

    def forward(s, x):
        b, t, c = x.shape
        h = s.conv(x.transpose(1, 2)).transpose(1, 2)
        h = h.reshape(b * t, 8).relu().reshape(b, t, 8).transpose(0, 1)
        o, _ = s.rnn(h)
        return s.out(o[-1]).squeeze(-1)


m = Net()
o = torch.optim.Adam(m.parameters(), 1e-2)
for i in range(120):
    x = torch.randn(12, 20, 3)
    y = x[:, :, 0].mean(1)
    l = nn.functional.mse_loss(m(x), y)
    o.zero_grad()
    l.backward()
    o.step()
