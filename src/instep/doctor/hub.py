"""The hub: passes what torch does on to the observers, and lets nothing of the doctor's reach the user's script.

An event is a name; an observer hears it by a method of that name (`before_backward`, `after_step`, `on_batch`). While observers
are told something, nothing that they do themselves is heard, no warning that they cause is shown, and what they raise is caught
and counted: the observer that raised is told nothing more, and what it has noted is no longer judged.
"""

import sys
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import torch
from torch._C._functorch import peek_interpreter_stack as is_transformed
from torch.overrides import _pop_mode, _push_mode
from torch.utils._python_dispatch import _disable_current_modes

from instep.doctor.interrupting import is_of_a_handler
from instep.doctor.shards import HeldHere, Unseen
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace

Handler = Callable[..., None]
PREFIXES = ("before_", "after_", "on_")
# Events that an observer tells, and its file in `watch/`: who listens needs it. All others come from patches, or mean nothing.
TOLD_BY = {
    "before_call": "calls", "after_call": "calls", "on_module_seen": "calls", "on_root_seen": "calls", "wants_modules": "calls",
    "before_step": "optimizers", "after_step": "optimizers", "on_optimizer": "optimizers", "on_higher_rate": "optimizers",
    "on_pass_begins": "loaders", "on_batch": "loaders", "on_pass_ends": "loaders",
    "on_backward": "backwards", "on_discard": "gradients", "on_grown": "gradients", "on_clip": "clipping", "on_loss": "losses",
    "on_schedule": "schedulers",
}  # fmt: skip
FOLDER = "instep.doctor.watch."


@contextmanager
def _without_modes() -> Iterator[None]:
    """Modes of the user's, and those of activation checkpointing, are not to see what observers do."""
    functions = [_pop_mode() for _ in range(torch._C._len_torch_function_stack())]
    try:
        with _disable_current_modes():
            yield
    finally:
        for mode in reversed(functions):
            _push_mode(mode)


class _Silence(list[Any]):
    """Filters under which no warning is shown."""


_IGNORED: Any = ("ignore", None, Warning, None, 0)


