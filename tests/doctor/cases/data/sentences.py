# sentences of a text: a recurrent layer over words, another over sentences, one label a sentence
import torch
from torch import nn

torch.manual_seed(0)


class Doc(nn.Module):
    def __init__(s):
        super().__init__()
        s.w = nn.GRU(5, 8, batch_first=True)
        s.d = nn.GRU(8, 8, batch_first=True)
        s.o = nn.Linear(8, 3)

    def forward(s, x):
        _, h = s.w(x)
        c, _ = s.d(h[-1].unsqueeze(0))
        return s.o(c[0])


m = Doc()
o = torch.optim.Adam(m.parameters(), 1e-3)
for i in range(60):
    x = torch.randn(10, 7, 5)
    y = torch.randint(3, (10,))
    l = nn.functional.cross_entropy(m(x), y)
    o.zero_grad()
    l.backward()
    o.step()
