"""Influence: whether samples of a batch reach each other, and whether later positions reach earlier ones.

Known by trying: one training call is repeated with one sample, or the last position, replaced by another. Only where it is known
which axis is the batch (a shuffled loader, or rows that came together twice in either order), and only once for each model.
"""

import weakref
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.extra_forward import ExtraForward, is_closed, is_safe
from instep.doctor.forked import can_fork, run_forked
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loader, tensors
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.rows import LATEST, Rows

REACH = 1e-4  # of the spread of the output: more than rounding
TRIES = 40  # training calls of a root in which its axes must become known; later only if rows come again
SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


@dataclass(slots=True)
class Layer:
    """A layer that takes the batch for time."""

    name: str
    batch_first: bool
    shape: tuple[int, ...]
    batch: int


@dataclass(slots=True)
class Influence:
    """What extra forwards of one root have shown."""

    root: int
    site: str | None
    step: int
    batch: int = 0
    reached: int = 0  # samples that moved when another was replaced
    moved: float = 0.0  # by how much, against the spread of the output
    symmetric: bool = False  # it does not matter in which order samples stand: meant
    positions: int = 0
    early: int = 0  # earlier positions that moved when the last one was replaced
    early_moved: float = 0.0
    layer: Layer | None = None


@dataclass
class Influences:
    """The part of the trace about influence."""

    roots: dict[int, Influence] = field(default_factory=dict)


class _State:
    """What is known of one root before it is tried."""

    __slots__ = ("calls", "done", "done_time", "layers", "shift")

    def __init__(self) -> None:
        self.calls = 0
        self.done = self.done_time = False
        self.shift: tuple[int, int] | None = None  # which input (by order) is predicted one position on, and its time axis
        self.layers: list[tuple[str, bool, tuple[int, ...]]] = []


class InfluenceWatch:
    """Fills `Influences`, unless `trace.probes` is off."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._rows = trace.part(Influences), trace.part(Rows)
        self._states: dict[int, _State] = {}
        self._inputs: tuple[int, list[weakref.ref[Tensor]]] | None = None

    def wants_modules(self) -> dict[type, Any]:
        return dict.fromkeys(SEQUENCES, self._layer_called)

    def _layer_called(self, module: Any, args: tuple[Any, ...], output: Any, call: Call) -> None:
        state = self._states.setdefault(call.root.number, _State())
        if state.done or len(state.layers) >= 8 or not args or not isinstance(args[0], Tensor) or args[0].dim() != 3:
            return
        first = getattr(module, "batch_first", None)
        if first is None and hasattr(module, "self_attn"):
            first = module.self_attn.batch_first
        state.layers.append((type(module).__name__, bool(first), tuple(args[0].shape)))

    # -- which input is predicted

    def before_call(self, call: Call) -> None:
        """Models that compute their own loss do so inside the call."""
        if call.grad and call.root.parameters and call.root.number in self._states:
            self._inputs = (call.root.number, [weakref.ref(tensor) for tensor in tensors(call.args)])

    def on_loss(self, kind: LossKind, _: Called, input: Tensor, target: Any) -> None:
        if self._inputs is None or not input.requires_grad or not isinstance(target, Tensor) or kind.count > TRIES:
            return
        number, references = self._inputs
        state = self._states.get(number)
        if state is None or state.done_time or state.shift is not None:
            return
        for place, reference in enumerate(references):
            source = reference()
            axis = shifted(source.detach(), target.detach()) if source is not None else None
            if axis is not None:
                state.shift = (place, axis)
                return

    # -- the extra forwards

    def after_call(self, call: Call) -> None:
        if not call.grad or not call.root.parameters or call.root.is_loss or not self._trace.probes:
            return
        number = call.root.number
        state = self._states.setdefault(number, _State())
        if (state.done and state.done_time) or state.calls >= LATEST:
            return
        state.calls += 1
        if state.calls > TRIES and (state.done or self._rows.mixed.get(number, 0) < 3):
            state.layers.clear()
            return
        found = tensors((call.args, call.kwargs))
        self._inputs = (number, [weakref.ref(tensor) for tensor in found])
        if state.calls > 1 and found:
            self._try_call(call, state, found)

    def _try_call(self, call: Call, state: _State, found: list[Tensor]) -> None:
        batch = None if state.done else self._batch_size(call, found)
        shift = None if state.done_time else state.shift
        if batch is None and shift is None:
            state.layers.clear()
            return
        if not is_safe(call.module) or not (can_fork() or is_closed(call.module)):
            state.done = state.done_time = True
            return
        fact = self._part.roots.setdefault(call.root.number, Influence(call.root.number, call.site, call.step))
        state.done = state.done or batch is not None
        state.done_time = state.done_time or shift is not None
        work = partial(_try, fact, call, state.layers, batch, shift, found)
        learned = run_forked(work) if can_fork() else work()
        if learned is not None:
            self._part.roots[call.root.number] = learned

    def _batch_size(self, call: Call, found: list[Tensor]) -> int | None:
        """How many samples stand along the first axis of every input, where that is certain."""
        if any(not tensor.dim() for tensor in found):
            return None
        size = len(found[0])
        if size < 3 or any(len(tensor) != size or size in tensor.shape[1:] for tensor in found):
            return None  # an axis as long as the batch, or an adjacency: who knows
        if found[0].dim() < 2:
            return None
        if call.batch is not None and call.batch.size == size and _gives_batches(call.batch.loader, size):
            return size
        return size if self._rows.mixed.get(call.root.number, 0) >= 3 else None


def _gives_batches(loader: Loader, size: int) -> bool:
    """Whether it is samples that stand along the first axis of what a loader gives: as many as it was asked for, and shuffled.

    What puts time first gives tensors as long as the longest sample.
    """
    if loader.sequential or loader.iterable or not loader.trained or loader.batch_size != size:
        return False
    return max(loader.sizes) == size and loader.sizes[size] >= 0.5 * sum(loader.sizes.values())


def shifted(source: Tensor, target: Tensor) -> int | None:
    """The time axis along which the target is the source one position later; None where it is not."""
    if source.dim() < 2 or target.device != source.device or source.is_floating_point() != target.is_floating_point():
        return None
    for axis in (1, 0):
        length = source.shape[axis]
        if length < 4:
            continue
        later = source.narrow(axis, 1, length - 1)
        if target.numel() == source.numel():
            earlier = target.reshape(source.shape).narrow(axis, 0, length - 1)
        elif target.numel() == later.numel():
            earlier = target.reshape(later.shape)
        else:
            continue
        if _agree(earlier, later) and not _agree(later, source.narrow(axis, 0, length - 1)):
            return axis
    return None


def _agree(target: Tensor, source: Tensor) -> bool:
    """Whether targets are the source, those that are left out (-100) aside."""
    if target.is_floating_point():
        return torch.equal(target, source)
    counted = target >= 0
    return bool(counted.sum() * 2 >= counted.numel()) and bool((target == source)[counted].all())


def _replaced(call: Call, change: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with every tensor changed."""
    args: tuple[Any, ...] = _mapped(call.args, change)
    kwargs: dict[str, Any] = _mapped(call.kwargs, change)
    return args, kwargs


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_mapped(each, change) for each in value)
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return value


