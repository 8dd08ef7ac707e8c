"""Losses by hand, read from their graphs at backward: shapes that broadcast, softmax over the batch, gradients of zero."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import VIEWS, Backward, Backwards
from instep.doctor.watch.calls import Call
from instep.doctor.watch.feeds import last_softmax, saved_axis
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.losses import SITE
from instep.doctor.watch.phases import Phases

LIMIT = 128
LOOKS = 6  # backwards of a line that are walked one by one in each phase, then every 64th
NODES = 48
# Nodes that work element by element, and the sums over everything that end a loss.
PLAIN = VIEWS | {
    f"{name}Backward0"
    for name in (
        "Mean", "Sum", "Neg", "Pow", "Abs", "Mul", "Div", "Add", "Sub", "Rsub", "Sqrt", "Exp", "Log", "Log1P", "Square",
        "Maximum", "Minimum", "Clamp", "ClampMin", "ClampMax", "Relu", "Softplus", "Where", "Huber", "LogSigmoid", "Sigmoid",
        "Tanh", "Gather", "Stack",
    )
} | {"DivBackward1", "PowBackward1", "ClampBackward1", "MulBackward1", "WhereBackward1"}  # fmt: skip


SUMS = ("SumBackward1", "MeanBackward1")


@dataclass(slots=True)
class GraphSite(Tally):
    """Backwards from one line, as seen in their graphs."""

    site: str | None
    first_step: int
    count: int = 0
    walked: int = 0
    spread: int = 0  # (n, 1) and (n,) gave (n, n) right before the sum
    spread_by: str = ""  # the operation: "Sub" or "Mul"
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # of the prediction and of the result
    squashed: int = 0  # a log-softmax on the way gets the result of a softmax
    squashed_at: str | None = None  # the line of that softmax
    softmax_rows: int = 0  # entries were picked row by row from a softmax over the rows
    zero: int = 0  # backwards that gave zero gradients only, from the first of a phase on
    alive: bool = False  # some gradient of this phase was not zero
    value: float | None = None
    phase: int = 0  # the last one that it was seen in
    looks: int = 0  # backwards in that phase


@dataclass(slots=True)
class RowSoftmax(Tally):
    """Root calls of one kind of module whose output is a softmax over the batch."""

    model: str
    site: str | None
    first_step: int
    calls: int = 0
    rows: int = 0
    shape: tuple[int, ...] = ()


@dataclass
class LossGraphs:
    """The part of the trace about the graphs of losses."""

    sites: dict[str | None, GraphSite] = field(default_factory=dict)
    outputs: dict[tuple[str, str | None], RowSoftmax] = field(default_factory=dict)


class LossGraphWatch:
    """Fills `LossGraphs`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(LossGraphs), trace.part(Phases)
        self._backwards, self._gradients = trace.part(Backwards), trace.part(Gradients)
        self._site: GraphSite | None = None

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        site = self._part.sites.get(backward.site)
        if site is None:
            site = GraphSite(backward.site, backward.step)
            if len(self._part.sites) < LIMIT:
                self._part.sites[backward.site] = site
        if site.phase != self._phases.number:  # in which its gradients may be zero from the first on
            site.phase, site.looks, site.alive = self._phases.number, 0, False
        site.count += 1
        site.looks += 1
        self._site = site
        if tensor.grad_fn is not None and (site.looks <= LOOKS or site.count % 64 == 0):
            site.walked += 1
            self._walk(site, tensor.grad_fn)

    def after_backward(self, _: Called) -> None:
        """Look for a gradient that is not zero, until one is found."""
        site, backward = self._site, self._backwards.current
        if site is None or site.alive or backward is None:
            return
        grads = []
        for parameter in self._gradients.parameters.values():
            if parameter.held and parameter.held[-1] is backward:
                tensor = parameter.reference()
                if tensor is not None and tensor.grad is not None:
                    grads.append(tensor.grad.detach())
        if not grads:
            return
        site.value = backward.value
        if any(grad.device.type != "cpu" or grad.is_sparse for grad in grads):
            site.alive = True  # only where looking is free
        else:
            site.alive = any(bool(grad.any()) for grad in grads)
        site.zero += not site.alive

    def after_call(self, call: Call) -> None:
        """The output of a model is a softmax over its first axis, which is that of the batch."""
        output = call.output
        if not isinstance(output, Tensor) or output.dim() != 2 or output.grad_fn is None or call.number % 8 > 2:
            return
        key = (call.root.name, call.site)
        seen = self._part.outputs.get(key)
        _, softmax = last_softmax(output.grad_fn)
        if softmax is None:
            return
        if seen is None:
            seen = RowSoftmax(call.root.name, call.site, self._trace.steps)
            if len(self._part.outputs) < LIMIT:
                self._part.outputs[key] = seen
        seen.calls += 1
        rows, columns = output.shape
        batch = call.batch.size if call.batch is not None else None
        if saved_axis(softmax, 2) == 0 and 1 < columns != rows > 1 and batch == rows and _leads(call.args, rows):
            seen.rows += 1
            seen.shape = (rows, columns)

    def _walk(self, site: GraphSite, root: Any) -> None:
        pending: list[tuple[Any, bool]] = [(root, True)]  # nodes, and whether each number of theirs is one of the loss
        seen, squashed = 0, False
        while pending and seen < NODES:
            node, single = pending.pop(0)
            seen += 1
            name = node.name()
            if name in SUMS:  # over everything at the end of a loss; over the classes further in
                single = single and _shape(node) == ()
            elif name == "LogSoftmaxBackward0":
                squashed = squashed or _is_squashed(site, node)
                continue
            elif name not in PLAIN and name != "IndexBackward0":
                continue
            if single and name in ("SubBackward0", "MulBackward0"):
                self._look_at_shapes(site, node, name)
            elif single and name in ("GatherBackward0", "IndexBackward0"):
                site.softmax_rows += _picks_from_rows(node, name)
            pending += [(child, single) for child, _ in node.next_functions if child is not None]
        site.squashed += squashed

    def _look_at_shapes(self, site: GraphSite, node: Any, name: str) -> None:
        children = [child for child, _ in node.next_functions]
        live = [child for child in children if child is not None]
        if len(children) != 2 or len(live) != 1 or live[0].name().endswith("AccumulateGrad"):
            return
        result, given = _shape(node), _shape(live[0])
        if result is None or given is None or len(result) != 2 or result[0] != result[1] or result[0] < 2:
            return
        rows = result[0]
        if given not in ((rows, 1), (rows,)) or live[0].name() in ("UnsqueezeBackward0", "TBackward0", "ExpandBackward0"):
            return
        if name == "MulBackward0":
            other = node._saved_other if children[0] is live[0] else node._saved_self
            if other is None or tuple(other.shape) != ((rows,) if len(given) == 2 else (rows, 1)):
                return
        site.spread += 1
        site.spread_by = name.removesuffix("Backward0")
        site.shapes = (given, result)


