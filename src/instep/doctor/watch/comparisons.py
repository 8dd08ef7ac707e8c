"""Comparisons of predictions with labels: (n, 1) with (n,) gives n × n, (n, 1, h, w) with (n, h, w) gives n × n × h × w.

`==`, `!=`, `&` and `-` of tensors are replaced by functions of few lines, since every script uses them all the time: they look at
the number of dimensions and leave at once.
"""

import weakref
from collections.abc import Callable
from dataclasses import field
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.warned import unseen
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Pass, tensors

LIMIT = 64
LARGEST = 1 << 16  # numbers of an output that are looked at
PLACES = (
    ("Tensor", "__eq__", "=="), ("Tensor", "eq", "eq"), ("", "eq", "eq"), ("Tensor", "__sub__", "-"), ("Tensor", "sub", "-"),
    ("", "sub", "-"), ("", "subtract", "-"), ("Tensor", "__ne__", "!="), ("Tensor", "ne", "ne"), ("", "ne", "ne"),
    ("Tensor", "__and__", "&"), ("Tensor", "logical_and", "&"), ("", "logical_and", "&"), ("", "bitwise_and", "&"),
)  # fmt: skip
MADE = frozenset(f"{name}Backward0" for name in ("View", "UnsafeView", "ReshapeAlias", "Unsqueeze", "Transpose", "Permute"))


@record_class
class Crossed:
    """Comparisons at one line that gave n × n."""

    site: str | None
    operation: str
    first_step: int
    count: int = 0
    shapes: tuple[tuple[int, ...], tuple[int, ...]] = ((), ())


@part_class
class Comparisons:
    """The part of the trace about comparisons."""

    crossed: dict[str | None, Crossed] = field(default_factory=dict)
    learned: dict[str | None, Crossed] = field(default_factory=dict)  # differences, one side of which has a graph: losses


