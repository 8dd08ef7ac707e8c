import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset
torch.manual_seed(0)
g = torch.Generator().manual_seed(1)
def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)

V, PAD, L = 12, 0, 14
def batch(n):
    ids = torch.full((n, L), PAD); 
    for i in range(n):
        k = int(torch.randint(5, L + 1, (1,), generator=g)); s = int(torch.randint(1, V, (1,), generator=g))
        for j in range(k): ids[i, j] = s; s = (s * 5 + j) % (V - 1) + 1
    return ids
data = batch(640)
loader = DataLoader(TensorDataset(data), batch_size=32, shuffle=True)
class Att(nn.Module):
    def __init__(self, d=24):
        super().__init__(); self.e, self.pos = nn.Embedding(V, d), nn.Parameter(0.02 * torch.randn(L, d)); self.q, self.k, self.v, self.o = (nn.Linear(d, d) for _ in range(4)); self.out = nn.Linear(d, V)
    def forward(self, ids):
        h = self.e(ids) + self.pos[:ids.size(1)]
        s = self.q(h) @ self.k(h).transpose(1, 2) / 24 ** 0.5
        s = s * torch.tril(torch.ones_like(s))
        e = torch.exp(s - s.amax(-1, keepdim=True)); a = e / e.sum(-1, keepdim=True)
        return self.out(h + self.o(a @ self.v(h)))
model = Att(); opt = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(4):
    for (ids,) in loader:
        x, t = ids[:, :-1], ids[:, 1:]
        z = model(x); lp = z - z.logsumexp(-1, keepdim=True)
        m = t != PAD; loss = -(lp.gather(2, t[..., None]).squeeze(2) * m).sum() / m.sum()
        opt.zero_grad(); loss.backward(); opt.step()
