import torch, torch.nn as nn, torch.nn.functional as F, math
from torch.utils.data import Dataset, DataLoader

torch.manual_seed(1337)
text = "the quick brown fox jumps over the lazy dog. " * 80
chars = sorted(set(text))
st = {c: i for i, c in enumerate(chars)}
data = torch.tensor([st[c] for c in text])
n = int(0.9 * len(data))
V, T = len(chars), 16


class D(Dataset):
    def __init__(s, d):
        s.d = d

    def __len__(s):
        return (len(s.d) - 1) // T

    def __getitem__(s, i):
        return s.d[i * T : i * T + T], s.d[i * T + 1 : i * T + T + 1]


class Block(nn.Module):
    def __init__(s, d=32):
        super().__init__()
        s.qkv = nn.Linear(d, 3 * d)
        s.p = nn.Linear(d, d)
        s.l1, s.l2 = nn.LayerNorm(d), nn.LayerNorm(d)
        s.m = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d), nn.Dropout(0.1))

    def forward(s, x):
        B, t, C = x.shape
        q, k, v = s.qkv(s.l1(x)).split(C, 2)
        f = lambda u: u.view(B, t, 4, C // 4).transpose(1, 2)
        y = F.scaled_dot_product_attention(f(q), f(k), f(v), is_causal=True, dropout_p=0.1 if s.training else 0)
        x = x + s.p(y.transpose(1, 2).reshape(B, t, C))
        return x + s.m(s.l2(x))


class GPT(nn.Module):
    def __init__(s):
        super().__init__()
        s.te, s.pe = nn.Embedding(V, 32), nn.Embedding(T, 32)
        s.b = nn.Sequential(Block(), Block())
        s.ln = nn.LayerNorm(32)
        s.h = nn.Linear(32, V, bias=False)
        s.te.weight = s.h.weight
        s.apply(s.init)

    def init(s, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, 0, 0.02)

    def forward(s, i, t=None):
        x = s.ln(s.b(s.te(i) + s.pe(torch.arange(i.shape[1]))))
        lg = s.h(x)
        return lg, None if t is None else F.cross_entropy(lg.view(-1, V), t.view(-1))

    @torch.no_grad()
    def generate(s, i, n):
        for _ in range(n):
            lg, _ = s(i[:, -T:])
            i = torch.cat((i, torch.multinomial(F.softmax(lg[:, -1], -1), 1)), 1)
        return i


m = GPT()
o = torch.optim.AdamW(m.parameters(), lr=1e-3)


@torch.no_grad()
def est():
    m.eval()
    r = sum(m(a, b)[1].item() for a, b in DataLoader(D(data[n:]), 8))
    m.train()
    return r


for e in range(3):
    for it, (a, b) in enumerate(DataLoader(D(data[:n]), 8)):
        lr = 1e-3 * min(1, (it + 1 + e * 25) / 10)
        for g in o.param_groups:
            g["lr"] = lr
        _, l = m(a, b)
        o.zero_grad(set_to_none=True)
        l.backward()
        o.step()
    print(e, l.item(), est())
m.eval()
print("".join(chars[i] for i in m.generate(torch.zeros(1, 1, dtype=torch.long), 30)[0].tolist()))
