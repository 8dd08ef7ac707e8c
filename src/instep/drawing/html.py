"""Pieces of HTML, as notebooks show them: no script, no style sheet, the page's own colours. All text becomes text."""

from collections.abc import Collection, Iterable, Sequence
from html import escape
from typing import Any

from instep.drawing.chart import Chart
from instep.drawing.svg import draw

MOST_CLASSES = 20  # of a confusion matrix that is shown


def block(*parts: str) -> str:
    return f"<div>{''.join(parts)}</div>"


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>" if text else ""


def pictures(charts: Sequence[Chart]) -> str:
    """Beside each other where there is room."""
    return "".join(map(draw, charts))


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, left: Sequence[str] = (), bold: Collection[int] = ()) -> str:
    """A table. Columns stand to the right, as numbers do, but for those named in `left`; `bold` are places of rows."""
    sides = ["left" if name in left else "right" for name in head]
    body = "".join(_row("td", row, sides, bold=place in bold) for place, row in enumerate(rows))
    return f"<table><thead>{_row('th', head, sides)}</thead><tbody>{body}</tbody></table>"


def _row(tag: str, cells: Sequence[str], sides: Sequence[str], *, bold: bool = False) -> str:
    shown = "".join(f'<{tag} style="text-align: {side}">{escape(cell)}</{tag}>' for cell, side in zip(cells, sides, strict=True))
    return f'<tr style="font-weight: bold">{shown}</tr>' if bold else f"<tr>{shown}</tr>"


def confusion_matrix(name: str, matrix: Sequence[Any]) -> str:
    """The counts, a row for each class that is there, the darker the larger its share of the row; "" for one of labels."""
    if not matrix or len(matrix) > MOST_CLASSES or isinstance(matrix[0][0], list):
        return ""
    head = "".join(f"<th>{place}</th>" for place in range(len(matrix)))
    rows = "".join(
        f"<tr><th>{place}</th>{''.join(_share_cell(count, sum(row)) for count in row)}</tr>" for place, row in enumerate(matrix)
    )
    words = f"{name}: a row for each class that is there, a column for each that was chosen"
    return f"{paragraph(words)}<table><thead><tr><th></th>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _share_cell(count: int, total: int) -> str:
    share = count / total if total else 0.0
    return f'<td style="text-align: right; background: rgba(42, 122, 184, {0.6 * share:.2f})">{count:,}</td>'
