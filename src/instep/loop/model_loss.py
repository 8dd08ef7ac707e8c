"""ModelLoss: the loss that a model works out itself, `model(**batch).loss`, and what it is the mean of.

Such a model does not say what its mean divides by: tokens that are not ignored, the same without the first of each sequence
where the next token is predicted, samples, elements. So the first forward is watched (`loss_calls`): which losses of torch
it calls, with which entry of the batch as their target, and how `.loss` is made of them. What was found counts all later
micro-batches, from the batch alone. What cannot be found is said, and counts as a mean over samples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from instep import keys
from instep.data.inputs import call_model
from instep.data.structure import size
from instep.errors import ObjectiveError
from instep.loop.evaluate import evaluating
from instep.loop.loss_calls import LossCall, Targeted, find_terms, watch_losses
from instep.loop.objective import Loss, MeanOverSamples, entry_of
from instep.text import listed

Count = Callable[[Any], int | None]  # a batch -> its samples


@dataclass(frozen=True)
class Found:
    """How the loss of a model is counted. None of a `notice`: it is exact. Not `is_settled`: a later batch may show more."""

    term: Targeted | None = None  # whose count it is; None: the samples'
    positions: tuple[str, ...] = ()  # entries that hold places in the sequence, for question answering
    notice: str | None = None
    is_settled: bool = True


class ModelLoss:
    """The objective of a run that has neither `loss=` nor `objective=`; `notice` is what is to be said of how it counts."""

    def __init__(self, count: Count = size) -> None:
        self._samples = count
        self._found: Found | None = None

    @property
    def notice(self) -> str | None:
        return None if self._found is None else self._found.notice

    def __call__(self, model: nn.Module, batch: Any) -> Loss:
        if not isinstance(batch, Mapping):
            raise ObjectiveError(
                f"without loss= and objective=, batches are mappings for model(**batch); this one is a {type(batch).__name__}. "
                "Pass loss=f(output, target) for batches (x, y)."
            )
        found = self._found
        if found is not None and found.is_settled:
            return self._loss(found, batch, _call(model, batch))
        inner = getattr(model, "_orig_mod", None)
        if isinstance(inner, nn.Module):  # a compiled model does not show what it calls
            self._found = found = _look(inner, batch)
            return self._loss(found, batch, _call(model, batch))
        with watch_losses() as calls:
            output = _call(model, batch)
        self._found = found = find(model, batch, output, calls)
        return self._loss(found, batch, output)

    def _loss(self, found: Found, batch: Mapping[str, Any], output: Any) -> Loss:
        value, logits = entry_of(output, "loss"), entry_of(output, "logits")
        if found.positions:
            return _of_positions(found.positions, value, batch, output)
        if found.term is not None:
            return _of_term(found.term, value, batch, logits, self._samples)
        samples = self._samples(batch)
        if samples is None:
            raise ObjectiveError(
                f"the samples of a batch with {listed(batch)} cannot be counted; pass objective=f(model, batch) that returns "
                "Loss(value, count)."
            )
        return MeanOverSamples(value, samples, logits, batch.get("labels"))


def find(model: nn.Module, batch: Mapping[str, Any], output: Any, calls: list[LossCall]) -> Found:
    """What a forward shows of how its loss is counted."""
    terms, rest = find_terms(entry_of(output, "loss"), calls)
    if terms is None:  # a sum of several, and without gradients nobody sees of which
        return _look(model, batch)
    if not terms:
        return Found(notice=_notice(model, "in a way of its own"))
    targets = [Targeted.find(term, batch) if _has_weight(model, term) else None for term in terms]
    known = [one for one in targets if one is not None]
    if len(known) < len(targets) or len({one.kind for one in known}) > 1:
        made_of = [
            f"{term.name} of {one.entry if one else 'no entry of the batch'}" for term, one in zip(terms, targets, strict=True)
        ]
        return Found(notice=_notice(model, f"from {listed(dict.fromkeys(made_of))}"))
    if any(term.counted.reduction == "sum" and term.factor != 1 for term in terms):
        return Found(notice=_notice(model, f"as a sum, {terms[0].name} of {known[0].entry}, divided by something"))
    first, is_settled = known[0], all(one.is_settled for one in known)
    if rest:
        how = f"as {terms[0].name} of {first.entry} and something else beside it (an auxiliary loss)"
        return Found(first, notice=_notice(model, how, counts_as=f"what counts of {first.entry}"), is_settled=is_settled)
    if not first.is_position:
        return Found(first, is_settled=is_settled)
    if any(not isinstance(entry_of(output, _scores_of(one.entry)), Tensor) for one in known):
        return Found(notice=_notice(model, f"from {listed(one.entry for one in known)}"))
    names = tuple(one.entry for one in known)
    return Found(positions=names, notice=_notice_of_positions(model, names, output, batch), is_settled=is_settled)


def _has_weight(model: nn.Module, term: LossCall) -> bool:
    """Whether the class weights of a term, if any, are the model's own, so that they can be looked up for every micro-batch."""
    held = (
        tensor
        for module in model.modules()
        for tensor in (*module.parameters(False), *module.buffers(False), *vars(module).values())
    )
    return term.weight is None or any(tensor is term.weight for tensor in held)