class Hub:
    """Who listens to what.

    `busy` is True before the watch begins, after it has ended, and while observers work; `resting` while only what is rare is
    heard (see `step_sampling`); `quiet` is either.
    """

    def __init__(self, trace: Trace, locator: Locator) -> None:
        self.trace = trace
        self.locator = locator
        self.busy = True
        self.resting = False
        self.quiet = True
        self.alarm = 0  # the step at which `on_alarm` is told while resting
        self.thread = get_ident()  # what other threads do is not watched
        self.failures: list[str] = []  # tracebacks of the doctor's own errors, the first few
        self.failed = 0
        self.fallen: dict[object, str] = {}  # observers that have failed, or need one that has, and their names
        self.sharded = False  # some tensors are held in part only: see `shards`
        self.compiled = False  # code has been compiled: whatever is put on or taken off would have it compiled again
        self.unseen = 0  # looks that came to nothing since the values are not here
        self._held_here = False
        self._listeners: dict[str, list[Handler]] = {}
        self._observers: dict[object, set[str]] = {}  # and the modules whose parts each of them needs
        self._filters: list[Any] = warnings.filters  # type: ignore[assignment]
        self._unread: deque[tuple[int, Any, Callable[[Any], None]]] = deque()

    def listeners(self, event: str) -> list[Handler]:
        """Those who hear `event`: a list that grows as observers connect."""
        return self._listeners.setdefault(event, [])

    def open(self) -> None:
        """Begin to hear."""
        self.busy, self.quiet = False, self.resting

    def close(self) -> None:
        """Hear no more."""
        self.busy = self.quiet = True

    def ring(self) -> None:
        """Tell `on_alarm`, whose handlers say when it is due again by lowering `alarm`."""
        self.alarm = 1 << 62
        self.tell(self.listeners("on_alarm"))

    def make(self, kind: type) -> Any:
        """An observer of that kind. It needs those whose parts it asks for, and those who tell it something."""
        asked: set[str] = set()
        self.trace.asked = asked
        observer = kind(self.trace, self)
        if kind.__module__ not in {FOLDER + name for name in TOLD_BY.values()}:  # these know of each other by their parts
            asked.update(FOLDER + TOLD_BY[name] for name in dir(kind) if name in TOLD_BY)
        self._observers[observer] = asked
        return observer

    def connect(self, observer: object) -> None:
        """Let an observer hear every event that it has a method for."""
        for name in dir(type(observer)):
            if name.startswith(PREFIXES):
                self.listeners(name).append(getattr(observer, name))

    def tell(self, handlers: Sequence[Handler], *news: Any) -> None:
        """Pass news on. Nothing happens while others are being told."""
        if self.busy or is_transformed() is not None:  # inside vmap and its like tensors have no values to look at
            return
        self.busy = self.quiet = True
        self.hush()
        try:
            with torch._C.DisableTorchFunctionSubclass():  # what a tensor of the user's class does is not asked for
                if torch._C._len_torch_function_stack() or torch._C._len_torch_dispatch_stack():
                    with _without_modes():
                        self._pass_on(handlers, news)
                else:
                    self._pass_on(handlers, news)
        finally:
            self.unhush()
            self.busy = False
            self.quiet = self.resting

    def hush(self) -> None:
        """From here on the work is the doctor's: no warning is shown, and none becomes an error.

        Not by `catch_warnings`: it makes Python forget which warnings it has shown, and those of the script come again.
        """
        filters: list[Any] = warnings.filters  # type: ignore[assignment]
        if not isinstance(filters, _Silence):  # else another thread has put ours back
            self._filters = filters
        warnings.filters = _Silence((_IGNORED,))

    def unhush(self) -> None:
        warnings.filters = self._filters

    def say(self, event: str, *news: Any) -> None:
        """Pass news on from inside an observer that is being told something itself."""
        self._pass_on(self._listeners.get(event, ()), news)

    def _pass_on(self, handlers: Sequence[Handler], news: tuple[Any, ...]) -> None:
        if self.sharded and not self._held_here:
            self._held_here = True
            try:
                with HeldHere():  # type: ignore[no-untyped-call]
                    self._pass_on(handlers, news)
            finally:
                self._held_here = False
            return
        for handler in handlers:
            if self.fallen and getattr(handler, "__self__", None) in self.fallen:
                continue
            try:
                handler(*news)
            except Unseen:
                self.unseen += 1
            except Exception:
                self.stand_down(getattr(handler, "__self__", None))

    def read(self, tensor: Any, then: Callable[[Any], None]) -> None:
        """Give `then` the value of a small tensor (`tolist()`): at once on the CPU, else a step later, when nobody has to
        wait."""
        if tensor.device.type == "cpu":
            then(tensor.tolist())
        elif tensor.device.type != "meta" and len(self._unread) < 256:
            self._unread.append((self.trace.steps, tensor.detach(), then))

    def read_late(self, *, all: bool = False) -> None:
        """Read what was put off until now."""
        while self._unread and (all or self._unread[0][0] < self.trace.steps):
            _, tensor, then = self._unread.popleft()
            try:
                then(tensor.tolist())
            except Exception:
                self.stand_down(getattr(getattr(then, "func", then), "__self__", None))

    def stand_down(self, observer: object) -> None:
        """Called where an observer has raised: note the error, and tell nothing more to it and to those that need its part."""
        self.note_failure()
        if observer is None:
            return
        self.fallen[observer] = type(observer).__name__
        failed = self.trace.failed
        failed.add(type(observer).__module__)
        while more := [each for each, needs in self._observers.items() if each not in self.fallen and needs & failed]:
            for each in more:
                self.fallen[each] = type(each).__name__
                failed.add(type(each).__module__)

    def note_failure(self) -> None:
        """Count the error that is being handled and keep the first tracebacks; one of the script's own is raised."""
        error = sys.exc_info()[1]
        if error is not None and is_of_a_handler(error):
            raise error
        self.failed += 1
        if len(self.failures) < 5:
            self.failures.append(traceback.format_exc())

    def site(self) -> str | None:
        """The user's line of what is going on."""
        return self.locator.site(2)
