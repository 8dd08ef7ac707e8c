# kind: numbers
# expect: nothing
# why: Right: the bfloat16 weights are rounded copies of float32 master weights kept by the optimizer, which gets every small update;
#      the loss is scaled by hand and the gradients are divided by the same scale before clipping and the step.
"""Train a bfloat16 network with an optimizer that keeps float32 master weights."""
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from torch.optim import Optimizer
from torch.utils.data import DataLoader, TensorDataset


@dataclass
class Config:
    inputs: int = 24
    width: int = 80
    epochs: int = 10
    batch_size: int = 64
    lr: float = 5e-4
    decay: float = 1e-2
    loss_scale: float = 1024.0
    seed: int = 37


class MasterAdamW(Optimizer):
    """AdamW whose moments and weights are float32; the parameters get the rounded result."""

    def __init__(self, params, lr, betas=(0.9, 0.99), eps=1e-8, decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "decay": decay})
        for group in self.param_groups:
            for p in group["params"]:
                master = p.detach().to(torch.float32, copy=True)
                self.state[p] = {"t": 0, "master": master, "m": torch.zeros_like(master), "v": torch.zeros_like(master)}

    @torch.no_grad()
    def unscale(self, scale):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(scale)

    @torch.no_grad()
    def step(self, closure=None):
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self._update(p, group)
        return loss

    def _update(self, p, group):
        state, grad, (b1, b2) = self.state[p], p.grad.float(), group["betas"]
        state["t"] += 1
        state["m"].lerp_(grad, 1 - b1)
        state["v"].mul_(b2).addcmul_(grad, grad, value=1 - b2)
        m, v = state["m"] / (1 - b1 ** state["t"]), state["v"] / (1 - b2 ** state["t"])
        state["master"].mul_(1 - group["lr"] * group["decay"])
        state["master"].addcdiv_(m, v.sqrt().add_(group["eps"]), value=-group["lr"])
        p.copy_(state["master"])


class Regressor(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(cfg.inputs, cfg.width), nn.SiLU(), nn.LayerNorm(cfg.width),
            nn.Linear(cfg.width, cfg.width), nn.SiLU(), nn.LayerNorm(cfg.width), nn.Linear(cfg.width, 1),
        )

    def forward(self, x):
        return self.net(x.to(torch.bfloat16)).float().squeeze(-1)


def cosine(optimizer, step, total, peak):
    for group in optimizer.param_groups:
        group["lr"] = peak * (0.05 + 0.475 * (1 + math.cos(math.pi * step / total)))


def make_data(n, cfg, gen, weights):
    x = torch.randn(n, cfg.inputs, generator=gen)
    h = x @ weights
    y = torch.sin(h[:, 0]) + h[:, 1] * h[:, 2].sigmoid() + 0.1 * torch.randn(n, generator=gen)
    return TensorDataset(x, y)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    total, n = 0.0, 0
    for x, y in loader:
        total += F.mse_loss(model(x), y).item() * len(y)
        n += len(y)
    return total / n


def main():
    cfg = Config()
    torch.set_num_threads(1)
    torch.manual_seed(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    weights = torch.randn(cfg.inputs, 3, generator=gen) / cfg.inputs**0.5
    train_loader = DataLoader(make_data(5120, cfg, gen, weights), cfg.batch_size, shuffle=True)
    valid_loader = DataLoader(make_data(1024, cfg, gen, weights), 256)
    model = Regressor(cfg).to(torch.bfloat16)
    optimizer = MasterAdamW(model.parameters(), lr=cfg.lr, decay=cfg.decay)
    total, step = cfg.epochs * len(train_loader), 0
    for epoch in range(cfg.epochs):
        model.train()
        for x, y in train_loader:
            cosine(optimizer, step, total, cfg.lr)
            optimizer.zero_grad()
            loss = F.mse_loss(model(x), y)
            (cfg.loss_scale * loss).backward()
            optimizer.unscale(cfg.loss_scale)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            step += 1
        print(f"epoch {epoch:2d}  last train {loss.item():.4f}  valid {evaluate(model, valid_loader):.4f}")


if __name__ == "__main__":
    main()
