"""Trace: watches a forward, and notes which module did what, and where the graph is cut.

Operations have sequence numbers, so those made during a module's call are told by the numbers at its beginning and its end. A cut
is an operation that takes a tensor with a gradient to come and gives one without. What is computed from a cut tensor is followed,
so that a cut is known to matter: the prediction for a metric is detached too, and nothing comes of it.
"""

import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakTensorKeyDictionary

from instep.errors import is_user_file
from instep.loop.graph.record import Call

_DATA = Tensor.data.__get__  # type: ignore[attr-defined]  # an attribute that is computed


@dataclass
class CallSpan:
    """A module call: the sequence numbers of its operations are at least `first` and less than `end`."""

    call: Call
    first: int
    end: int = 0
    without_grad: bool = False  # begun where torch records nothing


@dataclass
class CutPlace:
    """One place that cuts: its kind, the call it stands in, the nodes that came in, and those that use what comes out."""

    kind: str
    call: int | None
    where: str
    sources: list[Any] = field(default_factory=list)  # grad_fn nodes, and leaves that require a gradient
    users: list[Any] = field(default_factory=list)  # grad_fn nodes
    shape: tuple[int, ...] = ()
    dtype: str = ""
    number: int = 0  # of the operation after it


class Trace:
    """To be entered around a forward."""

    def __init__(self, names: Mapping[nn.Module, str]) -> None:
        self.spans: list[CallSpan] = []
        self.cuts: dict[tuple[Any, ...], CutPlace] = {}
        self._names = names
        self._open: list[int] = []
        self._times: dict[nn.Module, int] = {}
        self._behind: Any = WeakTensorKeyDictionary()  # a tensor without gradient -> the cuts it was computed from
        self._mode = _Watch(self)

    def __enter__(self) -> "Trace":
        self._hooks = [
            register_module_forward_pre_hook(self._enter_module),
            register_module_forward_hook(self._leave_module, always_call=True),
        ]
        self._mode.__enter__()  # type: ignore[no-untyped-call]  # torch's
        return self

    def __exit__(self, *error: Any) -> None:
        self._mode.__exit__(*error)  # type: ignore[no-untyped-call]  # torch's
        for hook in self._hooks:
            hook.remove()

    def call_of(self, number: int) -> int | None:
        """The innermost call that an operation with this sequence number belongs to."""
        found = None
        for index, span in enumerate(self.spans):
            if span.first <= number < span.end:
                found = index  # a call within it begins later
        return found

    def cuts_behind(self, tensors: Iterable[Tensor]) -> set[tuple[Any, ...]]:
        return {key for tensor in tensors for key in self._behind.get(tensor, ())}

    def _enter_module(self, module: nn.Module, _: Any) -> None:
        self._times[module] = self._times.get(module, 0) + 1
        call = Call(
            self._names.get(module, type(module).__name__),
            type(module).__name__,
            self._open[-1] if self._open else None,
            self._times[module],
        )
        self._open.append(len(self.spans))
        self.spans.append(CallSpan(call, _sequence_number(), without_grad=not torch.is_grad_enabled()))

    def _leave_module(self, module: nn.Module, *_: Any) -> None:
        if self._open:
            self.spans[self._open.pop()].end = _sequence_number()

    def look(self, function: Any, given: list[Tensor], result: Any) -> None:
        """Note what one function of torch did."""
        made = [one for one in _tensors(result) if one.is_floating_point() or one.is_complex()]
        if result is None:  # x[i] = …
            made = given[:1]
        behind = self.cuts_behind(given)
        recorded = [one for one in made if one.requires_grad]
        for key in behind:
            self.cuts[key].users += [one.grad_fn for one in recorded if one.grad_fn is not None]
        lost = [one for one in made if not one.requires_grad]
        sources = [one for one in given if one.requires_grad]
        if lost and sources and not recorded:
            behind = behind | {self._cut(function, sources, lost[0])}
        if behind:
            for one in lost:
                self._behind[one] = behind | self._behind.get(one, set())

    def _cut(self, function: Any, sources: list[Tensor], lost: Tensor) -> tuple[Any, ...]:
        call = self._open[-1] if self._open else None
        kind, where = _kind(function), _users_line()
        if kind == "no_grad":  # one cut for all that is called there
            without = [index for index in self._open if self.spans[index].without_grad]
            call, where = (without[0], "") if without else (call, where)
        key = (kind, call, where)
        place = self.cuts.setdefault(key, CutPlace(kind, call, where or _users_line(), number=_sequence_number()))
        place.sources += [one.grad_fn if one.grad_fn is not None else one for one in sources]
        place.shape, place.dtype = tuple(lost.shape), str(lost.dtype).removeprefix("torch.")
        return key


class _Watch(TorchFunctionMode):
    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self._trace = trace

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = function(*args, **(kwargs or {}))
        given = list(_tensors((args, kwargs or {})))
        if given:
            self._trace.look(function, given, result)
        return result


def _kind(function: Any) -> str:
    if function in (Tensor.detach, torch.detach, Tensor.detach_):
        return "detach"
    if not torch.is_grad_enabled():
        return "no_grad"
    return "data" if function == _DATA else getattr(function, "__name__", "cut")


def _tensors(value: Any, depth: int = 0) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list) and depth < 4:
        for one in value:
            yield from _tensors(one, depth + 1)
    elif isinstance(value, Mapping) and depth < 4:
        yield from _tensors(list(value.values()), depth + 1)


def _sequence_number() -> int:
    """That of the next operation."""
    return int(torch._C._autograd._get_sequence_nr())


def _users_line() -> str:
    """The user's line that is being run, `net.py:12`; "" where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if is_user_file(frame.f_code.co_filename):
            return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