def _is_squashed(site: GraphSite, node: Any) -> bool:
    """Whether a log-softmax gets the result of a softmax; notes the line of that."""
    before = node.next_functions[0][0]
    while before is not None and before.name() in VIEWS and before.next_functions:
        before = before.next_functions[0][0]
    if before is None or before.name() != "SoftmaxBackward0":
        return False
    site.squashed_at = before.metadata.get(SITE) or site.squashed_at
    return True


def _shape(node: Any) -> tuple[int, ...] | None:
    metadata = getattr(node, "_input_metadata", None)
    return tuple(metadata[0].shape) if metadata else None


def _leads(args: tuple[Any, ...], rows: int) -> bool:
    first = next((arg for arg in args if isinstance(arg, Tensor)), None)
    return first is not None and first.dim() >= 2 and first.shape[0] == rows


def _picks_from_rows(node: Any, name: str) -> bool:
    """Whether one entry of each row is picked from a matrix that is normalised over its rows."""
    child = node.next_functions[0][0]
    if child is None:
        return False
    _, softmax = last_softmax(child)
    if softmax is None:
        return False
    shape = _shape(softmax)
    if shape is None or len(shape) != 2 or shape[1] < 2 or shape[0] < 2 or shape[0] == shape[1] or saved_axis(softmax, 2) != 0:
        return False
    if name == "GatherBackward0":
        return saved_axis(node, 2) == 1
    first = node._saved_indices[0] if node._saved_indices else None
    if (
        not isinstance(first, Tensor)
        or first.dim() != 1
        or len(first) != shape[0]
        or first.is_floating_point()
        or first.dtype == torch.bool
    ):
        return False
    return first.device.type == "cpu" and bool((first == torch.arange(shape[0])).all())


OBSERVERS = [LossGraphWatch]
