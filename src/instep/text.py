"""Text for people: numbers, lists of names, tables and curves, as they stand in messages, on terminals and in files."""

import math
import os
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TextIO

GAP = "  "
BARS = "▁▂▃▄▅▆▇█"
BROKEN = "×"  # an inf or a nan is somewhere in here
LEAST, NAME = 8, 20  # columns that a text keeps in a table that is too wide, and its first text before other columns go
PROSE = 120  # columns, beyond which a paragraph is hard to read
CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
PLAIN = "\x1b[0m"

Paint = Callable[[str, str], str]  # gives the text in a style


def plain(text: str, style: str) -> str:
    """The text as it is: the `Paint` where there are no colours."""
    return text


def coloured(text: str, style: str) -> str:
    """The text in a style like "bold" or "bold cyan", by the codes of a terminal."""
    codes = ";".join(CODES[name] for name in style.split())
    return f"\x1b[{codes}m{text}{PLAIN}" if text and codes else text


def paint_for(stream: TextIO | None) -> Paint:
    """How to paint what goes there."""
    return coloured if wants_colour(stream) else plain


def is_terminal(stream: TextIO) -> bool:
    """Also of streams that somebody made and that cannot say it, and of those that are closed."""
    try:
        return stream.isatty()
    except (AttributeError, ValueError):
        return False


def wants_colour(stream: TextIO | None) -> bool:
    """Whether colours are welcome there. NO_COLOR declines them everywhere, then FORCE_COLOR and CLICOLOR_FORCE ask for them.

    Without these, a terminal has them that is not dumb, unless CLICOLOR is 0.
    """
    said = os.environ.get
    if stream is None or said("NO_COLOR"):
        return False
    forced = said("FORCE_COLOR") or said("CLICOLOR_FORCE")
    if forced:
        return forced != "0"
    return is_terminal(stream) and said("TERM") not in ("dumb", "unknown") and said("CLICOLOR") != "0"


def terminal_width(stream: TextIO | None) -> int | None:
    """How many columns the terminal there has, or as many as COLUMNS says; None for a file, whose lines have any length."""
    if stream is None or not is_terminal(stream):
        return None
    said = os.environ.get("COLUMNS", "")
    if said.isdecimal() and int(said):
        return int(said)
    try:
        return os.get_terminal_size(stream.fileno()).columns or 80
    except (OSError, ValueError, AttributeError):  # it only looks like a terminal
        return 80


def number(value: float | None) -> str:
    """A loss or a metric, to 4 significant digits: 0.1234, 12.30, 1.234e-05."""
    return "-" if value is None else f"{value:#.4g}".removesuffix(".")


def rate(value: float) -> str:
    """A learning rate, to 3 significant digits: 0.003, 1.2e-05."""
    return f"{value:.3g}"


def many(count: float) -> str:
    """How many, to 3 significant digits: 532, 12.3k, 4.56M."""
    for unit in ("", "k", "M", "G"):
        if count < 999.5 or unit == "G":
            break
        count /= 1000
    digits = 0 if count >= 99.95 or (unit == "" and count == round(count)) else 1 if count >= 9.995 else 2
    return f"{count:.{digits}f}{unit}"


def duration(seconds: float) -> str:
    """How long: 0:07, 1:23, 1:02:03, 2d 3h."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= 48:
        return f"{hours // 24}d {hours % 24}h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def age(seconds: float) -> str:
    """How long ago, in one unit: 5 s, 12 min, 3 h, 4 days."""
    for unit, length in (("days", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 2 * length or (unit != "days" and seconds >= length):
            return f"{int(seconds // length)} {unit}"
    return f"{max(0, int(seconds))} s"


def size(length_bytes: float) -> str:
    """How large: 532 B, 12.3 kB, 4.56 MB."""
    short = many(length_bytes)
    return f"{short} B" if short[-1].isdigit() else f"{short[:-1]} {short[-1]}B"


def plural(count: int, noun: str) -> str:
    """How many of what: 1 epoch, 2 epochs, 1,200 samples."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def listed(names: Iterable[object], most: int = 8) -> str:
    """The first few of many names: a, b, c and 4 more."""
    shown = [str(name) for name in names]
    return ", ".join(shown[:most]) + (f" and {len(shown) - most:,} more" if len(shown) > most else "")


def cut(value: object, most: int = 60) -> str:
    """A value in at most so many characters."""
    shown = str(value)
    return shown if len(shown) <= most else f"{shown[: most - 3]}…"


def clean(text: str) -> str:
    """The text on one line, without control characters: what is read from a file must not steer the terminal."""
    return "".join(sign if sign.isprintable() else " " for sign in text).strip()


