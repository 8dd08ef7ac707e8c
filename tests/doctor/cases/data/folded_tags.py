# frames as a list of batches by hand, logits for each time, loss over all
import torch
from torch import nn

torch.manual_seed(0)


class Tag(nn.Module):
    def __init__(s):
        super().__init__()
        s.fc = nn.Linear(7, 16)
        s.rnn = nn.LSTM(16, 16)
        s.out = nn.Linear(16, 4)

    def forward(s, x):
        n, t, f = x.size()
        h = torch.relu(s.fc(x.contiguous().view(-1, f)))
        h = h.view(t, n, 16)
        o, _ = s.rnn(h)
        return s.out(o).view(n, t, 4)


x = torch.randn(80, 9, 7)
y = torch.randint(4, (80, 9))
m = Tag()
o = torch.optim.Adam(m.parameters(), 1e-2)
for e in range(6):
    for idx in torch.randperm(80).split(10):
        l = nn.functional.cross_entropy(m(x[idx]).view(-1, 4), y[idx].view(-1))
        o.zero_grad()
        l.backward()
        o.step()
