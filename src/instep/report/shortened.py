"""Which of many numbers are shown: of a metric that has one for each class the first few, of all others all."""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

MOST = 4  # numbers of one metric that are all shown
FIRST = 2  # that are shown of more


class Shortened(NamedTuple):
    """The names to show, and how many there are besides."""

    names: list[str]
    left: int

    @property
    def rest(self) -> str:
        return f"… {self.left:,} more in the history" if self.left else ""


def shorten(names: Iterable[str], keep: str = "") -> Shortened:
    """The names without most of those that are parts of one metric; `keep` stays in any case.

    >>> shorten(["valid/loss", *(f"valid/f1_per_class/{label}" for label in range(10))])
    Shortened(names=['valid/loss', 'valid/f1_per_class/0', 'valid/f1_per_class/1'], left=8)
    """
    names = list(names)
    parts = defaultdict(list)
    for name in names:
        parts[name.rpartition("/")[0]].append(name)
    # The numbers of a data set have a loss among them, those of one metric have none.
    many = [found for of, found in parts.items() if "/" in of and len(found) > MOST and f"{of}/loss" not in found]
    hidden = {name for found in many for name in found[FIRST:]} - {keep}
    return Shortened([name for name in names if name not in hidden], len(hidden))
