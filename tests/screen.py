"""A command on a pseudo terminal of a given size, and what a person would see there: the signs, their styles, wrapped lines."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from rich.cells import cell_len
from rich.text import Text

ENVIRONMENT = ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE")
CODE = re.compile(r"\x1b\[(\??[0-9;]*)([A-Za-z])")
PATIENCE_S = 240.0
Cell = tuple[str, str]  # a sign and its codes; the second column of a wide sign is ""


@dataclass
class Screen:
    """A terminal that never scrolls away what was written. `wraps` counts signs that did not fit on their line."""

    columns: int
    lines: list[list[Cell]] = field(default_factory=lambda: [[]])
    row: int = 0
    column: int = 0
    style: str = ""
    wraps: int = 0

    def feed(self, text: str) -> None:
        place = 0
        while place < len(text):
            code = CODE.match(text, place)
            if code is None:
                self._sign(text[place])
                place += 1
            else:
                self._steer(code[1], code[2])
                place = code.end()

    def text(self) -> list[str]:
        """What stands there, without empty lines at the end."""
        found = ["".join(sign for sign, _ in line).rstrip() for line in self.lines]
        while found and not found[-1]:
            found.pop()
        return found

    def styled(self) -> list[Text]:
        """The same for rich, with its colours."""
        lines = []
        for line in self.lines[: len(self.text())]:
            lines.append(Text.from_ansi("".join(f"\x1b[0{f';{style}' if style else ''}m{sign}" for sign, style in line)))
        return lines

    def _sign(self, sign: str) -> None:
        if sign == "\n":
            self._go(self.row + 1, self.column)
        elif sign == "\r":
            self.column = 0
        elif sign == "\b":
            self.column = max(0, self.column - 1)
        elif sign.isprintable():
            self._put(sign, cell_len(sign))

    def _put(self, sign: str, width: int) -> None:
        if self.column + width > self.columns:
            self.wraps += 1
            self._go(self.row + 1, 0)
        line = self.lines[self.row]
        line += [(" ", "")] * (self.column + width - len(line))
        line[self.column] = (sign, self.style)
        if width == 2:
            line[self.column + 1] = ("", self.style)
        self.column += width

    def _go(self, row: int, column: int) -> None:
        self.row, self.column = max(0, row), max(0, column)
        while len(self.lines) <= self.row:
            self.lines.append([])

    def _steer(self, said: str, kind: str) -> None:
        count = int(said) if said.isdecimal() else 0
        if kind == "m":
            codes = said or "0"
            self.style = "" if codes == "0" else f"{self.style};{codes}".strip(";") if not codes.startswith("0") else codes[2:]
        elif kind in "AB":
            self._go(self.row + (max(1, count) if kind == "B" else -max(1, count)), self.column)
        elif kind == "K":
            self.lines[self.row][0 if count == 2 else self.column :] = []
        elif kind == "J":
            self.lines[self.row + 1 :] = []
            self.lines[self.row][self.column :] = []
        elif kind not in "hl":
            raise AssertionError(f"the screen does not know \\x1b[{said}{kind}")


@dataclass(frozen=True)
class Shown:
    """What a command left: its exit code, the screen, all that it wrote."""

    code: int
    screen: Screen
    written: str

    @property
    def text(self) -> str:
        return "\n".join(self.screen.text())

    @property
    def has_colour(self) -> bool:
        return any(kind == "m" for _, kind in CODE.findall(self.written))


def show(
    command: Sequence[str] | Callable[[], int],
    *,
    columns: int = 80,
    folder: str | os.PathLike[str] = ".",
    environment: Mapping[str, str] | None = None,
    interrupt_at: str = "",
) -> Shown:
    """Run a command on a terminal with so many columns; it gets a Ctrl-C as soon as it has written `interrupt_at`.

    A function is called in a forked child, which has all modules already, and gives the exit code.
    """
    variables = {name: value for name, value in os.environ.items() if name not in ENVIRONMENT}
    variables |= {"TERM": "xterm-256color", **(environment or {})}
    pid, terminal = pty.fork()
    if not pid:
        try:
            os.chdir(folder)
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
            if callable(command):
                os._exit(_call(command, variables))
            os.execvpe(command[0], list(command), variables)
        finally:
            os._exit(127)
    written, deadline = b"", time.monotonic() + PATIENCE_S
    while piece := _read(terminal, deadline, pid):
        written += piece
        is_quiet = not select.select([terminal], [], [], 0.05)[0]  # a Ctrl-C makes the terminal forget what nobody has read yet
        if interrupt_at and is_quiet and interrupt_at.encode() in written:
            os.write(terminal, b"\x03")
            interrupt_at = ""
    os.close(terminal)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    screen = Screen(columns)
    screen.feed(written.decode(errors="replace"))
    return Shown(code, screen, written.decode(errors="replace"))


def _call(command: Callable[[], int], variables: Mapping[str, str]) -> int:
    os.environ.clear()
    os.environ |= variables
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.stdout, sys.stderr = (os.fdopen(os.dup(fd), "w", encoding="utf-8", buffering=1) for fd in (1, 2))
    code = command()
    sys.stdout.flush()
    return code


def _read(terminal: int, deadline: float, pid: int) -> bytes:
    if not select.select([terminal], [], [], max(0.0, deadline - time.monotonic()))[0]:
        os.kill(pid, signal.SIGKILL)
        return b""
    try:
        return os.read(terminal, 65_536)
    except OSError:  # how a pseudo terminal says that it is over
        return b""
