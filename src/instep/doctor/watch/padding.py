"""Padding in targets: rows that begin or end in runs of one value which stands nowhere else, and inputs that do so where they do.

Targets of torch's losses, and class numbers in the graphs of losses that are written by hand or reduced by hand. Where an input
is filled up beyond doubt, the value may be a class too.
"""

from collections import Counter, deque
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.picked_targets import picked_targets, unreduced_targets
from instep.doctor.records import part_class, record_class
from instep.doctor.row_ends import Filled, covers, end_alike, filled, tail_lengths
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases

LIMIT = 64
LOOKS = 6  # calls of a line that are looked at one by one, then every 64th
LARGEST = 1 << 18  # elements that are looked at
BY_HAND = "a loss written by hand"
REDUCTIONS = {"mse_loss": 4, "l1_loss": 4, "smooth_l1_loss": 4, "huber_loss": 2, "binary_cross_entropy": 5,
              "binary_cross_entropy_with_logits": 5}  # fmt: skip # losses of numbers, and where `reduction` stands


@record_class
class Padded:
    """Calls of one loss from one line in one phase, with targets in rows."""

    function: str
    site: str | None
    first_step: int
    calls: int = 0
    looked: int = 0
    tails: int = 0  # of those: many rows end, or begin, in a run of one value that stands nowhere else, runs of several lengths
    lone: int = 0  # of those: every row ends in at least one of it, so that it may be an end that is learned
    matched: int = 0  # of those: an input ended where the target does
    unseen: int = 0  # of those: no input could be looked at
    values: Counter[float] = field(default_factory=Counter)
    share: float = 0.0  # largest share of the targets that is such a tail


@part_class
class Paddings:
    """The part of the trace about padded targets."""

    all: dict[tuple[str, str | None, int], Padded] = field(default_factory=dict)  # by function, line and phase


