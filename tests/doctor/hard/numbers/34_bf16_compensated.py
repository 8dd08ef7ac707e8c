# kind: numbers
# expect: nothing
# like: update-below-precision
# why: the weights are bfloat16 and single updates are often below their spacing, but the optimizer keeps
#   what was rounded away (compensated summation) and adds it the next time, so nothing is lost.
import math

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(2024)


class CompensatedAdam(torch.optim.Optimizer):
    """Adam for low precision weights; the rounding error of each write is carried along."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.99), eps=1e-8):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                st = self.state[p]
                if not st:
                    st["step"] = 0
                    st["m"] = torch.zeros_like(p, dtype=torch.float32)
                    st["v"] = torch.zeros_like(p, dtype=torch.float32)
                    st["carry"] = torch.zeros_like(p)
                st["step"] += 1
                g = p.grad.float()
                st["m"].lerp_(g, 1 - b1)
                st["v"].mul_(b2).addcmul_(g, g, value=1 - b2)
                m_hat = st["m"] / (1 - b1 ** st["step"])
                v_hat = st["v"] / (1 - b2 ** st["step"])
                wanted = -group["lr"] * m_hat / (v_hat.sqrt() + group["eps"]) + st["carry"].float()
                before = p.to(torch.float32, copy=True)
                p.copy_(before + wanted)
                st["carry"].copy_(wanted - (p.float() - before))
        return loss


def windows(n):
    """Two-tone sensor readings; the amplitude of the slow tone is to be estimated."""
    t = torch.linspace(0, 1, 40)
    amp = torch.rand(n, 1) * 2 + 0.2
    phase = torch.rand(n, 2) * 2 * math.pi
    slow = amp * torch.sin(2 * math.pi * 3 * t + phase[:, :1])
    fast = torch.sin(2 * math.pi * 11 * t + phase[:, 1:])
    return slow + 0.5 * fast + 0.1 * torch.randn(n, 40), amp


x, y = windows(3000)
n_train = 2400
mx, sx, my, sy = x[:n_train].mean(), x[:n_train].std(), y[:n_train].mean(), y[:n_train].std()
x, y = (x - mx) / sx, (y - my) / sy
train = DataLoader(TensorDataset(x[:n_train], y[:n_train]), batch_size=48, shuffle=True)
valid = DataLoader(TensorDataset(x[n_train:], y[n_train:]), batch_size=200)

model = nn.Sequential(nn.Linear(40, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 1))
model = model.to(torch.bfloat16)
optimizer = CompensatedAdam(model.parameters(), lr=3e-4)


def squared_error(xb, yb):
    return (model(xb.to(torch.bfloat16)).float() - yb).square()


for epoch in range(14):
    model.train()
    total = 0.0
    for xb, yb in train:
        loss = squared_error(xb, yb).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    model.eval()
    with torch.no_grad():
        err = sum(squared_error(xb, yb).sum().item() for xb, yb in valid) / (len(x) - n_train)
    print(f"epoch {epoch:2d} train mse {total / n_train:.4f} valid mse {err:.4f}")
