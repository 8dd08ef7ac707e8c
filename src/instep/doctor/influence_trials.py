"""Trials: a training call is repeated with one sample, or one late position, replaced by another, to see what else moves."""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.arguments import pick, replaced
from instep.doctor.batch_axes import Layer, find_layer
from instep.doctor.batch_statistics import batch_statistics
from instep.doctor.batch_weights import find_weights
from instep.doctor.cut_positions import Cut
from instep.doctor.extra_forward import ExtraForward
from instep.doctor.mixing import Mixing, find_mixing
from instep.doctor.positions import Layout, padding, telling_positions
from instep.doctor.records import record_class
from instep.doctor.sites import Locator
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import tensors

REACH = 1e-4  # of the spread of the output: more than rounding


@record_class
class Influence:
    """What extra forwards of one root have shown."""

    root: int
    site: str | None
    step: int
    batch: int = 0
    reached: int = 0  # samples that moved when another was replaced
    moved: float = 0.0  # by how much, against the spread of the output
    symmetric: bool = False  # it does not matter in which order samples stand: meant
    weights: Mixing | None = None  # weights that sum to 1 over the samples, and are summed over something else
    weights_shape: tuple[int, ...] = ()
    statistics: Mixing | None = None  # a mean over the samples, by which all of them are normalised
    statistics_kind: str = ""  # which statistics those are
    operation: str = ""  # the one that mixes samples, and its line
    operation_site: str | None = None
    positions: int = 0
    replaced: int = 0  # the position that was replaced
    early: int = 0  # earlier positions that moved when it was
    early_moved: float = 0.0
    layer: Layer | None = None
    told_batch: bool = False  # whether a try has shown whether samples reach each other
    told_time: bool = False


def try_call(
    fact: Influence, call: Call, layers: list[tuple[str, bool, tuple[int, ...]]], batch: int | None,
    shift: tuple[tuple[int, int], ...], cut: Cut | None, found: list[Tensor], locator: Locator
) -> Influence:  # fmt: skip
    with ExtraForward(call.module) as forward:
        try:
            # Clones: a forward may write into its input.
            plain, again = forward(*replaced(call, torch.clone)), forward(*replaced(call, torch.clone))
            if batch is not None:
                _try_batch(fact, forward, call, plain, again, batch, locator)
                fact.layer = find_layer(layers, batch) if fact.reached else None
            # Of several, the last that matters: a decoder's own input follows what it translates, labels matter to nothing.
            for place, axis in reversed(shift):
                if place < len(found) and _try_time(fact, forward, call, plain, again, found[place], axis, cut):
                    break
        except Exception:
            pass  # the model does not take such an input: lengths that must be sorted, checks of its own
        if forward.draws:
            fact.reached = fact.early = 0  # random numbers in an order that may depend on the input
    return fact


def _try_batch(
    fact: Influence, forward: ExtraForward, call: Call, plain: Any, again: Any, batch: int, locator: Locator
) -> None:  # fmt: skip
    def accept(tensor: Tensor) -> bool:
        return tensor.dim() > 0 and len(tensor) == batch and batch not in tensor.shape[1:]

    def swap(sample: int, tensor: Tensor) -> Tensor:
        changed = tensor.clone()
        if tensor.dim() and len(tensor) == batch:
            changed[sample] = tensor[batch // 2]
        return changed

    def turn(tensor: Tensor) -> Tensor:
        return tensor.roll(1, 0) if tensor.dim() and len(tensor) == batch else tensor.clone()

    before, same = pick(plain, accept), pick(again, accept)
    scale = float(before.std()) if before is not None and before.numel() > 1 else 0.0
    if before is None or same is None or not torch.equal(before, same) or not scale > 0:
        return
    for sample in (0, batch - 1):  # what stands first in a long sequence may be forgotten at its end
        after = pick(forward(*replaced(call, partial(swap, sample))), accept)
        if after is None:
            return
        moved = (after - before).abs().reshape(batch, -1).amax(1) / scale
        moved[sample] = 0.0
        fact.batch, fact.reached, fact.moved = batch, int((moved > REACH).sum()), float(moved.max())
        fact.told_batch = True
        if fact.reached:
            break
    if fact.reached:
        turned = pick(forward(*replaced(call, turn)), accept)
        fact.symmetric = turned is not None and float((turned - before.roll(1, 0)).abs().max()) / scale < 1e-3
    if fact.reached:
        again, other = (partial(forward, *replaced(call, change)) for change in (torch.clone, partial(swap, sample)))
        mixing = find_mixing(again, other, batch, sample, locator)
        if mixing is not None and fact.symmetric:
            found = find_weights(again, mixing, batch, locator)
            fact.weights, fact.weights_shape = found if found is not None else (None, ())
            inputs = [tensor.detach() for tensor in tensors((call.args, call.kwargs))]
            fact.statistics_kind = batch_statistics(again, inputs, mixing, batch, locator) if found is None else ""
            fact.statistics = mixing if fact.statistics_kind else None
        elif mixing is not None:
            fact.operation, fact.operation_site = mixing.operation, mixing.site


def _try_time(
    fact: Influence, forward: ExtraForward, call: Call, plain: Any, again: Any, source: Tensor, axis: int, cut: Cut | None
) -> bool:  # fmt: skip
    """Replace late positions of an input; gives whether that has changed anything."""
    layout = Layout(source, axis)

    def change_at(position: int, tensor: Tensor) -> Tensor:
        return layout.change_at(position, tensor) if tensor is source else tensor.clone()

    before, same = pick(plain, layout.accept), pick(again, layout.accept)
    scale = float(before.std()) if before is not None else 0.0
    if before is None or same is None or not torch.equal(before, same) or not scale > 0:
        return False
    padded = padding(layout.source, layout.axis)
    for position in telling_positions(layout.source, layout.axis):
        after = pick(forward(*replaced(call, partial(change_at, position))), layout.accept)
        if after is None:
            return False
        change = layout.changes((after - before).abs()) / scale
        change = change.masked_fill(padded, 0.0).amax(1 - layout.axis)
        if cut is not None:  # what comes out elsewhere counts for nothing: a prefix may see all of itself
            change[: cut[1]] = change[cut[1] + cut[2] :] = 0.0
        if not bool((change > REACH).any()):
            continue
        fact.told_time = True
        fact.positions, fact.replaced = layout.length, position
        fact.early, fact.early_moved = int((change[:position] > REACH).sum()), float(change[:position].max())
        if fact.early:
            break
    return fact.told_time
