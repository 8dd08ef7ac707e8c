# kind: indirection
# expect: nothing
# why: Own sign-momentum optimizer that writes only its own parameters, weight_norm, a straight-through Function, a hand-written
#      dropout that heeds self.training, and averaged weights cloned into a dict and used through functional_call: all of it is right.
"""Surrogate of a driven Duffing oscillator: from six physical parameters to the displacement curve."""
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional as F
from torch.nn.utils.parametrizations import weight_norm
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    runs: int = 3600
    valid: int = 600
    points: int = 40
    width: int = 96
    levels: int = 32
    batch: int = 64
    epochs: int = 10
    lr: float = 5e-4
    decay: float = 0.02
    average: float = 0.98
    seed: int = 47


def simulate(n: int, cfg: Config, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    low = torch.tensor([0.1, 0.5, 0.0, 0.2, 0.8, -1.0])
    high = torch.tensor([0.6, 2.0, 0.8, 1.2, 2.0, 1.0])
    theta = low + (high - low) * torch.rand(n, 6, generator=gen)
    damping, stiffness, cubic, force, omega, x = theta.unbind(1)
    v, dt, curve = torch.zeros(n), 0.05, []
    for k in range(cfg.points * 4):
        v = v + dt * (force * torch.cos(omega * k * dt) - damping * v - stiffness * x - cubic * x**3)
        x = x + dt * v
        if k % 4 == 3:
            curve.append(x)
    return theta, torch.stack(curve, 1) + 0.01 * torch.randn(n, cfg.points, generator=gen)


class RoundThrough(torch.autograd.Function):
    """Rounds to a grid; the gradient passes as if nothing had happened."""

    @staticmethod
    def forward(ctx: torch.autograd.function.FunctionCtx, x: Tensor, levels: int) -> Tensor:
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx: torch.autograd.function.FunctionCtx, grad: Tensor) -> tuple[Tensor, None]:
        return grad, None


class SignMomentum(torch.optim.Optimizer):
    def __init__(self, params: Iterable[Tensor], lr: float, betas: tuple[float, float] = (0.9, 0.99), decay: float = 0.0) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "decay": decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor | None:
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            fast, slow = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                momentum = self.state[p].setdefault("momentum", torch.zeros_like(p))
                p.mul_(1 - group["lr"] * group["decay"])
                p.add_(torch.lerp(p.grad, momentum, fast).sign_(), alpha=-group["lr"])
                momentum.lerp_(p.grad, 1 - slow)
        return loss


class FeatureDrop(nn.Module):
    def __init__(self, p: float) -> None:
        super().__init__()
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        if not self.training:
            return x
        return x * (torch.rand_like(x) >= self.p) / (1 - self.p)


class Surrogate(nn.Module):
    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.levels = cfg.levels
        self.encode = nn.Sequential(weight_norm(nn.Linear(6, cfg.width)), nn.SiLU(), weight_norm(nn.Linear(cfg.width, 24)), nn.Tanh())
        self.decode = nn.Sequential(
            weight_norm(nn.Linear(24, cfg.width)), nn.SiLU(), FeatureDrop(0.02), weight_norm(nn.Linear(cfg.width, cfg.width)), nn.SiLU(),
            nn.Linear(cfg.width, cfg.points),
        )

    def forward(self, theta: Tensor) -> Tensor:
        return self.decode(RoundThrough.apply(self.encode(theta), self.levels))


class Averager:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {name: p.detach().clone() for name, p in model.named_parameters()}

    @torch.no_grad()
    def absorb(self, model: nn.Module) -> None:
        for name, p in model.named_parameters():
            self.weights[name].lerp_(p, 1 - self.decay)


@torch.no_grad()
def evaluate(model: nn.Module, weights: dict[str, Tensor], loader: DataLoader) -> float:
    model.eval()
    squares, count = 0.0, 0
    for theta, curve in loader:
        squares += float((functional_call(model, weights, (theta,)) - curve).pow(2).sum())
        count += curve.numel()
    return (squares / count) ** 0.5


def main() -> None:
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    (theta, curve), (v_theta, v_curve) = simulate(cfg.runs, cfg, gen), simulate(cfg.valid, cfg, gen)
    mean, std, unit = theta.mean(0), theta.std(0), curve.std()
    train = DataLoader(TensorDataset((theta - mean) / std, curve / unit), batch_size=cfg.batch, shuffle=True, generator=gen)
    valid = DataLoader(TensorDataset((v_theta - mean) / std, v_curve / unit), batch_size=150)

    model = Surrogate(cfg)
    weights = list(model.parameters())
    optimizer = SignMomentum(weights, lr=cfg.lr, decay=cfg.decay)
    total = cfg.epochs * len(train)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * min(1.0, s / total))))
    averager = Averager(model, cfg.average)
    for epoch in range(cfg.epochs):
        model.train()
        losses = 0.0
        for x, y in train:
            def closure(x: Tensor = x, y: Tensor = y) -> Tensor:
                optimizer.zero_grad()
                loss = F.mse_loss(model(x), y)
                loss.backward()
                nn.utils.clip_grad_norm_(weights, 1.0)
                return loss
            losses += optimizer.step(closure).item() * len(x)
            scheduler.step()
            averager.absorb(model)
        print(f"epoch {epoch:2d} loss {losses / cfg.runs:.4f} valid rmse {evaluate(model, averager.weights, valid):.4f}")


if __name__ == "__main__":
    main()
