"""Batches of graphs, or of sets: the nodes of all samples stand in one axis, and a vector says whose each node is.

An attention that is to weigh the nodes of each sample, and takes its softmax over all of them, lets samples share their weights.
Known by trying: one training call is repeated with the nodes of one sample replaced, where a loader gives as many samples as the
vector counts. That samples reach each other is not enough (a model may compare them on purpose): the first operation that mixes
them must give weights that sum to 1 over all nodes, and what they weigh must be summed by sample.
"""

from collections.abc import Callable
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.arguments import pick, reads_once, replaced
from instep.doctor.extra_forward import ExtraForward, is_safe
from instep.doctor.forked import can_fork, run_forked
from instep.doctor.hub import Hub
from instep.doctor.influence_trials import REACH
from instep.doctor.mixing import LARGEST, Mixing, Run, first_mixing
from instep.doctor.records import part_class, record_class
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, tensors

LOOKS = (2, 4, 16)  # training calls of a root that are tried, until one has told something
ROOTS = 16
NEAR = 6  # operations from the first that mixes to the weights: a difference, its exponential, a sum, a quotient


@record_class
class NodeWeights:
    """Weights that sum to 1 over the nodes of all samples, in the calls of one root."""

    root: int
    site: str | None
    step: int
    samples: int
    nodes: int
    reached: int  # samples that moved when another was replaced
    moved: float  # by how much, against the spread of the output
    operation: str
    operation_site: str | None


@part_class
class GraphBatches:
    """The part of the trace about batches of graphs."""

    weights: dict[int, NodeWeights] = field(default_factory=dict)  # by root


