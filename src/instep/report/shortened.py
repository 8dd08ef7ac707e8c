"""Which of many numbers are shown: of a metric that has one for each class the first few, and what there is room for."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

MOST = 4  # numbers of one metric that are all shown
FIRST = 2  # that are shown of more
NUMBER = 9  # columns that a number takes
GAP = 2


class Shortened(NamedTuple):
    """The names to show, and how many there are besides."""

    names: list[str]
    left: int

    @property
    def rest(self) -> str:
        return f"… {self.left:,} more in the history" if self.left else ""


def shorten(names: Iterable[str], keep: str = "", *, room: int | None = None) -> Shortened:
    """The names without most of those that are parts of one metric; `keep` stays in any case. `room` is for columns
    beside each other in a terminal, each as wide as its name: those that do not fit are left out.

    >>> shorten(["valid/loss", *(f"valid/f1_per_class/{label}" for label in range(10))])
    Shortened(names=['valid/loss', 'valid/f1_per_class/0', 'valid/f1_per_class/1'], left=8)
    >>> shorten(["train/loss", "valid/loss", "valid/accuracy"], "valid/accuracy", room=27)
    Shortened(names=['train/loss', 'valid/accuracy'], left=1)
    """
    names = list(names)
    parts = defaultdict(list)
    for name in names:
        parts[name.rpartition("/")[0]].append(name)
    # The numbers of a data set have a loss among them, those of one metric have none.
    many = [found for of, found in parts.items() if "/" in of and len(found) > MOST and f"{of}/loss" not in found]
    hidden = {name for found in many for name in found[FIRST:]} - {keep}
    shown = _within([name for name in names if name not in hidden], keep, room)
    return Shortened(shown, len(names) - len(shown))


def _within(names: list[str], keep: str, room: int | None) -> list[str]:
    if room is None:
        return names
    left = room + GAP - (_width(keep) if keep in names else 0)
    shown = []
    for name in names:
        left -= 0 if name == keep else _width(name)
        if name == keep or left >= 0:
            shown.append(name)
    return shown


def _width(name: str) -> int:
    return max(NUMBER, len(name)) + GAP
