"""A drawing as a page: modules that open and close, a search, what is saved in a table. It is laid out anew in the browser."""

from collections.abc import Iterator
from html import escape
from importlib.resources import files
from typing import Any

from instep.report.graph import layout
from instep.report.graph.drawing import MADE_BY, Drawing, shown_size
from instep.report.page.html import fill_template, read_asset
from instep.text import size

MARK = f"<!doctype html>\n<!-- {MADE_BY} -->\n"
AT_FIRST = 80  # boxes that are seen when a page opens; deeper groups are closed
MOST_ROWS = 200


def page(drawing: Drawing) -> str:
    """The page; it needs nothing else, and all names in it are text."""
    script = read_asset("dom.js") + _read("graph.js")
    style = read_asset("page.css") + _read("graph.css")
    return MARK + fill_template(f"{drawing.title} · graph", document(drawing), script=script, style=style, skip="memory")


def fragment(drawing: Drawing) -> str:
    """The page in a frame, for a notebook."""
    frame = '<iframe sandbox="allow-scripts" title="autograd graph" width="100%" height="640"'
    return f'{frame} srcdoc="{escape(page(drawing))}"></iframe>'


def document(drawing: Drawing) -> dict[str, Any]:
    """What the page draws, as JSON."""
    box_sizes, closed_sizes = layout.box_sizes(drawing), layout.closed_sizes(drawing)
    return {
        "title": drawing.title,
        "summary": drawing.summary,
        "notes": drawing.notes,
        "boxes": [
            {
                "kind": box.kind,
                "label": box.label,
                "detail": box.detail,
                "group": box.group,
                "saved": box.saved,
                "mark": box.mark,
                "size": box_size,
            }
            for box, box_size in zip(drawing.boxes, box_sizes, strict=True)
        ],
        "groups": [
            {
                "label": group.label,
                "parent": group.parent,
                "detail": shown_size(group.boxes, group.saved_bytes),
                "mark": group.mark,
                "size": group_size,
            }
            for group, group_size in zip(drawing.groups, closed_sizes, strict=True)
        ],
        "edges": drawing.edges,
        "levels": {
            "" if group is None else f"g{group}": {
                "layers": level.layers,
                "edges": [[*pair, points] for pair, points in level.edges.items()],
            }
            for group, level in layout.levels(drawing).items()
        },
        "closed": _closed_at_first(drawing),
        "memory": list(_memory(drawing)),
        "metrics": {"line": layout.LINE, "pad": layout.PAD, "gapX": layout.GAP_X, "gapY": layout.GAP_Y, "head": layout.HEAD}
        | {"sign": layout.SIGN, "passes": layout.PASSES},
    }


def _closed_at_first(drawing: Drawing) -> list[int]:
    """As many levels are open as show no more than `AT_FIRST` boxes; what a difference marks is open."""
    depth = [0] * len(drawing.groups)
    for place, group in enumerate(drawing.groups):
        depth[place] = 0 if group.parent is None else depth[group.parent] + 1
    of_boxes = [0 if box.group is None else depth[box.group] + 1 for box in drawing.boxes]
    deepest = next((most for most in range(max(of_boxes, default=0), 0, -1) if _seen(of_boxes, depth, most) <= AT_FIRST), 1)
    shown = {place for box in drawing.boxes if box.mark for place in _above(drawing, box.group)}
    return [place for place in range(len(depth)) if depth[place] >= deepest and place not in shown]


def _seen(of_boxes: list[int], depth: list[int], most: int) -> int:
    return sum(one <= most for one in of_boxes) + sum(one == most for one in depth)


def _above(drawing: Drawing, group: int | None) -> Iterator[int]:
    while group is not None:
        yield group
        group = drawing.groups[group].parent


def _memory(drawing: Drawing) -> Iterator[list[Any]]:
    """What is kept for the backward, the largest first: box, module, operation, what it keeps, size, share in percent."""
    total = sum(box.saved_bytes for box in drawing.boxes)
    places = sorted(range(len(drawing.boxes)), key=lambda place: -drawing.boxes[place].saved_bytes)
    for place in places[:MOST_ROWS]:
        box = drawing.boxes[place]
        if box.saved_bytes:
            path = " / ".join(drawing.groups[group].label for group in reversed(list(_above(drawing, box.group))))
            kept = ", ".join(f"{name} {shape}" for name, shape, cost in box.saved if not cost.startswith("0 B"))
            yield [place, path, box.label, kept, size(box.saved_bytes), round(100 * box.saved_bytes / total, 1)]


def _read(name: str) -> str:
    return (files("instep.report.graph") / name).read_text(encoding="utf-8")