def _pick(output: Any, accept: Any) -> Tensor | None:
    """The first tensor of an output that is acceptable."""
    return next((tensor for tensor in tensors(output) if tensor.is_floating_point() and accept(tensor)), None)


def _try(
    fact: Influence, call: Call, layers: list[tuple[str, bool, tuple[int, ...]]], batch: int | None,
    shift: tuple[int, int] | None, found: list[Tensor]
) -> Influence:  # fmt: skip
    with ExtraForward(call.module) as forward:
        try:
            # Clones: a forward may write into its input.
            plain, again = forward(*_replaced(call, torch.clone)), forward(*_replaced(call, torch.clone))
            if batch is not None:
                _try_batch(fact, forward, call, plain, again, batch)
                fact.layer = _layer(layers, batch) if fact.reached else None
            if shift is not None:
                _try_time(fact, forward, call, plain, again, found, *shift)
        except Exception:
            pass  # the model does not take such an input: lengths that must be sorted, checks of its own
    return fact


def _try_batch(fact: Influence, forward: ExtraForward, call: Call, plain: Any, again: Any, batch: int) -> None:
    def accept(tensor: Tensor) -> bool:
        return tensor.dim() > 0 and len(tensor) == batch and batch not in tensor.shape[1:]

    def swap(tensor: Tensor) -> Tensor:
        changed = tensor.clone()
        changed[0] = tensor[batch // 2]
        return changed

    before, same = _pick(plain, accept), _pick(again, accept)
    if before is None or same is None or not torch.equal(before, same):
        return
    after = _pick(forward(*_replaced(call, swap)), accept)
    scale = float(before.std()) if before.numel() > 1 else 0.0
    if after is None or not scale > 0:
        return
    moved = (after - before).abs().reshape(batch, -1).amax(1)[1:] / scale
    fact.batch, fact.reached, fact.moved = batch, int((moved > REACH).sum()), float(moved.max())
    if fact.reached:
        turned = _pick(forward(*_replaced(call, lambda tensor: tensor.roll(1, 0))), accept)
        fact.symmetric = turned is not None and float((turned - before.roll(1, 0)).abs().max()) / scale < 1e-3


def _try_time(
    fact: Influence, forward: ExtraForward, call: Call, plain: Any, again: Any, found: list[Tensor], place: int, axis: int
) -> None:  # fmt: skip
    if place >= len(found):
        return
    source = found[place]
    length, other = source.shape[axis], source.shape[1 - axis]

    def accept(tensor: Tensor) -> bool:
        whole = tensor.dim() >= 3 and tensor.shape[axis] == length and tensor.shape[1 - axis] == other
        return whole or (tensor.dim() == 2 and len(tensor) == length * other)

    def swap(tensor: Tensor) -> Tensor:
        changed = tensor.clone()
        if tensor is not source:
            return changed
        changed.select(axis, length - 1).copy_(tensor.select(axis, length - 1).roll(1, 0))
        return changed

    before, same = _pick(plain, accept), _pick(again, accept)
    if before is None or same is None or not torch.equal(before, same):
        return
    after = _pick(forward(*_replaced(call, swap)), accept)
    scale = float(before.std())
    if after is None or not scale > 0 or torch.equal(swap(source), source):
        return
    change = (after - before).abs()
    change = change.reshape(*source.shape[:2], -1).amax(-1).amax(1 - axis)[: length - 1] / scale
    fact.positions, fact.early, fact.early_moved = length, int((change > REACH).sum()), float(change.max())


def _layer(layers: list[tuple[str, bool, tuple[int, ...]]], batch: int) -> Layer | None:
    """The outermost layer whose time axis is as long as the batch, and whose other axis is not."""
    found = None
    for name, first, shape in layers:
        time, samples = (shape[1], shape[0]) if first else (shape[0], shape[1])
        if time == batch and samples not in (batch, 1):
            found = Layer(name, first, shape, batch)
    return found


OBSERVERS = [InfluenceWatch]
