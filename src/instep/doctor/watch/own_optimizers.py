"""Steps of optimizers that are no subclass of torch's: a class of the user's that keeps parameters and has a `step`.

Where no optimizer of torch's is known at the first backwards, objects like that are looked for in the functions of the user's
that are running. Their steps are told like those of torch's from then on.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from torch import Tensor, nn, optim
from torch.optim.lr_scheduler import LRScheduler

from instep.doctor.hub import Hub
from instep.doctor.scopes import local_names
from instep.doctor.trace import Trace
from instep.doctor.warned import unseen
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.keras import KerasOptimizer
from instep.doctor.watch.optimizers import Optimizers, OptimizerWatch, is_busy

LOOKS = 3  # backwards before which they are looked for
RATES = ("lr", "learning_rate", "eta", "rate", "step_size", "alpha", "base_lr")
NO_OPTIMIZER = ("ema", "average", "swa", "sched", "warm", "shadow", "trainer", "learner", "agent")


class OwnOptimizerWatch:
    """Tells of the steps of optimizers that the user has written from nothing."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._optimizers = trace.part(Optimizers)
        self._steps: OptimizerWatch | None = None
        self._views: dict[int, KerasOptimizer] = {}
        self._undo: list[Callable[[], None]] = []
        self._replaced: set[type] = set()

    def install(self, observers: list[object]) -> None:
        self._steps = next(observer for observer in observers if isinstance(observer, OptimizerWatch))

    def remove(self) -> None:
        for undo in self._undo:
            undo()
        self._undo.clear()

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        if self._trace.backwards > LOOKS or self._trace.steps or self._optimizers.all or self._hub.compiled:
            return
        running, objects = self._running()
        for each in objects:
            step = vars(type(each)).get("step")
            code = getattr(step, "__code__", None)
            if type(each) not in self._replaced and code is not None and code not in running and _has_rate(each):
                self._replace(type(each), step)

    def _running(self) -> tuple[set[Any], list[Any]]:
        """The functions that are running, and what the user's have at hand."""
        codes: set[Any] = set()
        objects: dict[int, Any] = {}
        for frame in self._hub.locator.frames():
            codes.add(frame.f_code)
            if self._hub.locator.is_users(frame.f_code.co_filename):
                for value in local_names(frame).values():
                    objects.update((id(each), each) for each in (value, *_kept(value)) if _is_optimizer(each))
        return codes, list(objects.values())

    def _replace(self, owner: Any, original: Any) -> None:
        hub, begins, ends = self._hub, self._begins, self._ends

        def step(self: Any, *args: Any, **kwargs: Any) -> Any:
            if is_busy(hub):
                return original(self, *args, **kwargs)
            view = begins(self, bool(args or kwargs))
            try:
                return original(self, *args, **kwargs)
            finally:
                if view is not None:
                    ends(view)

        step.__name__, step.__qualname__, step.__doc__ = "step", original.__qualname__, original.__doc__
        step.__wrapped__ = original  # type: ignore[attr-defined]
        owner.step = unseen(step)
        self._replaced.add(owner)

        def undo() -> None:
            if vars(owner).get("step") is step:
                owner.step = original

        self._undo.append(undo)

    def _begins(self, optimizer: Any, given: bool) -> KerasOptimizer | None:
        assert self._steps is not None
        if self in self._hub.fallen:
            return None
        try:
            view = self._view(optimizer)
            if view is None or self._hub.resting:
                return view
            view.param_groups[0]["lr"] = _rate(optimizer)
        except Exception:
            self._hub.stand_down(self)
            return None
        closure = given and self._trace.backwards == 0
        self._hub.tell((self._steps.step_begins,), view, closure, self._hub.locator.site(2))
        return view

    def _ends(self, view: KerasOptimizer) -> None:
        assert self._steps is not None
        if not self._hub.resting:
            self._hub.tell((self._steps.step_ends,), view)
            return
        self._steps.count_unwatched(view)
        if self._trace.steps >= self._hub.alarm:
            self._hub.ring()

    def _view(self, optimizer: Any) -> KerasOptimizer | None:
        view = self._views.get(id(optimizer))
        if view is None and (parameters := list(_parameters(optimizer))):
            view = self._views[id(optimizer)] = type(type(optimizer).__name__, (KerasOptimizer,), {})()
            view.param_groups[0]["params"] = parameters
            view.kept = vars(optimizer)
            with suppress(TypeError):  # slots without a place for weak references: it lives as long as the run
                weakref.finalize(optimizer, self._views.pop, id(optimizer), None).atexit = False
        return view


def _kept(value: Any) -> tuple[Any, ...]:
    """What an object of the user's keeps: `self.optimizer` of a trainer."""
    kept = getattr(value, "__dict__", None)
    plain = isinstance(kept, dict) and not isinstance(value, type | nn.Module) and len(kept) <= 64
    return tuple(kept.values()) if plain and kept is not None else ()


def _is_optimizer(value: Any) -> bool:
    """A class that somebody wrote, with a `step`, whose objects keep parameters."""
    owner = type(value)
    if owner.__module__.partition(".")[0] in ("torch", "builtins", "keras", "instep") or not hasattr(value, "__dict__"):
        return False
    if isinstance(value, type | nn.Module | optim.Optimizer | LRScheduler) or "step" not in vars(owner):
        return False
    if any(word in owner.__name__.lower() for word in NO_OPTIMIZER):
        return False
    return next(_parameters(value), None) is not None


def _has_rate(value: Any) -> bool:
    groups = [each[0] for each in vars(value).values() if isinstance(each, list) and each and isinstance(each[0], dict)]
    return any(name in place for place in (vars(value), *groups) for name in RATES) or hasattr(value, "zero_grad")


def _rate(value: Any) -> float:
    found = next((vars(value)[name] for name in RATES if name in vars(value)), 0.0)
    return float(found) if isinstance(found, int | float) else 0.0


def _parameters(value: Any) -> Iterator[Tensor]:
    """Leaves that an object keeps in its attributes, in lists and dictionaries of them, and in groups."""
    seen: set[int] = set()
    pending = list(vars(value).values())
    while pending and len(seen) < 4096:
        each = pending.pop(0)
        if id(each) in seen:
            continue
        seen.add(id(each))
        if isinstance(each, Tensor):
            if isinstance(each, nn.Parameter) or (each.is_leaf and each.requires_grad):
                yield each
        elif isinstance(each, list | tuple):
            pending += each[:1024]
        elif isinstance(each, dict):
            pending += list(each.values())[:1024]


OBSERVERS = [OwnOptimizerWatch]
