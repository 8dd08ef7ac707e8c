"""Updates: how far steps move weights, whether weights stay finite, and where the loss is heading.

A few tensors of each optimizer are compared before and after a step, at every fourth of the first forty steps of a phase and
then at every twentieth, in bursts once in each; of large tensors only the beginning.
"""

import math
from collections import deque
from dataclasses import field
from functools import partial
from statistics import median
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.gradients import Gradients, Parameter
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

PROBES = 6
ELEMENTS = 16384
BLOCK = 8  # losses in a block of a trend
BLOCKS = 64
LIMIT = 64
OFTEN = 128  # watched steps, after which most come in bursts of 8: one of each is looked at


@record_class
class Moves:
    """The updates of one tensor, as sampled."""

    name: str
    dtype: str
    size: int
    samples: int = 0  # with a gradient that is not zero
    low: int = 0  # of those: moved by less than 1e-7 of its norm
    high: int = 0  # of those after the tenth step: moved by more than 0.1 of its norm
    late: int = 0  # samples after the tenth step
    highest: float = 0.0
    ratios: deque[float] = field(default_factory=lambda: deque(maxlen=32))  # |update| / |weight|
    unchanged: deque[float] = field(
        default_factory=lambda: deque(maxlen=32)
    )  # share of elements with gradient that did not move at all


@record_class
class Movement:
    """What the steps of one optimizer did."""

    name: str
    torchs: bool  # one of torch.optim
    site: str | None = None
    moves: list[Moves] = field(default_factory=list)
    non_finite: int = 0  # looks at which weights were inf or nan
    non_finite_last: bool = False
    first_non_finite: int | None = None
    loss_site: str | None = None  # of the backward before that
    odd: int = 0  # steps that used the backward of a loss that is not finite
    lost: int = 0  # looks in a row at which a tensor was nan that had been finite, whatever the loss was
    first_lost: int | None = None
    lost_name: str = ""


@record_class
class Trend:
    """The course of a loss: medians of blocks, thinned out as the run goes on."""

    site: str | None
    blocks: list[float] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)  # at which each block began
    block: list[float] = field(default_factory=list)
    per_block: int = BLOCK
    begun: int = 0
    negative: bool = False

    def add(self, step: int, value: float) -> None:
        if not self.block:
            self.begun = step
        self.negative = self.negative or value < 0
        self.block.append(value)
        if len(self.block) >= self.per_block:
            self.blocks.append(median(self.block))
            self.steps.append(self.begun)
            self.block.clear()
            if len(self.blocks) >= BLOCKS:
                self.blocks = [(a + b) / 2 for a, b in zip(self.blocks[::2], self.blocks[1::2], strict=False)]
                self.steps = self.steps[::2]
                self.per_block = min(self.per_block * 2, 512)


@part_class
class Updates:
    """The part of the trace about updates."""

    optimizers: dict[int, Movement] = field(default_factory=dict)  # by number
    trends: dict[str | None, Trend] = field(default_factory=dict)  # by line of the backward