class GraphBatchWatch:
    """Fills `GraphBatches`, unless `trace.probes` is off."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._loaders = trace.part(GraphBatches), trace.part(Loaders)
        self._calls: dict[int, int] = {}  # training calls of a root
        self._done: set[int] = set()

    def after_call(self, call: Call) -> None:
        number = call.root.number
        if number in self._done or not call.grad or not call.root.parameters or call.root.is_loss or not self._trace.probes:
            return
        calls = self._calls[number] = self._calls.get(number, 0) + 1
        if calls >= LOOKS[-1] or len(self._calls) > ROOTS:
            self._done.add(number)
        if calls in LOOKS:
            self._try(call)

    def _try(self, call: Call) -> None:
        found = tensors((call.args, call.kwargs))
        owner = find_owner(found)
        last = self._loaders.last
        if owner is None or last is None or last.loader.batch_size != int(owner[-1]) + 1:
            return  # perhaps it counts the parts of one sample: the sentences of a document
        if not can_fork() or reads_once(call) or not is_safe(call.module, copied=True):
            self._done.add(call.root.number)
            return
        told = run_forked(partial(_told, call, owner, self._hub.locator))
        if told is None:
            return  # the owners are no owners, or it cannot be told
        self._done.add(call.root.number)
        if told:
            self._part.weights[call.root.number] = told[0]


def find_owner(found: list[Tensor]) -> Tensor | None:
    """The only input that counts samples from 0 on, one after another, several nodes each; another input has as many nodes."""
    owners = [tensor for tensor in found if _counts_samples(tensor)]
    if len(owners) != 1:
        return None
    owner = owners[0]
    has_nodes = any(tensor is not owner and tensor.dim() and len(tensor) == len(owner) for tensor in found)
    return owner if has_nodes else None


def _counts_samples(tensor: Tensor) -> bool:
    if tensor.dtype not in (torch.int64, torch.int32) or tensor.dim() != 1 or not 6 <= len(tensor) <= LARGEST:
        return False
    if tensor.device.type != "cpu" or int(tensor[0]) != 0:
        return False
    steps = tensor[1:] - tensor[:-1]
    samples = int(tensor[-1]) + 1
    return samples >= 3 and 2 * samples <= len(tensor) and bool(((steps == 0) | (steps == 1)).all())


def _told(call: Call, owner: Tensor, locator: Locator) -> list[NodeWeights] | None:
    """What replacing one sample shows: [] where samples are apart or mixed by something else; None where it shows nothing."""
    nodes, samples = len(owner), int(owner[-1]) + 1

    def accept(tensor: Tensor) -> bool:
        return tensor.dim() > 0 and len(tensor) == samples and samples not in tensor.shape[1:]

    with ExtraForward(call.module) as forward:
        try:
            before = pick(forward(*replaced(call, torch.clone)), accept)
            scale = float(before.std()) if before is not None and before.numel() > 1 else 0.0
            if before is None or not scale > 0:
                return None
            for sample in (samples - 1, 0):
                change = partial(_other_nodes, owner, sample)
                after = pick(forward(*replaced(call, change)), accept)
                if after is None:
                    return None
                moved = (after - before).abs().reshape(samples, -1).amax(1) / scale
                if not float(moved[sample]) > REACH:
                    continue  # that sample was not told apart by its nodes
                moved[sample] = 0.0
                reached = int((moved > REACH).sum())
                if not reached:
                    return []
                runs = [partial(forward, *replaced(call, each)) for each in (torch.clone, change)]
                weights = _weights_over_nodes(runs[0], runs[1], owner, sample, locator)
                if forward.draws or weights is None:
                    return []
                facts = (samples, nodes, reached, float(moved.max()))
                return [NodeWeights(call.root.number, call.site, call.step, *facts, weights.operation, weights.site)]
        except Exception:
            pass  # the model does not take such an input
    return None


def _other_nodes(owner: Tensor, sample: int, tensor: Tensor) -> Tensor:
    """An input with the nodes of one sample replaced by those of the others, in turn; what has no nodes stays."""
    changed = tensor.clone()
    if tensor is owner or not tensor.dim() or len(tensor) != len(owner):
        return changed
    mine = owner == sample
    others = tensor[~mine]
    places = torch.arange(int(mine.sum())) * 7 % len(others)
    changed[mine] = others[places]
    return changed


def _weights_over_nodes(
    plain: Callable[[], Any], other: Callable[[], Any], owner: Tensor, sample: int, locator: Locator
) -> Mixing | None:
    """The operation that makes weights over all nodes, where it is the first that mixes samples, or comes soon after it."""
    runs: list[Run] = []
    mixing = first_mixing(plain, other, partial(_are_apart, owner, sample), locator, runs)
    if mixing is None:
        return None
    for index in range(mixing.index, min(mixing.index + NEAR, len(runs[0]))):
        name, site, numbers = runs[0][index]
        if _sum_to_one(numbers, len(owner)):
            return Mixing(name.strip("_"), site, index) if _are_summed_by_sample(runs[0][index + 1 :], owner) else None
    return None


def _are_summed_by_sample(rest: Run, owner: Tensor) -> bool:
    """Whether what they weigh goes to each sample by itself: not to one sum over all nodes, nor to shares of samples."""
    samples = int(owner[-1]) + 1
    for _, _, numbers in rest:
        if numbers.dim() and len(numbers) == len(owner):
            continue
        if numbers.dim() and not numbers.any():
            continue  # zeros to add to
        return numbers.dim() > 0 and len(numbers) == samples and not _sum_to_one(numbers, samples)
    return False


def _are_apart(owner: Tensor, sample: int, changed: Tensor) -> bool:
    """Whether what has changed stands at the nodes of one sample, or at that sample; what has another length is unknown."""
    if not changed.dim():
        return True
    moved = changed.reshape(len(changed), -1).any(1)
    if len(changed) == len(owner):
        return not bool(moved[owner != sample].any())
    if len(changed) == int(owner[-1]) + 1:
        return int(moved.sum()) == int(moved[sample])
    return True


def _sum_to_one(numbers: Tensor, nodes: int) -> bool:
    """Whether numbers are never negative and sum to 1 over all nodes, in every column."""
    if not numbers.dim() or len(numbers) != nodes or not bool((numbers >= 0).all()):
        return False
    return bool(((numbers.sum(0) - 1).abs() < 1e-3).all())


OBSERVERS = [GraphBatchWatch]
