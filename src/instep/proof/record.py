"""Record: what a training of a few updates left behind, so that two of them can be compared: samples, losses, gradients, state.

Also what of two records differs first. Tensors are on the host; of most gradients only a hash is kept.
"""

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.data.structure import entries
from instep.records import Update
from instep.run.run import Run

Trainer = Any  # instep.trainer is below this room
DEEPEST = 8  # objects within objects that a hash looks into


@dataclass
class StepRecord:
    """One update: the samples, the batch as the model got it, the losses, and a hash of each gradient."""

    step: int
    indices: list[int]
    batch: str
    losses: dict[str, float]
    gradients: dict[str, str]


@dataclass
class Record:
    """A training of a few updates."""

    steps: list[StepRecord] = field(default_factory=list)
    first_gradients: dict[str, Tensor] = field(default_factory=dict)  # of the first update that was made here
    state: dict[str, Any] = field(default_factory=dict)  # at the end: weights, buffers, optimizers, by name
    history: list[dict[str, Any]] = field(default_factory=list)  # without what depends on the clock
    resumed_from: int | None = None


@dataclass(frozen=True)
class Difference:
    """What differs first, and by how much the weights differ in the end, relative to the largest of their tensor."""

    what: str  # "samples", "batch", "loss", "gradient", "weight", "buffer", "optimizer state", "state", "history"
    name: str
    step: int | None
    size: float

    def __str__(self) -> str:
        where = "in the end" if self.step is None else f"in update {self.step}"
        return f"{self.what}{f' {self.name}' if self.name else ''}, {where}"


def record_training(trainer: Trainer, *, after: Callable[[Update], object] | None = None) -> Record:
    """Train to the end and write down what happens; `after` is called after every update."""
    run: Run = trainer.run
    record = Record()
    for update in trainer.updates():
        gradients = gradients_of(run)
        if not record.steps:
            record.first_gradients = {name: gradient.cpu().clone() for name, gradient in gradients.items()}
        batch = run.leader.batch
        assert batch is not None
        losses = {name: float(loss) for name, loss in update.losses.items()} or {"": float(update.loss)}
        hashes = {name: digest(gradient) for name, gradient in gradients.items()}
        record.steps.append(StepRecord(update.step, batch.indices.tolist(), digest(batch.data), losses, hashes))
        if after is not None:
            after(update)
    record.state = state_of(run)
    record.history = [{name: value for name, value in row.items() if name != "clock"} for row in trainer.history.rows]
    record.resumed_from = run.state.resumed_from
    return record


def gradients_of(run: Run) -> dict[str, Tensor]:
    """The gradients of the last update, by the name of their parameter; of a parameter in shares, the whole."""
    return {name: _whole(p.grad).detach() for name, p in run.model.named_parameters() if p.grad is not None}


def state_of(run: Run) -> dict[str, Any]:
    """Copies of all that a checkpoint would keep, by names like `model/0.weight`, `optimizer/state/0.weight/exp_avg`."""
    buffers = {f"model/{name}": f"buffers/{name}" for name, _ in run.model.named_buffers()}
    return {buffers.get(name, name): value for name, value in flatten(run.model_state.parts()).items()}


def flatten(parts: Mapping[str, Any]) -> dict[str, Any]:
    """Copies of what nested mappings and lists hold, by names like `optimizer/state/0/exp_avg`."""
    return {name: _copied(value) for name, value in _flat(parts, "")}


def compare(one: Record, other: Record, *, history: bool = False) -> Difference | None:
    """The first difference, bit for bit; None where there is none. Steps that only one of them has are left out."""
    theirs = {step.step: step for step in other.steps}
    size = weights_apart(one.state, other.state)
    for mine in one.steps:
        if mine.step in theirs:
            found = _first_in_step(mine, theirs[mine.step])
            if found is not None:
                return Difference(*found, mine.step, size or _apart(mine.losses, theirs[mine.step].losses))
    for name in dict.fromkeys([*one.state, *other.state]):
        if not same(one.state.get(name), other.state.get(name)):
            return Difference(kind_of(name), _short(name), None, size or 1.0)
    if history and _text(one.history) != _text(other.history):
        row = next((str(a.get("step")) for a, b in zip(one.history, other.history, strict=False) if _text(a) != _text(b)), "")
        return Difference("history", f"at step {row}" if row else "", None, 0.0)
    return None


def weights_apart(one: Mapping[str, Any], other: Mapping[str, Any]) -> float:
    """The largest difference of two weights, relative to the largest of their tensor."""
    pairs = [(value, other.get(name)) for name, value in one.items() if name.startswith("model/")]
    return max((apart(a, b) for a, b in pairs if _is_float(a)), default=0.0)


def apart(one: Tensor, other: Any) -> float:
    """The largest difference of two entries, relative to the largest entry."""
    if not isinstance(other, Tensor) or one.shape != other.shape:
        return math.inf
    if one.numel() == 0:
        return 0.0
    one, other = one.double(), other.double()
    difference = float((one - other).abs().max())
    largest = max(float(one.abs().max()), float(other.abs().max()))
    return difference / largest if largest else difference


