"""What losses are fed: normalised or not, over which axis, with which shapes and targets. One record a function and line."""

from collections import Counter
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import operation, saved, two
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import VIEWS, origin
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases

LIMIT = 256
LOOKS = 8  # calls of a phase that are looked at one by one, then every 32nd
ELEMENTWISE = (
    "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss", "gaussian_nll_loss", "soft_margin_loss",
    "hinge_embedding_loss",
)  # fmt: skip
CLASSES = ("cross_entropy", "nll_loss")
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")
# Whatever lies behind one of these is another layer.
LAYERS = (
    "Addmm",
    "Mm",
    "Bmm",
    "Addbmm",
    "Baddbmm",
    "Mv",
    "Dot",
    "Convolution",
    "Embedding",
    "ScaledDotProduct",
    "NativeBatchNorm",
    "Einsum",
)
BOUNDS = {
    "SigmoidBackward0": (0.0, 1.0),
    "SoftmaxBackward0": (0.0, 1.0),
    "TanhBackward0": (-1.0, 1.0),
    "ReluBackward0": (0.0, float("inf")),
}


@record_class
class Feed(Tally):
    """What calls of one loss function from one line were fed. Counts are of calls that were looked at, unless said."""

    function: str
    site: str | None
    first_step: int = 0
    graphs: int = 0  # of all calls, with a graph: training
    single: int = 0  # of those with a graph: one class only
    spread: int = 0  # of all: shapes that broadcast to more than either has
    spread_graphs: int = 0  # of those with a graph
    shapes: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]] | None = None  # input, target and what they broadcast to
    looked: int = 0  # calls with a graph that were looked at
    softmax_single: int = 0  # a softmax over one element
    softmax_rows: int = 0  # a (log-)softmax over dim 0 of a matrix that is not square, right before the loss
    log_softmax: int = 0  # a log-softmax, or the logarithm of a softmax
    logged: int = 0  # some logarithm between the last layer and the loss
    bare_logs: int = 0  # of those: of a layer's output, each number made positive by itself, and nothing else
    opaque: int = 0  # compiled or custom: nobody knows
    unnormalised: int = 0  # exp of the input sums to 1 over dim 1 in few rows
    silent: int = 0  # nll_loss without a graph, as in an evaluation: calls that were looked at
    silent_unnormalised: int = 0  # of those
    left_out: int = 0  # class numbers, of which `ignore_index` leaves one out that is there
    counted: int = 0  # class numbers in those calls that are not left out
    counted_low: float = float("inf")  # the lowest of them
    counted_high: float = float("-inf")
    square: int = 0  # as many rows as columns
    worst_sum: float = 0.0
    reductions: Counter[str] = field(default_factory=Counter)
    samples: int = 0  # most samples in a call
    outside: int = 0  # targets well outside of what the loss is made for, and counted
    slightly: int = 0  # targets a little outside
    low: float = float("inf")
    high: float = float("-inf")
    unreachable: Counter[str] = field(default_factory=Counter)  # many targets out of reach of the activation before the loss
    unreachable_share: float = 0.0
    reach: dict[str, tuple[float, float]] = field(default_factory=dict)  # activation -> what it can give, scaled by numbers
    columns: int = 0  # float targets sum to 1 over the samples, and not over the classes
    positive: int = 0  # kl_div: input above 0
    negative_target: int = 0  # kl_div: target below 0 without log_target
    positive_target: int = 0  # kl_div: target never below 0 with log_target


@part_class
class Feeds:
    """The part of the trace about what losses are fed."""

    all: dict[tuple[str, str | None], Feed] = field(default_factory=dict)

    def of(self, *functions: str) -> list[Feed]:
        return [feed for feed in self.all.values() if feed.function in functions]


