"""A drawing as text for other programs: DOT for Graphviz, Mermaid for Markdown pages."""

from collections.abc import Callable, Iterator

from instep.report.graph.drawing import MADE_BY, Box, Drawing, Group

DOT_LOOKS = {
    "operation": 'shape=box, style="rounded"',
    "parameter": 'shape=box, style="filled", fillcolor="#d7e9f7"',
    "input": 'shape=ellipse, style="filled", fillcolor="#dff3ea"',
    "cut": 'shape=octagon, color="#b34700", fontcolor="#b34700"',
    "result": 'shape=box, style="bold"',
    "unreached": 'shape=box, style="dashed", color="#b34700", fontcolor="#b34700"',
}
DOT_MARKS = {"": "", "first": ', color="#b34700", penwidth=2', "second": ', color="#007a55", penwidth=2'}
MERMAID_ENDS = {
    "operation": "()",
    "parameter": "[]",
    "input": "([])",
    "cut": "{{}}",
    "result": "[[]]",
    "unreached": "[]",
}


def dot(drawing: Drawing) -> str:
    """For Graphviz: `dot -Tpdf graph.dot`."""
    lines = [
        f"// {MADE_BY}",
        "digraph graph_of_a_loss {",
        f"  label={_quoted(f'{drawing.title}: {drawing.summary}')}; labelloc=t; compound=true;",
    ]
    lines += ['  node [fontname="Helvetica", fontsize=11]; edge [color="#77808a"];']

    def box(place: int, one: Box) -> str:
        said = f"{one.label}\n{one.detail}" if one.detail else one.label
        return f"n{place} [label={_quoted(said)}, {DOT_LOOKS[one.kind]}{DOT_MARKS[one.mark]}];"

    def begin(place: int, one: Group) -> str:
        return f"subgraph cluster_{place} {{ label={_quoted(one.label)};"

    lines += _nested(drawing, box, begin, "}")
    return "\n".join([*lines, *(f"  n{before} -> n{after};" for before, after in drawing.edges), "}"]) + "\n"


def mermaid(drawing: Drawing) -> str:
    """For a block of Mermaid in a page."""

    def box(place: int, one: Box) -> str:
        ends = MERMAID_ENDS[one.kind]
        half = len(ends) // 2
        said = f'"{_entities(one.label)}{f"<br>{_entities(one.detail)}" if one.detail else ""}"'
        look = one.mark or (one.kind if one.kind in ("cut", "unreached") else "")
        return f"n{place}{ends[:half]}{said}{ends[half:]}{f':::{look}' if look else ''}"

    def begin(place: int, one: Group) -> str:
        return f'subgraph g{place}["{_entities(one.label)}"]'

    lines = [f"%% {MADE_BY}", "flowchart TB", *_nested(drawing, box, begin, "end")]
    lines += [f"  n{before} --> n{after}" for before, after in drawing.edges]
    lines += ["  classDef cut stroke:#b34700", "  classDef unreached stroke:#b34700,stroke-dasharray:4"]
    lines += ["  classDef first stroke:#b34700,stroke-width:3px", "  classDef second stroke:#007a55,stroke-width:3px"]
    return "\n".join(lines) + "\n"


def _nested(drawing: Drawing, box: Callable[[int, Box], str], begin: Callable[[int, Group], str], end: str) -> list[str]:
    """Boxes and groups within groups, each on its line."""
    inside: dict[int | None, list[int]] = {}
    within: dict[int | None, list[int]] = {}
    for place, one in enumerate(drawing.boxes):
        inside.setdefault(one.group, []).append(place)
    for place, group in enumerate(drawing.groups):
        within.setdefault(group.parent, []).append(place)

    def lines(group: int | None, indent: str) -> Iterator[str]:
        for place in inside.get(group, []):
            yield indent + box(place, drawing.boxes[place])
        for place in within.get(group, []):
            yield indent + begin(place, drawing.groups[place])
            yield from lines(place, indent + "  ")
            yield indent + end

    return list(lines(None, "  "))


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _entities(text: str) -> str:
    """Mermaid writes characters by their code; letters, digits and a few signs stand as they are."""
    return "".join(sign if sign.isalnum() or sign in " .,:×()_-" else f"#{ord(sign)};" for sign in text)
