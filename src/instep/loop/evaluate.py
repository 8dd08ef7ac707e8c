"""Evaluation: looking at a model without changing it.

`evaluating` switches a model over and puts every module back as it was; `evaluate` takes exact means over a loader.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor, nn

from instep import keys
from instep.data.device import is_out_of_memory
from instep.data.inputs import call_model, inputs_of
from instep.data.loading.failure import user_line
from instep.data.loading.loader import Batch, Loader
from instep.data.pieces import bounds
from instep.data.structure import columns, joined, map_columns, named_columns
from instep.distributed.stand_in import in_rounds
from instep.distributed.world import ALONE, World, in_turn
from instep.errors import InstepError, ObjectiveError
from instep.loop.accumulation import scalar
from instep.loop.metrics import metric as measuring
from instep.loop.metrics.metric import Metric, Table
from instep.loop.objective import Loss, Objective, as_loss
from instep.loop.parts import read_parts
from instep.loop.torch_errors import EXPLAINED, describe, explain, is_raised_by_user, message
from instep.optim.freeze import frozen_wishes
from instep.text import plural

if TYPE_CHECKING:
    from instep.loop.metrics.report_matrix import ReportMatrix

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
    report: bool = False,
    largest: int | None = None,
    world: World = ALONE,
    in_step: bool = False,
    beside: Sequence[nn.Module] = (),
) -> dict[str, float | Table]:
    """The mean loss and every metric over all samples of a loader: exact, however the batches fall.

    The objective is called with `called`, where that is another form of the model. An objective that gives no output has no
    metrics, which is an error unless `output_needed` is False. With `report`, there is a confusion matrix where the model
    classifies. With `largest`, no more samples than that go through the model at
    once. Where a `world` shares the data, the numbers are those of all of it; `in_step`, all processes call the model equally
    often. Modules `beside` the model, such as a loss, are in eval mode too.
    """
    called = model if called is None else called
    losses = _Losses()
    measuring.start(metrics, device)
    matrix = _report_matrix(metrics) if report and "confusion_matrix" not in metrics else None
    with keys.fork_rng(device), evaluating(model, *beside):
        for first, samples, data in _cut(_own_batches(loader, world, device, in_step=in_step), largest, loader):
            keys.seed_all(keys.for_evaluation(seed, first), device)
            loss = checked_loss(objective, model, called, data, loader, first, samples)
            if not samples:
                continue
            losses.add(loss)
            if metrics and not output_needed and loss.output is None:
                metrics = {}
            if metrics:
                add_to_metrics(metrics, loss, loader)
            if matrix is not None:
                matrix.add(loss)
        sharing = world if loader.is_dealt else None
        found: dict[str, float | Table] = {**losses.means(sharing)}
        _require_own_names(found, metrics)
        for name, value in measuring.values(metrics, sharing).items():
            found |= _numbers(name, value)
        if matrix is not None and (table := matrix.total(sharing)) is not None:
            found["confusion_matrix"] = table
    return found


def _report_matrix(metrics: Mapping[str, Metric]) -> "ReportMatrix":
    from instep.loop.metrics.report_matrix import ReportMatrix  # a run that trains reports none

    return ReportMatrix(metrics)


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
    with keys.fork_rng(device), evaluating(model):
        for first, samples, data in _cut(_own_batches(loader, world, device, in_step=in_step), largest, loader):
            keys.seed_all(keys.for_evaluation(seed, first), device)
            try:
                output = map_columns(_on_cpu, call(model, data))
            except EXPLAINED_HERE as error:
                raise_explained(error, model, data, loader, first)
            if not samples:
                continue
            outputs.append(_of_samples(output, samples))
    by_rank = world.gather_on_rank0(outputs) if loader.is_dealt else [outputs]
    return _join(in_turn(by_rank), loader.name) if world.is_first and by_rank is not None else None


def _join(outputs: list[Any], name: str) -> Any:
    """The outputs of all batches as those of one."""
    first = dict(named_columns(outputs[0]))
    for output in outputs[1:]:
        for place, column in named_columns(output):
            if isinstance(column, Tensor) and place in first and column.shape[1:] != first[place].shape[1:]:
                what, shapes = place.strip("'") or "the output", (tuple(first[place].shape), tuple(column.shape))
                raise ObjectiveError(
                    f"{what} of {name} has the shape {shapes[0]} in one batch and {shapes[1]} in another, so they do not join; "
                    'pad all samples to one length (padding="max_length"), or call the model batch by batch.'
                )
    return joined(outputs)


def checked_loss(
    objective: Objective, model: nn.Module, called: nn.Module, data: Any, loader: Loader, first: int, samples: int
) -> Loss:
    """The loss of a batch of so many samples whose first is `first`; what cannot be computed is said in words."""
    try:
        return as_loss(objective(called, data), data, lambda batch: samples)
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
        raise _failed_metric("a metric", error, loss, loader) from error


def try_metrics(metrics: Mapping[str, Metric], loss: Loss, loader: Loader) -> None:
    """Like `add_to_metrics`, before a run has begun: whatever a metric raises is put into words.

    Metrics that count the same things count them once each here: what they have added up is of no use.
    """
    for name, metric in metrics.items():
        try:
            add_to_metrics({name: metric}, loss, loader)
        except Exception as error:
            if isinstance(error, InstepError) or is_out_of_memory(error):
                raise
            raise _failed_metric(f"metric {name}", error, loss, loader) from error


def _failed_metric(who: str, error: Exception, loss: Loss, loader: Loader) -> ObjectiveError:
    return ObjectiveError(
        f"{loader.name}: {who} failed on an output of {describe(loss.output)} and a target of {describe(loss.target)}: "
        f"{message(error)}{user_line(error)}"
    )


def _own_batches(loader: Loader, world: World, device: torch.device, *, in_step: bool) -> Iterator[Batch]:
    """Those that are not dealt to other processes; in step with these, one without samples where they have one more."""
    batches = loader.batches(epoch=0)
    if in_step and loader.is_dealt:
        return in_rounds(batches, world, device, loader.layout)
    return (batch for batch in batches if len(batch.indices)) if loader.is_dealt else batches


def forward(model: nn.Module, batch: Any) -> Any:
    """The model on the inputs of a batch: the first entry of (inputs, target), else the batch, as arguments by `call_model`."""
    return call_model(model, inputs_of(batch))


def _cut(batches: Iterable[Batch], largest: int | None, loader: Loader) -> Iterator[tuple[int, int, Any]]:
    """Each batch, or its pieces of at most `largest` samples: the index of the first sample, how many there are, and the data."""
    for batch in batches:
        if largest is None or batch.samples <= largest:
            yield int(batch.indices[0]), batch.samples, batch.data
            continue
        loader.layout.require(batch.data, batch.samples, loader.name)
        for start, stop in bounds(batch.samples, -(-batch.samples // largest)):
            yield int(batch.indices[start]), stop - start, loader.layout.piece(batch.data, start, stop)


class _Losses:
    """Σ vᵢ·cᵢ / Σ cᵢ of the loss and of its parts over the batches of an evaluation; read from the device at the end."""

    def __init__(self) -> None:
        self._values: dict[str, list[Tensor]] = {"loss": []}
        self._counts: dict[str, list[Tensor]] = {"loss": []}
        self._kind = "mean"

    def add(self, loss: Loss) -> None:
        value = scalar(loss.value).detach()
        value = value.float() if value.dtype.itemsize < 4 else value
        count = torch.as_tensor(loss.count, dtype=value.dtype, device=value.device).reshape(())
        self._kind = loss.kind
        for name, part in {"loss": value, **(read_parts(loss.parts) if loss.parts is not None else {})}.items():
            self._values.setdefault(name, []).append(part)
            self._counts.setdefault(name, []).append(count)

    def means(self, world: World | None = None) -> dict[str, float]:
        rows = {name: _side_by_side(values, self._counts[name]) for name, values in self._values.items()}
        if world is not None:  # in the order of one process, so that the sum is its sum
            by_rank = world.gather_objects(rows)
            names = dict.fromkeys(name for of_one in by_rank for name in of_one)
            rows = {name: in_turn([of_one.get(name, []) for of_one in by_rank]) for name in names}
        return {name: self._mean(*torch.tensor(pairs, dtype=torch.float64).unbind(1)) for name, pairs in rows.items()}

    def _mean(self, values: Tensor, counts: Tensor) -> float:
        if self._kind == "sum":
            return float(values.sum())
        return float(torch.where(counts > 0, values * counts, 0).sum() / counts.sum())


def _side_by_side(values: list[Tensor], counts: list[Tensor]) -> list[list[float]]:
    return torch.stack([torch.stack(values).cpu().double(), torch.stack(counts).cpu().double()], 1).tolist()


def _on_cpu(column: Any) -> Any:
    return column.cpu() if isinstance(column, Tensor) else column


def _of_samples(output: Any, samples: int) -> Any:
    """What belongs to samples: of a mapping these entries alone; in a tuple None stands for what belongs to the batch, a loss."""
    if next(columns(output), None) is None:
        raise ObjectiveError(
            f"the model gave {_seen(output)} for {plural(samples, 'sample')}; predict joins outputs whose first dimension "
            "is the sample."
        )
    if isinstance(output, Mapping):
        output = {name: part for name, part in output.items() if next(columns(part), None) is not None}
    elif type(output) in (tuple, list):
        output = type(output)(part if next(columns(part), None) is not None else None for part in output)
    for column in columns(output):
        if len(column) != samples:
            raise ObjectiveError(
                f"the model gave an output of length {len(column)} for {plural(samples, 'sample')}; predict joins outputs "
                "whose first dimension is the sample."
            )
    return output


def _seen(output: Any) -> str:
    return "a single number" if isinstance(output, Tensor) else f"a {type(output).__name__} without such an output"


def _require_output(loss: Loss) -> None:
    if loss.output is None or loss.target is None:
        raise ObjectiveError("metrics need what the model gave: return Loss(value, count, output, target) from the objective.")


def _require_own_names(losses: Mapping[str, Any], metrics: Mapping[str, Metric]) -> None:
    both = [name for name in losses if name in metrics]
    if both:
        raise ObjectiveError(f"{both[0]} is a metric, and a part of the loss too; give one of them another name.")


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
