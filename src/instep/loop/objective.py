"""Objectives: what is minimised, and how many units its mean is the mean of.

An objective is a function `(model, batch) -> Loss`. This file owns `Loss` and makes objectives from plain loss functions; what
torch's own losses divide by is written down in `counts`.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor, nn

from instep.data.inputs import call_model
from instep.data.structure import size
from instep.errors import ObjectiveError
from instep.loop.torch_losses import Counted, Threshold, ignored_by, known

LossFunction = Callable[..., Any]
ClassWeights = Literal["balanced"] | Sequence[float] | Mapping[int, float] | Tensor | None
Objective = Callable[[Any, Any], "Loss | Tensor"]
Count = Callable[[Any], int | None]  # a batch -> its samples, None where it does not say


@dataclass(slots=True)  # not frozen: one is made for every micro-batch, and freezing it costs eight times as much
class Loss:
    """The value of an objective over one micro-batch, and how many units it is the mean of.

    `value` is a mean over `count` units (samples, tokens, …): micro-batches are weighted by it, so that a split batch gives
    the gradient of the whole. `count` may be a number or a tensor on the device, which is never read back while training.
    `output` and `target` feed the metrics; targets that are `ignore_index` do not count there, and a single output above
    `threshold` means class 1 ("auto": 0.5 where all outputs are between 0 and 1, else 0). For a loss that is a sum and not a
    mean, use `Loss.sum`.

    A mean that you compute yourself should divide by `count.clamp(min=1)`: on an accelerator the gradient of 0/0 is nan, and is
    not noticed.

    `parts` are what the value is made of, by name: means over the same `count` (sums, for `Loss.sum`). They are added up like the
    value and stand beside it in the history, the evaluations and the progress; no gradient is taken of them.

    >>> import torch
    >>> Loss(torch.tensor(0.5), count=12, parts={"recon": torch.tensor(0.4), "kl": torch.tensor(0.1)}).kind
    'mean'
    """

    value: Tensor
    count: float | Tensor
    output: Any = None
    target: Any = None
    kind: Literal["mean", "sum"] = "mean"
    ignore_index: int | None = None  # None: -100 for classes, nothing for numbers
    threshold: Threshold = "auto"  # None: outputs are scores of classes, whatever the target looks like
    parts: Mapping[str, Tensor | float] | None = None

    @classmethod
    def sum(
        cls,
        value: Tensor,
        output: Any = None,
        target: Any = None,
        *,
        ignore_index: int | None = None,
        threshold: Threshold = "auto",
        parts: Mapping[str, Tensor | float] | None = None,
    ) -> "Loss":
        """A loss that is a sum: micro-batches are added up, nothing is divided."""
        return cls(value, 1, output, target, "sum", ignore_index, threshold, parts)


class MeanOverSamples(Loss):
    """What a loss of the user's own gave as a plain number, taken for a mean over the samples."""

    __slots__ = ()


def as_loss(returned: Any, batch: Any, count: Count = size) -> Loss:
    """What an objective returned, as a Loss: a plain tensor is a mean over the samples of the batch, which `count` counts.

    The output of a model that has a `loss`, as those of Hugging Face have, stands for that loss.
    """
    if isinstance(returned, Loss):
        return returned
    if not isinstance(returned, Tensor):
        value = entry_of(returned, "loss")
        if isinstance(value, Tensor):
            labels = batch.get("labels") if isinstance(batch, Mapping) else None
            return MeanOverSamples(value, as_loss(value, batch, count).count, entry_of(returned, "logits"), labels)
        raise ObjectiveError(f"the objective returned {type(returned).__name__}; return a Loss(value, count) or a 0-dim tensor.")
    samples = count(batch)
    if samples is None:
        raise ObjectiveError(
            f"the samples of a batch of type {type(batch).__name__} cannot be counted; return Loss(value, count) "
            "from the objective."
        )
    return Loss(returned, samples)


def counting(objective: Objective, count: Count) -> Objective:
    """The same objective, where samples do not stand in dimension 0, so that they are counted by `count`."""
    return lambda model, batch: as_loss(objective(model, batch), batch, count)


def from_loss(loss: LossFunction, count: Count | None = None, *, added: str | None = None) -> Objective:
    """The objective `loss(model(x), y)` on batches `(x, y)`; several inputs become arguments of the model by `call_model`.

    For torch's own losses the count is what their mean divides by, so a split is exact; for any other callable it is the
    number of samples, which is said at its first loss, unless that is a Loss. `added` is what `data.pad` adds to the batches,
    which the error about them names.
    """
    if not callable(loss):
        raise ObjectiveError(f"loss={loss!r} cannot be called; pass a function loss(output, target) or a loss module.")
    if isinstance(loss, type):
        raise ObjectiveError(f"loss={loss.__name__} is a class; call it: loss={loss.__name__}().")
    counted = known(loss)
    if counted is None:
        from instep.loop.signatures import require_call  # an update cycle alone needs none of it

        require_call("loss", loss, ("output", "target"), "use objective=f(model, batch) for what needs less or more")
        return functools.partial(_plain_objective, loss, ignored_by(loss), count or _by_target, added)
    return functools.partial(_known_objective, _found_when_called(loss), counted, added)


