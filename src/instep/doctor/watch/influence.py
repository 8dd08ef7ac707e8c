"""Influence: whether samples of a batch reach each other, and whether later positions reach earlier ones.

Known by trying: one training call is repeated with one sample, or one late position, replaced by another. Only where it is known
which axis is the batch (a shuffled loader, rows that came together twice in either order, a recurrent layer that has as many
samples as there are targets); until it has told something, a few times for each model. Once more in a new phase, and where
sequences become longer: a mask that was right for short ones may leave out the rest.
"""

from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.arguments import outputs_of, reads_once
from instep.doctor.batch_axes import gives_batches, is_claimed, is_declared
from instep.doctor.cut_positions import Cut, find_cut, shifted_by_hand, shifted_in
from instep.doctor.extra_forward import is_closed, is_safe, is_torchs
from instep.doctor.forked import can_fork, run_forked
from instep.doctor.hub import Hub
from instep.doctor.influence_trials import Influence, try_call
from instep.doctor.loss_terms import picked_classes
from instep.doctor.patches import Called
from instep.doctor.pieces import Chain
from instep.doctor.positions import predicted_numbers, shifted
from instep.doctor.records import part_class
from instep.doctor.row_keys import glimpse
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import first_tensor, tensors
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases
from instep.doctor.watch.rows import LATEST, Rows

TRIES = 40  # training calls of a root in which its axes must become known; later only if rows come again
BY_HAND = 6  # training calls of a root of which it is looked what a loss by hand compares their outputs with
STEADY = 4  # training calls that all had as many samples
PHASES = 4  # in which a root is tried again, from the beginning
LONGER = 1.5  # by which factor sequences must have grown to be tried again
AGAIN = (1, 4, 16)  # training calls of a root, from the first that could be tried, at which it is
SEQUENCES = (nn.RNNBase, nn.MultiheadAttention, nn.TransformerEncoderLayer, nn.TransformerDecoderLayer)


@part_class
class Influences:
    """The part of the trace about influence."""

    roots: dict[int, Influence] = field(default_factory=dict)


class _State:
    """What is known of one root before it is tried."""

    __slots__ = (
        "again", "axis", "calls", "constants", "cut", "done", "done_time", "layers", "lengths", "longest", "phase", "shift",
        "targets", "tries", "tries_time",
    )  # fmt: skip

    def __init__(self, phase: int = 0, again: int = 0) -> None:
        self.phase, self.again = phase, again  # the phase that it is of, and how often it was begun anew
        self.longest = self.axis = 0  # positions of the longest first input that was tried, and their axis
        self.calls = 0
        self.tries = self.tries_time = 0  # training calls that could be tried
        self.done = self.done_time = False
        self.targets = 0  # in the last loss, if each is a single number
        self.lengths: set[int] = set()  # of the first axis of its inputs
        self.shift: tuple[tuple[int, int], ...] = ()  # which inputs (by order) are predicted one position on, and their time axes
        self.cut: Cut | None = None  # which positions are, where a loss leaves some out
        self.constants: dict[int, tuple[tuple[int, ...], tuple[float, ...]]] = {}  # place of an input -> what it was first
        self.layers: list[tuple[str, bool, tuple[int, ...]]] = []