def _notice_of_positions(model: nn.Module, names: tuple[str, ...], output: Any, batch: Mapping[str, Any]) -> str | None:
    """Where one of a sample's positions counts and another does not, the means are over different samples."""
    length = entry_of(output, _scores_of(names[0])).shape[1]
    counted = [int((batch[name] < length).sum()) for name in names]
    if len(set(counted)) == 1:
        return None
    return _notice(model, f"from {listed(names)}, of which different numbers lie in the sequence,", counts_as="both of them")


def _scores_of(positions: str) -> str:
    """start_positions -> start_logits"""
    return positions.replace("positions", "logits")


def _look(model: nn.Module, batch: Mapping[str, Any]) -> Found:
    """One forward more, in eval mode and with gradients, which leaves no trace."""
    device = next((value.device for value in batch.values() if isinstance(value, Tensor)), None)
    with keys.fork_rng(device), evaluating(model), torch.enable_grad(), watch_losses() as calls:
        output = _call(model, batch)
    if not entry_of(output, "loss").requires_grad:
        return Found(notice=_notice(model, "without a gradient"))
    return find(model, batch, output, calls)


def _call(model: nn.Module, batch: Mapping[str, Any]) -> Any:
    output = call_model(model, batch)
    if not isinstance(entry_of(output, "loss"), Tensor):
        labels = "" if "labels" in batch else ", and the batch has no labels"
        raise ObjectiveError(
            f"the model returned {type(output).__name__} without a loss{labels} (it has {listed(batch)}); pass loss= or "
            "objective=."
        )
    return output


def _notice(model: nn.Module, how: str, counts_as: str = "samples") -> str:
    return (
        f"{type(model).__name__} works out its loss {how}, so it counts as a mean over {counts_as}. If it is a mean over "
        "something else (tokens), pass objective=f(model, batch) that returns Loss(value, count), so that a split batch stays "
        "exact."
    )


# --- The Loss of a micro-batch


def _of_term(term: Targeted, value: Tensor, batch: Mapping[str, Any], logits: Any, samples: Count) -> Loss:
    target = term.of(batch)
    if term.is_sum:
        return Loss.sum(value, logits, target, ignore_index=term.ignore_index, threshold=term.threshold)
    count = samples(batch) if term.counts_samples else term.count(target)
    output, target = _for_metrics(logits, target, is_shifted=term.is_shifted)
    return Loss(value, count or 0, output, target, ignore_index=term.ignore_index, threshold=term.threshold)


def _for_metrics(logits: Any, target: Tensor, *, is_shifted: bool) -> tuple[Any, Any]:
    """Scores with the classes in dimension 1, as torch's losses and the metrics have them, beside the targets they are for."""
    if not isinstance(logits, Tensor):
        return None, target
    if is_shifted:
        logits = logits[..., -target.shape[-1] - 1 : -1, :]
    if logits.ndim > 2 and logits.shape[:-1] == target.shape:
        return logits.movedim(-1, 1), target
    if logits.ndim == 4 and target.ndim == 3 and logits.shape[2:] != target.shape[1:]:  # as their loss does for pictures
        return nn.functional.interpolate(logits, size=target.shape[1:], mode="bilinear", align_corners=False), target
    return logits, target


def _of_positions(names: tuple[str, ...], value: Tensor, batch: Mapping[str, Any], output: Any) -> Loss:
    """Question answering: places in the sequence; those outside of it do not count, in each mean by itself."""
    scores = torch.stack([entry_of(output, _scores_of(name)) for name in names], -1)
    target = torch.stack([batch[name].reshape(len(scores)) for name in names], -1)
    target = torch.where(target < scores.shape[1], target.clamp(min=0), -100)
    count = torch.count_nonzero(target != -100) / len(names)
    return Loss(value, count, scores, target, threshold=None)
