"""Losses by hand, read from their graphs at backward: shapes that broadcast, softmax over the batch, gradients of zero."""

import math
from dataclasses import field
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import (
    SHAPES,
    bare_scores,
    factor,
    is_distribution,
    is_sigmoid,
    logits_of,
    normalised_axis,
    operation,
    past_shapes,
    picked_from,
    shape_of,
    summed_scores,
)
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
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
NODES = 64
# Operations that work element by element, and the sums that end a loss.
PLAIN = frozenset(
    ("Neg", "Pow", "Abs", "Mul", "Div", "Add", "Sub", "Rsub", "Sqrt", "Rsqrt", "Exp", "Expm1", "Exp2", "Log", "Log1P", "Log2",
     "Log10", "Square", "Maximum", "Minimum", "Clamp", "ClampMin", "ClampMax", "Relu", "LeakyRelu", "Elu", "Softplus", "Where",
     "Huber", "LogSigmoid", "Sigmoid", "Tanh", "Cosh", "Sinh", "Asinh", "Atan", "Erf", "Erfc", "Sin", "Cos", "Hardtanh",
     "Reciprocal", "MaskedFill", "MaskedSelect", "NanToNum", "Lerp", "Addcmul", "Addcdiv", "Gather", "Stack", "Index")
) | {name.removesuffix("Backward0") for name in VIEWS if name.endswith("Backward0")}  # fmt: skip
SUMS = ("Sum", "Mean", "Nansum", "LinalgVectorNorm", "Norm", "Logsumexp")  # over all axes or over some
TOTALS = ("Dot", "Bmm")  # of two vectors
LINEAR = {"Sum", "Mean", "Nansum", "Neg", "Add", "Sub", "Rsub", "Mul", "Div"} | SHAPES


@record_class
class GraphSite(Tally):
    """Backwards from one line, as seen in their graphs; of a helper, those from one of the lines that call it."""

    site: str | None
    first_step: int
    count: int = 0
    walked: int = 0
    spread: int = 0  # (n, 1) and (n,) gave (n, n) right before the sum; with more axes (n, n, …)
    spread_by: str = ""  # the operation: "Sub" or "Mul"
    shapes: tuple[tuple[int, ...], tuple[int, ...]] | None = None  # of the prediction and of the result
    squashed: int = 0  # a log-softmax on the way gets the result of a softmax
    squashed_at: str | None = None  # the line of that softmax
    softmax_rows: int = 0  # entries were picked row by row from a softmax over the rows
    bare: int = 0  # nothing but picked scores of a layer
    sigmoids: int = 0  # a binary cross-entropy on logits, by hand, gets the result of a sigmoid
    outside: int = 0  # a binary cross-entropy by hand whose targets lie outside of 0..1
    low: float = 0.0  # the lowest and the highest of those targets
    high: float = 0.0
    zero: int = 0  # backwards that gave zero gradients only, from the first of a phase on
    alive: bool = False  # some gradient of this phase was not zero
    value: float | None = None
    phase: int = 0  # the last one that it was seen in
    looks: int = 0  # backwards in that phase


@record_class
class RowSoftmax(Tally):
    """Root calls of one kind of module whose output is a softmax over the batch."""

    model: str
    site: str | None
    first_step: int
    calls: int = 0
    rows: int = 0
    shape: tuple[int, ...] = ()


@part_class
class LossGraphs:
    """The part of the trace about the graphs of losses."""

    sites: dict[tuple[str, ...], GraphSite] = field(default_factory=dict)  # by the lines from the backward outwards
    outputs: dict[tuple[str, str | None], RowSoftmax] = field(default_factory=dict)


