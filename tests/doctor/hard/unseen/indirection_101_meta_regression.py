# kind: indirection
# expect: nothing
# why: functional_call uses adapted weights, but gradients reach the model's own parameters, which Adam holds; validation tasks are others.
"""Model-agnostic meta-learning on sine regression with torch.func."""
import argparse
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

Params = dict[str, Tensor]
Tasks = tuple[Tensor, Tensor, Tensor, Tensor]


def draw_tasks(n: int, shots: int, queries: int, gen: torch.Generator) -> Tasks:
    amplitude = 0.5 + 1.5 * torch.rand(n, 1, 1, generator=gen)
    phase = torch.pi * torch.rand(n, 1, 1, generator=gen)
    x = 2 * torch.rand(n, shots + queries, 1, generator=gen) - 1
    y = amplitude * torch.sin(4 * x + phase)
    return x[:, :shots], y[:, :shots], x[:, shots:], y[:, shots:]


def make_net(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1))


class MetaLearner(nn.Module):
    """A network and one learned inner step size per tensor."""

    def __init__(self, width: int, inner_lr: float, inner_steps: int) -> None:
        super().__init__()
        self.net = make_net(width)
        self.inner_steps = inner_steps
        self.log_rates = nn.ParameterDict(
            {name.replace(".", "_"): nn.Parameter(torch.tensor(inner_lr).log()) for name, _ in self.net.named_parameters()}
        )

    def rates(self) -> Params:
        return {name: self.log_rates[name.replace(".", "_")].exp() for name, _ in self.net.named_parameters()}

    def fit_loss(self, params: Params, x: Tensor, y: Tensor) -> Tensor:
        return F.mse_loss(functional_call(self.net, params, (x,)), y)

    def adapt(self, params: Params, rates: Params, x: Tensor, y: Tensor) -> Params:
        for _ in range(self.inner_steps):
            slopes = grad(self.fit_loss)(params, x, y)
            params = {name: p - rates[name] * slopes[name] for name, p in params.items()}
        return params

    def task_loss(self, params: Params, rates: Params, xs: Tensor, ys: Tensor, xq: Tensor, yq: Tensor) -> Tensor:
        return self.fit_loss(self.adapt(params, rates, xs, ys), xq, yq)

    def forward(self, tasks: Tasks) -> Tensor:
        params = dict(self.net.named_parameters())
        per_task = vmap(self.task_loss, in_dims=(None, None, 0, 0, 0, 0))
        return per_task(params, self.rates(), *tasks)


@torch.no_grad()
def evaluate(learner: MetaLearner, tasks: Tasks) -> tuple[float, float]:
    """Query error after adaptation, and before it."""
    learner.eval()
    after = learner(tasks).mean().item()
    before = F.mse_loss(learner.net(tasks[2]), tasks[3]).item()
    return after, before


def every(period: int, action: Callable[[int], None]) -> Callable[[int], None]:
    def maybe(step: int) -> None:
        if step % period == 0:
            action(step)

    return maybe


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--tasks", type=int, default=24)
    parser.add_argument("--shots", type=int, default=10)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=2)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)

    train_gen = torch.Generator().manual_seed(args.seed + 1)
    valid_tasks = draw_tasks(200, args.shots, 20, torch.Generator().manual_seed(args.seed + 2))
    learner = MetaLearner(width=40, inner_lr=0.05, inner_steps=2)
    opt = torch.optim.Adam(learner.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=args.steps, eta_min=args.lr * 0.05)
    running = 0.0

    def report(step: int) -> None:
        after, before = evaluate(learner, valid_tasks)
        print(f"step {step} train {running:.4f} valid after {after:.4f} before {before:.4f}")

    hook = every(100, report)
    for step in range(1, args.steps + 1):
        learner.train()
        losses = learner(draw_tasks(args.tasks, args.shots, 20, train_gen))
        loss = losses.mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(learner.parameters(), 5.0)
        opt.step()
        sched.step()
        running = loss.item() if step == 1 else 0.95 * running + 0.05 * loss.item()
        hook(step)


if __name__ == "__main__":
    main()
