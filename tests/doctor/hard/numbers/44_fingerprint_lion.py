# kind: numbers
# expect: update-below-precision
# why: weights are bfloat16 and the own sign-momentum optimizer adds steps of 4e-5 straight to them, less
#   than half the spacing of most of the weights, so they round away.
import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer

torch.set_num_threads(1)
torch.manual_seed(91)

DTYPE = torch.bfloat16
BITS, WIDTH = 192, 128


class SignMomentum(Optimizer):
    """Lion: the sign of an interpolated momentum is the direction."""

    def __init__(self, params, lr, betas=(0.9, 0.98), weight_decay=0.0):
        defaults = {"lr": lr, "betas": betas, "weight_decay": weight_decay}
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            lr, (b1, b2), wd = group["lr"], group["betas"], group["weight_decay"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.float()
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(grad)
                m = state["momentum"]
                direction = (b1 * m + (1 - b1) * grad).sign()
                if wd:
                    direction = direction + wd * p.float()
                p.add_(direction.to(p.dtype), alpha=-lr)
                m.mul_(b2).add_(grad, alpha=1 - b2)


class FingerprintNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(BITS, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.mid = nn.Linear(WIDTH, WIDTH)
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, bits):
        h = self.norm(F.silu(self.up(bits)))
        h = h + F.silu(self.mid(h))
        return self.out(h)


def molecules(n):
    """Substructure bits that come in correlated groups, and a solubility."""
    motif = (torch.rand(n, 24) < 0.25).float()
    link = (torch.rand(24, BITS) < 0.12).float()
    rate = 0.03 + 0.75 * ((motif @ link) > 0).float()
    bits = (torch.rand(n, BITS) < rate).float()
    weight = torch.randn(24)
    value = motif @ weight + 0.8 * motif[:, 0] * motif[:, 1] - 0.7 * motif[:, 2] * motif[:, 3]
    return bits, (value + 0.2 * torch.randn(n)).unsqueeze(1)


bits, value = molecules(3000)
cut = 2400
bit_mean, bit_std = bits[:cut].mean(0), bits[:cut].std(0).clamp_min(1e-3)
inputs = ((bits - bit_mean) / bit_std).to(DTYPE)
target = (value - value[:cut].mean()) / value[:cut].std()

model = FingerprintNet().to(DTYPE)
optimizer = SignMomentum(model.parameters(), lr=4e-5, weight_decay=0.01)

for epoch in range(10):
    model.train()
    total = 0.0
    for idx in torch.randperm(cut).split(60):
        loss = F.mse_loss(model(inputs[idx]).float(), target[idx])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(idx)
    model.eval()
    with torch.no_grad():
        valid = F.mse_loss(model(inputs[cut:]).float(), target[cut:]).item()
    print(f"epoch {epoch:2d}  train {total / cut:.4f}  valid {valid:.4f}")