class PaddingWatch:
    """Fills `Paddings`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(Paddings), trace.part(Phases)
        self._inputs: deque[Filled] = deque(maxlen=8)
        self._looked = False  # whether some input was
        self._seen = 0
        self._phase = 0

    def wants_modules(self) -> dict[type, Any]:
        return {nn.Embedding: self.embedded}

    def embedded(self, module: nn.Module, args: tuple[Any, ...], output: Any, call: Call) -> None:
        if args and isinstance(args[0], Tensor) and args[0].dim() == 2 and self._wants(args[0]):
            tokens = args[0].detach()
            for rows in (tokens, tokens.t()):  # time first
                self._note_input(rows == rows[:, -1].mode().values, (True,))
                self._note_input(rows == rows[:, 0].mode().values, (False,))

    def before_call(self, call: Call) -> None:
        first = call.args[0] if call.args and isinstance(call.args[0], Tensor) else None
        if first is not None and first.dim() == 3 and first.is_floating_point() and self._wants(first):
            empty = first.detach().abs().sum(2) == 0
            self._note_input(empty, (True, False))
            self._note_input(empty.t(), (True, False))

    def _wants(self, tensor: Tensor) -> bool:
        if self._phase != self._phases.number:
            self._phase, self._seen = self._phases.number, 0
        self._seen += 1
        return (self._seen <= 64 or self._seen % 32 == 0) and tensor.device.type == "cpu" and 0 < tensor.numel() <= LARGEST

    def _note_input(self, filler: Tensor, sides: tuple[bool, ...]) -> None:
        self._looked = True
        self._inputs.extend(each for late in sides if (each := filled(filler, late=late)) is not None)

    def on_loss(self, kind: LossKind, called: Called, input: Tensor, target: Any) -> None:
        if not input.requires_grad or not isinstance(target, Tensor) or not 8 <= target.numel() <= LARGEST:
            return
        if kind.function in REDUCTIONS:
            self._look_at_numbers(kind, called, input, target)
        if kind.function not in ("cross_entropy", "nll_loss") or target.is_floating_point() or target.dim() not in (1, 2):
            return
        if input.dim() < 2 or str(called.argument(6, "reduction", "mean")) == "none":
            return  # the script weighs each position itself
        padded = self._padded(kind.function, kind.site)
        if padded.calls > LOOKS and padded.calls % 64:
            return
        weight, ignored = called.argument(2, "weight"), int(called.argument(4, "ignore_index", -100))
        for rows in _in_rows(input.grad_fn, target.detach()):
            self._look(padded, rows, ignored, weight)

    def _look_at_numbers(self, kind: LossKind, called: Called, input: Tensor, target: Tensor) -> None:
        """One number at each position: targets that are filled up where an input is, and that the output does not meet there."""
        if str(called.argument(REDUCTIONS[kind.function], "reduction", "mean")) == "none" or not self._inputs:
            return
        if kind.function.startswith("binary") and isinstance(called.argument(2, "weight"), Tensor):
            return
        rows, given = (each.detach().squeeze(-1) if each.dim() == 3 else each.detach() for each in (target, input))
        if rows.dim() != 2 or rows.shape != given.shape or min(rows.shape) < 4 or not rows.is_floating_point():
            return
        padded = self._padded(kind.function, kind.site)
        if padded.calls <= LOOKS or padded.calls % 64 == 0:
            self._look(padded, rows, None, None, given)

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        """Losses by hand, by their graphs."""
        if not self._inputs or tensor.grad_fn is None or tensor.numel() != 1:
            return
        padded = self._padded(BY_HAND, backward.site)
        if padded.calls > LOOKS and padded.calls % 64:
            return
        found, ignored, weight = picked_targets(tensor.grad_fn), -100, None
        if found is None and (left := unreduced_targets(tensor.grad_fn)) is not None:
            found, ignored, weight = left[:2], left[2], left[3]
        if found is not None and 8 <= found[1].numel() <= LARGEST:
            for rows in _in_rows(found[0], found[1].detach()):
                self._look(padded, rows, ignored, weight)

    def _padded(self, function: str, site: str | None) -> Padded:
        """The record of a line in this phase, with one more call."""
        key = (function, site, self._phases.number)
        padded = self._part.all.get(key)
        if padded is None:
            padded = Padded(function, site, self._trace.steps)
            if len(self._part.all) < LIMIT:
                self._part.all[key] = padded
        padded.calls += 1
        return padded

    def _look(self, padded: Padded, rows: Tensor, ignored: int | None, weight: Any, given: Tensor | None = None) -> None:
        """`given`: numbers that are compared with the targets; where they meet them, somebody has masked both."""
        facts, lengths = [], []
        for late in (True, False):
            each = rows if late else rows.flip(1)
            value = each[:, -1].mode().values
            same = each == value
            tails = tail_lengths(same)
            weightless = isinstance(weight, Tensor) and weight[value.long().clamp(0, len(weight) - 1)] == 0
            met = given is not None and ((given if late else given.flip(1)) == each)[:, -1][tails > 0].float().mean() > 0.5
            facts.append([
                value, same.sum() - tails.sum(), (tails >= 2).sum(), torch.unique(tails).numel(), tails.min(), tails.sum(),
                torch.unique(each[~same]).numel(), weightless, met,
            ])  # fmt: skip
            lengths.append((rows.shape[1] - tails).tolist() if rows.device.type == "cpu" else [])
        read = torch.stack([torch.stack([torch.as_tensor(fact, device=rows.device).double() for fact in each]) for each in facts])
        self._hub.read(read, partial(self._note, padded, tuple(rows.shape), ignored, lengths))

    def _note(
        self, padded: Padded, shape: tuple[int, ...], ignored: int | None, lengths: list[list[int]], facts: list[list[float]]
    ) -> None:
        padded.looked += 1
        for late, mine, each in zip((True, False), lengths, facts, strict=True):
            value, inner, long, kinds, shortest, total, others, weightless, met = each
            if weightless or met or long < 0.3 * shape[0] or kinds < 3 or others < 3:
                continue
            if ignored is not None and value in (ignored, -100):
                continue
            inputs = [given for given in self._inputs if given.late is late]
            if inner:  # it stands elsewhere too, and may be a class
                matched = any(covers(mine, shape[1], given) for given in inputs)
            else:
                matched = any(end_alike(mine, given) for given in inputs)
            if (inner or ignored is None or not late) and not matched:
                continue
            padded.tails += 1
            padded.lone += shortest > 0 and not inner and ignored is not None
            padded.values[int(value) if ignored is not None else value] += 1
            padded.share = max(padded.share, total / (shape[0] * shape[1]))
            padded.unseen += not self._looked
            padded.matched += matched
            return


def _in_rows(node: Any, target: Tensor) -> list[Tensor]:
    """Targets as a matrix of sequences: as they are, or as the scores were before they were made flat (batch or time first)."""
    if target.dim() == 2:
        shape = tuple(target.shape)
        return [target] if min(shape) >= 4 else []
    for _ in range(6):
        if node is None:
            return []
        sizes = getattr(node, "_saved_self_sym_sizes", None)
        if sizes is not None and len(sizes) == 3 and sizes[0] * sizes[1] == len(target) and min(sizes[:2]) >= 4:
            matrix = target.view(int(sizes[0]), int(sizes[1]))
            return [matrix] if _ends_alike(matrix) else [matrix.t()]
        node = node.next_functions[0][0] if node.next_functions else None
    return []


def _ends_alike(matrix: Tensor) -> bool:
    """Whether runs of one value stand at the ends of rows, or at their beginnings, rather than in columns."""
    if matrix.device.type != "cpu":
        return True
    return _filled_share(matrix) >= _filled_share(matrix.t())


def _filled_share(rows: Tensor) -> float:
    """The share of a matrix that is runs of one value at the ends of its rows, or at their beginnings."""
    ends = (each == each[:, -1].mode().values for each in (rows, rows.flip(1)))
    return max(float(tail_lengths(each).float().mean()) for each in ends) / rows.shape[1]


OBSERVERS = [PaddingWatch]
