# kind: numbers
# expect: clip-before-unscale
# why: The loss is multiplied by 4096 by hand; the gradients are clipped to norm 1 while they still carry that factor and are divided
#      by it only afterwards.
"""Torques of a two-link arm from joint angles, velocities and accelerations, in bfloat16 autocast with a static loss scale."""
import argparse
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F


@dataclass
class Config:
    samples: int = 8000
    valid: int = 1500
    batch: int = 128
    epochs: int = 8
    width: int = 96
    lr: float = 2e-3
    warmup: int = 40
    max_norm: float = 1.0
    loss_scale: float = 4096.0
    ema: float = 0.98
    seed: int = 14


def arm_torques(q: Tensor, dq: Tensor, ddq: Tensor) -> Tensor:
    m1, m2, l1, l2, g = 1.2, 0.8, 0.5, 0.4, 9.81
    c2, s2 = q[:, 1].cos(), q[:, 1].sin()
    m11 = (m1 + m2) * l1**2 + m2 * l2**2 + 2 * m2 * l1 * l2 * c2
    m12 = m2 * l2**2 + m2 * l1 * l2 * c2
    h = m2 * l1 * l2 * s2
    g1 = (m1 + m2) * g * l1 * q[:, 0].cos() + m2 * g * l2 * (q[:, 0] + q[:, 1]).cos()
    g2 = m2 * g * l2 * (q[:, 0] + q[:, 1]).cos()
    t1 = m11 * ddq[:, 0] + m12 * ddq[:, 1] - h * (2 * dq[:, 0] * dq[:, 1] + dq[:, 1] ** 2) + g1
    t2 = m12 * ddq[:, 0] + m2 * l2**2 * ddq[:, 1] + h * dq[:, 0] ** 2 + g2
    return torch.stack([t1, t2], 1)


def sample_motion(n: int, gen: torch.Generator) -> tuple[Tensor, Tensor]:
    q = (torch.rand(n, 2, generator=gen) * 2 - 1) * 2.5
    dq, ddq = 1.5 * torch.randn(n, 2, generator=gen), 3.0 * torch.randn(n, 2, generator=gen)
    torque = arm_torques(q, dq, ddq) + 0.2 * torch.randn(n, 2, generator=gen)
    return torch.cat([q.sin(), q.cos(), dq, ddq], 1), torque


class LossScale:
    """Static scale that keeps small gradients away from zero in the low precision part of the backward."""

    def __init__(self, factor: float) -> None:
        self.factor = factor

    def backward(self, loss: Tensor) -> None:
        (loss * self.factor).backward()

    def restore(self, optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(self.factor)


class Average:
    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights = {k: v.detach().clone() for k, v in model.named_parameters()}

    @torch.no_grad()
    def update(self, model: nn.Module) -> None:
        for k, v in model.named_parameters():
            self.weights[k].lerp_(v, 1 - self.decay)


class Torques(nn.Module):
    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.inlet = nn.Linear(inputs, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.SiLU(), nn.Linear(width, width)) for _ in range(2)
        )
        self.outlet = nn.Linear(width, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = F.silu(self.inlet(x))
        for block in self.blocks:
            h = h + block(h)
        return self.outlet(h)


@torch.no_grad()
def evaluate(model: nn.Module, weights: dict[str, Tensor], x: Tensor, y: Tensor) -> float:
    model.eval()
    return float((torch.func.functional_call(model, weights, (x,)) - y).pow(2).mean().sqrt())


def train_step(
    model: nn.Module, optimizer: torch.optim.Optimizer, scale: LossScale, x: Tensor, y: Tensor, max_norm: float
) -> float:
    model.train()
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = model(x)
    loss = F.mse_loss(prediction.float(), y)
    scale.backward(loss)
    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
    scale.restore(optimizer)
    optimizer.step()
    return loss.item()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=Config.epochs)
    parser.add_argument("--loss-scale", type=float, default=Config.loss_scale)
    args = parser.parse_args()
    cfg = Config(epochs=args.epochs, loss_scale=args.loss_scale)
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)

    (x, y), (vx, vy) = sample_motion(cfg.samples, gen), sample_motion(cfg.valid, gen)
    x_mean, x_std, y_mean, y_std = x.mean(0), x.std(0), y.mean(0), y.std(0)
    x, vx, y, vy = (x - x_mean) / x_std, (vx - x_mean) / x_std, (y - y_mean) / y_std, (vy - y_mean) / y_std

    model = Torques(x.shape[1], cfg.width)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=1e-3)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / cfg.warmup))
    scale, average = LossScale(cfg.loss_scale), Average(model, cfg.ema)
    for epoch in range(cfg.epochs):
        total = 0.0
        for rows in torch.randperm(len(x), generator=gen).split(cfg.batch):
            total += train_step(model, optimizer, scale, x[rows], y[rows], cfg.max_norm) * len(rows)
            warmup.step()
            average.update(model)
        rmse = evaluate(model, average.weights, vx, vy)
        print(f"epoch {epoch} loss {total / len(x):.5f} valid rmse {rmse:.4f} (averaged weights)")


if __name__ == "__main__":
    main()