def gradients_apart(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> tuple[float, str]:
    """The largest difference of two gradients, relative to the largest gradient of all tensors; and whose it is."""
    largest = max((float(gradient.abs().max()) for gradient in one.values() if gradient.numel()), default=0.0)
    worst, whose = 0.0, ""
    for name in dict.fromkeys([*one, *other]):
        mine, theirs = one.get(name), other.get(name)
        gap = _largest_gap(mine, theirs) / (largest or 1.0)
        if not gap <= worst:  # also nan
            worst, whose = gap, name
    return worst, whose


def noise_tensors(gradients: Mapping[str, Tensor], bound: float) -> list[str]:
    """Tensors whose gradient is rounding noise: next to the largest gradient, all of it is below the bound, and not 0."""
    largest = max((float(gradient.abs().max()) for gradient in gradients.values() if gradient.numel()), default=0.0)
    sizes = {name: float(gradient.abs().max()) for name, gradient in gradients.items() if gradient.numel()}
    return [name for name, size in sizes.items() if 0 < size <= bound * largest]


def digest(thing: Any) -> str:
    """A hash of the bits of what a batch holds."""
    found = hashlib.blake2b(digest_size=16)
    _digest_into(found, thing, DEEPEST)
    return found.hexdigest()


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal bit for bit."""
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        return one.shape == other.shape and one.dtype == other.dtype and digest(one) == digest(other)
    return type(one) is type(other) and digest(one) == digest(other)


def kind_of(name: str) -> str:
    """What a name of `state_of` stands for."""
    return {"model": "weight", "optimizer": "optimizer state", "buffers": "buffer"}.get(name.partition("/")[0], "state")


def _short(name: str) -> str:
    return name.partition("/")[2].removeprefix("state/") or name


def _first_in_step(one: StepRecord, other: StepRecord) -> tuple[str, str] | None:
    if one.indices != other.indices:
        return "samples", ""
    if one.batch != other.batch:
        return "batch", ""
    for name, loss in one.losses.items():
        if not _same_number(loss, other.losses.get(name, math.nan)):
            return "loss", name
    for name in dict.fromkeys([*one.gradients, *other.gradients]):
        if one.gradients.get(name) != other.gradients.get(name):
            return "gradient", name
    return None


def _same_number(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


def _apart(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return max((abs(value - other.get(name, value)) / (abs(value) or 1.0) for name, value in one.items()), default=0.0)


def _largest_gap(one: Tensor | None, other: Tensor | None) -> float:
    present = [gradient for gradient in (one, other) if gradient is not None and gradient.numel()]
    if not present:
        return 0.0
    if len(present) == 1:
        return float(present[0].abs().max())
    return (
        float((present[0].double() - present[1].double()).abs().max())
        if not present[0].is_complex()
        else float((present[0] - present[1]).abs().max())
    )


def _flat(thing: Any, name: str) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, Mapping):
        for key, part in thing.items():
            yield from _flat(part, f"{name}/{key}" if name else str(key))
    elif isinstance(thing, list | tuple):
        for place, part in enumerate(thing):
            yield from _flat(part, f"{name}/{place}")
    else:
        yield name, thing


def _copied(value: Any) -> Any:
    return _whole(value).detach().cpu().clone() if isinstance(value, Tensor) else value


def _whole(tensor: Tensor) -> Tensor:
    """Of a parameter that processes hold in shares, all of it; every process has to ask."""
    whole: Tensor = tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor
    return whole.to_dense() if whole.layout != torch.strided else whole


def _is_float(thing: Any) -> bool:
    return isinstance(thing, Tensor) and (thing.is_floating_point() or thing.is_complex())


def _digest_into(found: Any, thing: Any, depth: int) -> None:
    if isinstance(thing, Tensor):
        plain = _whole(thing).detach().cpu().contiguous()
        found.update(f"{plain.dtype}{tuple(plain.shape)}".encode())
        found.update(plain.reshape(-1).view(torch.uint8).numpy().tobytes() if plain.numel() else b"")
    elif isinstance(thing, np.ndarray) and thing.dtype.kind != "O":
        found.update(f"{thing.dtype}{thing.shape}".encode() + np.ascontiguousarray(thing).tobytes())
    elif depth and (parts := entries(thing)):
        for key, part in parts:
            found.update(f"/{key}".encode())
            _digest_into(found, part, depth - 1)
    elif depth and hasattr(thing, "__dict__") and not callable(thing):
        for key, part in vars(thing).items():
            found.update(f".{key}".encode())
            _digest_into(found, part, depth - 1)
    else:
        found.update(_text(thing).encode())


def _text(thing: Any) -> str:
    shown = repr(thing)
    return type(thing).__name__ if " at 0x" in shown else shown
