# kind: indirection
# expect: nothing
# why: Second-order meta-learning with torch.func: the inner gradients are part of the outer graph in training, and evaluation
#   takes inner gradients too (adaptation needs them) under an outer no_grad, on tasks of their own seed.
"""Few-shot regression of sine waves with model-agnostic meta-learning and learned inner step sizes."""
import argparse
import math
from dataclasses import dataclass
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

Weights = dict[str, Tensor]


@dataclass
class Config:
    width: int = 40
    shots: int = 10
    queries: int = 20
    tasks: int = 16
    inner_steps: int = 2
    inner_lr: float = 0.02
    outer_lr: float = 2e-3
    steps: int = 700


@dataclass
class Tasks:
    support_x: Tensor
    support_y: Tensor
    query_x: Tensor
    query_y: Tensor

    def tensors(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        return self.support_x, self.support_y, self.query_x, self.query_y


class TaskSource:
    def __init__(self, cfg: Config, seed: int) -> None:
        self.cfg, self.g = cfg, torch.Generator().manual_seed(seed)

    def draw(self, n: int) -> Tasks:
        amplitude = 0.5 + 1.5 * torch.rand(n, 1, 1, generator=self.g)
        phase = math.pi * torch.rand(n, 1, 1, generator=self.g)
        x = 2 * torch.rand(n, self.cfg.shots + self.cfg.queries, 1, generator=self.g) - 1
        y = amplitude * torch.sin(4 * x + phase)
        k = self.cfg.shots
        return Tasks(x[:, :k], y[:, :k], x[:, k:], y[:, k:])


class Learner(nn.Module):
    """A base network and one learned positive step size per tensor of it."""

    def __init__(self, cfg: Config) -> None:
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(1, cfg.width), nn.Tanh(), nn.Linear(cfg.width, cfg.width), nn.Tanh(), nn.Linear(cfg.width, 1)
        )
        start = math.log(cfg.inner_lr)
        names = [k.replace(".", "_") for k, _ in self.net.named_parameters()]
        self.log_lr = nn.ParameterDict({k: nn.Parameter(torch.tensor(start)) for k in names})
        self.inner_steps = cfg.inner_steps

    def predict(self, weights: Weights, x: Tensor) -> Tensor:
        return functional_call(self.net, weights, (x,))

    def loss(self, weights: Weights, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(self.predict(weights, x), y)

    def adapt(self, weights: Weights, x: Tensor, y: Tensor) -> Weights:
        for _ in range(self.inner_steps):
            slope = grad(self.loss)(weights, x, y)
            weights = {k: w - self.log_lr[k.replace(".", "_")].exp() * slope[k] for k, w in weights.items()}
        return weights

    def task_loss(self, weights: Weights, sx: Tensor, sy: Tensor, qx: Tensor, qy: Tensor) -> Tensor:
        return self.loss(self.adapt(weights, sx, sy), qx, qy)

    def forward(self, tasks: Tasks) -> Tensor:
        weights = dict(self.net.named_parameters())
        return vmap(partial(self.task_loss, weights))(*tasks.tensors())


@torch.no_grad()
def evaluate(learner: Learner, tasks: Tasks) -> tuple[float, float]:
    learner.eval()
    weights = dict(learner.net.named_parameters())
    before = vmap(partial(learner.loss, weights))(tasks.query_x, tasks.query_y).mean().item()
    after = learner(tasks).mean().item()
    learner.train()
    return before, after


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=Config.steps)
    parser.add_argument("--shots", type=int, default=Config.shots)
    args = parser.parse_args()
    cfg = Config(steps=args.steps, shots=args.shots)
    torch.manual_seed(7)
    torch.set_num_threads(1)

    learner = Learner(cfg)
    optimizer = torch.optim.Adam(
        [{"params": learner.net.parameters()}, {"params": learner.log_lr.parameters(), "lr": 1e-2}], lr=cfg.outer_lr
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, cfg.steps, eta_min=1e-4)
    source = TaskSource(cfg, seed=1)
    held_out = TaskSource(cfg, seed=2).draw(200)

    best, kept, running = float("inf"), {}, 0.0
    for step in range(1, cfg.steps + 1):
        loss = learner(source.draw(cfg.tasks)).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 5.0)
        optimizer.step()
        schedule.step()
        running += loss.item()
        if step % 100 == 0:
            before, after = evaluate(learner, held_out)
            print(f"step {step} query loss {running / 100:.4f} held-out before {before:.4f} after {after:.4f}")
            running = 0.0
            if after < best:
                best, kept = after, {k: v.clone() for k, v in learner.state_dict().items()}

    learner.load_state_dict(kept)
    rates = ", ".join(f"{k} {v.exp().item():.3f}" for k, v in learner.log_lr.items())
    print(f"best held-out {evaluate(learner, held_out)[1]:.4f}; inner step sizes: {rates}")


if __name__ == "__main__":
    main()
