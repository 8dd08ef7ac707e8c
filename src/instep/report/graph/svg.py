"""A drawing as SVG: one picture with all groups open. Light and dark follow the reader."""

from html import escape
from itertools import pairwise

from instep.report.graph.drawing import MADE_BY, Drawing
from instep.report.graph.layout import LINE, PAD, Level, Rectangle, crossed, levels, place

STYLE = """
text { font: 11.5px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #1d2125; }
.quiet { fill: #5b646d; } rect { fill: #ffffff; stroke: #8a949d; } path { fill: none; stroke: #9aa5af; }
.group > rect { fill: #5b646d; fill-opacity: 0.05; stroke: #c3cad0; } .parameter rect { fill: #d7e9f7; stroke: #0072b2; }
.input rect { fill: #dff3ea; stroke: #009e73; }
.cut rect, .unreached rect { fill: #fdeadd; stroke: #b34700; stroke-dasharray: 4 3; }
.result rect { stroke-width: 2.5; } .first rect, rect.first { stroke: #b34700; stroke-width: 3; }
.second rect, rect.second { stroke: #007a55; stroke-width: 3; }
@media (prefers-color-scheme: dark) {
  text { fill: #e8eaec; } .quiet { fill: #9aa5af; } rect { fill: #1b1f23; } .parameter rect { fill: #10344d; }
  .input rect { fill: #0c3b2d; } .cut rect, .unreached rect { fill: #47240c; }
}
"""
HEADER = 40.0


def svg(drawing: Drawing) -> str:
    """The picture, with a title above it."""
    found = levels(drawing)
    placed = place(drawing, found)
    whole = placed[""]
    width, height = max(whole.width, 8.0 * len(f"{drawing.title}: {drawing.summary}") + 2 * PAD), whole.height + HEADER
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" role="img"><!-- {MADE_BY} -->',
        f"<title>{_text(drawing.title)}</title><style>{STYLE}</style>",
        f'<text x="{PAD}" y="24">{_text(f"{drawing.title}: {drawing.summary}")}</text><g transform="translate(0 {HEADER:.0f})">',
    ]
    parts += [_group(drawing, number, placed) for number in range(len(drawing.groups))]
    parts += [f'<path d="{_path(drawing, found, placed, before, after)}"/>' for before, after in drawing.edges]
    parts += [_box(drawing, number, placed) for number in range(len(drawing.boxes))]
    return "\n".join([*parts, "</g></svg>"]) + "\n"


def _group(drawing: Drawing, number: int, placed: dict[str, Rectangle]) -> str:
    group, at = drawing.groups[number], placed[f"g{number}"]
    text = f'<text class="quiet" x="{at.x + PAD:.1f}" y="{at.y + 17:.1f}">{_text(group.label)}</text>'
    return f'<g class="group">{_rectangle(at, group.mark)}{text}</g>'


def _box(drawing: Drawing, number: int, placed: dict[str, Rectangle]) -> str:
    box, at = drawing.boxes[number], placed[f"n{number}"]
    lines = [f'<text x="{at.x + PAD:.1f}" y="{at.y + LINE:.1f}">{_text(box.label)}</text>']
    if box.detail:
        lines.append(f'<text class="quiet" x="{at.x + PAD:.1f}" y="{at.y + 2 * LINE:.1f}">{_text(box.detail)}</text>')
    return f'<g class="{box.kind} {box.mark}">{_rectangle(at)}{"".join(lines)}</g>'


def _rectangle(at: Rectangle, mark: str = "") -> str:
    said = f' class="{mark}"' if mark else ""
    return f'<rect{said} x="{at.x:.1f}" y="{at.y:.1f}" width="{at.width:.1f}" height="{at.height:.1f}" rx="5"/>'


def _path(drawing: Drawing, found: dict[int | None, Level], placed: dict[str, Rectangle], before: int, after: int) -> str:
    """From the lower edge of a box by the points of its way to the upper edge of the other."""
    start, end = placed[f"n{before}"], placed[f"n{after}"]
    bends = [
        placed[f"{'' if group is None else f'g{group}'} {point}"]
        for group, one, other in crossed(drawing, before, after)
        for point in found[group].edges[one, other]
    ]
    points = [
        (start.x + start.width / 2, start.y + start.height),
        *((bend.x + 1, y) for bend in bends for y in (bend.y, bend.y + bend.height)),
    ]
    points.append((end.x + end.width / 2, end.y))
    text = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        text += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    return text


def _text(text: str) -> str:
    return escape(text)
