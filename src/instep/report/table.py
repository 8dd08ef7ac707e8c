"""Text in columns: what stands on a terminal as well as in a file."""

import textwrap
from collections.abc import Iterable, Sequence

from rich.cells import cell_len

GAP = "  "


def clean(text: str) -> str:
    """The text on one line, without control characters: what is read from a file must not steer the terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()


def columns(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> list[str]:
    """A table as lines. Columns stand to the right, as numbers do, but for those named in `left`."""
    table = [head, *rows]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    pads = [_to_left if name in left else _to_right for name in head]
    return [GAP.join(pad(text, width) for pad, text, width in zip(pads, row, widths, strict=True)).rstrip() for row in table]


def labelled(rows: Iterable[tuple[str, str]], *, width: int) -> list[str]:
    """Lines of `label  text`, with the texts under each other; a long one goes on under itself."""
    rows = [(clean(label), clean(text)) for label, text in rows]
    indent = max((cell_len(label) for label, _ in rows), default=0) + len(GAP)
    lines: list[str] = []
    for label, text in rows:
        first, *others = wrapped(text, max(20, width - indent)) or [""]
        lines.append((_to_left(label, indent) + first).rstrip())
        lines += [" " * indent + other for other in others]
    return lines


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _to_left(text: str, width: int) -> str:
    return text + " " * (width - cell_len(text))


def _to_right(text: str, width: int) -> str:
    return " " * (width - cell_len(text)) + text
