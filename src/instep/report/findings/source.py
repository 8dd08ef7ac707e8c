"""The lines of source round a place that a finding names."""

import linecache
import os
from dataclasses import dataclass
from pathlib import Path

BEFORE, AFTER = 4, 3  # lines that are shown round it


@dataclass(frozen=True)
class Excerpt:
    """Some lines of a file, the first of which has the number `first`; `marked` is the number of the line that is meant."""

    first: int
    marked: int
    lines: tuple[str, ...]

    @property
    def numbered(self) -> list[tuple[int, str, bool]]:
        """Each line with its number, and whether it is the one."""
        return [(number, line, number == self.marked) for number, line in enumerate(self.lines, self.first)]


def read_excerpt(where: str | None, folder: Path) -> Excerpt | None:
    """Those round `file:line`, as seen from a folder; None where there is no such line. Cells of notebooks are found too."""
    file, _, number = (where or "").rpartition(":")
    if not file or not number.isdigit():
        return None
    lines = linecache.getlines(os.path.join(folder, file)) or linecache.getlines(file)
    marked = int(number)
    if not 1 <= marked <= len(lines):
        return None
    first = max(1, marked - BEFORE)
    chosen = [line.rstrip("\n") for line in lines[first - 1 : marked + AFTER]]
    while len(chosen) > 1 and first < marked and not chosen[0].strip():
        chosen, first = chosen[1:], first + 1
    while first + len(chosen) - 1 > marked and not chosen[-1].strip():
        chosen.pop()
    return Excerpt(first, marked, tuple(chosen))
