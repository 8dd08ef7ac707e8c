"""Which operation made a value that is not finite, with the user's line: in a forward and in its backward.

Every operation of torch is watched from below autograd. What has such values though nothing that it was given had them, made
them; what was given them passes them on. autograd's anomaly mode remembers the forward line of each backward operation.
"""

import linecache
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from types import FrameType
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from instep.errors import is_instep_file, is_user_file

Bad = Literal["nan", "inf"]

# They give memory as it is, in which anything may stand.
UNSET = ("empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided", "resize_")
_MODULE = "instep.module"  # the name of a module, in the metadata of the autograd nodes that it made
_FRAME = re.compile(r'\s*File "(.*)", line (\d+), in .*')


@dataclass(frozen=True)
class Line:
    """A line of somebody's code."""

    file: str
    number: int
    code: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}" + (f": {self.code}" if self.code else "")


@dataclass(frozen=True)
class Operation:
    """What made values that are not finite. `name` is that of torch, or of something that was given, like a weight."""

    name: str
    made: Bad
    phase: Literal["given", "forward", "backward"]
    module: str | None = None  # the name and class of the module that called it; None outside of the model
    line: Line | None = None  # the innermost line of the user's own, of the forward also where the backward made them
    inputs: tuple[str, ...] = ()  # what it was given, in words
    before: "Operation | None" = None  # what made the inf that it made nan of

    def __str__(self) -> str:
        """`log in the forward of head made inf of float32 (8, 3), 0 to 1.2 (train.py:12: return x.log())`"""
        if self.phase == "given":
            return f"{self.name} holds {self.made}"
        where = self.module or "the loss"
        of = f" of {', '.join(self.inputs)}" if self.inputs else ""
        return f"{self.name} in the {self.phase} of {where} made {self.made}{of}" + (f" ({self.line})" if self.line else "")

    def chain(self) -> "list[Operation]":
        """From the first that was not finite to this one."""
        return [*([] if self.before is None else self.before.chain()), self]


