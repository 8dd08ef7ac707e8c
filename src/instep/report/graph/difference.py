"""Two graphs over each other: what control flow did in one forward and not in the other. Shapes are not compared."""

from collections import Counter
from collections.abc import Hashable
from dataclasses import replace

from instep.report.graph.drawing import Box, Drawing, Group, Mark
from instep.text import listed, plural

Key = tuple[Hashable, ...]


def overlay(first: Drawing, second: Drawing) -> Drawing:
    """Both as one drawing, in which what only one has is marked."""
    groups = _Merged(_group_keys(first), _group_keys(second))
    boxes = _Merged(_box_keys(first), _box_keys(second))
    merged_groups = [_group(first, second, key, groups) for key in groups.keys]
    merged_boxes = [_box(first, second, key, boxes, groups) for key in boxes.keys]
    edges = dict.fromkeys(
        (boxes.places[keys[before]], boxes.places[keys[after]])
        for drawing, keys in ((first, boxes.first), (second, boxes.second))
        for before, after in drawing.edges
    )
    notes = _changes(merged_boxes, merged_groups)
    title = first.title if first.title == second.title else f"{first.title} -> {second.title}"
    return Drawing(title, _summary(merged_boxes), tuple(merged_boxes), tuple(edges), tuple(merged_groups), tuple(notes))


class _Merged:
    """The keys of two lists as one: those of the second stand behind the one before them."""

    def __init__(self, first: list[Key], second: list[Key]) -> None:
        self.first, self.second = first, second
        in_first, in_second = set(first), set(second)
        self.keys: list[Key] = []
        rest = iter(first)
        for key in second:
            if key not in in_first:
                self.keys.append(key)
                continue
            if key in self.keys:  # taken along already
                continue
            for before in rest:
                self.keys.append(before)
                if before == key:
                    break
        self.keys += rest
        self.keys = list(dict.fromkeys(self.keys))
        self.places = {key: place for place, key in enumerate(self.keys)}
        self.marks: dict[Key, Mark] = {
            key: "" if key in in_first and key in in_second else "first" if key in in_first else "second" for key in self.keys
        }


def _group_keys(drawing: Drawing) -> list[Key]:
    return [_path(drawing, place) for place in range(len(drawing.groups))]


def _path(drawing: Drawing, group: int | None) -> Key:
    labels: list[str] = []
    while group is not None:
        labels.append(drawing.groups[group].label)
        group = drawing.groups[group].parent
    return tuple(reversed(labels))


def _box_keys(drawing: Drawing) -> list[Key]:
    """Where a box stands, what it is, and which of those with the same name."""
    seen: Counter[Key] = Counter()
    keys: list[Key] = []
    for box in drawing.boxes:
        key = (_path(drawing, box.group), box.kind, box.label)
        keys.append((*key, seen[key]))
        seen[key] += 1
    return keys


def _group(first: Drawing, second: Drawing, key: Key, groups: _Merged) -> Group:
    drawing, keys = (second, groups.second) if groups.marks[key] != "first" else (first, groups.first)
    found = drawing.groups[keys.index(key)]
    parent = None if len(key) == 1 else groups.places[key[:-1]]
    return replace(found, parent=parent, mark=groups.marks[key])


def _box(first: Drawing, second: Drawing, key: Key, boxes: _Merged, groups: _Merged) -> Box:
    drawing, keys = (second, boxes.second) if boxes.marks[key] != "first" else (first, boxes.first)
    path = key[0]
    group = groups.places[path] if isinstance(path, tuple) and path else None
    return replace(drawing.boxes[keys.index(key)], group=group, mark=boxes.marks[key])


def _summary(boxes: list[Box]) -> str:
    found = Counter(box.mark for box in boxes)
    if not found["first"] and not found["second"]:
        return f"the two graphs are the same, {plural(len(boxes), 'node')}"
    return f"{found['first']:,} only in the first (-), {found['second']:,} only in the second (+), {found['']:,} in both"


def _changes(boxes: list[Box], groups: list[Group]) -> list[str]:
    """Which modules, parameters and cuts only one of them has."""
    said = []
    for mark, whose in (("first", "the first"), ("second", "the second")):
        for kind, noun in (("cut", "cut"), ("parameter", "parameter"), ("unreached", "unreached parameter")):
            names = [_where(box, groups) for box in boxes if box.mark == mark and box.kind == kind]
            if names:
                said.append(f"only in {whose}: {plural(len(names), noun)}: {listed(names, most=6)}")
        modules = [one.label for one in groups if one.mark == mark and (one.parent is None or groups[one.parent].mark != mark)]
        if modules:
            said.append(f"only in {whose}: {plural(len(modules), 'module call')}: {listed(modules, most=6)}")
    return said


def _where(box: Box, groups: list[Group]) -> str:
    return box.label if box.group is None else f"{box.label} in {groups[box.group].label}"
