"""The modules of a model as rows of a table: one a layer where that is short, else one a block, repeated blocks once."""

from collections.abc import Iterator
from itertools import groupby

from torch import nn

from instep.distributed.dtensors import class_of

HEAD = ("module", "type", "weight", "parameters", "trainable")
MOST = 20  # rows

Row = tuple[str, str, str, str, str]
Entry = tuple[str, list[tuple[str, nn.Module | nn.Parameter]]]  # the name of the parent, and neighbours that are alike


def module_rows(model: nn.Module) -> list[Row]:
    """Name, type, shape of the weight, parameters, trainable ones; as deep as `MOST` rows allow."""
    entries = list(_parts("", model))
    while len(deeper := [inner for entry in entries for inner in _opened(entry)]) <= MOST and deeper != entries:
        entries = deeper
    rest = entries[MOST - 1 :] if len(entries) > MOST else []
    rows = [_row(entry) for entry in entries[: len(entries) - len(rest)]]
    if rest:
        parts = [part for _, alike in rest for _, part in alike]
        rows.append((f"and {len(rest):,} more", "", "", *_counts(parts)))
    return rows


def _parts(name: str, module: nn.Module) -> Iterator[Entry]:
    """The parameters of a module itself, then its children, with neighbours that are alike in one entry."""
    for own, parameter in module.named_parameters(recurse=False):
        yield name, [(own, parameter)]
    for _, alike in groupby(module.named_children(), key=lambda child: _form(child[1])):
        yield name, list(alike)


def _opened(entry: Entry) -> Iterator[Entry]:
    """What is in an entry, where that is one module with modules in it."""
    parent, alike = entry
    name, part = alike[0]
    if len(alike) > 1 or isinstance(part, nn.Parameter) or not any(part.children()):
        yield entry
    else:
        yield from _parts(_joined(parent, name), part)


def _form(module: nn.Module) -> tuple[object, ...]:
    """What makes two modules alike: their classes and the shapes of what is in them; one without anything inside is like none."""
    if not any(module.children()):
        return (id(module),)
    shapes = tuple((name, p.shape, p.requires_grad) for name, p in module.named_parameters())
    return (type(module), tuple(type(inner) for inner in module.modules()), shapes)


def _row(entry: Entry) -> Row:
    parent, alike = entry
    (first, part), last = alike[0], alike[-1][0]
    several = len(alike) > 1
    kind = (class_of(part) if isinstance(part, nn.Module) else nn.Parameter).__name__
    name = _joined(parent, first) + (f" to {last}" if several else "")
    kind = f"{len(alike)} × {kind}" if several else kind
    return (name, kind, "" if several else _weight(part), *_counts([one for _, one in alike]))


def _weight(part: nn.Module | nn.Parameter) -> str:
    """The shape of the first parameter, which is the weight of torch's layers; a module with modules inside has none."""
    if isinstance(part, nn.Module) and any(part.children()):
        return ""
    first = part if isinstance(part, nn.Parameter) else next(part.parameters(), None)
    return "" if first is None else "×".join(map(str, first.shape)) or "1"


def _counts(parts: list[nn.Module | nn.Parameter]) -> tuple[str, str]:
    parameters = {p for part in parts for p in ([part] if isinstance(part, nn.Parameter) else part.parameters())}
    trainable = sum(p.numel() for p in parameters if p.requires_grad)
    return f"{sum(p.numel() for p in parameters):,}", f"{trainable:,}"


def _joined(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name
