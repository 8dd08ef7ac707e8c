"""The border between Instep and the terminal: every error of a command becomes its last words and its exit code here.

A slip gets one red line. Where the user's own code raised, their traceback stands before it, without the frames of Instep, tyro
and Python's import machinery. An error that comes from Instep alone keeps its whole traceback: that is a bug of ours.
"""

import os
import signal
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Protocol, TextIO

from instep.errors import DescriptionError, InstepError, Interrupted, Notice, is_instep_file, is_user_file
from instep.text import PROSE, fold_for, paint_for, terminal_width, wants_colour

FAILED, WRONG_USE, SIGNALLED = 1, 2, 128
RED, YELLOW = "red", "yellow"


class WrongUse(Exception):
    """The command was used in a way that cannot work. Raised `from` an error of the user's code, that is shown first."""


def run_guarded(command: Callable[[], int]) -> int:
    """The exit code of a command, whatever happens in it."""
    try:
        with _notices_in_one_line():
            code = command()
            with suppress(ValueError, AttributeError):  # a script under the doctor may have closed it, or put nothing there
                sys.stdout.flush()  # a closed pipe is noticed here, not when Python ends
            return code
    except (WrongUse, DescriptionError) as error:
        return _report(error, WRONG_USE)
    except InstepError as error:
        return _report(error, FAILED)
    except KeyboardInterrupt as stop:
        return _report_interrupt(stop)
    except BrokenPipeError:  # `instep runs | head`: the reader has gone, and that is no error
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else 0 if stop.code is None else _report(stop, FAILED)
    except Exception as error:
        print(own_traceback(error), end="", file=sys.stderr)
        say(f"stopped by {_kind(error)}.", RED)
        return FAILED


def say(message: str, style: str, *, who: str = "instep") -> None:
    """A line on stderr, broken at words and in colour where that is a terminal."""
    print(paint_for(sys.stderr)(fold_for(sys.stderr, f"{who}: {message}"), style), file=sys.stderr)


class HasText(Protocol):
    """What has a text for a terminal."""

    def text(self, *, width: int = 80, colour: bool = False) -> str: ...


def in_terminal(shown: HasText) -> str:
    """The text as it fits to where stdout goes."""
    width = min(terminal_width(sys.stdout) or 80, PROSE)
    return shown.text(width=width, colour=wants_colour(sys.stdout))


def own_traceback(error: BaseException) -> str:
    """The traceback of an error from the user's first frame on, without those of Instep; of each error that led to it too."""
    report = traceback.TracebackException.from_exception(error)
    pending: list[traceback.TracebackException | None] = [report]
    while pending:
        link = pending.pop()
        if link is None:
            continue
        pending += [link.__cause__, link.__context__, *(link.exceptions or ())]
        if link.exc_type is not None and issubclass(link.exc_type, SyntaxError):  # says its place itself; no frame is the user's
            link.stack[:] = _without_instep(link.stack)
        else:
            first = next((index for index, frame in enumerate(link.stack) if is_user_file(frame.filename)), None)
            if first is not None:
                link.stack[:] = _without_instep(link.stack[first:])
    return "".join(report.format())


def _without_instep(frames: list[traceback.FrameSummary]) -> list[traceback.FrameSummary]:
    """Nor those of Python's import machinery, and of methods that a dataclass made."""
    made = ("<frozen importlib", "<string>")
    return [frame for frame in frames if not (frame.filename.startswith(made) or is_instep_file(frame.filename))]


def _report(error: BaseException, code: int) -> int:
    if (cause := error.__cause__) is not None:
        text = own_traceback(cause)
        if str(error) == str(cause):  # said by the red line; only the way there is of interest
            text = text.removesuffix("".join(traceback.format_exception_only(cause)))
        print(text, end="", file=sys.stderr)
    say(str(error), RED)
    return code


def _report_interrupt(stop: KeyboardInterrupt) -> int:
    say(str(stop) or "interrupted", YELLOW)
    return SIGNALLED + (stop.signal if isinstance(stop, Interrupted) else signal.SIGINT)


def _kind(error: BaseException) -> str:
    name = type(error).__name__
    return f"an {name}" if name[0] in "AEIO" else f"a {name}"


@contextmanager
def _notices_in_one_line() -> Iterator[None]:
    """A Notice is a sentence for the user: without the file and the source line that Python puts round a warning."""
    shown = warnings.showwarning

    def show(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        file: TextIO | None = None,
        line: str | None = None,
    ) -> None:
        if issubclass(category, Notice):
            say(str(message), YELLOW, who="note")
        else:
            shown(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = shown
