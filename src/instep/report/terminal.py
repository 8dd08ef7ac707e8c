"""Terminal: progress as two live lines at the bottom of a terminal, with what stays scrolling above them.

A thread of its own draws them a few times a second from `RunStatus`, so that an update costs nothing here. What is said in
between is printed no more often than that either: a thousand evaluations a second are a thousand lines, but few drawings.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, TextIO

from rich.console import Console, ConsoleOptions, RenderResult
from rich.live import Live
from rich.text import Text

from instep.report.run_status import RunStatus
from instep.report.shortened import shorten
from instep.text import PROSE, fold, number, wants_colour, wrapped

if TYPE_CHECKING:
    from instep.records import Evaluation

PAUSE_S = 0.15  # between two drawings
GAP = "  "
MARK, MORE = "best", "… 99 more"  # beside the numbers of a row, and of the head
ECHO = "^C"  # what a terminal writes at the end of the live lines
STYLES = {"loss": "bold", "metric": "bold cyan", "lr": "", "pace": "dim", "late": "yellow"}
DONE, EDGE, TO_DO = "━", "╾", "─"


class Terminal:
    """The live lines. `close`, or else the end of the process, erases them; a forked child leaves them alone."""

    def __init__(self, status: RunStatus, stream: TextIO) -> None:
        self._status = status
        self._streams = sys.stdout, sys.stderr
        # Without colours, bold and dim go too: who sets NO_COLOR wants plain text. Texts are shown as they are, never as markup.
        colours: Literal["auto"] | None = "auto" if wants_colour(stream) else None
        self._console = Console(file=stream, color_system=colours, highlight=False, markup=False, emoji=False, soft_wrap=True)
        # What is printed to a terminal goes above the lines; what is piped elsewhere goes on there.
        redirect = sys.stdout is not None and sys.stdout.isatty()
        self._live = Live(self, console=self._console, auto_refresh=False, transient=True, redirect_stdout=redirect)
        self._lock = threading.RLock()
        self._waiting: list[Text] = []
        self._drawn_s = 0.0
        self._names: tuple[str, ...] = ()  # the head of the table of evaluations
        self._open = False
        self._closing = threading.Event()
        self._drawer = threading.Thread(target=self._keep_drawing, name="instep-progress", daemon=True)

    def start(self) -> None:
        self._open = True
        _forget_in_children(self)
        atexit.register(self._stop)
        self._live.start()
        self._draw()
        self._drawer.start()

    def logged(self) -> None:
        """Nothing to do: the next drawing shows it."""

    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None:
        """A row of a table, under a head of its own where the names are new."""
        status, plan = self._status, self._status.plan
        places = (status.epoch_of(evaluation.step, evaluation.epoch), f"{evaluation.step:,}")
        first = max(5, len(places[0])), max(4, len(f"{plan.total_steps:,}"))
        room = self._console.width - sum(first) - 3 * len(GAP)
        shown = shorten(evaluation, status.monitor, room=room - len(MARK))
        if shown.left:
            shown = shorten(evaluation, status.monitor, room=room - len(MORE))
        names = ("epoch", "step", *shown.names)
        widths = (*first, *(max(9, len(name)) for name in shown.names))
        if names != self._names:
            self._names = names
            head = GAP.join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
            self._say(Text(f"{head}{GAP}{f'… {shown.left:,} more' if shown.left else ''}".rstrip(), style="dim"))
        line = Text()
        for name, cell, width in zip(names, (*places, *(number(evaluation[name]) for name in shown.names)), widths, strict=True):
            line.append(f"{cell:>{width}}", style="bold" if name == status.monitor else "").append(GAP)
        self._say(line.append(MARK, style="green") if best else line)

    def epoch_ended(self) -> None:
        """The place, and as many numbers as fit."""
        line = Text(GAP.join(self._status.where()))
        for _, words in self._status.numbers():
            if len(line) + len(GAP) + len(words) < self._console.width:
                line.append(GAP + words)
        self._say(line)

    def note(self, text: str) -> None:
        first, *others = wrapped(text, min(self._console.width, PROSE) - len("note: ")) or [""]
        line = Text().append("note: ", style="yellow").append(first)
        self._say(line.append("".join(f"\n{' ' * len('note: ')}{other}" for other in others)))

    def flush(self) -> None:
        """Print what waits, of a run that does not start."""
        waiting, self._waiting = self._waiting, []
        with suppress(OSError, ValueError):
            self._console.print(Text("\n").join(waiting))

    def close(self, summary: str) -> None:
        if self._open:
            if summary:
                self._waiting.append(Text(fold(summary, self._console.width), style="bold"))
            self._stop()

    def _say(self, line: Text) -> None:
        with self._lock:
            if self._closing.is_set():
                return
            self._waiting.append(line)
            if time.monotonic() - self._drawn_s >= PAUSE_S:
                self._draw()

    def _keep_drawing(self) -> None:
        while not self._closing.wait(PAUSE_S):
            self._draw()

    def _draw(self) -> None:
        with self._lock:
            if not self._open:
                return  # what was said before the start waits for it
            waiting, self._waiting = self._waiting, []
            self._drawn_s = time.monotonic()
            try:
                if waiting:
                    self._console.print(Text("\n").join(waiting))  # and the live lines under it
                else:
                    self._live.refresh()
            except (OSError, ValueError):  # the terminal is gone. The run goes on.
                self._let_go()

    def _stop(self) -> None:
        """Print what waits and let go."""
        atexit.unregister(self._stop)
        self._closing.set()
        try:
            if self._drawer.is_alive():
                self._drawer.join(timeout=1.0)
            self._draw()
        finally:
            self._let_go()

    def _let_go(self) -> None:
        """Erase the lines, show the cursor, give stdout and stderr back."""
        self._closing.set()
        if self._open:
            self._open = False
            with suppress(OSError, ValueError):
                self._live.stop()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = options.max_width - len(ECHO)
        yield self._place(width, plain=options.ascii_only)
        yield self._numbers(width)

    def _place(self, width: int, *, plain: bool) -> Text:
        """`epoch 3/10  step 412/1,200  ━━━━━╾────────  34%  0:12 left`, the bar as wide as there is room."""
        status, share = self._status, self._status.share
        before = GAP.join(status.where())
        after = GAP.join(filter(None, ["" if share is None else f"{share:4.0%}", f"{status.left():>9}"]))
        room = width - len(before) - len(after) - 2 * len(GAP)
        line = Text(before + GAP, no_wrap=True)
        if share is not None and room >= 5:
            done = int(share * room)
            signs = "##-" if plain else DONE + EDGE + TO_DO
            line.append(signs[0] * done, style="cyan")
            line.append((signs[1] + signs[2] * (room - done - 1))[: room - done], style="bright_black")
            line.append(GAP)
        line.append(after)
        line.truncate(width)
        return line

    def _numbers(self, width: int) -> Text:
        """As many of the numbers as there is room for."""
        line = Text(no_wrap=True)
        for kind, words in self._status.numbers():
            if len(line) + len(GAP) + len(words) > width:
                break
            line.append(GAP if line else "").append(words, style=STYLES[kind])
        return line


def _forget_in_children(terminal: Terminal) -> None:
    """Have a forked child, like a worker that loads data, print where it would without us.

    Its copy of a lock may be held by a drawer that did not come along: to wait for it is to wait for ever.
    """
    reference = weakref.ref(terminal)

    def forget() -> None:
        found = reference()
        if found is not None and found._open:
            found._open = False
            atexit.unregister(found._stop)
            sys.stdout, sys.stderr = found._streams

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=forget)
