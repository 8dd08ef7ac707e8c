"""The watcher: the doctor at work, from `with` to its end."""

import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from instep.doctor.engine import Engine
from instep.doctor.finding import SEVERITIES, Finding
from instep.doctor.hub import Hub
from instep.doctor.patches import Patches
from instep.doctor.report import render
from instep.doctor.settings import Settings
from instep.doctor.sites import Locator
from instep.doctor.step_sampling import StepSampling
from instep.doctor.trace import Trace
from instep.doctor.watch import areas
from instep.text import Paint, paint_for, plain

Said = Callable[[Finding, bool], None]
_ONE_AT_A_TIME = "the doctor is watching already; end that block first."


class Watcher:
    """Watches from `begin` to `end`; `findings` holds what was found so far, the worst first.

    `said` hears of every finding that is new or has new evidence (and whether it is new), `withdrawn` of those that no longer
    hold.
    """

    _going_on: "Watcher | None" = None  # torch can be patched by one only

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        said: Said = lambda *_: None,
        withdrawn: Callable[[Finding], None] = lambda _: None,
        aloud: bool = False,
    ) -> None:
        self.settings = settings or Settings()
        self.trace = Trace()
        self.trace.strict = self.settings.strict
        self.trace.probes = self.settings.probes
        self.locator = Locator(self.settings.roots)
        self.hub = Hub(self.trace, self.locator)
        self.engine = Engine(self.trace, self.hub, admitted=self.settings.admitted, said=said, withdrawn=withdrawn)
        self._aloud = aloud
        self._observers: list[Any] = []
        self._patches = Patches(self.hub)

    @classmethod
    def is_going_on(cls) -> bool:
        """Whether somebody watches in this process."""
        return cls._going_on is not None

    def begin(self) -> "Watcher":
        """Begin to watch. What the user's modules have imported from torch already is watched too."""
        if Watcher._going_on is not None:
            raise RuntimeError(_ONE_AT_A_TIME)
        try:
            self._install()
        except BaseException:
            self._remove()
            raise
        Watcher._going_on = self
        self.hub.open()
        return self

    def _install(self) -> None:
        modules = areas()
        for module in modules:
            self._observers += [self.hub.make(kind) for kind in module.OBSERVERS]
        self._observers.append(self.hub.make(StepSampling))
        for observer in [*self._observers, self.engine, self._patches]:
            self.hub.connect(observer)
        self._patches.install(patch for module in modules for patch in getattr(module, "PATCHES", ()))
        self._patches.rebind(self.locator.is_users)
        self._patches.suspend()
        for observer in self._observers:
            if hasattr(observer, "install"):
                observer.install(self._observers)
        _silence_about_hooks()

    def end(self) -> None:
        """Judge for the last time and leave torch as it was."""
        if Watcher._going_on is not self:
            return
        Watcher._going_on = None
        self.hub.close()
        self.hub.hush()
        try:
            self.engine.end()
        except Exception:
            self.hub.note_failure()
        finally:
            self._remove()
            self.hub.unhush()

    def _remove(self) -> None:
        """Take off all hooks and patches, also where a signal handler of the script's raises in between."""
        with ExitStack() as stack:
            stack.callback(self._patches.remove)
            for observer in self._observers:
                if hasattr(observer, "remove"):
                    stack.callback(self._remove_one, observer)
            self._observers = []

    def _remove_one(self, observer: Any) -> None:
        try:
            observer.remove()
        except Exception:
            self.hub.note_failure()

    def leave(self) -> None:
        """Watch no more, without a word: in a process that only loads data."""
        Watcher._going_on = None
        self.hub.close()

    @property
    def findings(self) -> list[Finding]:
        return sorted(self.engine.findings.values(), key=lambda finding: SEVERITIES.index(finding.level))

    @property
    def remarks(self) -> list[str]:
        """What could not be judged, and why: known at the end."""
        return self.engine.remarks()

    def __str__(self) -> str:
        return self._report(plain)

    def _report(self, paint: Paint) -> str:
        remarks = self.remarks if self.trace.ended else []
        return render(self.findings, steps=self.trace.steps, paint=paint, failed=self.hub.failed, remarks=remarks)

    def __enter__(self) -> "Watcher":
        return self.begin()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end()
        if self._aloud:
            print(self._report(paint_for(sys.stderr)), file=sys.stderr)


def watch(*, ignore: Iterable[str] = (), strict: bool = False, aloud: bool = True) -> Watcher:
    """The doctor as a context manager: watches any PyTorch training inside the block and reports its mistakes at the end.

    The training stays the same. `watcher.findings` holds what was found; `aloud=False` prints nothing; ids in `ignore` are
    left out; `strict=True` counts hints as warnings.

    >>> import instep
    >>> with instep.watch(aloud=False) as watcher:
    ...     pass  # your training loop
    >>> watcher.findings
    []
    """
    return Watcher(Settings(ignore=tuple(ignore), strict=strict), aloud=aloud)


def _silence_about_hooks() -> None:
    """Torch warns about global hooks on compiled modules; ours are made for them."""
    warnings.filterwarnings("ignore", message=re.escape("Using `torch.compile(module)` when there are global hooks"))


def _after_fork() -> None:
    """A forked child that loads data is left alone; another goes on watching."""
    watcher = Watcher._going_on
    if watcher is not None and any(
        frame.f_globals.get("__name__") == "torch.utils.data.dataloader" for frame in watcher.locator.frames()
    ):
        watcher.leave()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
