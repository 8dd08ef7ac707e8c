"""A drawing as a tree for the terminal: modules with their boxes, in the order of the forward, and what each saves."""

from collections.abc import Iterator

from instep.report.graph.drawing import Box, Drawing
from instep.text import Paint, plain, size, wrapped

SIGNS = {"parameter": "●", "input": "○", "operation": "·", "cut": "✂", "result": "=", "unreached": "!"}
MARKS = {"": "", "first": "- ", "second": "+ "}
STYLES = {"●": "cyan", "✂": "yellow", "!": "yellow", "=": "bold", "-": "red", "+": "green"}  # by the first sign of a line


def tree(drawing: Drawing, *, width: int = 80, depth: int | None = None, paint: Paint = plain) -> str:
    """Lines of at most `width` columns; modules deeper than `depth` are one line each."""
    lines = [paint(line, "bold") for line in wrapped(f"{drawing.title}: {drawing.summary}", width)]
    below = _below(drawing, _children(drawing), None, "", depth)
    lines += [_line(prefix, text, kept, width, paint) for prefix, text, kept in below]
    for note in drawing.notes:
        first, *others = wrapped(note, width - 2) or [""]
        lines += [paint(line, "yellow") for line in (f"! {first}", *(f"  {other}" for other in others))]
    return "\n".join(lines)


Children = dict[int | None, list[tuple[str, int]]]


def _children(drawing: Drawing) -> Children:
    """What stands in each group, None for outside: boxes and groups, in the order of the first box of each."""
    found: Children = {None: []}
    seen: set[int] = set()
    for place, box in enumerate(drawing.boxes):
        path, group = [], box.group
        while group is not None:
            path.append(group)
            group = drawing.groups[group].parent
        for inner in reversed(path):
            if inner not in seen:
                seen.add(inner)
                found.setdefault(drawing.groups[inner].parent, []).append(("group", inner))
        found.setdefault(box.group, []).append(("box", place))
    return found


def _below(
    drawing: Drawing, children: Children, group: int | None, indent: str, depth: int | None
) -> Iterator[tuple[str, str, int]]:
    inside = children.get(group, [])
    for number, (kind, place) in enumerate(inside):
        is_last = number == len(inside) - 1
        branch = indent + ("└ " if is_last else "├ ")
        if kind == "box":
            box = drawing.boxes[place]
            yield branch, MARKS[box.mark] + _box_text(box), box.saved_bytes
            continue
        one = drawing.groups[place]
        yield branch, MARKS[one.mark] + one.label, one.saved_bytes
        if depth is None or depth > 1:
            deeper = indent + ("  " if is_last else "│ ")
            yield from _below(drawing, children, place, deeper, None if depth is None else depth - 1)


def _box_text(box: Box) -> str:
    detail = box.detail.partition(", saves ")[0]
    return f"{SIGNS[box.kind]} {box.label}  {detail}".rstrip()


def _line(prefix: str, text: str, kept: int, width: int, paint: Paint) -> str:
    """What is saved stands at the right edge."""
    from rich.cells import cell_len, set_cell_size

    said = size(kept) if kept else ""
    prefix = prefix[: width // 2]  # of modules that are very deep
    room = width - len(prefix) - (len(said) + 1 if said else 0)
    if cell_len(text) > room:
        text = set_cell_size(text, room - 1).rstrip() + "…"
    gap = " " * (room + 1 - cell_len(text)) if said else ""
    return f"{paint(prefix, 'dim')}{paint(text, STYLES.get(text[:1], ''))}{gap}{paint(said, 'dim')}"
