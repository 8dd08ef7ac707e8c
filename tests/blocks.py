"""The blocks of Python in a page: which of them run together, what each prints, and what the page says that it prints.

A block marked `continued` goes on where the one before ended; one marked `extras` needs packages that only `make test-extras`
has. A block ```` ```text output ```` right after it is what it prints.
"""

import contextlib
import io
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

BLOCK = re.compile(r"```python((?: extras| continued)*)\n(.*?)```(?:\n+```text output\n(.*?)```)?", re.DOTALL)
NUMBER = re.compile(r"-?\d+(?:,\d{3})*(?:\.\d+)?(?:e[-+]?\d+)?")


@dataclass
class Blocks:
    """Blocks that run one after another with the same names, each with the output that the page shows of it, if it does."""

    page: Path
    pieces: list[tuple[str, str | None]] = field(default_factory=list)
    needs_extras: bool = False

    def run(self) -> tuple[dict[str, Any], list[str]]:
        """All names that they define, and what each block prints."""
        names: dict[str, Any] = {"__name__": "page"}
        said = []
        for code, _ in self.pieces:
            with contextlib.redirect_stdout(io.StringIO()) as output:
                exec(compile(code, str(self.page), "exec"), names)
            said.append(output.getvalue())
        return names, said

    def check(self) -> dict[str, Any]:
        """Run them; they print something, and what the page shows. All names that they define."""
        names, said = self.run()
        assert "".join(said), self.page
        for (_, shown), output in zip(self.pieces, said, strict=True):
            assert shown is None or not differs(output, shown), differs(output, shown)
        return names


def blocks(page: Path) -> list[Blocks]:
    found: list[Blocks] = []
    for marks, code, output in BLOCK.findall(page.read_text(encoding="utf-8")):
        if "continued" not in marks:
            found.append(Blocks(page))
        found[-1].pieces.append((code, output or None))
        found[-1].needs_extras |= "extras" in marks
    return found


def differs(said: str, shown: str) -> str:
    """How what a block printed differs from what the page shows; "" where it does not.

    Words and whole numbers are equal. Of a number with decimals the last digit may be one more or less: another processor
    rounds in other places.
    """
    lines, expected = said.rstrip().splitlines(), shown.rstrip().splitlines()
    if len(lines) != len(expected):
        return f"{len(lines)} lines instead of {len(expected)}:\n{said}"
    for line, wanted in zip(lines, expected, strict=True):
        if NUMBER.sub("#", line.rstrip()) != NUMBER.sub("#", wanted.rstrip()):
            return f"{line!r} instead of {wanted!r}"
        for number, other in zip(NUMBER.findall(line), NUMBER.findall(wanted), strict=True):
            if not is_close(number, other):
                return f"{line!r} instead of {wanted!r}: {number} is not {other}"
    return ""


def is_close(number: str, other: str) -> bool:
    if number == other:
        return True
    mantissa, _, exponent = other.partition("e")
    digits = len(mantissa.partition(".")[2])
    if not digits:
        return False
    last = 10.0 ** (int(exponent or 0) - digits)
    return abs(float(number.replace(",", "")) - float(other.replace(",", ""))) < 1.5 * last