class ComparisonWatch:
    """Fills `Comparisons`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Comparisons)
        self._batch: list[weakref.ref[Tensor]] = []
        self._output: weakref.ref[Tensor] | None = None  # of the last root call
        self._rows = 0
        self._chosen: weakref.ref[Tensor] | None = None  # by the last argmax
        self._evaluated = False  # whether that call was made without gradient
        self._waiting: list[weakref.ref[Tensor]] = []  # the output of a call in train mode without gradient, until it is compared
        self._chosen_sides: list[Tensor] = []  # of that output, copies: on which side of 0 and of 0.5 each number lies
        self._scoring: list[weakref.ref[Tensor]] = []  # what was chosen in an evaluation, until it is compared
        self._undo: list[Callable[[], None]] = []
        self._passing: Pass | None = None  # the pass that goes on, and its samples until now
        self._drawn = 0
        self._passed = 0  # samples of the last pass, where it was an evaluation that has come to its end

    def install(self, observers: list[object]) -> None:
        for owner_name, name, operation in PLACES:
            owner = torch.Tensor if owner_name else torch
            self._replace(owner, name, operation)

    def on_rest(self) -> None:
        if not self._hub.compiled:
            self.remove()

    def on_wake(self) -> None:
        if not self._undo:
            self.install([])

    def remove(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _replace(self, owner: Any, name: str, operation: str) -> None:
        own, original = name in vars(owner), getattr(owner, name)
        hub, look, grade, score, waiting, scoring = self._hub, self._look, self._grade, self._score, self._waiting, self._scoring

        def compared(*args: Any, **kwargs: Any) -> Any:
            if is_compiling():  # first of all: whatever compiled code looks at has to stay as it was
                return original(*args, **kwargs)
            both = len(args) == 2 and type(args[1]) is Tensor and type(args[0]) is Tensor
            crossed = both and _crosses(args[0], args[1])
            if (crossed or (both and (waiting or scoring))) and not (hub.quiet or get_ident() != hub.thread):
                if waiting:
                    hub.tell((grade,), args[0], args[1])
                if scoring:
                    hub.tell((score,), args[0], args[1])
                if crossed:
                    hub.tell((look,), args[0], args[1], operation, hub.locator.site(1))
            return original(*args, **kwargs)

        compared.__name__, compared.__qualname__, compared.__doc__ = (
            name,
            getattr(original, "__qualname__", name),
            original.__doc__,
        )
        compared.__wrapped__ = original  # type: ignore[attr-defined]
        setattr(owner, name, unseen(compared))

        def undo() -> None:
            if vars(owner).get(name) is compared:
                if own:
                    setattr(owner, name, original)
                else:
                    delattr(owner, name)

        self._undo.append(undo)

    def on_batch(self, passing: Pass, batch: Any) -> None:
        self._batch = [weakref.ref(tensor) for tensor in tensors(batch)]
        self._drawn = (self._drawn if passing is self._passing else 0) + (passing.size or 0)
        self._passing, self._passed = passing, 0

    def on_pass_ends(self, ended: Pass) -> None:
        self._passed = self._drawn if ended is self._passing and not ended.backwards else 0

    def after_argmax(self, called: Called) -> None:
        if type(called.result) is Tensor:
            self._chosen = weakref.ref(called.result)
            self._scoring[:] = [self._chosen] if self._evaluated else []

    def after_picked(self, called: Called) -> None:
        indices = getattr(called.result, "indices", None)
        if self._evaluated and type(indices) is Tensor:
            self._scoring[:] = [weakref.ref(indices)]

    def after_call(self, call: Call) -> None:
        output = call.output
        if type(output) is Tensor and output.dim():
            self._output, self._rows, self._evaluated = weakref.ref(output), output.shape[0], not call.grad
        self._waiting.clear()
        self._scoring.clear()
        if self._evaluated and call.training and type(output) is Tensor and output.dim() and call.root.parameters:
            self._waiting.append(weakref.ref(output))
            self._chosen_sides = _sides(output)

    def _grade(self, one: Tensor, other: Tensor) -> None:
        """What a model gave is compared with something that has as many rows, and is not its own."""
        if torch._C._functorch.is_functorch_wrapped_tensor(one):
            return
        if any(self._is_choice(tensor) for tensor in (one, other)):
            self._waiting.clear()
            self._hub.say("on_compared", None)
            return
        output = self._waiting[0]() if self._waiting else None
        if output is None:
            return
        mine = _storage(output)
        others = [tensor for tensor in (one, other) if _storage(tensor) != mine]
        if len(others) == 1 and others[0].dim() and len(others[0]) == len(output) > 1:
            self._waiting.clear()
            self._hub.say("on_compared", output)

    def _is_choice(self, tensor: Tensor) -> bool:
        """Whether it says on which side each number of the last output lies."""
        if not self._chosen_sides or tensor.device.type != "cpu" or tensor.numel() != len(self._chosen_sides[0]):
            return False
        chosen = tensor.detach().reshape(-1) != 0
        return any(torch.equal(chosen, side) for side in self._chosen_sides)

    def _score(self, one: Tensor, other: Tensor) -> None:
        """What was chosen in an evaluation is compared with what is right: tells `on_scored(right)`."""
        chosen = self._scoring.pop()() if self._scoring else None
        if chosen is None or torch._C._functorch.is_functorch_wrapped_tensor(one):
            return
        mine = _storage(chosen)
        others = [tensor for tensor in (one, other) if _storage(tensor) != mine]
        if len(others) == 1 and others[0].shape == chosen.shape:
            self._hub.say("on_scored", others[0])

    def _look(self, one: Tensor, other: Tensor, operation: str, site: str | None) -> None:
        tall, flat = (one, other) if one.dim() > other.dim() else (other, one)
        if torch._C._functorch.is_functorch_wrapped_tensor(one) or torch._C._functorch.is_functorch_wrapped_tensor(other):
            return  # inside vmap and its like: no storage
        rows = len(flat)
        if rows < 2 or tuple(tall.shape) != (rows, 1, *flat.shape[1:]) or tall.device.type != flat.device.type:
            return
        if (flat.dim() > 1 or operation == "&") and is_stretched(tall):
            return  # a table of all pairs is meant
        kept = self._part.crossed
        if operation == "-" and tall.requires_grad != flat.requires_grad:
            kept = self._part.learned
        elif not (self._subtracts(tall, flat) if operation == "-" else self._compares(tall, flat)):
            return
        crossed = kept.get(site)
        if crossed is None:
            crossed = Crossed(site, operation, self._trace.steps)
            if len(kept) < LIMIT:
                kept[site] = crossed
        crossed.count += 1
        crossed.shapes = (tuple(one.shape), tuple(other.shape))

    def _subtracts(self, tall: Tensor, flat: Tensor) -> bool:
        """A metric: no graph, and one of the two is what the model gave."""
        if tall.requires_grad or flat.requires_grad:
            return False
        mine, its = _storage(tall), _storage(flat)
        if mine == its:
            return False
        return _lies_in(self._output, mine, its) or self._are_gathered(tall, flat)

    def _are_gathered(self, tall: Tensor, flat: Tensor) -> bool:
        """As many as the evaluation had samples, put together since; not a table that is made on purpose, `a[:, None] - b`."""
        if self._trace.steps == 0 or not self._passed or len(flat) != self._passed:
            return False
        made = tall._base is not None or tall.is_inference()
        return not made and self._evaluated and tall.is_floating_point()

    def _compares(self, tall: Tensor, flat: Tensor) -> bool:
        """Predictions, not a mask of which labels are equal: labels are compared with labels in contrastive losses."""
        mine, its = _storage(tall), _storage(flat)
        if mine == its or self._rows != len(flat) or _counts_up(flat):
            return False
        known = {_storage(tensor) for each in self._batch if (tensor := each()) is not None}
        if mine in known and its in known:
            return False
        predicted = tall.dtype == torch.bool or flat.dtype == torch.bool or tall.is_floating_point() or flat.is_floating_point()
        return predicted or self._evaluated or _lies_in(self._chosen, mine, its)


def _crosses(one: Tensor, other: Tensor) -> bool:
    """Whether one has an axis of length 1 after the first, and the other is without it."""
    more = one.dim() - other.dim()
    if more not in (1, -1):
        return False
    tall = one if more == 1 else other
    return tall.dim() > 1 and tall.shape[1] == 1


def is_stretched(tall: Tensor) -> bool:
    """Whether a tensor is a view of another, as `x[:, None]` is; in inference mode nobody knows."""
    return tall.is_inference() or tall._base is not None or (tall.grad_fn is not None and tall.grad_fn.name() in MADE)


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _lies_in(kept: weakref.ref[Tensor] | None, *storages: int) -> bool:
    tensor = kept() if kept is not None else None
    return tensor is not None and _storage(tensor) in storages


def _sides(output: Tensor) -> list[Tensor]:
    """For each number of an output on which side of 0 it lies, and of 0.5: a class of two. Only where there are both."""
    if output.device.type != "cpu" or not output.is_floating_point() or not 8 <= output.numel() <= LARGEST:
        return []
    sides = [output.detach().reshape(-1) > limit for limit in (0, 0.5)]
    return [side for side in sides if bool(side.any()) and not bool(side.all())]


def _counts_up(flat: Tensor) -> bool:
    """0, 1, 2, …: the other side is being made one-hot."""
    return (
        flat.device.type == "cpu"
        and flat.dim() == 1
        and not flat.dtype.is_complex
        and bool((flat == torch.arange(len(flat))).all())
    )


OBSERVERS = [ComparisonWatch]
