import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
g = torch.Generator().manual_seed(1)


def cls(n, d=8, k=4):
    x = torch.randn(n, d, generator=g)
    return x, (x[:, :k]).argmax(1)


class Decay(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-2, wd=0.05):
        super().__init__(params, dict(lr=lr, wd=wd))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                g = p.grad if p.grad is not None else torch.zeros_like(p)
                s = self.state[p].setdefault("m", torch.zeros_like(p))
                s.mul_(0.9).add_(g + group["wd"] * p)
                p.sub_(group["lr"] * s)


x, y = cls(640)
loader = DataLoader(TensorDataset(x, y), batch_size=16, shuffle=True)
body = nn.Sequential(nn.Linear(8, 24), nn.ReLU())
head = nn.Linear(24, 4)
body.requires_grad_(False)
model = nn.Sequential(body, head)
opt = Decay(model.parameters())
for epoch in range(4):
    for a, b in loader:
        loss = F.cross_entropy(model(a), b)
        opt.zero_grad()
        loss.backward()
        opt.step()
