"""Curves: the losses of a run, line by line, as `--confirm` and `--html` show them. Looking changes nothing."""

import json
import os
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from instep.doctor.sites import Locator
from instep.doctor.warned import unseen

Kind = Literal["training loss", "loss by the right formula", "evaluation loss", "share of right answers"]
MOST = 4000  # points of a curve; of more, each is the mean of a stretch
UNREAD = 256  # values on an accelerator that are read together
LOSSES = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "kl_div",
)  # fmt: skip
ENDING = ".curves.json"


@dataclass
class Curve:
    """What one line gave, in the order in which it came. `steps` are optimizer steps made before."""

    kind: Kind
    where: str
    steps: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    stride: int = 1  # values that one point is the mean of
    _open: list[float] = field(default_factory=list)
    _step: int = 0

    def add(self, step: int, value: float) -> None:
        if not self._open:
            self._step = step
        self._open.append(value)
        if len(self._open) == self.stride:
            self.steps.append(self._step)
            self.values.append(sum(self._open) / self.stride)
            self._open.clear()
            if len(self.values) == MOST:
                self._halve()

    def _halve(self) -> None:
        self.values = [(a + b) / 2 for a, b in zip(self.values[::2], self.values[1::2], strict=True)]
        self.steps = self.steps[::2]
        self.stride *= 2

    @property
    def count(self) -> int:
        """How many values it was made of."""
        return len(self.values) * self.stride

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "where": self.where, "steps": self.steps, "values": self.values, "stride": self.stride}


class Curves:
    """Records while a script runs. With `evaluations`, also losses without gradient, and shares of equal elements."""

    def __init__(self, locator: Locator, *, evaluations: bool = False) -> None:
        self.all: dict[tuple[Kind, str], Curve] = {}
        self._locator = locator
        self._evaluations = evaluations
        self._steps = 0
        self._unread: list[tuple[Curve, int, Any]] = []
        self._scaled: tuple[weakref.ref[Any], Any] | None = None  # what a GradScaler gave last, and the loss itself
        self._depth = 0
        self._process = os.getpid()

    def install(self) -> None:
        """Begin to record, in a process that has imported torch and will end."""
        import torch
        from torch.nn import functional
        from torch.optim.optimizer import register_optimizer_step_post_hook

        register_optimizer_step_post_hook(self._stepped)
        wrap(torch.Tensor, "backward", self._around_backward)
        wrap(torch.amp.GradScaler, "scale", self._around_scale)
        if self._evaluations:
            for name in LOSSES:
                wrap(functional, name, self._around_loss)
            for owner, name in ((torch.Tensor, "__eq__"), (torch.Tensor, "eq"), (torch, "eq")):
                wrap(owner, name, self._around_equal)

    def save(self, folder: Path) -> None:
        """Leave them in a file of that folder, where `read_curves` finds them. A forked child has none of its own."""
        self._read()
        if self.all and self._process == os.getpid():
            (folder / f"{os.getpid()}{ENDING}").write_text(json.dumps([curve.as_json() for curve in self.all.values()]))

    def note_right_loss(self, value: Any) -> None:
        """One that a remedy computes, beside the script's own or in place of it."""
        self._note("loss by the right formula", value)

    def _stepped(self, *_: Any) -> None:
        self._steps += 1

    def _around_scale(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        with suppress(Exception):
            self._scaled = weakref.ref(result), args[1].detach()
        return result

    def _around_backward(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        with suppress(Exception):
            loss = args[0]
            if self._scaled is not None and self._scaled[0]() is loss:
                loss = self._scaled[1]
            if len(args) < 2 and kwargs.get("gradient") is None:
                self._note("training loss", loss)
        return original(*args, **kwargs)

    def _around_loss(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        self._depth += 1
        try:
            result = original(*args, **kwargs)
        finally:
            self._depth -= 1
        with suppress(Exception):
            if not self._depth and not result.requires_grad:
                self._note("evaluation loss", result)
        return result

    def _around_equal(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        with suppress(Exception):
            one, other = args
            if one.shape == other.shape and one.dim() and one.numel() > 1:
                self._note("share of right answers", result.float().mean())
        return result

    def _note(self, kind: Kind, value: Any) -> None:
        if value.numel() != 1:
            return
        where = self._locator.site(2)
        if where is None:
            return
        curve = self.all.get((kind, where))
        if curve is None:
            curve = self.all[kind, where] = Curve(kind, where)
        if value.device.type == "cpu":
            curve.add(self._steps, value.item())
            return
        self._unread.append((curve, self._steps, value.detach()))
        if len(self._unread) >= UNREAD:
            self._read()

    def _read(self) -> None:
        for curve, step, value in self._unread:
            curve.add(step, value.item())
        self._unread.clear()


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """From now on, calls of that function go through `around(original, *args, **kwargs)`, but for those in compiled code.

    A warning of the function's is about the line that called it, as before.
    """
    import functools

    from torch.compiler import is_compiling

    original = getattr(owner, name)
    unseen(around)

    @functools.wraps(original)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if is_compiling():
            return original(*args, **kwargs)
        return around(original, *args, **kwargs)

    setattr(owner, name, unseen(wrapper))


def read_curves(folder: Path) -> list[Curve]:
    """Those of the process that recorded most; of several ranks, one is enough."""
    found: list[list[Curve]] = []
    for path in sorted(folder.glob(f"*{ENDING}")):
        with suppress(ValueError, OSError):
            found.append([Curve(**saved) for saved in json.loads(path.read_text())])
    return max(found, key=_length, default=[])


def training(curves: Iterable[Curve]) -> list[Curve]:
    """The losses that backward was called on, the longest first."""
    return sorted((one for one in curves if one.kind == "training loss"), key=lambda one: -one.count)


def _length(curves: list[Curve]) -> int:
    return sum(curve.count for curve in curves)
