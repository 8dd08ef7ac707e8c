"""Graphs that are kept where the newest ones do not show it: parts of a loss, losses of `torch.autograd.grad`, one loss in ten.

Whatever a loss is the sum of gets a sentinel, and those that are alive are counted now and then: where somebody keeps them, there
are ever more.
"""

import gc
import weakref
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import children, operation
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Sentinel

PILED = 5  # looks with more graphs each time that tell
COLLECTIONS = 3  # of garbage, for a part
ALL_COLLECTIONS = 6  # for all parts: each of them takes the script's time
EVERY = 16  # backwards of a line from one count to the next
PARTS = 4  # of a loss
SUMS = ("Add", "Sub", "Mul", "Div", "Neg")
ALIVE = 1024
LIMIT = 64


@record_class
class KeptPart:
    """Parts of the losses of one line, by their place in the sum."""

    site: str | None
    count: int = 0
    alive: int = 0  # graphs, at the last look
    rises: int = 0  # looks at which there were more than before, since there were fewer
    created: bool = False  # some are part of another graph
    collected: int = 0  # times that garbage was collected before a look
    first_step: int = 0


@part_class
class KeptParts:
    """The part of the trace about them."""

    all: dict[tuple[str | None, int], KeptPart] = field(default_factory=dict)


class KeptPartWatch:
    """Fills `KeptParts`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(KeptParts)
        self._collected = 0
        self._graphs: dict[tuple[str | None, int], list[weakref.ref[Sentinel]]] = {}

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        self._note(backward.site, tensor.grad_fn, backward.create)

    def before_autograd_grad(self, called: Called) -> None:
        tensors = called.listed(0, "outputs")
        if tensors and isinstance(tensors[0], Tensor):
            self._note(called.site, tensors[0].grad_fn, bool(called.argument(4, "create_graph")))

    def _note(self, site: str | None, node: Any, created: bool) -> None:
        for index, part in enumerate(_parts(node)):
            key = (site, index)
            known = self._part.all.get(key)
            if known is None:
                if len(self._part.all) >= LIMIT:
                    return
                known = self._part.all[key] = KeptPart(site, first_step=self._trace.steps)
                self._graphs[key] = []
            known.count += 1
            known.created = known.created or created
            graphs = self._graphs[key]
            if known.count % EVERY == 0:
                self._look(known, graphs)
            if len(graphs) < ALIVE:
                sentinel = Sentinel()
                part.metadata[f"instep.part{index}"] = sentinel
                graphs.append(weakref.ref(sentinel))

    def _look(self, known: KeptPart, graphs: list[Any]) -> None:
        if known.rises == PILED - 1:
            if known.collected == COLLECTIONS or self._collected == ALL_COLLECTIONS:
                known.rises = 0  # it was garbage so often, or nobody knows whether it is
                return
            known.collected += 1
            self._collected += 1
            gc.collect()  # a graph in a cycle of references lives until then, and nobody keeps it
        graphs[:] = [graph for graph in graphs if graph() is not None]
        more, fewer = len(graphs) > known.alive, len(graphs) < known.alive
        known.rises, known.alive = 0 if fewer else known.rises + more, len(graphs)


def _parts(node: Any) -> Iterator[Any]:
    """What a loss is the sum of, past weights and signs: itself, where it is no sum."""
    pending, given = [node], 0
    while pending and given < PARTS:
        each = pending.pop(0)
        inner = [child for child in children(each) if child is not None] if each is not None else []
        inner = [child for child in inner if not child.name().endswith("AccumulateGrad")]
        if each is None:
            continue
        if operation(each) in SUMS and inner and given + len(pending) + len(inner) <= PARTS:
            pending += inner
        else:
            given += 1
            yield each


OBSERVERS = [KeptPartWatch]
