"""Text for people: numbers, lists of names, tables and curves, as they stand in messages, on terminals and in files."""

import math
import textwrap
from collections.abc import Iterable, Sequence
from itertools import pairwise

GAP = "  "
BARS = "▁▂▃▄▅▆▇█"
BROKEN = "×"  # an inf or a nan is somewhere in here


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


def columns(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = ()) -> list[str]:
    """A table as lines. Columns stand to the right, as numbers do, but for those named in `left`."""
    from rich.cells import cell_len  # knows signs that are two columns wide

    table = [head, *rows]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(head))]
    pads = [_to_left if name in left else _to_right for name in head]
    return [
        GAP.join(pad(text, width, cell_len(text)) for pad, text, width in zip(pads, row, widths, strict=True)).rstrip()
        for row in table
    ]


def labelled(rows: Iterable[tuple[str, str]], *, width: int) -> list[str]:
    """Lines of `label  text`, with the texts under each other; a long one goes on under itself."""
    from rich.cells import cell_len

    rows = [(clean(label), clean(text)) for label, text in rows]
    indent = max((cell_len(label) for label, _ in rows), default=0) + len(GAP)
    lines: list[str] = []
    for label, text in rows:
        first, *others = wrapped(text, max(20, width - indent)) or [""]
        lines.append((_to_left(label, indent, cell_len(label)) + first).rstrip())
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