class InfluenceWatch:
    """Fills `Influences`, unless `trace.probes` is off."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._rows, self._phases = trace.part(Influences), trace.part(Rows), trace.part(Phases)
        self._states: dict[int, _State] = {}
        self._inputs: tuple[int, list[Tensor]] | None = None  # of the last training call, until its backward
        self._outputs: list[Tensor] = []
        self._inside: list[Tensor] = []  # targets of losses inside the call that goes on, whose inputs are not known yet
        self._chain = Chain()

    def on_rest(self) -> None:
        self._chain.end()

    def wants_modules(self) -> dict[type, Any]:
        return dict.fromkeys(SEQUENCES, self._layer_called)

    def _layer_called(self, module: Any, args: tuple[Any, ...], output: Any, call: Call) -> None:
        state = self._state(call.root.number)
        given = args[0] if args else None
        if not call.grad or state.done or len(state.layers) >= 8 or not isinstance(given, Tensor):
            return
        if given.is_nested or given.dim() != 3:
            return
        first = vars(module).get("batch_first")  # not by the module's own search, which takes long to find nothing
        attention = module._modules.get("self_attn") if first is None else None
        if attention is not None:
            first = attention.batch_first
        state.layers.append((type(module).__name__, bool(first), tuple(given.shape)))

    def _state(self, number: int) -> _State:
        """That of a root; a new one where another phase has begun, and nothing is wrong with it so far."""
        state = self._states.get(number)
        if state is None:
            state = self._states[number] = _State(self._phases.number)
        elif state.phase != self._phases.number:
            state.phase, found = self._phases.number, self._part.roots.get(number)
            if state.again < PHASES and state.calls > STEADY and not (found is not None and (found.reached or found.early)):
                state = self._states[number] = _State(state.phase, state.again + 1)
        return state

    # -- which input is predicted

    def before_call(self, call: Call) -> None:
        """Models that compute their own loss do so inside the call; what they are given by name is known after it."""
        self._inside = []
        if call.grad and call.root.parameters:
            self._outputs = []
            self._inputs = self._wanted(call.root.number, call.args)

    def _wanted(self, number: int, given: Any) -> tuple[int, list[Tensor]]:
        """The inputs of a call, where it is not known yet which of them is predicted."""
        state = self._state(number)
        unknown = self._trace.probes and not state.shift and not state.done_time and state.calls <= TRIES
        return number, [tensor.detach() for tensor in tensors(given)] if unknown else []

    def on_loss(self, kind: LossKind, _: Called, input: Tensor, target: Any) -> None:
        if self._inputs is None or not self._trace.probes or not input.requires_grad or not isinstance(target, Tensor):
            return
        number, sources = self._inputs
        state = self._state(number)
        if state.calls > TRIES:
            return
        single = target.dim() == 1 or (target.dim() == 2 and target.shape[1] == 1)
        state.targets = len(target) if single and input.dim() and len(input) == len(target) else 0
        if state.done_time or state.shift:
            return
        if not sources and len(self._inside) < 4:
            self._inside.append(target.detach())
        self._find_shift(state, sources, target.detach())
        for piece, place, axis in [] if state.shift else self._chain.shifted(target.detach()):
            other = self._state(piece)
            if not other.done_time and other.calls <= TRIES:
                other.shift = ((place, axis),)
        cut = find_cut(self._outputs, input.detach()) if sources and self._outputs and not state.shift else None
        if cut is not None:
            axes = [(place, shifted_in(source, target.detach(), cut)) for place, source in enumerate(sources)]
            state.shift = tuple((place, axis) for place, axis in axes if axis is not None)
            state.cut = cut if state.shift else None

    def on_backward(self, _: Backward, tensor: Tensor) -> None:
        """A loss by hand: its graph knows which classes it picked, or what differs from the outputs."""
        inputs, outputs = self._inputs, self._outputs
        self._inputs, self._outputs = None, []
        self._chain.end()
        if inputs is None or tensor.grad_fn is None:
            return
        number, sources = inputs
        state = self._states.setdefault(number, _State())
        if state.done_time or state.shift or state.calls > TRIES:
            return
        target = picked_classes(tensor.grad_fn)
        if target is not None:
            self._find_shift(state, sources, target)
        elif outputs:
            for numbers in predicted_numbers(tensor.grad_fn, outputs):
                if not state.shift:
                    self._find_shift(state, sources, numbers, close=True)
            for place, source in enumerate(sources):
                found = (
                    None if state.shift or not source.is_floating_point() else shifted_by_hand(source, outputs, tensor.grad_fn)
                )
                if found is not None:
                    state.shift, state.cut = ((place, found[0]),), found[1]

    def _find_shift(self, state: _State, sources: list[Tensor], target: Tensor, *, close: bool = False) -> None:
        axes = [(place, shifted(source, target, close=close)) for place, source in enumerate(sources)]
        state.shift = tuple((place, axis) for place, axis in axes if axis is not None)

    # -- the extra forwards

    def after_call(self, call: Call) -> None:
        if not call.grad or not call.root.parameters or call.root.is_loss or not self._trace.probes:
            return
        number = call.root.number
        state = self._state(number)
        if state.longest:
            self._look_for_longer(call, state)
        if (state.done and state.done_time) or state.calls >= LATEST:
            return
        state.calls += 1
        if state.calls > TRIES and (state.done or self._rows.mixed.get(number, 0) < 3):
            state.layers.clear()
            return
        found = tensors((call.args, call.kwargs))
        self._chain.add(number, found, call.output)
        self._inputs = self._wanted(number, (call.args, call.kwargs))
        if state.calls <= BY_HAND and any(source.dim() >= 2 for source in self._inputs[1]):
            self._outputs = [output.detach() for output in outputs_of(call.output) if output.is_floating_point()]
        inside, self._inside = self._inside, []
        for target in inside:
            if not state.shift and not state.done_time:
                self._find_shift(state, [tensor.detach() for tensor in found], target)
        if state.calls > 1 and found:
            self._try_call(call, state, found)

    def _look_for_longer(self, call: Call, state: _State) -> None:
        """Sequences that are much longer than those that were tried: try again."""
        first = first_tensor(call.args)
        if first is not None and first.dim() >= 2 and first.shape[state.axis] >= LONGER * state.longest:
            found = self._part.roots.get(call.root.number)
            if state.again < PHASES and found is not None and not found.early:
                state.again, state.longest, state.calls = state.again + 1, 0, 0
                state.done_time, state.tries_time, state.shift, state.cut = False, 0, (), None

    def _try_call(self, call: Call, state: _State, found: list[Tensor]) -> None:
        batch = None if state.done else self._batch_size(call, state, found)
        shift = () if state.done_time else state.shift
        state.tries += batch is not None
        state.tries_time += bool(shift)
        batch = batch if state.tries in AGAIN else None
        shift = shift if state.tries_time in AGAIN else ()
        if batch is None and not shift:
            state.layers.clear()
            return
        copied = can_fork() and not is_torchs(call.module)
        if not is_safe(call.module, copied=copied) or not (copied or (is_closed(call.module) and not reads_once(call))):
            state.done = state.done_time = True
            return
        fact = self._part.roots.get(call.root.number)
        if fact is None or (state.again and not fact.reached and not fact.early):
            fact = self._part.roots[call.root.number] = Influence(call.root.number, call.site, call.step)
        work = partial(try_call, fact, call, state.layers, batch, shift, state.cut, found, self._hub.locator)
        learned = run_forked(work) if copied else work()
        if learned is not None:
            self._part.roots[call.root.number] = fact = learned
        state.done = state.done or fact.told_batch or state.tries >= AGAIN[-1]
        state.done_time = state.done_time or fact.told_time or state.tries_time >= AGAIN[-1]
        if fact.told_time and shift and shift[0][0] == 0:
            state.longest, state.axis = fact.positions, shift[0][1]
        state.layers.clear()

    def _batch_size(self, call: Call, state: _State, found: list[Tensor]) -> int | None:
        """How many samples stand along the first axis of every input, where that is certain. A mask that is always the same is
        none."""
        if not found[0].dim():
            return None
        size = len(found[0])
        state.lengths.add(size)
        found = [tensor for place, tensor in enumerate(found) if not self._is_constant(state, place, tensor, size)]
        if size < 3 or any(not tensor.dim() or len(tensor) != size or size in tensor.shape[1:] for tensor in found):
            return None  # an axis as long as the batch, or an adjacency: who knows
        if found[0].dim() < 2:
            return None
        if call.batch is not None and call.batch.size == size and gives_batches(call.batch.loader, size):
            return size
        steady = state.targets == size and state.lengths == {size} and state.calls >= STEADY
        told = steady and (is_declared(state.layers, size) or is_claimed(state.layers, found, size))
        return size if told or self._rows.mixed.get(call.root.number, 0) >= 3 else None

    def _is_constant(self, state: _State, place: int, tensor: Tensor, size: int) -> bool:
        """Whether an input that is no sample has been the same in every call so far: real numbers or truth values, no edges."""
        if not place or size in tensor.shape or not (tensor.is_floating_point() or tensor.dtype == torch.bool):
            return False
        seen = (tuple(tensor.shape), glimpse(tensor))
        return bool(seen[1] or not tensor.dim()) and state.constants.setdefault(place, seen) == seen and state.calls > 2


OBSERVERS = [InfluenceWatch]
