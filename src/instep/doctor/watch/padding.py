"""Padding in targets: rows that end in runs of one value which stands nowhere else, and inputs that end where they do.

Targets of torch's losses, and class numbers in the graphs of losses that are written by hand.
"""

from collections import Counter, deque
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.picked_targets import picked_targets
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases

LIMIT = 64
LOOKS = 6  # calls of a line that are looked at one by one, then every 64th
LARGEST = 1 << 18  # elements that are looked at
BY_HAND = "a loss written by hand"


@record_class
class Padded:
    """Calls of one loss from one line in one phase, with targets in rows."""

    function: str
    site: str | None
    first_step: int
    calls: int = 0
    looked: int = 0
    tails: int = 0  # of those: most rows end in a run of one value that stands nowhere else, runs of several lengths
    lone: int = 0  # of those: every row ends in at least one of it, so that it may be an end that is learned
    matched: int = 0  # of those: an input ended where the target does
    unseen: int = 0  # of those: no input could be looked at
    values: Counter[int] = field(default_factory=Counter)
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
        self._inputs: deque[list[int]] = deque(maxlen=8)  # lengths of the rows of inputs, without their tails
        self._seen = 0
        self._phase = 0

    def wants_modules(self) -> dict[type, Any]:
        return {nn.Embedding: self.embedded}

    def embedded(self, module: nn.Module, args: tuple[Any, ...], output: Any, call: Call) -> None:
        if args and isinstance(args[0], Tensor) and args[0].dim() == 2 and self._wants(args[0]):
            tokens = args[0].detach()
            self._note_input(tokens == tokens[:, -1].mode().values)
            self._note_input((tokens == tokens[-1].mode().values).t())  # time first

    def before_call(self, call: Call) -> None:
        first = call.args[0] if call.args and isinstance(call.args[0], Tensor) else None
        if first is not None and first.dim() == 3 and first.is_floating_point() and self._wants(first):
            empty = first.detach().abs().sum(2) == 0
            self._note_input(empty)
            self._note_input(empty.t())

    def _wants(self, tensor: Tensor) -> bool:
        if self._phase != self._phases.number:
            self._phase, self._seen = self._phases.number, 0
        self._seen += 1
        return (self._seen <= 64 or self._seen % 32 == 0) and tensor.device.type == "cpu" and 0 < tensor.numel() <= LARGEST

    def _note_input(self, filler: Tensor) -> None:
        self._inputs.append((filler.shape[1] - tail_lengths(filler)).tolist())

    def on_loss(self, kind: LossKind, called: Called, input: Tensor, target: Any) -> None:
        if kind.function not in ("cross_entropy", "nll_loss") or not input.requires_grad or not isinstance(target, Tensor):
            return
        if target.is_floating_point() or target.dim() not in (1, 2) or not 8 <= target.numel() <= LARGEST or input.dim() < 2:
            return
        padded = self._padded(kind.function, kind.site)
        if padded.calls > LOOKS and padded.calls % 64:
            return
        if str(called.argument(6, "reduction", "mean")) == "none":
            return  # the script weighs each position itself
        weight, ignored = called.argument(2, "weight"), int(called.argument(4, "ignore_index", -100))
        for rows in _in_rows(input.grad_fn, target.detach()):
            value = rows[:, -1].mode().values
            known = isinstance(weight, Tensor)
            weightless = weight[value.clamp(0, input.shape[1] - 1)] == 0 if known else torch.zeros((), dtype=torch.bool)
            self._look(padded, rows, value, ignored, weightless)

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        """Losses by hand, by their graphs."""
        if not self._inputs or tensor.grad_fn is None or tensor.numel() != 1:
            return
        padded = self._padded(BY_HAND, backward.site)
        if padded.calls > LOOKS and padded.calls % 64:
            return
        found = picked_targets(tensor.grad_fn)
        if found is not None and 8 <= found[1].numel() <= LARGEST:
            for rows in _in_rows(found[0], found[1].detach()):
                self._look(padded, rows, rows[:, -1].mode().values, -100, torch.zeros((), dtype=torch.bool))

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

    def _look(self, padded: Padded, rows: Tensor, value: Tensor, ignored: int, weightless: Tensor) -> None:
        same = rows == value
        tails = tail_lengths(same)
        inner = same.sum() - tails.sum()
        facts = torch.stack([
            value, inner, (tails >= 2).sum(), torch.unique(tails).numel() * torch.ones_like(value), tails.min(), tails.sum(),
            torch.unique(rows[~same]).numel() * torch.ones_like(value), weightless.to(value.dtype),
        ])  # fmt: skip
        lengths = (rows.shape[1] - tails).tolist() if rows.device.type == "cpu" else []
        self._hub.read(facts, partial(self._note, padded, tuple(rows.shape), ignored, lengths))

    def _note(self, padded: Padded, shape: tuple[int, ...], ignored: int, lengths: list[int], facts: list[int]) -> None:
        value, inner, long, kinds, shortest, total, others, weightless = facts
        padded.looked += 1
        if inner or value in (ignored, -100) or weightless or long < 0.3 * shape[0] or kinds < 3 or others < 3:
            return
        padded.tails += 1
        padded.lone += shortest > 0
        padded.values[int(value)] += 1
        padded.share = max(padded.share, total / (shape[0] * shape[1]))
        padded.unseen += not self._inputs
        padded.matched += any(_alike(lengths, given) for given in self._inputs)


def tail_lengths(filler: Tensor) -> Tensor:
    """How many of the last entries of each row are True, without a gap."""
    return filler.flip(1).int().cumprod(1).sum(1)


def _alike(lengths: list[int], given: list[int]) -> bool:
    """Whether rows end at the same places, give or take the one that shifting by one costs."""
    if not lengths or len(lengths) != len(given):
        return False
    return sum(abs(a - b) <= 1 for a, b in zip(lengths, given, strict=True)) >= 0.8 * len(lengths)


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
    """Whether runs of one value stand at the ends of rows rather than at the ends of columns."""
    if matrix.device.type != "cpu":
        return True
    by_row, by_column = matrix == matrix[:, -1].mode().values, matrix.t() == matrix[-1].mode().values
    return bool(tail_lengths(by_row).float().mean() / matrix.shape[1] >= tail_lengths(by_column).float().mean() / matrix.shape[0])


OBSERVERS = [PaddingWatch]
