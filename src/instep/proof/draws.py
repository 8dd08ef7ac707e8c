"""Draws: which random operations a forward makes, in which modules and lines, and the same forward with all draws alike.

With every draw replaced by one fixed value, dropout keeps everything and noise is 0: what a batch and its pieces then differ in
does not come from random numbers.
"""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from instep.errors import is_user_file

# By the start of an operation's name: what its draws are replaced by. `randperm` becomes the order itself.
FIXED = {"bernoulli": 1, "randn": 0, "randint": 0, "random": 0, "rand": 0.75, "uniform": 0.75, "normal": 0, "exponential": 1}
FIXED |= {"multinomial": 0, "poisson": 1, "binomial": 1, "cauchy": 0, "geometric": 1, "log_normal": 1, "_standard_gamma": 1}


class Draws(TorchDispatchMode):
    """Notes the random operations; with `is_fixed` they all give the same value."""

    def __init__(self, model: nn.Module, *, is_fixed: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.where: dict[str, str] = {}  # by the name of a module: its kind, or the user's line
        self._names: Mapping[nn.Module, str] = {module: name for name, module in model.named_modules()}
        self._stack: list[nn.Module] = []
        self._is_fixed = is_fixed
        self.rows: tuple[int, int] | None = None  # the offset and the size of a piece: its noise is then a function of the sample

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **(kwargs or {}))
        self._note(func)
        name = str(func).removeprefix("aten.")
        if self._is_fixed and name.startswith("native_dropout"):
            return args[0].clone(), torch.ones_like(args[0], dtype=torch.bool)
        drawn = func(*args, **(kwargs or {}))
        return _fix(name, drawn, self.rows) if self._is_fixed and isinstance(drawn, Tensor) else drawn

    def _note(self, func: Any) -> None:
        module = self._stack[-1] if self._stack else None
        kind = "" if module is None else type(module).__name__
        line = "" if module is not None and type(module).__module__.startswith("torch.") else user_line()
        name = self._names.get(module, kind) if module is not None else ""
        self.where.setdefault(name or kind or "the objective", line or kind or str(func))

    @contextmanager
    def watching(self) -> Iterator["Draws"]:
        """Inside, draws are noted, with the module that makes them."""
        hooks = [
            nn.modules.module.register_module_forward_pre_hook(lambda module, inputs: self._stack.append(module)),
            nn.modules.module.register_module_forward_hook(lambda module, inputs, output: self._leave(module), always_call=True),
        ]
        try:
            with self:
                yield self
        finally:
            for hook in hooks:
                hook.remove()

    def _leave(self, module: nn.Module) -> None:
        if module in self._stack:
            del self._stack[len(self._stack) - 1 - self._stack[::-1].index(module) :]


def user_line(frame: FrameType | None = None) -> str:
    """The innermost line of the user's own code that is running: `train.py:35`; "" where there is none."""
    at: FrameType | None = frame or sys._getframe(1)
    while at is not None:
        if is_user_file(at.f_code.co_filename):
            return f"{Path(at.f_code.co_filename).name}:{at.f_lineno}"
        at = at.f_back
    return ""


def _fix(name: str, drawn: Tensor, rows: tuple[int, int] | None) -> Tensor:
    if (
        rows is not None
        and name.startswith(("randn", "normal"))
        and drawn.ndim
        and len(drawn) == rows[1]
        and drawn.is_floating_point()
    ):
        places = torch.arange(drawn.numel(), dtype=torch.float64).reshape(drawn.shape) + rows[0] * (drawn.numel() // len(drawn))
        return drawn.copy_(torch.sin(places * places * 0.7 + places))
    if name.startswith("randperm"):
        return torch.arange(len(drawn), dtype=drawn.dtype, device=drawn.device)
    value = next((value for start, value in FIXED.items() if name.startswith(start)), None)
    return drawn if value is None else drawn.fill_(value)
