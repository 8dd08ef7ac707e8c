"""Update cycles: what happens to gradients between their backward and the step that uses them, and in which order.

The ledger of gradients says what a step used; this part says how it came about: how many backwards make up a step, whether they
belong to one batch, whether the sum was cleared or written by hand.
"""

import weakref
from dataclasses import field
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn

from instep.doctor.cycle_tallies import BackwardPlace, Cycles
from instep.doctor.hub import Hub
from instep.doctor.mean_losses import are_counts, divisor, is_mean
from instep.doctor.patches import Called
from instep.doctor.records import part_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Backwards, past_ones
from instep.doctor.watch.clipping import Clip
from instep.doctor.watch.gradients import Discard, Gradients, Parameter
from instep.doctor.watch.loaders import Loaders, Pass
from instep.doctor.watch.optimizers import Step, StepFact
from instep.doctor.watch.phases import Phases

LIMIT = 256
WAITS = 6  # backwards on an accelerator after which values are looked at, for which the program waits


@part_class
class CyclePart:
    """The part of the trace about update cycles."""

    optimizers: dict[int, Cycles] = field(default_factory=dict)  # by number
    backwards: dict[str | None, BackwardPlace] = field(default_factory=dict)


class CycleWatch:
    """Fills `CyclePart`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._gradients, self._backwards = trace.part(CyclePart), trace.part(Gradients), trace.part(Backwards)
        self._loaders, self._phases = trace.part(Loaders), trace.part(Phases)
        self._probes: dict[int, Parameter] = {}  # optimizer -> the parameter whose gradient is looked at
        self._copies: dict[int, Tensor] = {}  # optimizer -> its gradient after the last backward, in sampled cycles
        self._weights: tuple[Parameter, list[float]] | None = (
            None  # the beginning of a probe after the last backward, in sampled cycles
        )
        self._mean_loss: weakref.ref[Tensor] | None = None  # what a loss function of torch's gave last, if a mean
        self._pending = False  # a root call with grad waits for its backward
        self._cleared: str | bool | None = False  # site of a zero_grad since the last backward
        self._filled: set[int] = set()  # optimizers for which the last backward left something other than zero
        self._left: tuple[Cycles, Parameter, Tensor] | None = None  # a used gradient that may be used again
        self._value_clipped = False  # since the last step
        self._late: tuple[Step, bool] | None = None  # a step with a closure, and whether values were clipped before it
        self._tails: dict[int, tuple[int, int]] = {}  # optimizer -> (number of the last backward, how many are left over)
        self._pass_ended = -1  # backwards begun when a pass over a loader ended last
        self._divisors: dict[int, float | None] = {}  # backward -> the count that its loss, a sum, was divided by
        self._waits = 0
        self._dropped: list[Backward] = []  # that were cleared unused since the last step, without a loader
        self._drawn: dict[int, Backward] = {}  # optimizer -> the last backward of its last cycle on batches drawn ahead

    def on_wake(self) -> None:
        """What came before the rest does not go with what comes after it."""
        self._copies.clear()
        self._drawn.clear()
        self._divisors.clear()
        self._tails.clear()
        self._dropped.clear()
        self._weights = self._mean_loss = self._left = None
        self._pending = self._value_clipped = False
        self._cleared = False
        self._filled.clear()

    # -- forward and backward

    def after_call(self, call: Any) -> None:
        if call.grad and call.root.parameters:
            self._pending = True

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        self._note_left(backward)
        place = self._backward_place(backward.site)
        place.count += 1
        if backward.node is None:
            place.leaf += (
                tensor.numel() == 1 and not isinstance(tensor, nn.Parameter) and id(tensor) not in self._gradients.parameters
            )
        elif (
            backward.reduction == "mean"
            or self._is_loss(tensor)
            or (backward.reduction is None and is_mean(past_ones(tensor.grad_fn)))
        ):
            place.means += 1
        elif backward.reduction is None:
            self._divisors[backward.number] = divisor(past_ones(tensor.grad_fn))
        self._pending, self._cleared = False, False

    def _note_left(self, backward: Backward) -> None:
        """Look at what the last step has left."""
        if self._left is None:
            return
        cycles, probe, copy = self._left
        self._left, tensor = None, probe.reference()
        if tensor is not None and _is_dense(tensor.grad) and probe.held:
            cycles.compared += 1
            cycles.altered += not torch.equal(tensor.grad.detach().reshape(-1), copy)

    def on_loss(self, _: Any, called: Called, *__: Any) -> None:
        mean = called.kwargs.get("reduction", "mean") == "mean" and isinstance(called.result, Tensor)
        self._mean_loss = weakref.ref(called.result) if mean else None

    def _is_loss(self, tensor: Tensor) -> bool:
        """Whether it is what a loss function of torch's gave as a mean, or that divided by 1: with label smoothing the graph of
        such a loss begins with a weighted sum."""
        loss = self._mean_loss() if self._mean_loss is not None else None
        return loss is not None and (loss is tensor or (loss.grad_fn is not None and past_ones(tensor.grad_fn) is loss.grad_fn))

    def after_backward(self, _: Called) -> None:
        backward = self._backwards.current
        if backward is None:
            return
        if not backward.accumulated:
            self._backward_place(backward.site).barren += 1
        self._weights = None
        self._filled.clear()
        if not self._is_sampled():
            return
        for number, probe in self._probes.items():
            tensor = probe.reference()
            if tensor is None or not _is_dense(tensor.grad) or not probe.held or probe.held[-1] is not backward:
                continue
            if probe.device != "cpu":
                self._waits += 1
                if self._waits > WAITS:
                    continue
            copy = tensor.grad.detach().reshape(-1).clone()
            self._copies[number] = copy
            self._weights = (probe, tensor.detach().reshape(-1)[:8].tolist())
            if bool(copy.any()):
                self._filled.add(number)

    def _is_sampled(self) -> bool:
        return self._trace.steps - self._phases.step < 32 or self._trace.steps % 16 == 0

    def _backward_place(self, site: str | None) -> BackwardPlace:
        places = self._part.backwards
        place = places.get(site)
        if place is None:
            place = BackwardPlace(site, first_step=self._trace.steps)
            if len(places) < LIMIT:
                places[site] = place
        return place

    # -- clearing

    def after_clear(self, called: Called) -> None:
        self._cleared = called.site

    def on_discard(self, discard: Discard) -> None:
        """Told while the next backward begins: that one is the current."""
        backward, following = discard.backward, self._backwards.current
        if backward.used or backward.dropped < backward.accumulated or following is None:
            return
        for number, (last, left) in list(self._tails.items()):
            if backward.number == last:
                self._part.optimizers[number].tails.append((left, 0))
                del self._tails[number]
        if backward.number <= self._pass_ended or (backward.value is not None and backward.value - backward.value != 0.0):
            return  # the end of an epoch, or a batch that was skipped for good reason
        if discard.step > backward.step or not self._was_cleared():
            return  # a step came and found nothing in it: it was zero by itself
        place = self._backward_place(backward.site)
        if self._have_moved():
            place.moved += 1
        elif following.site == backward.site:
            by_hand = not self._loaders.feeds(self._trace.backwards)
            if by_hand and following.lines != backward.lines:
                return  # two losses through one helper, perhaps on the same samples
            if by_hand and len(self._dropped) < LIMIT:
                self._dropped.append(backward)
            is_new = by_hand or following.batches > backward.batches
            if not is_new and discard.site is None:
                return
            place.first_thrown = place.first_thrown or discard.step
            place.thrown += is_new
            place.repeated += not is_new
            place.clear_site = discard.site or place.clear_site

    def _was_cleared(self) -> bool:
        """Whether somebody has cleared the gradients since the last backward, or they were zero by themselves."""
        if self._cleared is not False or self._filled:
            return True
        tensors = [probe.reference() for probe in self._probes.values()]
        return any(tensor is not None and tensor.grad is None for tensor in tensors)

    def _have_moved(self) -> bool:
        tensor = self._weights[0].reference() if self._weights is not None else None
        return self._weights is not None and tensor is not None and tensor.detach().reshape(-1)[:8].tolist() != self._weights[1]

    # -- steps

    def before_step(self, step: Step) -> None:
        value_clipped, self._value_clipped = self._value_clipped, False
        self._late = None
        if step.inside or not step.record.awake:
            return
        if step.fact is None:
            self._late = (step, value_clipped)
        else:
            self._note_step(step, step.fact, value_clipped)

    def after_step(self, step: Step) -> None:
        """A closure that did nothing: what the step used was there before it."""
        late, self._late = self._late, None
        if late is not None and late[0] is step and step.fact is not None and not step.closure:
            self._note_step(step, step.fact, late[1])

    def _note_step(self, step: Step, fact: StepFact, value_clipped: bool) -> None:
        if len(self._divisors) > LIMIT:
            self._divisors.clear()
        number = step.record.number
        cycles = self._part.optimizers.get(number)
        if cycles is None:
            if len(self._part.optimizers) >= LIMIT:
                return
            cycles = self._part.optimizers[number] = Cycles()
        probe = self._probe(step)
        self._note_loss(cycles, fact, number)
        copy = self._copies.pop(number, None)
        if probe is None:
            return
        before, held = fact.used_held, probe.held
        fresh = held[before:] if before < len(held) else held
        if fact.fresh and fresh:
            self._note_cycle(cycles, fact, fresh, step)
            tensor = probe.reference()
            if fact.stale and probe.device == "cpu" and tensor is not None and _is_dense(tensor.grad) and self._is_sampled():
                self._left = (cycles, probe, tensor.grad.detach().reshape(-1).clone())
            if copy is not None and tensor is not None and _is_dense(tensor.grad) and not value_clipped:
                self._compare(cycles, copy, tensor.grad.detach().reshape(-1), len(fresh))

    def _probe(self, step: Step) -> Parameter | None:
        """The parameter of an optimizer whose gradient is looked at: a small matrix that has a gradient."""
        number, known = step.record.number, self._gradients.parameters
        probe = self._probes.get(number)
        if probe is not None and probe.held and known.get(probe.key) is probe:
            return probe
        candidates = [known[key] for key in step.record.parameters if key in known]
        candidates = [p for p in candidates if p.held and p.numel <= 65536 and p.device == "cpu"] or [
            p for p in candidates if p.held
        ]
        if not candidates:
            return probe
        best = max(candidates, key=lambda p: (len(p.held), len(p.shape) >= 2, min(p.numel, 4096)))
        self._probes[number] = best
        return best

    def _note_loss(self, cycles: Cycles, fact: StepFact, number: int) -> None:
        """Whether the step found nothing, and why."""
        if fact.fresh or fact.reused or fact.closure or not fact.parameters:
            return
        if self._pending:
            cycles.early += 1
        if not fact.arrived:
            return
        if fact.missing == fact.parameters or self._cleared is not False or number in self._filled:
            cycles.lost += 1
            if isinstance(self._cleared, str):
                cycles.clear_site = self._cleared
            current = self._backwards.current
            cycles.backward_site = current.site if current is not None else None

    def _note_cycle(self, cycles: Cycles, fact: StepFact, fresh: list[Backward], step: Step) -> None:
        size, number = len(fresh), step.record.number
        cycles.add_size(step.record.all_steps, size)
        cycles.fresh = tuple(fresh)
        self._note_drops(cycles, fact, fresh)
        sites = {backward.site for backward in fresh}
        for backward in fresh:
            cycles.sites[backward.site] += 1
            self._backward_place(backward.site).used += 1
        tail = self._tails.pop(number, None)
        if tail is not None:
            cycles.tails.append((tail[1], size))
        else:
            cycles.plain_sizes[size] += 1
        several = len(sites) > 1 or len({backward.lines for backward in fresh}) > 1
        if several or len({backward.accumulated for backward in fresh}) > 1:
            cycles.mixed += 1
            cycles.mixed_sites = _telling_lines(fresh)
        if not several and size > 1 and not fact.closure:
            calls = len({backward.calls for backward in fresh}) == size
            batches = not self._loaders.feeds(self._trace.backwards) or len({backward.batches for backward in fresh}) == size
            batches = batches or self._are_drawn_ahead(fresh, number)
            if calls and batches and len({backward.loader for backward in fresh}) == 1:
                place = self._backward_place(fresh[-1].site)
                counts = are_counts([self._divisors.get(backward.number) for backward in fresh])
                cycles.undivided += counts or place.means >= 0.9 * place.count

    def _note_drops(self, cycles: Cycles, fact: StepFact, fresh: list[Backward]) -> None:
        """What an epoch without a loader has left over and the next one cleared: fewer backwards than make up a step."""
        mine = [backward for backward in self._dropped if backward.lines == fresh[-1].lines]
        if not mine:
            return
        self._dropped = [backward for backward in self._dropped if backward.lines != fresh[-1].lines]
        if cycles.plain_sizes and len(mine) < cycles.plain_sizes.most_common(1)[0][0] and mine[0].step == mine[-1].step:
            cycles.drops.append((fact.number, len(mine)))
            self._backward_place(mine[-1].site).thrown -= len(mine)

    def _are_drawn_ahead(self, fresh: list[Backward], number: int) -> bool:
        """Whether about as many batches as there are backwards were drawn since the last step, all of one loader.

        Who draws the batches of an update before its first forward may draw one more, to know whether it is the last.
        """
        last, before = fresh[-1], self._drawn.get(number)
        self._drawn[number] = last
        if before is None or len(fresh) < 3 or last.batches - before.batches != last.drawn - before.drawn:
            return False
        return abs(last.drawn - before.drawn - len(fresh)) <= 1

    def _compare(self, cycles: Cycles, copy: Tensor, grad: Tensor, size: int) -> None:
        """How the gradient of the step differs from what the last backward left."""
        if copy.shape != grad.shape or not copy.is_floating_point():
            return
        cycles.sampled += 1
        square = float(copy.dot(copy)) if copy.dtype == grad.dtype else 0.0
        if not square or square != square:
            return
        scale = float(copy.dot(grad)) / square
        rest = float((grad - scale * copy).norm())
        cycles.by_hand += rest > 0.05 * float(grad.norm())
        cycles.halved += size > 1 and abs(scale * size - 1) < 1e-3

    def on_clip(self, clip: Clip, _: Any) -> None:
        self._value_clipped = self._value_clipped or "value" in clip.function

    # -- ends of passes

    def on_pass_ends(self, ended: Pass) -> None:
        if not ended.backwards:
            return
        self._pass_ended = self._trace.backwards
        for number, probe in self._probes.items():
            left = len(probe.held) - probe.used
            if not probe.held or probe.held[-1].loader != ended.loader.number:
                continue
            cycles = self._part.optimizers[number]
            cycles.passes += 1
            if left > 0:
                tensor = probe.reference()
                if tensor is not None and tensor.grad is not None:
                    self._tails[number] = (probe.held[-1].number, left)


def _telling_lines(backwards: list[Backward]) -> tuple[str | None, ...]:
    """Their lines; where all of them go through one helper, the innermost lines that differ."""
    sites = tuple(dict.fromkeys(backward.site for backward in backwards))
    if len(sites) == 1:
        for outer in zip(*(backward.lines for backward in backwards), strict=False):
            if len(set(outer)) > 1:
                return tuple(dict.fromkeys(outer))
    return sites


def _is_dense(grad: Tensor | None) -> TypeGuard[Tensor]:
    return grad is not None and grad.layout is torch.strided


OBSERVERS = [CycleWatch]