class LossGraphWatch:
    """Fills `LossGraphs`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(LossGraphs), trace.part(Phases)
        self._backwards, self._gradients = trace.part(Backwards), trace.part(Gradients)
        self._site: GraphSite | None = None

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        self._site = self._note(backward.lines, backward.site, tensor)

    def before_autograd_grad(self, called: Called) -> None:
        """The gradients of a loss for its weights, which an update by hand uses."""
        outputs, weights = called.listed(0, "outputs"), called.listed(1, "inputs")
        loss = outputs[0] if len(outputs) == 1 else None
        if not isinstance(loss, Tensor) or loss.numel() != 1 or called.argument(4, "create_graph"):
            return
        if all(isinstance(weight, Tensor) and weight.is_leaf for weight in weights):
            self._note(() if called.site is None else (called.site,), called.site, loss)

    def _note(self, lines: tuple[str, ...], line: str | None, tensor: Tensor) -> GraphSite:
        site = self._part.sites.get(lines)
        if site is None:
            site = GraphSite(line, self._trace.steps)
            if len(self._part.sites) < LIMIT:
                self._part.sites[lines] = site
        if site.phase != self._phases.number:  # in which its gradients may be zero from the first on
            site.phase, site.looks, site.alive = self._phases.number, 0, False
        site.count += 1
        site.looks += 1
        if tensor.grad_fn is not None and (site.looks <= LOOKS or site.count % 64 == 0):
            site.walked += 1
            self._walk(site, tensor.grad_fn)
        return site

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
        # Nodes, whether each number of theirs is one of the loss, and whether only sums and numbers lie between.
        pending: list[tuple[Any, bool, bool]] = [(root, True, True)]
        uses: dict[Any, int] = {}
        squashed = False
        axes: set[int | None] = set()  # over which entries that are picked row by row are normalised
        while pending and len(uses) < NODES:
            node, single, linear = pending.pop(0)
            uses[node] = uses.get(node, 0) + 1
            if uses[node] > 1:
                continue
            name = operation(node)
            if name == "LogSoftmax":
                squashed = squashed or _is_squashed(site, node)
                continue
            if name in SUMS or name in TOTALS:  # over everything at the end of a loss; over the classes further in
                single = single and (math.prod(shape_of(node)) == 1 or (linear and name != "Logsumexp"))
            elif name not in PLAIN:
                continue
            linear = linear and name in LINEAR
            if single and name in ("Sub", "Mul"):
                self._look_at_shapes(site, node, name)
            axes.add(_normalised_axis(node))
            squashed = squashed or _is_squashed_by_hand(node)
            pending += [(child, single, linear) for child, _ in node.next_functions if child is not None]
        site.squashed += squashed
        site.softmax_rows += 0 in axes and 1 not in axes  # both: a loss that goes both ways
        site.bare += bare_scores(root)
        _look_at_binary(site, uses)

    def _look_at_shapes(self, site: GraphSite, node: Any, name: str) -> None:
        children = [child for child, _ in node.next_functions]
        live = [child for child in children if child is not None]
        if len(children) != 2 or len(live) != 1 or live[0].name().endswith("AccumulateGrad"):
            return
        result, given = shape_of(node), shape_of(live[0])
        if len(result) < 2 or result[0] != result[1] or result[0] < 2:
            return
        rows, rest = result[0], result[2:]
        tall, flat = (rows, 1, *rest), (rows, *rest)
        made = live[0].name() in ("UnsqueezeBackward0", "TBackward0", "ExpandBackward0")
        if rest:  # of several axes, one may have been made of length 1 on purpose
            made = operation(live[0]) in SHAPES or given == flat
        if given not in (tall, flat) or made:
            return
        if name == "Mul":
            other = node._saved_other if children[0] is live[0] else node._saved_self
            if other is None or tuple(other.shape) != (flat if given == tall else tall):
                return
        site.spread += 1
        site.spread_by = name
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


def _leads(args: tuple[Any, ...], rows: int) -> bool:
    first = next((arg for arg in args if isinstance(arg, Tensor)), None)
    return first is not None and first.dim() >= 2 and first.shape[0] == rows


def _is_squashed_by_hand(node: Any) -> bool:
    """Whether a logarithm of a sum of exponentials gets what sums to 1 already."""
    terms = summed_scores(node)
    return terms is not None and is_distribution(node, terms[0])


def _normalised_axis(node: Any) -> int | None:
    """The axis over which a matrix is normalised, from which one entry of each row is picked; None for anything else."""
    picked = picked_from(node)
    shape = shape_of(picked) if picked is not None else ()
    if len(shape) != 2 or min(shape) < 2 or shape[0] == shape[1]:
        return None
    _, softmax = last_softmax(picked)
    if softmax is not None:
        return saved_axis(softmax, 2) if shape_of(softmax) == shape else None
    return normalised_axis(picked)


def _look_at_binary(site: GraphSite, uses: dict[Any, int]) -> None:
    """A binary cross-entropy by hand: a sigmoid that is taken for logits, targets outside of 0..1."""
    logits = [past_shapes(each) for node in uses if (each := logits_of(node)) is not None]
    site.sigmoids += any(uses.get(each, 0) > 1 and is_sigmoid(each) for each in logits)
    factors = [found for node in uses if (found := factor(node)) is not None]
    if any(logits_of(live) is not None and float(constant.max()) > 1.5 for constant, live in factors):
        return  # counts: the other side of the likelihood is weighted as well
    outside = [constant for constant, live in factors if past_shapes(live) in logits or _has_other_side(constant, live, factors)]
    ranges = [(float(constant.min()), float(constant.max())) for constant in outside]
    beyond = [(low, high) for low, high in ranges if high > 1.5]
    if beyond:
        site.outside += 1
        site.low, site.high = min(site.low, *(low for low, _ in beyond)), max(site.high, *(high for _, high in beyond))


def _has_other_side(constant: Tensor, live: Any, factors: list[tuple[Tensor, Any]]) -> bool:
    """Whether t log(p) goes with (1 - t) log(1 - p)."""
    if operation(live) not in ("Log", "LogSigmoid"):
        return False
    return any(
        operation(other) == operation(live) and other is not live and each.shape == constant.shape
        and bool(((each + constant - 1).abs() < 1e-4).all())
        for each, other in factors
    )  # fmt: skip


OBSERVERS = [LossGraphWatch]
