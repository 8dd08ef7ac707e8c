"""One update of a replay, looked at: its batch, its loss, what it did to each parameter, and what in it is not finite."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instep import keys
from instep.data.loading.loader import Batch
from instep.loop.accumulation import Sums
from instep.loop.stepper import Stepper
from instep.loop.torch_calls import backward
from instep.proof.replay_operation import Operation, OperationWatch, find_origin, shorten_path
from instep.records import SavedTensors, Update
from instep.run.run import Run


@dataclass(frozen=True)
class ParameterChange:
    """One parameter in an update: norms of its weights before, of its gradient, and of what the step changed."""

    name: str
    numbers: int
    weight: float
    gradient: float | None  # after clipping, as the optimizer got it; None where there is none
    change: float
    bad_weights: int = 0  # how many are not finite after the update
    bad_gradients: int = 0

    @property
    def relative(self) -> float:
        """The change relative to the weights."""
        return self.change / self.weight if self.weight else math.inf if self.change else 0.0


@dataclass(frozen=True)
class ReplayedUpdate:
    """An update that was made again, with what it had in hand."""

    step: int
    epoch: int
    index: int  # of the batch in its epoch
    loss: float
    update: Update | None  # None where the update failed, and no step was made
    batch: Any = field(repr=False)
    samples: Tensor = field(repr=False)  # their indices in the training data
    parameters: tuple[ParameterChange, ...] = field(repr=False, default=())
    error: str | None = None  # why it failed
    nonfinite: tuple[str, ...] = ()  # what is not finite: values of the batch, weights, gradients, by name
    operation: Operation | None = None  # that made the first of these, where it was looked for

    @property
    def movers(self) -> list[ParameterChange]:
        """The parameters, those that the step changed most relative to their weights first; nan before all."""
        return sorted(self.parameters, key=lambda one: -(math.inf if math.isnan(one.relative) else one.relative))


class Before:
    """The weights and buffers before an update."""

    def __init__(self, run: Run) -> None:
        self.weights = {name: p.detach().clone() for name, p in run.model.named_parameters()}
        self._run = run
        self._buffers = SavedTensors(run.model.buffers())

    def put_back(self) -> None:
        self._buffers.put_back()
        with torch.no_grad():
            for name, parameter in self._run.model.named_parameters():
                parameter.copy_(self.weights[name])


def list_changes(run: Run, before: Before) -> tuple[ParameterChange, ...]:
    """What an update did to each parameter."""
    return tuple(_change(name, p.detach(), before.weights[name], p.grad) for name, p in run.model.named_parameters())


def _change(name: str, now: Tensor, before: Tensor, gradient: Tensor | None) -> ParameterChange:
    return ParameterChange(
        name,
        now.numel(),
        _norm(before),
        None if gradient is None else _norm(gradient),
        _norm(now - before),
        _count_bad(now),
        0 if gradient is None else _count_bad(gradient),
    )


def _norm(tensor: Tensor) -> float:
    values = tensor.detach().to_dense() if tensor.layout != torch.strided else tensor.detach()
    return float(torch.linalg.vector_norm(values, dtype=torch.complex128 if values.is_complex() else torch.float64))


def _count_bad(tensor: Tensor) -> int:
    values = tensor.detach()
    values = values.coalesce().values() if values.layout == torch.sparse_coo else values
    return int((~torch.isfinite(values)).sum())


def _count_nan(buffer: Tensor) -> int:
    """A mask may hold -inf, and does so on purpose."""
    return int(torch.isnan(buffer).sum()) if buffer.is_floating_point() else 0


def name_nonfinite(run: Run, batch: Batch, changes: Iterable[ParameterChange]) -> list[str]:
    """What is not finite: in the batch by sample, in weights and gradients by name."""
    values = run.leader.error_place.name_values(batch).strip()
    changes = list(changes)
    weights = [f"weight {one.name}: {one.bad_weights:,} of {one.numbers:,}" for one in changes if one.bad_weights]
    gradients = [f"gradient of {one.name}: {one.bad_gradients:,} of {one.numbers:,}" for one in changes if one.bad_gradients]
    buffers = [
        f"buffer {name}: {_count_nan(one):,} of {one.numel():,}" for name, one in run.model.named_buffers() if _count_nan(one)
    ]
    return [*([values] if values else []), *weights, *buffers, *gradients]


def look_again(
    run: Run, batch: Batch, step: int, steppers: Sequence[Stepper], *, anomaly: bool
) -> tuple[float, Operation | None]:
    """The forward and backward of an update once more, without its step: its loss, and the operation that spoilt it.

    The gradients stay in the parameters, also of a loss that is not finite; everything else is as before.
    """
    loss, operation = math.nan, None
    looking = run.evaluator.looking("replay")
    with looking, keys.fork_rng(run.device), run.modes.training(), run.precision.algorithms():
        for stepper in steppers:
            with stepper.looking(batch, step):
                loss, operation = _look(run, batch, stepper, anomaly=anomaly)
            if operation is not None:
                break
    return loss, operation


def _look(run: Run, batch: Batch, stepper: Stepper, *, anomaly: bool) -> tuple[float, Operation | None]:
    held = [p for group in stepper.optimizer.param_groups for p in group["params"]]
    for parameter in held:
        parameter.grad = None
    sums, watch = Sums("skip"), OperationWatch(run.model, _given(run, batch))
    for piece in stepper.pieces(batch):
        if not anomaly:
            _add(run, stepper, sums, piece)
            continue
        with watch.watching():
            loss = _add(run, stepper, sums, piece)
        found = find_origin(watch, [loss, *(p.grad for p in held if p.grad is not None)])
        if found is not None:
            return float(loss), shorten_path(found, str(Path.cwd()))
    for gradient in [p.grad for p in held if p.grad is not None]:
        gradient.mul_(sums.normaliser())
    return float(sums.loss()), None


def _add(run: Run, stepper: Stepper, sums: Sums, piece: tuple[int, Any]) -> Tensor:
    """Forward and backward of a micro-batch, whatever its loss is."""
    loss = stepper.objective(run.model, piece)  # not the compiled form of the model, which does not call its modules
    sums.bad_on_host = False
    value = sums.add(loss)
    if value is None and sums.bad_on_host and loss.value.requires_grad:
        value = loss.value  # what a run stops on, or leaves out
    if value is None:
        return torch.zeros(())  # nothing in it counts, so that its loss is nan and no matter
    backward(value)
    return loss.value.detach()


def _given(run: Run, batch: Batch) -> Mapping[str, Tensor]:
    columns = {f"column {name} of the batch" if name else "the batch": one for name, one in run.feed.layout.columns(batch.data)}
    return {
        **{name: one for name, one in columns.items() if isinstance(one, Tensor)},
        **{f"weight {name}": p for name, p in run.model.named_parameters()},
        **{f"buffer {name}": buffer for name, buffer in run.model.named_buffers()},
    }
