import torch, torch.nn as nn, torch.nn.functional as F
from torch.optim import Optimizer


class SGLD(Optimizer):
    def __init__(s, p, lr):
        super().__init__(p, dict(lr=lr))

    @torch.no_grad()
    def step(s, closure=None):
        for g in s.param_groups:
            for p in g["params"]:
                if p.grad is not None:
                    p.add_(p.grad, alpha=-0.5 * g["lr"])
                    p.add_(torch.randn_like(p), alpha=g["lr"] ** 0.5 * 0.01)


class Lookahead(Optimizer):
    def __init__(s, base, k=5, a=0.5):
        s.o, s.k, s.a, s.n = base, k, a, 0
        s.param_groups = base.param_groups
        s.slow = [[p.clone().detach() for p in g["params"]] for g in s.param_groups]
        s.state = base.state
        s.defaults = base.defaults

    def step(s, closure=None):
        s.o.step()
        s.n += 1
        if s.n % s.k == 0:
            for g, sl in zip(s.param_groups, s.slow):
                for p, q in zip(g["params"], sl):
                    q.add_(p.data - q, alpha=s.a)
                    p.data.copy_(q)

    def zero_grad(s, set_to_none=True):
        s.o.zero_grad(set_to_none)


torch.manual_seed(0)
for mk in (lambda p: SGLD(p, 1e-2), lambda p: Lookahead(torch.optim.Adam(p, 1e-3))):
    m = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))
    o = mk(m.parameters())
    S = []
    for i in range(80):
        x = torch.randn(32, 8)
        o.zero_grad()
        l = F.cross_entropy(m(x), (x[:, 0] > 0).long())
        l.backward()
        o.step()
        if i > 40 and i % 10 == 0:
            S.append({k: v.clone() for k, v in m.state_dict().items()})
    m.load_state_dict(S[-1])
    print(l.item())
