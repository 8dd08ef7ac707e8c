"""Backward calls: from where, on what kind of loss, with which value, and how long their graphs live."""

import math
import weakref
from collections import deque
from dataclasses import field
from functools import partial
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Calls
from instep.doctor.watch.loaders import Loaders

# Nodes that only change the shape of what they are given.
VIEWS = frozenset(
    f"{name}Backward0"
    for name in (
        "View", "UnsafeView", "Reshape", "ReshapeAlias", "Permute", "Transpose", "T", "Slice", "Select", "Squeeze", "Unsqueeze",
        "Expand", "Alias", "Clone", "ToCopy", "Contiguous", "Flatten", "Split", "Narrow", "Unbind", "Index",
    )
) | {"SqueezeBackward1", "SqueezeBackward2", "SliceBackward0", "ViewBackward1", "UnsafeSplitBackward0"}  # fmt: skip


def origin(tensor: Any) -> Any:
    """The node of the operation that gave a tensor, past views and copies; None for one without a graph."""
    node = getattr(tensor, "grad_fn", None)
    for _ in range(16):
        if node is None or node.name() not in VIEWS or not node.next_functions:
            return node
        node = node.next_functions[0][0]
    return None


def past_ones(node: Any) -> Any:
    """The node before divisions by 1: accelerate divides every loss by the batches of an update, also where that is one."""
    while node is not None and node.name() == "DivBackward0" and node.next_functions[1][0] is None:
        divisor = node._saved_other
        if divisor is None or divisor.numel() != 1 or divisor.device.type != "cpu" or float(divisor) != 1.0:
            return node
        node = node.next_functions[0][0]
    return node


def _past_scale(node: Any) -> Any:
    """The node before a loss was scaled: who keeps the loss itself keeps that one, and who keeps the scaled one keeps both."""
    for _ in range(4):
        if node is None or node.name() not in ("DivBackward0", "MulBackward0"):
            break
        inner = [following for following, _ in node.next_functions if following is not None]
        if len(inner) != 1 or inner[0].name().endswith("AccumulateGrad"):
            break
        node = inner[0]
    return node


class Sentinel:
    """Dies with the graph node that holds it."""

    __slots__ = ("__weakref__",)


@record_class
class Backward:
    """One backward call."""

    number: int
    site: str | None
    step: int  # optimizer steps before it
    node: str | None  # name of the node it starts at; None for a leaf, a tensor without graph
    reduction: str | None  # "mean" or "sum", where it starts right at a loss of torch's
    retain: bool
    create: bool
    calls: int  # root calls before it
    batches: int  # batches drawn before it
    loader: int | None  # number of the loader that gave the last batch
    inside_step: bool = False  # in a closure
    drawn: int = 0  # batches of that loader before it
    lines: tuple[str, ...] = ()  # the user's, from that of the backward outwards: a helper may serve several losses
    value: float | None = None  # the loss; None until it is read (on an accelerator one step later), or with several
    accumulated: int = 0  # parameters that it put gradients into
    used: int = 0  # of those, how many a step has used
    dropped: int = 0  # of those, how many were cleared unused


@record_class
class BackwardSite:
    """All backwards from one line."""

    site: str | None
    node: str | None
    reduction: str | None
    count: int = 0
    retain: int = 0
    create: int = 0
    leaf: int = 0  # started at a tensor without graph
    kept: int = 0  # the most graphs of earlier backwards that were alive at once
    kept_steps: int = 0  # over how many backwards that number has only grown
    non_finite: int = 0
    first_non_finite: int | None = None  # step
    last_finite: int = 0  # of its backwards, the last whose loss was finite
    first_value: float | None = None
    last_value: float | None = None
    lowest: float = math.inf
    constant: int = 0  # how many times in a row the value was exactly that before
    first_step: int = 0
    values: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=256))  # (step, loss), the last ones
    graphs: deque[Any] = field(default_factory=lambda: deque(maxlen=64))  # weak references to sentinels


@part_class
class Backwards:
    """The part of the trace about backward calls."""

    sites: dict[str | None, BackwardSite] = field(default_factory=dict)
    recent: deque[Backward] = field(default_factory=lambda: deque(maxlen=128))
    current: Backward | None = None  # the last one begun


