import torch, torch.nn as nn, torch.nn.functional as F, torch.nn.utils.prune as prune
from torch.nn.utils import parametrize

torch.manual_seed(0)
m = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 2))
X = torch.randn(256, 8)
Y = (X[:, 0] > 0).long()


def fit(ps, n=40, lr=1e-2):
    o = torch.optim.Adam(ps, lr)
    for _ in range(n):
        i = torch.randint(256, (32,))
        o.zero_grad()
        l = F.cross_entropy(m(X[i]), Y[i])
        l.backward()
        o.step()
    return l.item()


print(fit(m.parameters()))
for it in range(3):
    prune.global_unstructured([(m[0], "weight"), (m[2], "weight")], pruning_method=prune.L1Unstructured, amount=0.2)
    print(fit(m.parameters(), 30, 1e-3))
for l in (m[0], m[2]):
    prune.remove(l, "weight")


class LoRA(nn.Module):
    def __init__(s, i, o, r=2):
        super().__init__()
        s.A = nn.Parameter(torch.randn(r, i) * 0.01)
        s.B = nn.Parameter(torch.zeros(o, r))

    def forward(s, w):
        return w + s.B @ s.A


for p in m.parameters():
    p.requires_grad_(False)
parametrize.register_parametrization(m[0], "weight", LoRA(8, 32))
print(fit([p for p in m.parameters() if p.requires_grad], 60))
