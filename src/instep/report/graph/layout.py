"""Layout: layers and orders for boxes in groups in groups, then coordinates. Needs no other program.

Each group is laid out by itself, its groups being boxes to it. So the order inside of a group does not depend on which groups are
open: it is worked out once, here, and the page only computes coordinates again when a group is opened or closed (`place` in
graph.js is the same as here). Layers go by the longest path, orders by the mean place of the neighbours, and coordinates are, for
a given order, the least squares to the mean of the neighbours.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from instep.report.graph.drawing import Drawing, shown_size

SIGN, LINE, PAD = 7.0, 16.0, 10.0  # a character's width, a line's height, the room around a text
GAP_X, GAP_Y, HEAD = 18.0, 26.0, 24.0  # between boxes, between layers, for the name of a group
SWEEPS, PASSES = 6, 4
BENDS = 6_000  # points of long edges in a group; with more, they are drawn straight

Item = str  # "n3" a box, "g2" a group, "b7" a point where a long edge passes a layer


@dataclass(frozen=True)
class Level:
    """The inside of a group: its layers from top to bottom, and its edges, with the points by which they pass layers.

    An edge that comes from outside of the group begins at "", one that leaves it ends there.
    """

    layers: tuple[tuple[Item, ...], ...]
    edges: dict[tuple[Item, Item], tuple[Item, ...]]


@dataclass(frozen=True)
class Rectangle:
    x: float
    y: float
    width: float
    height: float


def levels(drawing: Drawing) -> dict[int | None, Level]:
    """The order inside of every group; None for what stands outside of all."""
    items: dict[int | None, list[Item]] = {None: []}
    for place, group in enumerate(drawing.groups):
        items.setdefault(place, [])
        items.setdefault(group.parent, []).append(f"g{place}")
    for place, box in enumerate(drawing.boxes):
        items[box.group].append(f"n{place}")
    edges: dict[int | None, dict[tuple[Item, Item], None]] = {group: {} for group in items}
    for before, after in drawing.edges:
        for where, one, other in crossed(drawing, before, after):
            edges[where][one, other] = None
    return {where: _level(found, list(edges[where])) for where, found in items.items()}


def crossed(drawing: Drawing, before: int, after: int) -> list[tuple[int | None, Item, Item]]:
    """The groups that an edge crosses on its way, and between what it runs in each: out of some, over, and into others."""
    first, second = ([*_groups_of(drawing, place), f"n{place}"] for place in (before, after))
    depth = next(depth for depth, (one, other) in enumerate(zip(first, second, strict=False)) if one != other)
    out = [(int(first[at - 1][1:]), first[at], "") for at in range(len(first) - 1, depth, -1)]
    into = [(int(second[at - 1][1:]), "", second[at]) for at in range(depth + 1, len(second))]
    common = int(first[depth - 1][1:]) if depth else None
    return [*out, (common, first[depth], second[depth]), *into]


def _groups_of(drawing: Drawing, place: int) -> list[Item]:
    found: list[Item] = []
    group = drawing.boxes[place].group
    while group is not None:
        found.append(f"g{group}")
        group = drawing.groups[group].parent
    return found[::-1]


def _level(items: Sequence[Item], edges: Sequence[tuple[Item, Item]]) -> Level:
    layer = _layers(items, [(one, other) for one, other in edges if one and other])
    rows: list[list[Item]] = [[] for _ in range(max(layer.values(), default=-1) + 1)]
    for item in items:
        rows[layer[item]].append(item)
    routes, links = _routes(edges, layer, rows)
    before: dict[Item, list[Item]] = {}
    after: dict[Item, list[Item]] = {}
    for one, other in links:
        after.setdefault(one, []).append(other)
        before.setdefault(other, []).append(one)
    for sweep in range(SWEEPS):
        downwards = sweep % 2 == 0
        _sort(rows if downwards else rows[::-1], before if downwards else after)
    return Level(tuple(map(tuple, rows)), routes)


def _layers(items: Sequence[Item], edges: Sequence[tuple[Item, Item]]) -> dict[Item, int]:
    """The longest path to each item; what comes from leaves alone, as a transposed weight does, stands right above its user."""
    after: dict[Item, list[Item]] = {item: [] for item in items}
    before: dict[Item, list[Item]] = {item: [] for item in items}
    for one, other in edges:
        after[one].append(other)
        before[other].append(one)
    waits = {item: len(before[item]) for item in items}
    layer = dict.fromkeys(items, 0)
    ready, left = [item for item in items if not waits[item]], dict.fromkeys(items)
    done: dict[Item, None] = {}
    while left:
        item = ready.pop() if ready else next(iter(left))  # two graphs over each other may have a circle
        left.pop(item, None)
        if item in done:
            continue
        done[item] = None
        for other in after[item]:
            if other in done:
                continue
            layer[other] = max(layer[other], layer[item] + 1)
            waits[other] -= 1
            if not waits[other]:
                ready.append(other)
    movable: set[Item] = set()
    for item in done:
        if all(one in movable and len(after[one]) == 1 for one in before[item]):
            movable.add(item)
    for item in reversed(done):
        if item in movable and after[item]:
            layer[item] = max(0, min(layer[other] for other in after[item]) - 1)
    return layer


def _routes(
    edges: Sequence[tuple[Item, Item]], layer: dict[Item, int], rows: list[list[Item]]
) -> tuple[dict[tuple[Item, Item], tuple[Item, ...]], list[tuple[Item, Item]]]:
    """The points of each edge, which are put into the rows that it passes; and all links between neighbouring rows."""
    routes: dict[tuple[Item, Item], tuple[Item, ...]] = {}
    links: list[tuple[Item, Item]] = []
    bends = 0
    passed = {(one, other): range(layer.get(one, -1) + 1, layer.get(other, len(rows))) for one, other in edges}
    has_room = sum(map(len, passed.values())) <= BENDS
    for one, other in edges:
        points: list[Item] = []
        for row in passed[one, other] if has_room else ():
            points.append(f"b{bends}")
            rows[row].append(points[-1])
            bends += 1
        routes[one, other] = tuple(points)
        links += _chain(one, points, other)
    return routes, links


def _chain(one: Item, points: Sequence[Item], other: Item) -> Iterable[tuple[Item, Item]]:
    return pairwise([item for item in (one, *points, other) if item])


def _sort(rows: Iterable[list[Item]], neighbours: dict[Item, list[Item]]) -> None:
    """Each row by the mean place of its neighbours in the rows before."""
    places: dict[Item, float] = {}
    for row in rows:
        middle = (len(row) - 1) / 2
        wishes = {}
        for place, item in enumerate(row):
            known = [places[other] for other in neighbours.get(item, ()) if other in places]
            wishes[item] = sum(known) / len(known) if known else place - middle
        row.sort(key=wishes.__getitem__)
        places |= {item: place - middle for place, item in enumerate(row)}


# --- Coordinates


def box_sizes(drawing: Drawing) -> list[tuple[float, float]]:
    return [_text_size(box.label, box.detail) for box in drawing.boxes]


def closed_sizes(drawing: Drawing) -> list[tuple[float, float]]:
    """How large groups are while they are closed."""
    return [_text_size(f"▸ {group.label}", shown_size(group.boxes, group.saved_bytes)) for group in drawing.groups]


def _text_size(*lines: str) -> tuple[float, float]:
    shown = [line for line in lines if line]
    return max(map(len, shown), default=1) * SIGN + 2 * PAD, len(shown) * LINE + PAD


def place(drawing: Drawing, found: dict[int | None, Level], closed: frozenset[int] = frozenset()) -> dict[Item, Rectangle]:
    """Where everything is that can be seen. Points of edges of a group are named with it: "g2 b7", " b7" outside of all."""
    sizes, shut = box_sizes(drawing), closed_sizes(drawing)

    def inside(group: int | None) -> tuple[float, float, dict[Item, Rectangle]]:
        """The size of a group, and what is in it, seen from its corner."""
        level = found[group]
        boxes: dict[Item, tuple[float, float]] = {}
        inner: dict[Item, dict[Item, Rectangle]] = {}
        for item in (item for row in level.layers for item in row):
            number = int(item[1:])
            if item[0] == "g" and number not in closed:
                width, height, inner[item] = inside(number)
                boxes[item] = width, height
            else:
                boxes[item] = (2.0, 0.0) if item[0] == "b" else sizes[number] if item[0] == "n" else shut[number]
        centres = _centres(level, boxes)
        left = min((centres[item] - boxes[item][0] / 2 for item in boxes), default=0.0)
        placed: dict[Item, Rectangle] = {}
        head = 0.0 if group is None else HEAD
        y, right = head + PAD, 0.0
        for row in level.layers:
            tall = max((boxes[item][1] for item in row), default=0.0)
            for item in row:
                width, height = boxes[item]
                x, top = centres[item] - width / 2 - left + PAD, y + min((tall - height) / 2, PAD)
                if item[0] == "b":  # an edge passes the whole layer
                    top, height = y, tall
                key = f"{'' if group is None else f'g{group}'} {item}" if item[0] == "b" else item
                placed[key] = Rectangle(x, top, width, height)
                for other, at in inner.get(item, {}).items():
                    placed[other] = Rectangle(at.x + x, at.y + top, at.width, at.height)
                right = max(right, x + width)
            y += tall + GAP_Y
        own = 0.0 if group is None else len(drawing.groups[group].label) * SIGN + 40
        return max(right + PAD, own), y - GAP_Y + PAD, placed

    width, height, placed = inside(None)
    return {"": Rectangle(0, 0, width, height), **placed}


def _centres(level: Level, boxes: dict[Item, tuple[float, float]]) -> dict[Item, float]:
    neighbours: list[dict[Item, list[Item]]] = [{}, {}]
    for (one, other), points in level.edges.items():
        for upper, lower in _chain(one, points, other):
            neighbours[0].setdefault(lower, []).append(upper)
            neighbours[1].setdefault(upper, []).append(lower)
    centres = dict.fromkeys(boxes, 0.0)
    for row in level.layers:
        _settle(row, boxes, [0.0] * len(row), centres)
    for turn in range(PASSES):
        near = neighbours[turn % 2]
        for row in level.layers if turn % 2 == 0 else level.layers[::-1]:
            wishes = []
            for item in row:
                known = near.get(item, ())
                wishes.append(sum(centres[other] for other in known) / len(known) if known else centres[item])
            _settle(row, boxes, wishes, centres)
    return centres


def _settle(row: Sequence[Item], boxes: dict[Item, tuple[float, float]], wishes: list[float], centres: dict[Item, float]) -> None:
    """The centres of a row nearest to what is wished, without overlaps: neighbours that would meet move together."""
    offsets, offset = [], 0.0
    for place, item in enumerate(row):
        if place:
            offset += (boxes[row[place - 1]][0] + boxes[item][0]) / 2 + GAP_X
        offsets.append(offset)
    blocks: list[tuple[float, int]] = []  # of each the sum of what is wished, and how many it has
    for wish, offset in zip(wishes, offsets, strict=True):
        total, count = wish - offset, 1
        while blocks and blocks[-1][0] / blocks[-1][1] >= total / count:
            before = blocks.pop()
            total, count = total + before[0], count + before[1]
        blocks.append((total, count))
    at = 0
    for total, count in blocks:
        for place in range(at, at + count):
            centres[row[place]] = total / count + offsets[place]
        at += count
