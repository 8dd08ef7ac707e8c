"""Evaluation: looking at a model without changing it.

`evaluating` switches a model over and puts every module back as it was; `evaluate` takes exact means over a loader.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor, nn

from instep import keys
from instep.data.loading.failure import user_line
from instep.data.loading.loader import Batch, Loader
from instep.data.memory import is_out_of_memory
from instep.data.pieces import bounds, piece
from instep.data.structure import columns, joined, map_columns
from instep.distributed.stand_in import in_rounds
from instep.distributed.world import ALONE, World, in_turn
from instep.errors import InstepError, ObjectiveError
from instep.loop import metrics as measuring
from instep.loop.accumulation import scalar
from instep.loop.metrics import Metric, Table
from instep.loop.objective import Loss, Objective, as_loss
from instep.loop.torch_errors import EXPLAINED, describe, explain, is_raised_by_user
from instep.optim.freeze import frozen_wishes

EXPLAINED_HERE = (ObjectiveError, *EXPLAINED)


@contextmanager
def evaluating(*models: nn.Module) -> Iterator[None]:
    """Dropout off, batch norm on its running estimates, gradients off; afterwards every module has its own mode again.

    >>> model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5)).train()
    >>> with evaluating(model):
    ...     (model.training, torch.is_grad_enabled())
    (False, False)
    >>> model.training
    True
    """
    modes = [(module, module.training) for model in models for module in model.modules()]
    roots = [model.training for model in models]
    forget_wishes = [frozen_wishes(model) for model in models]
    try:
        for model in models:
            model.eval()
        with torch.no_grad():
            yield
    finally:
        for model, mode in zip(models, roots, strict=True):
            model.train(mode)  # for modules with a train() of their own, which may do more than set a flag
        for module, mode in modes:
            module.training = mode
        for forget in forget_wishes:
            forget()


def evaluate(
    model: nn.Module,
    loader: Loader,
    objective: Objective,
    metrics: Mapping[str, Metric],
    *,
    seed: int,
    device: torch.device,
    called: nn.Module | None = None,
    output_needed: bool = True,
    largest: int | None = None,
    world: World = ALONE,
    in_step: bool = False,
) -> dict[str, float | Table]:
    """The mean loss and every metric over all samples of a loader: exact, however the batches fall.

    The objective is called with `called`, where that is another form of the model. An objective that gives no output has no
    metrics, which is an error unless `output_needed` is False. With `largest`, no more samples than that go through the model at
    once. Where a `world` shares the data, the numbers are those of all of it; `in_step`, all processes call the model equally
    often.
    """
    called = model if called is None else called
    losses = _Losses()
    measuring.start(metrics, device)
    with keys.borrowed(device), evaluating(model):
        for first, samples, data in _cut(_own_batches(loader, world, device, in_step=in_step), largest):
            keys.seed_all(keys.for_evaluation(seed, first), device)
            loss = checked_loss(objective, model, called, data, loader, first)
            if not samples:
                continue
            losses.add(loss)
            if metrics and not output_needed and loss.output is None:
                metrics = {}
            if metrics:
                add_to_metrics(metrics, loss, loader)
        sharing = world if loader.is_dealt else None
        found: dict[str, float | Table] = {"loss": losses.mean(sharing)}
        for name, value in measuring.values(metrics, sharing).items():
            found |= _numbers(name, value)
    return found


def predict(
    model: nn.Module,
    loader: Loader,
    *,
    seed: int,
    device: torch.device,
    call: Callable[[nn.Module, Any], Any] | None = None,
    largest: int | None = None,
    world: World = ALONE,
    in_step: bool = False,
) -> Any:
    """The outputs of `call(model, batch)`, else of the model itself, for all samples in the data's order, on the CPU.

    Where a `world` shares the data, rank 0 gets them; the others get None.
    """
    call = forward if call is None else call
    outputs = []
    with keys.borrowed(device), evaluating(model):
        for first, samples, data in _cut(_own_batches(loader, world, device, in_step=in_step), largest):
            keys.seed_all(keys.for_evaluation(seed, first), device)
            try:
                output = map_columns(_on_cpu, call(model, data))
            except EXPLAINED_HERE as error:
                raise_explained(error, model, data, loader, first)
            if not samples:
                continue
            _require_samples_first(output, samples)
            outputs.append(output)
    by_rank = world.gather_on_rank0(outputs) if loader.is_dealt else [outputs]
    return joined(in_turn(by_rank)) if world.is_first and by_rank is not None else None


def checked_loss(objective: Objective, model: nn.Module, called: nn.Module, data: Any, loader: Loader, first: int) -> Loss:
    """The loss of a batch whose first sample is `first`; what cannot be computed is said in words."""
    try:
        return as_loss(objective(called, data), data)
    except EXPLAINED_HERE as error:
        raise_explained(error, model, data, loader, first)


def raise_explained(error: Exception, model: nn.Module, data: Any, loader: Loader, first: int) -> NoReturn:
    """Raise what the model or the loss raised for a batch whose first sample is `first`: in words, where there are any."""
    if isinstance(error, ObjectiveError):
        sample = (
            "" if error.row is None else f"sample {int(loader.origin(torch.tensor([first + error.row]))[0])} of {loader.name}: "
        )
        raise ObjectiveError(f"{loader.name}: {sample}{error}") from error.__cause__
    explained = explain(error, model, data)
    if explained is None:
        raise error
    raise ObjectiveError(f"{loader.name}: {explained}") from error


def add_to_metrics(metrics: Mapping[str, Metric], loss: Loss, loader: Loader) -> None:
    """Give the metrics what a model gave for a batch."""
    _require_output(loss)
    try:
        measuring.add(metrics, loss)
    except ObjectiveError as error:
        raise ObjectiveError(f"{loader.name}: {error}") from error.__cause__
    except EXPLAINED as error:
        if isinstance(error, InstepError) or is_raised_by_user(error) or is_out_of_memory(error):
            raise
        raise ObjectiveError(
            f"{loader.name}: a metric failed on an output of {describe(loss.output)} and a target of {describe(loss.target)}: "
            f"{' '.join(str(error).split())}{user_line(error)}"
        ) from error


def _own_batches(loader: Loader, world: World, device: torch.device, *, in_step: bool) -> Iterator[Batch]:
    """Those that are not dealt to other processes; in step with these, one without samples where they have one more."""
    batches = loader.batches(epoch=0)
    if in_step and loader.is_dealt:
        return in_rounds(batches, world, device)
    return (batch for batch in batches if len(batch.indices)) if loader.is_dealt else batches


def forward(model: nn.Module, batch: Any) -> Any:
    """The model on the inputs of a batch: a mapping by its names, a tuple by its first entry, anything else as it is."""
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(batch[0]) if isinstance(batch, tuple | list) else model(batch)


def _cut(batches: Iterable[Batch], largest: int | None) -> Iterator[tuple[int, int, Any]]:
    """Each batch, or its pieces of at most `largest` samples: the index of the first sample, how many there are, and the data."""
    for batch in batches:
        if largest is None or batch.samples <= largest:
            yield int(batch.indices[0]), batch.samples, batch.data
            continue
        for start, stop in bounds(batch.samples, -(-batch.samples // largest)):
            yield int(batch.indices[start]), stop - start, piece(batch.data, start, stop)


class _Losses:
    """Σ vᵢ·cᵢ / Σ cᵢ over the batches of an evaluation; read from the device at the end."""

    def __init__(self) -> None:
        self._values: list[Tensor] = []
        self._counts: list[Tensor] = []
        self._kind = "mean"

    def add(self, loss: Loss) -> None:
        value = scalar(loss.value).detach()
        self._values.append(value.float() if value.dtype.itemsize < 4 else value)
        self._counts.append(torch.as_tensor(loss.count, dtype=self._values[-1].dtype, device=value.device).reshape(()))
        self._kind = loss.kind

    def mean(self, world: World | None = None) -> float:
        values, counts = torch.stack(self._values).cpu().double(), torch.stack(self._counts).cpu().double()
        if world is not None:  # in the order of one process, so that the sum is its sum
            pairs = in_turn(world.gather_objects(torch.stack([values, counts], 1).tolist()))
            values, counts = torch.tensor(pairs, dtype=torch.float64).unbind(1)
        if self._kind == "sum":
            return float(values.sum())
        return float(torch.where(counts > 0, values * counts, 0).sum() / counts.sum())


def _on_cpu(column: Any) -> Any:
    return column.cpu() if isinstance(column, Tensor) else column


def _require_samples_first(output: Any, samples: int) -> None:
    for column in columns(output):
        if len(column) != samples:
            raise ObjectiveError(
                f"the model gave an output of length {len(column)} for {samples} samples; predict joins outputs whose first "
                "dimension is the sample."
            )


def _require_output(loss: Loss) -> None:
    if loss.output is None or loss.target is None:
        raise ObjectiveError("metrics need what the model gave: return Loss(value, count, output, target) from the objective.")


def _numbers(name: str, value: Any) -> dict[str, float | Table]:
    """The value of a metric: one number, several as name/part, or a table (a confusion matrix)."""
    if isinstance(value, Mapping):
        return {key: number for part, inner in value.items() for key, number in _numbers(f"{name}/{part}", inner).items()}
    if isinstance(value, list):
        return {name: value}
    if isinstance(value, Tensor) and value.numel() != 1:
        if value.ndim == 1:
            return {f"{name}/{index}": number for index, number in enumerate(value.tolist())}
        if value.ndim in (2, 3) and not value.is_floating_point():
            return {name: value.tolist()}
        raise ObjectiveError(
            f"metric {name} has the value of shape {tuple(value.shape)}; it must be one number, one a class, or a table of "
            "whole numbers."
        )
    return {name: float(value)}
