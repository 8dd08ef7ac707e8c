"""GraphRecord: the autograd graph of one forward as plain data. Holds no tensor, so it keeps nothing alive."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["operation", "parameter", "input", "cut", "result"]
Shape = tuple[int, ...]


@dataclass(frozen=True)
class Saved:
    """A tensor that an operation keeps for the backward.

    `size_bytes` is what it costs: the whole storage that it keeps alive, and 0 where `held_by` names who has that anyway (a
    parameter, a buffer, an input, an operation that was counted before).
    """

    name: str
    shape: Shape
    dtype: str
    size_bytes: int
    held_by: str = ""


@dataclass(frozen=True)
class Node:
    """One operation, one leaf, one place where the graph is cut, or the result."""

    kind: Kind
    label: str  # "Addmm", the name of a parameter, "detach"
    call: int | None  # the module call that it belongs to, as an index into `calls`
    shape: Shape = ()
    dtype: str = ""
    saved: tuple[Saved, ...] = ()
    where: str = ""  # of a cut: the user's line

    @property
    def saved_bytes(self) -> int:
        return sum(one.size_bytes for one in self.saved)


@dataclass(frozen=True)
class Call:
    """One call of a module; calls within it have its index as `parent`."""

    name: str  # in the model; "" for the model itself
    kind: str  # its class
    parent: int | None
    time: int = 1  # its first call, its second, …


@dataclass(frozen=True)
class Unused:
    """A parameter that the result does not depend on."""

    name: str
    shape: Shape
    size_bytes: int
    is_frozen: bool  # requires_grad=False, so that nothing is missing


@dataclass(frozen=True)
class GraphRecord:
    """Nodes, edges `(from, to)` in the direction of the forward, and the calls of modules, in the order in which they began."""

    title: str
    nodes: tuple[Node, ...]
    edges: tuple[tuple[int, int], ...]
    calls: tuple[Call, ...] = ()
    unused: tuple[Unused, ...] = ()
    is_freed: bool = False  # a backward has already freed what was saved

    @property
    def saved_bytes(self) -> int:
        """What the graph keeps alive until the backward, beside parameters, buffers and inputs."""
        return sum(node.saved_bytes for node in self.nodes)

    @property
    def cuts(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.kind == "cut")

    @property
    def unreached(self) -> tuple[Unused, ...]:
        """The parameters that want a gradient and get none."""
        return tuple(one for one in self.unused if not one.is_frozen)