class FeedWatch:
    """Fills `Feeds`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Feeds)
        self._phases, self._phase = trace.part(Phases), 0
        self._looks: Counter[int] = Counter()  # in this phase, by feed

    def on_loss(self, kind: LossKind, called: Called, input: Tensor, target: Any) -> None:
        feed = self._feed(kind)
        graph = input.requires_grad or (
            kind.function == "kl_div" and isinstance(target, Tensor) and target.requires_grad
        )  # or swapped
        feed.graphs += graph
        if isinstance(target, Tensor) and kind.function in ELEMENTWISE and input.shape != target.shape:
            self._shapes(feed, input, target, graph)
        if not graph:
            if kind.function == "nll_loss" and feed.silent < LOOKS and input.dim() == 2 and input.shape[1] > 1:
                feed.silent += 1
                self._hub.read(_normalisation(input), partial(_note_silent, feed))
            return
        if kind.function == "cross_entropy":
            feed.single += input.shape[0 if input.dim() == 1 else 1] == 1 if input.dim() else False
        if self._phase != self._phases.number:
            self._phase = self._phases.number
            self._looks.clear()
        self._looks[id(feed)] += 1
        if self._looks[id(feed)] <= LOOKS or feed.graphs % 32 == 0:
            self._look(feed, called, input, target)

    def _feed(self, kind: LossKind) -> Feed:
        key = (kind.function, kind.site)
        feed = self._part.all.get(key)
        if feed is None:
            feed = Feed(kind.function, kind.site, self._trace.steps)
            if len(self._part.all) < LIMIT:
                self._part.all[key] = feed
        return feed

    def _shapes(self, feed: Feed, input: Tensor, target: Tensor, graph: bool) -> None:
        try:
            common = torch.broadcast_shapes(input.shape, target.shape)
        except RuntimeError:
            return
        if common.numel() > max(input.numel(), target.numel()):
            feed.spread += 1
            feed.spread_graphs += graph
            feed.shapes = (tuple(input.shape), tuple(target.shape), tuple(common))

    def _look(self, feed: Feed, called: Called, input: Tensor, target: Any) -> None:
        feed.looked += 1
        reduction = str(called.argument(_REDUCTION.get(feed.function, 99), "reduction", "mean"))
        feed.reductions[reduction] += 1
        feed.samples = max(feed.samples, input.shape[0] if input.dim() > 1 else input.numel())
        node = origin(input)
        name = node.name() if node is not None else None
        self._softmax(feed, node, name, input)
        if feed.function == "ctc_loss" and input.dim() >= 2 and input.shape[-1] > 1:
            self._hub.read(_normalisation(input.detach(), -1), partial(_note_normalisation, feed))
        if feed.function == "nll_loss" and input.dim() >= 2 and input.shape[1] > 1:
            feed.square += input.dim() == 2 and input.shape[0] == input.shape[1]
            self._hub.read(_normalisation(input.detach()), partial(_note_normalisation, feed))
        if not isinstance(target, Tensor) or not target.numel():
            return
        if feed.function in CLASSES and not target.is_floating_point():
            self._left_out(feed, called, target.detach(), input.shape[1] if input.dim() > 1 else 0)
        log_target = bool(called.argument(5, "log_target", False)) if feed.function == "kl_div" else False
        if feed.function in ("kl_div", "cross_entropy") and target.is_floating_point() and not log_target:
            self._columns(feed, target.detach())
        if feed.function in BINARY:
            self._range(feed, called, target.detach(), reduction)
        elif feed.function == "cross_entropy" and target.is_floating_point() and reduction != "none":
            self._hub.read(torch.stack(torch.aminmax(target.detach())), partial(_note_range, feed))
        elif feed.function == "kl_div":
            facts = torch.stack([input.detach().max(), *torch.aminmax(target.detach())])
            self._hub.read(facts, partial(_note_kl, feed, log_target))
        elif feed.function in ELEMENTWISE[:4] and reduction != "none" and target.is_floating_point():
            self._reach(feed, node, target.detach())

    def _softmax(self, feed: Feed, node: Any, name: str | None, input: Tensor) -> None:
        feed.opaque += name is None or name.startswith("CompiledFunction")
        log, softmax = last_softmax(node)
        if softmax is not None:
            shape = tuple(softmax._input_metadata[0].shape)
            axis = saved_axis(softmax, len(shape))
            feed.log_softmax += log
            feed.softmax_single += bool(shape) and shape[axis] == 1
            feed.softmax_rows += axis == 0 and len(shape) == 2 and 1 < shape[1] != shape[0] > 1 and tuple(input.shape) == shape
        if feed.function in ("nll_loss", "ctc_loss"):
            feed.logged += has_logarithm(node)
            feed.bare_logs += is_bare_logarithm(node)

    def _reach(self, feed: Feed, node: Any, target: Tensor) -> None:
        found = reach_of(node)
        if found is None:
            return
        name, low, high = found
        feed.reach[name] = (low, high)
        beside = 0.05 * (max(abs(low), abs(high)) if high - low < float("inf") else 1.0)
        share = ((target < low - beside) | (target > high + beside)).float().mean()
        self._hub.read(share, partial(_note_reach, feed, name))

    def _columns(self, feed: Feed, target: Tensor) -> None:
        rows, columns = target.shape if target.dim() == 2 else (0, 0)
        if min(rows, columns) < 2 or rows == columns:
            return
        by_sample, by_class = (target.float().sum(axis) for axis in (0, 1))
        facts = [target.float().min(), (by_sample - 1).abs().max(), ((by_class - 1).abs() > 0.05).float().mean()]
        self._hub.read(torch.stack(facts), partial(_note_columns, feed))

    def _left_out(self, feed: Feed, called: Called, target: Tensor, classes: int) -> None:
        ignored = called.argument(4, "ignore_index", -100)
        if type(ignored) is not int or not 0 <= ignored < classes:
            return  # a number that is no class stands for what nobody knows
        kept = target != ignored
        low, high = (target.masked_fill(~kept, value).flatten() for value in (torch.iinfo(target.dtype).max, -1))
        facts = torch.stack([(~kept).sum().float(), kept.sum().float(), low.min().float(), high.max().float()])
        self._hub.read(facts, partial(_note_left_out, feed))

    def _range(self, feed: Feed, called: Called, target: Tensor, reduction: str) -> None:
        if reduction == "none":
            return  # the script has the last word: it may mask
        weight = called.argument(2, "weight")
        if isinstance(weight, Tensor):
            outside = (target < 0) | (target > 1)
            target = torch.where(outside & (weight.expand_as(target) == 0), torch.zeros_like(target), target)
        self._hub.read(torch.stack(torch.aminmax(target)), partial(_note_range, feed))


# Where `reduction` stands when it is given by place; size_average and reduce come before it.
_REDUCTION = {
    "cross_entropy": 6, "nll_loss": 6, "binary_cross_entropy": 5, "binary_cross_entropy_with_logits": 5, "mse_loss": 4,
    "l1_loss": 4, "smooth_l1_loss": 4, "huber_loss": 2, "kl_div": 4,
}  # fmt: skip


def last_softmax(node: Any) -> tuple[bool, Any]:
    """The softmax that a tensor comes from at once: (whether its logarithm is taken, its node), (False, None) for none."""
    if node is None:
        return False, None
    name = node.name()
    if name == "LogSoftmaxBackward0":
        return True, node
    if name == "SoftmaxBackward0":
        return False, node
    if name in ("LogBackward0", "AddBackward0", "ClampBackward1", "ClampBackward0", "ClampMinBackward0"):
        child = node.next_functions[0][0]
        if child is not None and (name == "LogBackward0" or child.name() == "LogSoftmaxBackward0"):
            _, softmax = last_softmax(child)
            return softmax is not None, softmax
        if name != "LogBackward0" and child is not None and child.name() == "SoftmaxBackward0":
            return False, child  # softmax(x) + eps
    return False, None


def saved_axis(softmax: Any, dims: int) -> int:
    """The axis of a softmax node, from 0."""
    axis = int(softmax._saved_dim)
    if axis >= 1 << 63:
        axis -= 1 << 64
    return axis % dims if dims else 0


def reach_of(node: Any) -> tuple[str, float, float] | None:
    """The activation that a tensor comes from, and all that it can give, where numbers have scaled it since; else None."""
    scale = 1.0
    for _ in range(8):
        if node is None:
            return None
        name = node.name()
        if name in BOUNDS:
            low, high = (scale * bound for bound in BOUNDS[name])
            return name, min(low, high), max(low, high)
        factor = _number(node) if name in ("MulBackward0", "DivBackward0") else -1.0 if name == "NegBackward0" else None
        if name not in VIEWS and not factor:
            return None
        scale *= factor or 1.0
        node = next((child for child, _ in node.next_functions if child is not None), None)
    return None


def _number(node: Any) -> float | None:
    """The number by which something is multiplied; None where it is something else."""
    first, second = two(node)
    other = saved(node, "other") if second is None else saved(node, "self") if first is None else None
    if other is None or (operation(node) == "Div" and first is None) or other.numel() != 1 or not float(other):
        return None
    return float(other) if operation(node) == "Mul" else 1 / float(other)


def has_logarithm(node: Any, limit: int = 48) -> bool:
    """Whether a logarithm, or something that cannot be seen into, lies between a node and the layer before it."""
    pending, seen = [node], 0
    while pending and seen < limit:
        each = pending.pop(0)
        seen += 1
        if each is None:
            continue
        name = each.name()
        if name.startswith("Log") or (
            not name.endswith(("Backward0", "Backward1", "Backward2", "AccumulateGrad")) and each is not node
        ):
            return True
        if not name.startswith(LAYERS):
            pending += [child for child, _ in each.next_functions]
    return False


POSITIVE = frozenset(f"{name}Backward0" for name in ("Softplus", "Relu", "Sigmoid", "Exp", "Elu", "Abs", "Pow"))
NUMBERS = frozenset(f"{name}Backward0" for name in ("Add", "Sub", "Mul", "Div", "Neg", "ClampMin", "Clamp")) | {"ClampBackward1"}


def is_bare_logarithm(node: Any) -> bool:
    """Whether a tensor is log(positive(layer)), number by number: nothing has divided by the sum over the classes."""
    if node is None or node.name() not in ("LogBackward0", "LogSigmoidBackward0"):
        return False
    positive = bool(node.name() == "LogSigmoidBackward0")
    for _ in range(16):
        children = [child for child, _ in node.next_functions if child is not None]
        if len(children) != 1:
            return False
        (node,) = children
        name = node.name()
        if name.startswith(LAYERS):
            return positive
        if name in POSITIVE:
            positive = True
        elif name not in NUMBERS and name not in VIEWS:
            return False
    return False


def _normalisation(input: Tensor, axis: int = 1) -> Tensor:
    """(share of rows whose exponentials do not sum to 1, by how much the middle one does not)."""
    sums = input.float().logsumexp(axis).abs()
    return torch.stack([(sums > 0.05).float().mean(), sums.median()])


def _note_left_out(feed: Feed, values: list[float]) -> None:
    ignored, counted, low, high = values
    if ignored and counted:
        feed.left_out += 1
        feed.counted += int(counted)
        feed.counted_low, feed.counted_high = min(feed.counted_low, low), max(feed.counted_high, high)


def _note_silent(feed: Feed, values: list[float]) -> None:
    share, median = values
    feed.silent_unnormalised += share > 0.5
    feed.worst_sum = max(feed.worst_sum, median)


def _note_normalisation(feed: Feed, values: list[float]) -> None:
    share, median = values
    feed.unnormalised += share > 0.5
    feed.worst_sum = max(feed.worst_sum, median)


def _note_range(feed: Feed, values: list[float]) -> None:
    low, high = values
    feed.low, feed.high = min(feed.low, low), max(feed.high, high)
    if low < -0.5 or high > 1.5:
        feed.outside += 1
    elif low < -1e-3 or high > 1 + 1e-3:
        feed.slightly += 1


def _note_kl(feed: Feed, log_target: bool, values: list[float]) -> None:
    feed.positive += values[0] > 1e-3
    feed.negative_target += values[1] < -1e-3 and not log_target
    feed.positive_target += values[1] >= 0 and values[2] > 1e-3 and log_target
    feed.high, feed.low = max(feed.high, values[0]), min(feed.low, values[1])


def _note_columns(feed: Feed, values: list[float]) -> None:
    lowest, apart, rows = values
    feed.columns += lowest >= 0 and apart < 1e-3 and rows > 0.5


def _note_reach(feed: Feed, name: str, share: float) -> None:
    if share > 0.2:
        feed.unreachable[name] += 1
        feed.unreachable_share = max(feed.unreachable_share, share)


OBSERVERS = [FeedWatch]
