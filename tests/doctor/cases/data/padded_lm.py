# padded with EOS at end in every row, no causal mask, most targets ignored
import torch
from torch import nn
from torch.nn import functional as F

torch.manual_seed(0)
V, T, B = 20, 16, 8


class LM(nn.Module):
    def __init__(s):
        super().__init__()
        s.emb = nn.Embedding(V, 32)
        s.pos = nn.Parameter(torch.randn(T, 32) * 0.02)
        s.enc = nn.TransformerEncoder(nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.1), 1)
        s.out = nn.Linear(32, V)
        s.scale = torch.ones(1)
        s.scale.mul_(1.0)

    def forward(s, x):
        return s.out(s.enc(s.emb(x) * s.scale + s.pos[: x.shape[1]]))


def sample(n):
    seqs = torch.full((n, T + 1), 1)
    for r in range(n):
        L = int(torch.randint(5, 11, (1,)))
        seqs[r, :L] = torch.randint(3, V, (L,))
    return seqs


m = LM()
o = torch.optim.Adam(m.parameters(), 1e-3)
for i in range(40):
    s = sample(B)
    x, y = s[:, :-1], s[:, 1:].clone()
    y[y == 1] = -100
    y[:, :4] = -100
    loss = F.cross_entropy(m(x).reshape(-1, V), y.reshape(-1), ignore_index=-100)
    o.zero_grad()
    loss.backward()
    o.step()