class BackwardWatch:
    """Fills `Backwards`. Tells `on_backward(backward, tensor)` before each; `after_backward(called)` comes after."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Backwards)
        self._loaders, self._enclosing = trace.part(Loaders), trace.part(Calls).enclosing
        self._stepping = 0
        self._loss_site: str | None = None  # of the last call or loss that a backward may start from

    def after_call(self, call: Call) -> None:
        if call.grad and call.root.parameters:
            self._loss_site = call.site

    def on_loss(self, kind: Any, _: Called, input: Tensor, __: Any) -> None:
        if input.requires_grad:
            self._loss_site = kind.site

    def before_backward(self, called: Called) -> None:
        trace, tensors = self._trace, called.listed(0, "tensors")
        if not tensors:
            return
        tensor = tensors[0]
        trace.backwards += 1
        node = past_ones(tensor.grad_fn)
        last, line = self._loaders.last, called.site
        if line in self._enclosing and self._loss_site is not None:
            line = self._loss_site  # a framework calls backward; the user's line is that of the loss
        backward = Backward(
            trace.backwards, line, trace.steps, node.name() if node is not None else None, _reduction(node),
            bool(called.argument(2, "retain_graph")), bool(called.argument(3, "create_graph")), trace.calls, trace.batches,
            last.loader.number if last is not None else None, self._stepping > 0,
            last.loader.batches if last is not None else 0, self._hub.locator.lines(2),
        )  # fmt: skip
        site = self._site(backward)
        self._watch_graph(site, _past_scale(node))
        self._note_value(backward, site, tensor)
        self._part.current = backward
        self._part.recent.append(backward)
        self._hub.say("on_backward", backward, tensor)

    def before_step(self, _: Any) -> None:
        self._stepping += 1

    def after_step(self, _: Any) -> None:
        self._stepping = max(self._stepping - 1, 0)

    def _site(self, backward: Backward) -> BackwardSite:
        sites = self._part.sites
        site = sites.get(backward.site)
        if site is None:
            site = BackwardSite(backward.site, backward.node, backward.reduction, first_step=backward.step)
            if len(sites) < 256:
                sites[backward.site] = site
        site.count += 1
        site.retain += backward.retain
        site.create += backward.create
        site.leaf += backward.node is None
        return site

    def _watch_graph(self, site: BackwardSite, node: Any) -> None:
        if node is None:
            return
        sentinel = Sentinel()
        node.metadata["instep"] = sentinel  # the dictionary is there for notes like this
        site.graphs.append(weakref.ref(sentinel))
        if site.count % 8 == 0:
            alive = sum(1 for graph in site.graphs if graph() is not None) - 1  # without the one at hand
            site.kept_steps = (
                site.kept_steps + 8 if alive > site.kept or alive >= 63 else 0 if alive < site.kept else site.kept_steps
            )
            site.kept = alive

    def _note_value(self, backward: Backward, site: BackwardSite, tensor: Tensor) -> None:
        if tensor.numel() == 1 and not tensor.is_complex():
            self._hub.read(tensor.detach().reshape(()), partial(self._value, backward, site))

    def _value(self, backward: Backward, site: BackwardSite, value: float) -> None:
        backward.value = value
        if not math.isfinite(value):
            site.non_finite += 1
            if site.first_non_finite is None:
                site.first_non_finite = backward.step
            return
        site.last_finite = site.count
        if site.first_value is None:
            site.first_value = value
        site.constant = site.constant + 1 if value == site.last_value else 0
        site.last_value = value
        if value < site.lowest:
            site.lowest = value
        site.values.append((backward.step, value))


def _reduction(node: Any) -> str | None:
    code = getattr(node, "_saved_reduction", None)
    return {1: "mean", 2: "sum"}.get(code) if code is not None else None


PATCHES = [
    Patch("backward", ("torch:Tensor.backward", "torch.autograd:backward")),
    Patch("autograd_grad", ("torch.autograd:grad",), group="backward"),
]
OBSERVERS = [BackwardWatch]
