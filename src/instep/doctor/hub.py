"""The hub: passes what torch does on to the observers, and lets nothing of the doctor's reach the user's script.

An event is a name; an observer hears it by a method of that name (`before_backward`, `after_step`, `on_batch`). While observers
are told something, nothing that they do themselves is heard, and what they raise is caught and counted.
"""

import traceback
from collections import deque
from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any

from torch._C._functorch import peek_interpreter_stack as is_transformed

from instep.doctor.shards import HeldHere, Unseen
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace

Handler = Callable[..., None]
PREFIXES = ("before_", "after_", "on_")


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
        self.sharded = False  # some tensors are held in part only: see `shards`
        self.compiled = False  # code has been compiled: whatever is put on or taken off would have it compiled again
        self.unseen = 0  # looks that came to nothing since the values are not here
        self._held_here = False
        self._listeners: dict[str, list[Handler]] = {}
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
        try:
            self._pass_on(handlers, news)
        finally:
            self.busy = False
            self.quiet = self.resting

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
            try:
                handler(*news)
            except Unseen:
                self.unseen += 1
            except Exception:
                self.note_failure()

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
                self.note_failure()

    def note_failure(self) -> None:
        """Count an error of the doctor's own, and keep its traceback if it is among the first."""
        self.failed += 1
        if len(self.failures) < 5:
            self.failures.append(traceback.format_exc())

    def site(self) -> str | None:
        """The user's line of what is going on."""
        return self.locator.site(2)
