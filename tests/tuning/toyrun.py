"""A run as small as can be: what the finders need of one, written as the plain loop. The numbers can be worked out by hand."""

import itertools
from collections.abc import Callable, Generator
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep import keys
from instep.loop.update import UpdateCycle
from instep.records import StepResult


class ToyRun:
    """Trains `objective(model, batch)` on batches of (x, y), chosen by the step alone."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        objective: Callable[[nn.Module, Any], Tensor],
        data: tuple[Tensor, Tensor],
        *,
        batch_size: int = 8,
        total_steps: int = 20,
        stateful: tuple[Any, ...] = (),
        on_nonfinite: Literal["stop", "skip"] = "stop",
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self.device = torch.device("cpu")
        self.batch_size, self.total_steps = batch_size, total_steps
        self.stateful = stateful
        self.step = 0
        self.starts: list[int] = []  # of each rehearsal
        self._objective, self._data = objective, data
        self._cycle = UpdateCycle(optimizer, model=model, on_nonfinite=on_nonfinite)

    @property
    def samples(self) -> int:
        return len(self._data[0])

    def rehearse(self, start: int, *, samples: int | None = None) -> Generator[StepResult, None, None]:
        self.starts.append(start)
        for step in itertools.count(start):
            yield self._update(step, samples or self.batch_size)

    def evaluate(self) -> dict[str, float]:
        with torch.no_grad(), keys.fork_rng():
            keys.seed_all(0)
            return {"valid/loss": float(self._objective(self.model, self._data))}

    def _update(self, step: int, samples: int) -> StepResult:
        keys.seed_all(keys.for_step(0, step))
        chosen = torch.randint(self.samples, (samples,)) if samples < self.samples else torch.arange(self.samples)
        return self._cycle.run([tuple(column[chosen] for column in self._data)], self._objective)


class Bowl(nn.Module):
    """½ Σ λ·w², from w = 1: gradient descent converges below lr = 2 / max λ and diverges above."""

    def __init__(self, *curvatures: float) -> None:
        super().__init__()
        self.w = nn.Parameter(torch.ones(len(curvatures), dtype=torch.float64))
        self.register_buffer("curvatures", torch.tensor(curvatures, dtype=torch.float64))

    def forward(self, centre: Tensor) -> Tensor:
        """The mean over bowls around several centres: the noise of the batches."""
        curvatures = self.get_buffer("curvatures")
        return (0.5 * curvatures * (self.w - centre) ** 2).sum(1).mean()


def bowl_run(*curvatures: float, noise: float = 0.1, make: Callable[..., Optimizer] = torch.optim.SGD, **options: Any) -> ToyRun:
    """Gradient descent in a bowl, on batches of 8 of 512 centres."""
    model = Bowl(*curvatures)
    centres = noise * torch.randn(512, len(curvatures), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    options.setdefault("lr", 0.1)
    return ToyRun(model, make(model.parameters(), **options), lambda m, batch: m(batch[0]), (centres, centres))
