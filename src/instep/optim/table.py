"""A small table as lines of text, for the listings of this room."""

from collections.abc import Iterable, Sequence


def columns(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str]) -> list[str]:
    """Columns stand to the right, as numbers do, but for those named in `left`."""
    table = [head, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(head))]
    lines = []
    for row in table:
        cells = [
            text.ljust(width) if name in left else text.rjust(width) for name, text, width in zip(head, row, widths, strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def shortened(names: Sequence[str], most: int = 4) -> str:
    """The first few of many names."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
