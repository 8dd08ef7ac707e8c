"""Drawing: what every format shows of a graph, or of two graphs over each other: boxes, edges, and modules as groups of boxes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from instep.loop.graph.record import Call, GraphRecord, Node
from instep.text import clean, cut, listed, many, plural, size

BoxKind = Literal["operation", "parameter", "input", "cut", "result", "unreached"]
Mark = Literal["", "first", "second"]  # of a difference: only in the first graph, only in the second
MADE_BY = "made by instep graph"  # stands at the head of each file, so that it may be replaced
LONGEST = 48  # characters of a label


@dataclass(frozen=True)
class Box:
    """A node as it is drawn."""

    kind: BoxKind
    label: str
    detail: str  # its shape and what it saves
    group: int | None
    saved_bytes: int = 0
    saved: tuple[tuple[str, str, str], ...] = ()  # name, shape and type, what it costs
    mark: Mark = ""


@dataclass(frozen=True)
class Group:
    """A module call."""

    label: str
    parent: int | None
    saved_bytes: int = 0  # of all boxes inside
    boxes: int = 0
    mark: Mark = ""


@dataclass(frozen=True)
class Drawing:
    title: str
    summary: str
    boxes: tuple[Box, ...]
    edges: tuple[tuple[int, int], ...]
    groups: tuple[Group, ...]
    notes: tuple[str, ...] = ()  # what to be warned of


def draw(record: GraphRecord) -> Drawing:
    """The drawing of one graph."""
    calls = _calls_of_nodes(record)
    names = {call.name: index for index, call in reversed(list(enumerate(record.calls)))}
    boxes = [_box(node, call, record.calls) for node, call in zip(record.nodes, calls, strict=True)]
    for one in record.unreached:
        owner = names.get(one.name.rpartition(".")[0])
        name = _relative(one.name, record.calls, owner)
        boxes.append(Box("unreached", _text(name), f"{shape_text(one.shape)}, not reached", owner))
    groups, boxes = _groups(record.calls, boxes)
    return Drawing(_text(record.title), summary(record), tuple(boxes), record.edges, groups, tuple(notes(record)))


def shape_text(shape: Sequence[int]) -> str:
    return " × ".join(map(str, shape)) or "scalar"


def call_path(calls: Sequence[Call], index: int | None) -> str:
    """How a call is named in a sentence: `body.0`, `layer (call 2)`, the class for the model itself."""
    if index is None:
        return ""
    call = calls[index]
    return (_text(call.name) or call.kind) + (f" (call {call.time})" if call.time > 1 else "")


def summary(record: GraphRecord) -> str:
    kinds = Counter(node.kind for node in record.nodes)
    said = [plural(kinds["operation"], "operation"), plural(kinds["parameter"], "parameter")]
    kept = "what was saved is freed already" if record.is_freed else f"{size(record.saved_bytes)} saved for the backward"
    return ", ".join([*said, kept])


def notes(record: GraphRecord) -> Iterable[str]:
    """Cuts, parameters without a gradient, and those that are frozen."""
    if not record.cuts and not any(node.kind == "operation" for node in record.nodes):
        yield "nothing was recorded: the result was computed from nothing that requires a gradient"
    for node in record.cuts:
        at = f" at {node.where}" if node.where else ""
        inside = f" in {call_path(record.calls, node.call)}" if node.call is not None else ""
        yield _text(f"cut by {node.label}{inside}{at}: no gradient flows back from here", 200)
    if record.unreached:
        names = listed((one.name for one in record.unreached), most=6)
        yield _text(f"{plural(len(record.unreached), 'parameter')} not reached: {names}; the loss gives no gradient", 400)
    frozen = [one for one in record.unused if one.is_frozen]
    if frozen:
        yield _text(f"{plural(len(frozen), 'parameter')} frozen: {listed((one.name for one in frozen), most=6)}", 400)


def _box(node: Node, call: int | None, calls: Sequence[Call]) -> Box:
    parts = [] if node.kind == "result" and not node.dtype else [shape_text(node.shape)]
    if node.kind == "cut":
        parts = [node.where or "cut"]
    elif node.saved_bytes:
        parts.append(f"saves {size(node.saved_bytes)}")
    saved = tuple(
        (_text(one.name), f"{shape_text(one.shape)} {one.dtype}", size(one.size_bytes) if one.size_bytes else _held(one.held_by))
        for one in node.saved
    )
    label = _relative(node.label, calls, call) if node.kind == "parameter" else node.label
    return Box(node.kind, _text(label), _text(", ".join(parts), 80), call, node.saved_bytes, saved)


def _held(by: str) -> str:
    return _text(f"0 B, held by {by}") if by else "0 B"


def _relative(name: str, calls: Sequence[Call], call: int | None) -> str:
    prefix = f"{calls[call].name}." if call is not None and calls[call].name else ""
    return name.removeprefix(prefix)


def _calls_of_nodes(record: GraphRecord) -> list[int | None]:
    """The call of each node; a leaf is drawn in the innermost call that has all who use it."""
    found = [node.call for node in record.nodes]
    users: dict[int, list[int]] = {}
    for before, after in record.edges:
        users.setdefault(before, []).append(after)
    for place, node in enumerate(record.nodes):
        if node.kind in ("parameter", "input"):
            found[place] = _common(record.calls, [found[user] for user in users.get(place, [])])
    return found


def _common(calls: Sequence[Call], several: Sequence[int | None]) -> int | None:
    paths = [_path(calls, one) for one in several]
    shared = None
    for level in zip(*paths, strict=False):
        if len(set(level)) > 1:
            break
        shared = level[0]
    return shared


def _path(calls: Sequence[Call], call: int | None) -> list[int]:
    """From the outermost call to this one."""
    found: list[int] = []
    while call is not None:
        found.append(call)
        call = calls[call].parent
    return found[::-1]


def _groups(calls: Sequence[Call], boxes: Sequence[Box]) -> tuple[tuple[Group, ...], list[Box]]:
    """The calls that hold a box, numbered anew, and the boxes with these numbers."""
    inside: Counter[int] = Counter()
    saved: Counter[int] = Counter()
    for box in boxes:
        for call in _path(calls, box.group):
            inside[call] += 1
            saved[call] += box.saved_bytes
    numbers = {call: number for number, call in enumerate(sorted(inside))}
    groups = []
    for call in numbers:
        one = calls[call]
        parent = None if one.parent is None else numbers[one.parent]
        groups.append(Group(_call_label(calls, call), parent, saved[call], inside[call]))
    return tuple(groups), [replace(box, group=None if box.group is None else numbers[box.group]) for box in boxes]


def _call_label(calls: Sequence[Call], index: int) -> str:
    call = calls[index]
    name = _relative(call.name, calls, call.parent)
    label = call.kind if name in ("", call.kind) else f"{name}: {call.kind}"
    return _text(label) + (f" (call {call.time})" if call.time > 1 else "")


def _text(text: str, most: int = LONGEST) -> str:
    """Names come from the model's file: one line, no control characters."""
    return cut(clean(text), most)


def shown_size(box_count: int, saved_bytes: int) -> str:
    """What a closed group says of its inside."""
    return f"{many(box_count)} inside" + (f", saves {size(saved_bytes)}" if saved_bytes else "")
