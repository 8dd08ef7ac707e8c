import torch
from torch import nn

torch.manual_seed(0)
nets = {}
nets["online"] = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 4))
nets["ema"] = nets["online"]
opt = torch.optim.SGD(nets["online"].parameters(), 0.05)


def views(x):
    return x + 0.1 * torch.randn_like(x), x + 0.1 * torch.randn_like(x)


for i in range(40):
    a, b = views(torch.randn(16, 6))
    with torch.no_grad():
        t = nets["ema"](b)
    loss = nn.functional.mse_loss(nets["online"](a), t)
    opt.zero_grad()
    loss.backward()
    opt.step()
    with torch.no_grad():
        for p, q in zip(nets["ema"].parameters(), nets["online"].parameters()):
            p.mul_(0.99).add_(q, alpha=0.01)