def columns(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    left: Sequence[str] = (),
    width: int | None = None,
    optional: Sequence[str] = (),
    paint: Paint = plain,
    styles: Mapping[str, Callable[[str], str]] = {},
) -> list[str]:
    """A table as lines, at most `width` columns wide where that can be: those named in `optional` go, then texts are shortened.

    Columns stand to the right, as numbers do, but for those named in `left`, which hold the texts. The head is dim; `styles`
    says by the name of a column how a cell of it is painted.
    """
    from rich.cells import cell_len  # knows signs that are two columns wide

    table = [list(head), *map(list, rows)]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    if width is not None:
        for name in optional:
            given_way = [min(taken, NAME) if one in left[:1] else taken for one, taken in zip(head, widths, strict=True)]
            if sum(given_way) + len(GAP) * (len(widths) - 1) > width:
                place = table[0].index(name)
                head, widths = (*head[:place], *head[place + 1 :]), widths[:place] + widths[place + 1 :]
                table = [row[:place] + row[place + 1 :] for row in table]
        narrow = _narrowed(widths, [index for index, name in enumerate(head) if name in left], width)
        table = [[shorten_middle(text, most) for text, most in zip(row, narrow, strict=True)] for row in table]
        widths = narrow
    pads = [_to_left if name in left else _to_right for name in head]
    lines = [[pad(text, most, cell_len(text)) for pad, text, most in zip(pads, row, widths, strict=True)] for row in table]
    told = [paint(GAP.join(lines[0]).rstrip(), "dim")]
    for cells, texts in zip(lines[1:], table[1:], strict=True):
        cells[-1] = cells[-1].rstrip()
        looks = [styles[name](text) if name in styles else "" for name, text in zip(head, texts, strict=True)]
        told.append(GAP.join(paint(cell, look) if look else cell for cell, look in zip(cells, looks, strict=True)).rstrip())
    return told


def _narrowed(widths: Sequence[int], texts: Sequence[int], width: int) -> list[int]:
    """The widths with the widest of the texts made narrower, until all fit or none can give more."""
    found = list(widths)
    over = sum(found) + len(GAP) * (len(found) - 1) - width
    while over > 0 and texts and found[widest := max(texts, key=found.__getitem__)] > LEAST:
        found[widest] -= 1
        over -= 1
    return found


def shorten_middle(text: str, most: int) -> str:
    """The text in at most so many columns of a terminal: what is left out of its middle is a …; names differ at their ends.

    >>> shorten_middle("sweep/lr-0.001/seed-3", 15)
    'sweep/l…/seed-3'
    """
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= most:
        return text
    end = (most - 1) // 2
    tail = text[len(text) - end :] if end else ""
    while cell_len(tail) > end:
        tail = tail[1:]
    return f"{set_cell_size(text, most - 1 - cell_len(tail)).rstrip()}…{tail}"


def fold(text: str, width: int) -> str:
    """The text with its long lines broken at words; each goes on under the last column that two spaces begin.

    >>> print(fold("  --json FILE  write the findings there", 36))
      --json FILE  write the findings
                   there
    """
    return "\n".join(part for line in text.split("\n") for part in _folded(line, width))


def fold_for(stream: TextIO | None, text: str) -> str:
    """The text folded to the terminal that it goes to; as it is where there is none."""
    width = terminal_width(stream)
    return text if width is None else fold(text, min(width, PROSE))


def _folded(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    start = line.rfind(GAP) + len(GAP) if GAP in line else 0
    indent = start if start < width - NAME else len(line) - len(line.lstrip())
    folded = textwrap.wrap(line[indent:], max(LEAST, width - indent), break_long_words=False, break_on_hyphens=False)
    return [line[:indent] + folded[0], *(" " * indent + part for part in folded[1:])] if folded else [line]


def labelled(rows: Iterable[tuple[str, str]], *, width: int, paint: Paint = plain) -> list[str]:
    """Lines of `label  text`, with the texts under each other; a long one goes on under itself."""
    from rich.cells import cell_len

    rows = [(clean(label), clean(text)) for label, text in rows]
    indent = max((cell_len(label) for label, _ in rows), default=0) + len(GAP)
    lines: list[str] = []
    for label, text in rows:
        first, *others = textwrap.wrap(text, max(NAME, width - indent), break_on_hyphens=False) or [""]
        lines.append((paint(_to_left(label, indent, cell_len(label)), "dim") + first).rstrip())
        lines += [" " * indent + other for other in others]
    return lines


def wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)


def _to_left(text: str, width: int, taken: int) -> str:
    return text + " " * (width - taken)


def _to_right(text: str, width: int, taken: int) -> str:
    return " " * (width - taken) + text


def sparkline(values: Sequence[float], width: int, *, low: float | None = None) -> str:
    """The values from the lowest (or `low`) to the highest bar; of more than `width`, each bar is the mean of its stretch."""
    bars = [_mean(stretch) for stretch in _stretches(values, width)]
    finite = [bar for bar in bars if math.isfinite(bar)]
    high = max(finite, default=0.0)
    if low is not None and high <= low:
        return BARS[0] * len(bars)
    low = min(finite, default=0.0) if low is None else low
    return "".join(_bar(bar, low, high) for bar in bars)


def bar(share: float, width: int) -> str:
    """A share of the largest as a bar of at most `width` characters; whatever is more than nothing can be seen."""
    return "█" * max(int(share > 0), round(share * width))


def _stretches(values: Sequence[float], width: int) -> list[Sequence[float]]:
    count = min(width, len(values))
    cuts = [len(values) * index // count for index in range(count + 1)] if count > 0 else [0]
    return [values[start:end] for start, end in pairwise(cuts)]


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values) if all(map(math.isfinite, values)) else math.nan


def _bar(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return BROKEN
    if high == low:
        return BARS[len(BARS) // 2]
    return BARS[min(len(BARS) - 1, int((value - low) / (high - low) * len(BARS)))]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word that was probably meant; None where none is close."""
    import difflib

    flat = {name.replace("_", ""): name for name in known}
    found = difflib.get_close_matches(word.replace("_", "").lower(), flat, n=1, cutoff=0.75)
    return flat[found[0]] if found else None
