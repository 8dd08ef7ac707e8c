"""Graphs that outlive their backward: those of losses and of outputs that are kept, those that `retain_graph` lets grow.

A sentinel in the metadata of a graph node lives exactly as long as the node.
"""

import weakref
from collections import deque
from dataclasses import field
from typing import Any

from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Backwards
from instep.doctor.watch.loaders import first_tensor

AGE = 6  # backwards after which a graph should be gone
SPARSE = 8  # backwards from one look at the outputs of layers to the next
NODES = 6000  # of a graph that are counted
LIMIT = 128


class Sentinel:
    """Dies with the graph node that holds it."""

    __slots__ = ("__weakref__",)


@record_class
class GraphPlace(Tally):
    """The graphs of the backwards from one line, or of the calls from one line."""

    site: str | None
    count: int = 0
    retained: int = 0  # with retain_graph
    created: int = 0  # with create_graph
    old: int = 0  # times that the graph of `AGE` backwards ago was alive
    most: int = 0  # the most that were alive at once
    first_old: int | None = None  # step
    sizes: list[tuple[int, int]] = field(
        default_factory=list
    )  # (backwards, nodes of the graph), at 4, 8, 16, … of those that retain


@record_class
class Inner:
    """What one layer gave, at one in `SPARSE` backwards."""

    name: str
    site: str | None  # of the call of its model
    samples: int = 0
    alive: int = 0  # of those before the last, how many graphs are still there
    grown: int = 0  # samples in a row at which there was one more than before
    first_step: int = 0
    last: int = -1  # backwards begun at the last sample: a layer that is shared is called several times


@part_class
class Graphs:
    """The part of the trace about graphs."""

    inner: dict[int, Inner] = field(default_factory=dict)  # by layer
    created: bool = False  # some backward was itself part of a graph

    backwards: dict[str | None, GraphPlace] = field(default_factory=dict)
    outputs: dict[str | None, GraphPlace] = field(default_factory=dict)


class GraphWatch:
    """Fills `Graphs`. The losses' sentinels are those of the core."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace = trace
        self._part, self._backwards = trace.part(Graphs), trace.part(Backwards)
        self._outputs: dict[str | None, deque[tuple[int, Any]]] = {}
        self._open: tuple[str | None, Any] | None = None
        self._layers: dict[int, deque[Any]] = {}
        self._sampled = -1  # backwards begun at the last look at layers
        self._samples = False

    def wants_modules(self) -> dict[type, Any]:
        return {nn.Module: self._module_called}

    def before_call(self, call: Any) -> None:
        begun = self._trace.backwards
        self._samples = call.grad and begun % SPARSE == 0 and begun != self._sampled
        if self._samples:
            self._sampled = begun
            call.closely = True

    def _module_called(self, module: nn.Module, _: Any, output: Any, call: Any) -> None:
        if not self._samples or module._modules or not isinstance(output, Tensor) or output.grad_fn is None:
            return
        key = id(module)
        layer = self._part.inner.get(key)
        if layer is None:
            if len(self._layers) >= LIMIT:
                return
            layer = self._part.inner[key] = Inner(type(module).__name__, call.site, first_step=self._trace.steps)
            self._layers[key] = deque(maxlen=64)
        if layer.last == self._sampled:
            return
        layer.last, kept = self._sampled, self._layers[key]
        alive = sum(1 for graph in kept if graph() is not None)
        layer.grown = layer.grown + 1 if alive > layer.alive or alive >= 63 else 0
        layer.samples, layer.alive = layer.samples + 1, alive
        sentinel = Sentinel()
        output.grad_fn.metadata["instep.layer"] = sentinel  # type: ignore[index]
        kept.append(weakref.ref(sentinel))

    def on_wake(self) -> None:
        self._open = None

    def after_call(self, call: Any) -> None:
        self._open = None
        if not call.grad or not call.root.parameters:
            return
        output = first_tensor(call.output)
        node: Any = output.grad_fn if output is not None else None
        if node is not None:
            sentinel = Sentinel()
            node.metadata["instep.output"] = sentinel
            self._open = (call.site, weakref.ref(sentinel))

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        place = _place(self._part.backwards, backward.site)
        place.count += 1
        place.retained += backward.retain
        place.created += backward.create
        self._part.created = self._part.created or backward.create
        site = self._backwards.sites.get(backward.site)
        if site is not None and backward.node is not None:
            self._look(place, site.graphs, backward)
        if backward.retain and place.count >= 4 and place.count & (place.count - 1) == 0:
            place.sizes.append((place.count, _nodes(tensor.grad_fn)))
        if self._open is not None:
            self._note_output(*self._open, backward)
            self._open = None

    def _note_output(self, site: str | None, reference: Any, backward: Backward) -> None:
        kept = self._outputs.get(site)
        if kept is None:
            if len(self._outputs) >= LIMIT:
                return
            kept = self._outputs[site] = deque(maxlen=64)
        kept.append(reference)
        place = _place(self._part.outputs, site)
        place.count += 1
        place.created += backward.create
        self._look(place, kept, backward)

    def _look(self, place: GraphPlace, graphs: Any, backward: Backward) -> None:
        if len(graphs) <= AGE or graphs[-1 - AGE]() is None:
            return
        place.old += 1
        if place.first_old is None:
            place.first_old = backward.step
        if place.old <= 16 or place.old % 8 == 0:
            place.most = max(place.most, sum(1 for graph in graphs if graph() is not None) - 1)


def _place(places: dict[str | None, GraphPlace], site: str | None) -> GraphPlace:
    place = places.get(site)
    if place is None:
        place = GraphPlace(site)
        if len(places) < LIMIT:
            places[site] = place
    return place


def _nodes(node: Any) -> int:
    """How many nodes a graph has, up to `NODES`."""
    seen, pending = {node}, [node]
    while pending and len(seen) < NODES:
        for following, _ in pending.pop().next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                pending.append(following)
    return len(seen)


OBSERVERS = [GraphWatch]