class OperationWatch(TorchDispatchMode):
    """To be entered round a forward and its backward. `given` names tensors that both read: weights, buffers, the batch."""

    def __init__(self, model: nn.Module, given: Mapping[str, Tensor]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's
        self._model = model
        self._names = {key: name for name, tensor in given.items() if (key := _storage(tensor)) is not None}
        self._origins: dict[int, Operation | None] = {}  # by storage; None for what is finite
        self._modules: list[str] = []  # those that are being called
        self.made: list[Operation] = []  # in order

    def origin(self, tensor: Tensor) -> Operation | None:
        """What made the values of a tensor that are not finite; None where nobody saw it."""
        key = _storage(tensor)
        return None if key is None else self._origins.get(key)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Enter it, with the names of modules, and the lines of the forward kept for the backward."""
        with ExitStack() as stack:
            for name, module in self._model.named_modules():
                label = f"{name or 'the model'} ({type(module).__name__})"
                stack.callback(module.register_forward_pre_hook(self._enter_module(label), prepend=True).remove)
                stack.callback(module.register_forward_hook(self._leave_module, always_call=True).remove)
            stack.enter_context(torch.autograd.set_detect_anomaly(True, check_nan=False))
            stack.enter_context(self)
            yield

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None) -> Any:
        given = [tensor for tensor in tree_leaves((args, kwargs)) if _has_values(tensor)]
        origins = [found for tensor in given if (found := self._origin_of_given(tensor)) is not None]
        inputs = _in_words(given) if func._schema.is_mutable else None  # before they are written over
        out = func(*args, **(kwargs or {}))
        if func._schema.name.removeprefix("aten::") not in UNSET:
            for tensor in tree_leaves(out):
                if _has_values(tensor):
                    self._judge(func, tensor, origins, lambda: inputs if inputs is not None else _in_words(given))
        return out

    def _origin_of_given(self, tensor: Tensor) -> Operation | None:
        key = _storage(tensor)
        if key is None:
            return None
        if key in self._origins and self._origins[key] is None:
            return None
        bad = _bad(tensor)  # a part of a batch may be finite where another part is not
        if bad is None:
            return None
        if key not in self._origins:
            self._origins[key] = Operation(self._names.get(key, "a tensor that was made before"), bad, "given")
        return self._origins[key]

    def _judge(self, func: Any, tensor: Tensor, origins: list[Operation], inputs: Callable[[], tuple[str, ...]]) -> None:
        key, bad = _storage(tensor), _bad(tensor)
        if key is None:
            return
        if bad is None:
            self._origins.setdefault(key, None) if func.is_view or func._schema.is_mutable else self._origins.update({key: None})
            return
        nan = next((one for one in origins if one.made == "nan"), None)
        passed_on = nan if bad == "nan" else next(iter(origins), None)
        if passed_on is None:
            passed_on = self._describe(func, bad, inputs(), next(iter(origins), None))
            self.made.append(passed_on)
        self._origins[key] = passed_on

    def _describe(self, func: Any, bad: Bad, inputs: tuple[str, ...], before: Operation | None) -> Operation:
        name = func._schema.name.removeprefix("aten::")
        node: Any = torch._C._current_autograd_node()  # None in a forward
        if node is None:
            module = self._modules[-1] if self._modules else None
            return Operation(name, bad, "forward", module, _line_of(sys._getframe(2)), inputs, before)
        module = node.metadata.get(_MODULE)
        line = _line_in(node.metadata.get("traceback_") or ())
        return Operation(f"{node.name()} ({name})", bad, "backward", module, line, inputs, before)

    def _enter_module(self, name: str) -> Callable[..., None]:
        return lambda *_: self._modules.append(name)

    def _leave_module(self, module: nn.Module, given: Any, out: Any) -> None:
        """Innermost modules come first: each marks the nodes that nobody has marked."""
        name = self._modules.pop()
        pending: list[Any] = [tensor.grad_fn for tensor in tree_leaves(out) if isinstance(tensor, Tensor)]
        while pending:
            node = pending.pop()
            if node is not None and _MODULE not in node.metadata:
                node.metadata[_MODULE] = name
                pending += [before for before, _ in node.next_functions]


def find_origin(watch: OperationWatch, tensors: Iterable[Tensor]) -> Operation | None:
    """What made the first of these tensors that is not finite; where that is not known, what made such values first."""
    bad = [tensor for tensor in tensors if _has_values(tensor) and _bad(tensor) is not None]
    found = next((one for tensor in bad if (one := watch.origin(tensor)) is not None), None)
    return found or (watch.made[0] if bad and watch.made else None)


def shorten_path(operation: Operation, root: str) -> Operation:
    """The same with files named from a folder on."""
    before = None if operation.before is None else shorten_path(operation.before, root)
    line = operation.line
    if line is not None and line.file.startswith(f"{root}/"):
        line = replace(line, file=line.file.removeprefix(f"{root}/"))
    return replace(operation, line=line, before=before)


def _has_values(thing: Any) -> bool:
    return (
        isinstance(thing, Tensor)
        and (thing.is_floating_point() or thing.is_complex())
        and thing.layout == torch.strided
        and thing.numel() > 0
    )


def _storage(tensor: Tensor) -> int | None:
    """What all views of the same memory have in common."""
    return tensor.untyped_storage()._cdata if tensor.layout == torch.strided else None


def _bad(tensor: Tensor) -> Bad | None:
    with torch.no_grad():
        if torch.isfinite(tensor).all():
            return None
        return "nan" if torch.isnan(tensor).any() else "inf"


def _in_words(tensors: list[Tensor]) -> tuple[str, ...]:
    """Types, shapes and ranges."""
    return tuple(dict.fromkeys(_form(tensor) for tensor in tensors))[:3]


def _form(tensor: Tensor) -> str:
    with torch.no_grad():
        values = (tensor.detach().abs() if tensor.is_complex() else tensor.detach()).double()
    low, high = float(values.min()), float(values.max())
    shape = f" {tuple(tensor.shape)}" if tensor.ndim else ""
    return f"{str(tensor.dtype).removeprefix('torch.')}{shape} {f'{low:.4g} to {high:.4g}' if low != high else f'{low:.4g}'}"


def _line_of(frame: FrameType | None) -> Line | None:
    """The innermost line of the user's own that led here; none where only Instep and torch did."""
    while frame is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    while frame is not None and not is_instep_file(frame.f_code.co_filename):
        file = frame.f_code.co_filename
        if is_user_file(file):
            return Line(file, frame.f_lineno, linecache.getline(file, frame.f_lineno).strip())
        frame = frame.f_back
    return None


def _line_in(trace: Iterable[str]) -> Line | None:
    """The same of a trace that autograd kept; the innermost comes last."""
    for text in reversed(list(trace)):
        found = _FRAME.match(text)
        if found is None or found[1] == __file__:
            continue
        if is_instep_file(found[1]):
            return None
        if is_user_file(found[1]):
            return Line(found[1], int(found[2]), linecache.getline(found[1], int(found[2])).strip())
    return None
