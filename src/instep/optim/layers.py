"""Layers of a model from the lowest to the top, for learning rates that fall with the depth.

Found from the order in which the model defines its modules, or said by the user; `groups` makes the learning rates of it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch import nn

from instep.errors import DescriptionError
from instep.optim.parts import Slot, What, modules_of, part_of
from instep.text import listed

LayerNames = Sequence[What | Sequence[What]]


@dataclass(frozen=True)
class Layers:
    """Which layer each parameter is in."""

    labels: tuple[str, ...]  # from the lowest to the top
    index: dict[str, int]  # by the name of the parameter

    def depth(self, name: str) -> int:
        """How far a parameter is below the top: 0 in the top layer."""
        return len(self.labels) - 1 - self.index[name]


def found_layers(model: nn.Module, slots: Sequence[Slot]) -> Layers:
    """The layers by the order of definition.

    Each block of a ModuleList or Sequential is a layer (the outermost such list counts). What stands before the first block is
    one layer, "bottom", what stands after the last is one, "top"; what stands between two blocks goes with the lower one.
    """
    blocks = list(_blocks(model))
    if not blocks:
        raise DescriptionError(
            f"layer_decay= finds no layers in {type(model).__name__}, which has no ModuleList and no Sequential of two or more; "
            "say them from the lowest to the top: layers=['embed', 'blocks.*', 'head']."
        )
    block_of = [next((name for name in blocks if slot.name.startswith(f"{name}.")), None) for slot in slots]
    last = max((position for position, block in enumerate(block_of) if block is not None), default=-1)
    labels: list[str] = []
    index: dict[str, int] = {}
    current = "bottom"
    for position, (slot, block) in enumerate(zip(slots, block_of, strict=True)):
        current = block or ("top" if position > last else current)
        if current not in labels:
            labels.append(current)
        index[slot.name] = labels.index(current)
    return Layers(tuple(labels), index)


def said_layers(model: nn.Module, slots: Sequence[Slot], layers: LayerNames) -> Layers:
    """The layers as the user said them, from the lowest to the top.

    A pattern stands for one layer for each thing that it matches (`blocks.*`); several names in a tuple are one layer.
    """
    labels: list[str] = []
    index: dict[str, int] = {}
    for entry in layers:
        parts = [part_of(model, what) for what in ([entry] if isinstance(entry, str | nn.Module) else entry)]
        together = None if isinstance(entry, str | nn.Module) else " ".join(part.label for part in parts)
        for slot in slots:
            anchor = next((found for part in parts if (found := part.anchor(slot.name)) is not None), None)
            if anchor is None:
                continue
            label = together or anchor
            if slot.name in index:
                raise DescriptionError(
                    f"layers= puts {slot.name} into {labels[index[slot.name]]!r} and into {label!r}; leave one out."
                )
            if label not in labels:
                labels.append(label)
            index[slot.name] = labels.index(label)
    missing = [slot.name for slot in slots if slot.name not in index]
    if missing:
        raise DescriptionError(
            f"layers= leaves out {listed(missing, 4)}; name every part of the model, from the lowest to the top."
        )
    return Layers(tuple(labels), index)


def _blocks(model: nn.Module) -> Iterator[str]:
    """The names of the blocks of the outermost lists, in the order of definition."""
    inside: list[str] = []
    for name, module in modules_of(model):
        if any(name.startswith(outer) for outer in inside) or not isinstance(module, nn.ModuleList | nn.Sequential):
            continue
        blocks = [child for child, inner in module.named_children() if next(inner.parameters(), None) is not None]
        if len(blocks) >= (1 if isinstance(module, nn.ModuleList) else 2):
            prefix = f"{name}." if name else ""
            inside.append(prefix)
            yield from (prefix + block for block in blocks)