def given_loss(objective: Objective) -> tuple[LossFunction, Counted | None] | None:
    """The loss that an objective was made of here, and what is known of it; None for an objective that somebody wrote."""
    made = innermost(objective)
    if isinstance(made, functools.partial) and made.func is _known_objective:
        return made.args[0], made.args[1]
    if isinstance(made, functools.partial) and made.func is _plain_objective:
        return made.args[0], None
    return None


def innermost(objective: Any) -> Any:
    """The objective without what precision has put around it."""
    while (
        isinstance(objective, functools.partial) and objective.args and objective.func not in (_known_objective, _plain_objective)
    ):
        objective = objective.args[0]
    return objective


def entry_of(output: Any, name: str) -> Any:
    """What the output of a model has under a name, as an entry or as an attribute; None where it has none."""
    return output.get(name) if isinstance(output, Mapping) else getattr(output, name, None)


def _by_target(batch: Any) -> int | None:
    """The samples of a batch (x, y); `x` may be an object that says nothing of them."""
    samples = size(batch[1])
    return size(batch[0]) if samples is None else samples


def _plain_objective(
    loss: LossFunction, ignore_index: int | None, count: Count, added: str | None, model: nn.Module, batch: Any
) -> Loss:
    x, target = _input_and_target(batch, added)
    output = call_model(model, x)
    returned = loss(output, target)
    if isinstance(returned, Loss):
        return returned
    if not isinstance(returned, Tensor) and entry_of(returned, "loss") is None:
        raise ObjectiveError(f"the loss {name_of(loss)} returned a {type(returned).__name__}, not a tensor; leave .item() out.")
    mean = as_loss(returned, batch, count)
    return MeanOverSamples(mean.value, mean.count, output, target, ignore_index=ignore_index)


def _known_objective(loss: LossFunction, counted: Counted, added: str | None, model: nn.Module, batch: Any) -> Loss:
    x, target = _input_and_target(batch, added)
    output = call_model(model, x)
    arguments = counted.arguments(output, target)
    if counted.check is not None:
        counted.check(arguments)
    try:
        value = loss(*arguments)
    except (RuntimeError, ValueError, IndexError) as error:
        explained = counted.explain(arguments, error)
        if explained is None:
            raise
        raise explained from error
    ignore_index, threshold = counted.ignore_index, counted.threshold
    if counted.reduction == "mean":
        return Loss(value, counted.count(arguments), output, target, "mean", ignore_index, threshold)
    if counted.reduction == "sum":
        return Loss(value, 1, output, target, "sum", ignore_index, threshold)
    # reduction="none": the mean of what it gives
    return Loss(value.mean(), value.numel(), output, target, "mean", ignore_index, threshold)


def _found_when_called(loss: LossFunction) -> LossFunction:
    """A function of torch.nn.functional is looked up at each call: so what watches it there sees the calls of a Trainer too."""
    if isinstance(loss, functools.partial):
        return functools.partial(_found_when_called(loss.func), *loss.args, **loss.keywords)
    name = getattr(loss, "__name__", "")
    if getattr(nn.functional, name, None) is not loss:
        return loss
    return functools.partial(_call_by_name, name)


def _call_by_name(name: str, *arguments: Any, **options: Any) -> Any:
    return getattr(nn.functional, name)(*arguments, **options)


def _input_and_target(batch: Any, added: str | None) -> tuple[Any, Any]:
    if isinstance(batch, tuple | list) and len(batch) == 2:
        return batch[0], batch[1]
    kind = f"a {type(batch).__name__}"
    if isinstance(batch, Mapping):
        kind = f"a mapping with {', '.join(map(str, batch))}"
    elif isinstance(batch, tuple | list):
        kind += f" of {len(batch)}"
    raise ObjectiveError(f"loss= works on batches (x, y), this batch is {kind}{_advice(batch, added)}.")


def _advice(batch: Any, added: str | None) -> str:
    if isinstance(batch, Mapping):
        return "; name the target with data.source(…, target=…), or pass objective=f(model, batch)"
    if added is not None and isinstance(batch, tuple) and len(batch) == 3:
        return (
            f", since pad() adds the {added} of what it filled up as the last entry; leave that out with pad(…, give=None), or "
            f"use it in an objective=f(model, batch), where x, y, {added} = batch"
        )
    several = isinstance(batch, tuple | list) and len(batch) > 2
    return f"; {'give several inputs as ((a, b), y), or ' if several else ''}pass objective=f(model, batch)"


def name_of(loss: LossFunction) -> str:
    if isinstance(loss, functools.partial):
        return name_of(loss.func)
    return getattr(loss, "__name__", type(loss).__name__)