class UpdateWatch:
    """Fills `Updates`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._gradients = trace.part(Updates), trace.part(Gradients)
        self._phases, self._phase = trace.part(Phases), 0
        self._begun: dict[int, int] = {}  # optimizer -> its steps before this phase
        self._probes: dict[int, list[Parameter]] = {}
        self._before: tuple[int, list[int], list[Tensor], list[Tensor]] | None = None
        self._unread: deque[Backward] = deque(maxlen=8)  # whose values have not come yet
        self._odd: Backward | None = None

    def on_wake(self) -> None:
        self._unread.clear()
        self._before = self._odd = None

    # -- losses

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        self._unread.append(backward)
        while self._unread and (self._unread[0].value is not None or len(self._unread) > 4):
            self._fold(self._unread.popleft())

    def _fold(self, backward: Backward) -> None:
        value = backward.value
        if value is None:
            return
        if not math.isfinite(value):
            self._odd = backward
            return
        trends = self._part.trends
        trend = trends.get(backward.site)
        if trend is None:
            if len(trends) >= LIMIT:
                return
            trend = trends[backward.site] = Trend(backward.site)
        trend.add(backward.step, value)

    # -- steps

    def before_step(self, step: Step) -> None:
        self._before = None
        number, count = step.record.number, step.record.steps
        if self._phase != self._phases.number:
            self._phase = self._phases.number
            self._begun.clear()
        new = count - self._begun.setdefault(number, count if self._phase else 0)
        if step.inside or not (new % 4 == 1 if new < 40 else count % (20 if count < OFTEN else 8) == 1):
            return
        movement = self._movement(step)
        if movement is None:
            return
        chosen, weights, grads = [], [], []
        for index, probe in enumerate(self._chosen(step, movement)):
            tensor = probe.reference()
            if tensor is not None and tensor.grad is not None and tensor.grad.shape == tensor.shape and not tensor.grad.is_sparse:
                chosen.append(index)
                weights.append(_beginning(tensor).clone())
                grads.append(_beginning(tensor.grad).clone())
        if chosen:
            self._before = (number, chosen, weights, grads)

    def after_step(self, step: Step) -> None:
        before, odd = self._before, self._odd
        self._before = self._odd = None
        if odd is not None and step.fact is not None and step.fact.fresh:
            self._look_for_damage(step, odd)
        if before is None or before[0] != step.record.number:
            return
        number, chosen, weights, grads = before
        probes = self._probes[number]
        tensors = [probes[index].reference() for index in chosen]
        pairs = [(i, t, w, g) for i, t, w, g in zip(chosen, tensors, weights, grads, strict=True) if t is not None]
        now = [_beginning(t) for _, t, _, _ in pairs]
        facts = _facts(now, [w for _, _, w, _ in pairs], [g for _, _, _, g in pairs])
        movement = self._part.optimizers[number]
        at = self._trace.steps - 1
        self._hub.read(facts, partial(self._note, movement, movement.moves, [i for i, *_ in pairs], step.record.steps, at))

    def _movement(self, step: Step) -> Movement | None:
        movements, number = self._part.optimizers, step.record.number
        movement = movements.get(number)
        if movement is None and len(movements) < LIMIT:
            movement = movements[number] = Movement(step.record.name, type(step.optimizer).__module__.startswith("torch.optim"))
        if movement is not None:
            movement.site = step.site
        return movement

    def _chosen(self, step: Step, movement: Movement) -> list[Parameter]:
        """The tensors that are looked at: the first and the last matrices, and some in between."""
        number, known = step.record.number, self._gradients.parameters
        if number not in self._probes or self._has_changed(number, movement):
            found = [(known[key], known[key].reference()) for key in step.record.parameters if key in known]
            held = [(p, t) for p, t in found if t is not None and p.held and t.numel() >= 4 and t.is_floating_point()]
            held = [(p, t) for p, t in held if t.device == held[0][1].device]
            matrices = [(p, t) for p, t in held if t.dim() >= 2] or held
            stride = max((len(matrices) - 1) / (PROBES - 1), 1.0)
            picked = {min(round(i * stride), len(matrices) - 1): None for i in range(PROBES)} if matrices else {}
            self._probes[number] = [matrices[i][0] for i in picked]
            movement.moves = [Moves(matrices[i][0].name, _dtype(matrices[i][1]), matrices[i][1].numel()) for i in picked]
        return self._probes[number]

    def _has_changed(self, number: int, movement: Movement) -> bool:
        """Whether what is looked at is gone, or was cast to another precision: a model that is fine-tuned in bfloat16."""
        tensors = [probe.reference() for probe in self._probes[number]]
        pairs = zip(tensors, movement.moves, strict=True)
        gone = bool(tensors) and all(tensor is None for tensor in tensors)
        return gone or any(tensor is not None and _dtype(tensor) != move.dtype for tensor, move in pairs)

    def _note(
        self, movement: Movement, moves: list[Moves], chosen: list[int], count: int, step: int, facts: list[list[float]]
    ) -> None:
        gone = next((i for i, fact in zip(chosen, facts, strict=True) if math.isnan(fact[0]) and moves[i].samples), None)
        movement.lost = movement.lost + 1 if gone is not None else 0
        if gone is not None and movement.first_lost is None:
            movement.first_lost, movement.lost_name = step, moves[gone].name
        for index, (weight, update, grad, unchanged) in zip(chosen, facts, strict=True):
            move = moves[index]
            if not grad > 0:
                continue
            if move.dtype in ("bfloat16", "float16"):
                move.unchanged.append(unchanged)
            if not weight > 0 or not math.isfinite(update):
                continue
            ratio = update / weight
            move.samples += 1
            move.ratios.append(ratio)
            move.low += ratio < 1e-7
            move.highest = max(move.highest, ratio)
            if count > 10:
                move.late += 1
                move.high += ratio > 0.1

    def _look_for_damage(self, step: Step, odd: Backward) -> None:
        movement = self._movement(step)
        if movement is None or movement.odd > 256:
            return
        movement.odd += 1
        known = self._gradients.parameters
        held = [known[key].reference() for key in step.record.parameters if key in known]
        tensors = [t.detach() for t in held if t is not None and t.numel() and t.is_floating_point()][:: max(len(held) // 8, 1)]
        if tensors:
            finite = torch.stack([_beginning(t).float().abs().max().to(tensors[0].device) for t in tensors]).isfinite()
            self._hub.read(finite, partial(self._damage, movement, odd, self._trace.steps - 1))

    def _damage(self, movement: Movement, odd: Backward, step: int, finite: list[bool]) -> None:
        movement.non_finite_last = not all(finite)
        movement.loss_site = movement.loss_site or odd.site
        if movement.non_finite_last:
            movement.non_finite += 1
            if movement.first_non_finite is None:
                movement.first_non_finite, movement.loss_site = step, odd.site


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _beginning(tensor: Tensor) -> Tensor:
    """The first elements of a tensor, in a row."""
    flat = tensor.detach()
    flat = flat.view(-1) if flat.is_contiguous() else flat[:1].reshape(-1)
    return flat[:ELEMENTS]


def _facts(now: list[Tensor], weights: list[Tensor], grads: list[Tensor]) -> Tensor:
    """For each tensor: norm of the weight before, of the update, of the gradient; share of elements with gradient that stayed."""
    stayed: list[Any] = []
    for after, before, grad in zip(now, weights, grads, strict=True):
        if after.dtype in (torch.bfloat16, torch.float16):
            moved = grad != 0
            stayed.append((((after == before) & moved).sum() / moved.sum().clamp(min=1)).float())
        else:
            stayed.append(torch.zeros((), device=after.device))
    groups = (torch._foreach_norm(group) for group in (weights, torch._foreach_sub(now, weights), grads))
    norms = [torch.stack([norm.float() for norm in group]) for group in groups]
    return torch.stack([*norms, torch.stack(stayed)], dim=1)


OBSERVERS = [UpdateWatch]
