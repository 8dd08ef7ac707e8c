"""Losses: every call of a loss function of torch's, by function and line, with what it was fed."""

from collections import Counter, deque
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.squashes import scaled_softmax, squash_before
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import origin
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.phases import Phases

FUNCTIONS = (
    "cross_entropy", "nll_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "mse_loss", "l1_loss",
    "smooth_l1_loss", "huber_loss", "kl_div", "poisson_nll_loss", "gaussian_nll_loss", "hinge_embedding_loss", "soft_margin_loss",
    "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "margin_ranking_loss", "triplet_margin_loss",
    "cosine_embedding_loss", "ctc_loss",
)  # fmt: skip
EXAMINED = 6  # calls of a phase whose values are looked at one by one, then every 64th
LIMIT = 256
SITE = "instep.site"  # under which a graph node keeps its line
SUMS_TO_ONE = 8e-3  # by how much a row of probabilities may miss 1: bfloat16 has 8 bits
SQUASHING = ("softmax", "sigmoid")
BY_HAND = "squash written by hand"  # an origin: something bounded, with numbers added or multiplied
BOUNDED = frozenset(
    f"{name}Backward0" for name in ("Tanh", "Sigmoid", "Softmax", "Erf", "Atan", "Hardsigmoid", "Hardtanh")
) | {"ClampBackward1"}  # fmt: skip
SCALING = frozenset(f"{name}Backward0" for name in ("Mul", "Add", "Sub", "Rsub", "Div", "Neg"))


@record_class
class LossKind(Tally):
    """Calls of one loss function from one line."""

    function: str  # "cross_entropy", …
    site: str | None
    count: int = 0
    with_graph: int = 0  # calls whose input has a graph: training
    origins: Counter[str] = field(default_factory=Counter)  # what gave the input, "SoftmaxBackward0"; of calls with a graph
    latest: deque[str] = field(default_factory=lambda: deque(maxlen=EXAMINED))  # of those, the last few
    squashed_at: str | None = None  # the line of the softmax or sigmoid that did
    hard: bool = False  # targets are class numbers
    examined: int = 0  # calls whose values were looked at
    probabilities: int = 0  # of those: input rows (dim 1) are >= 0 and sum to 1
    unit: int = 0  # of those: input lies within 0..1
    input_min: float = float("inf")
    input_max: float = float("-inf")
    first_step: int = 0


@part_class
class Losses:
    """The part of the trace about losses."""

    kinds: dict[tuple[str, str | None], LossKind] = field(default_factory=dict)

    def of(self, *functions: str) -> list[LossKind]:
        """The kinds of those functions."""
        return [kind for kind in self.kinds.values() if kind.function in functions]


class LossWatch:
    """Fills `Losses`. Tells `on_loss(kind, called, input, target)` after each call, `on_graded(tensor)` with its input."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._enclosing = trace.part(Losses), trace.part(Calls).enclosing
        self._phases, self._phase = trace.part(Phases), 0
        self._looks: Counter[int] = Counter()  # in this phase, by kind

    def after_loss(self, called: Called) -> None:
        input, target = called.argument(0, "input"), called.argument(1, "target")
        if not isinstance(input, Tensor) or input.device.type == "meta":
            return
        kind = self._kind(called)
        kind.count += 1
        looks = self._look(kind)
        if input.requires_grad:
            kind.with_graph += 1
            node = origin(input) if looks <= EXAMINED or kind.with_graph % 17 == 0 else None  # a prime: heads take turns
            if node is not None:
                node = squash_before(node)
                if kind.function == "cross_entropy":
                    node = scaled_softmax(node) or node
                name = _name(node)
                kind.origins[name] += 1
                kind.latest.append(name)
                kind.squashed_at = node.metadata.get(SITE) or kind.squashed_at
        if looks <= EXAMINED or kind.count % 64 == 0:
            self._examine(kind, called, input.detach(), target)
        self._hub.say("on_loss", kind, called, input, target)
        self._hub.say("on_graded", input)

    def _look(self, kind: LossKind) -> int:
        """How many calls there were in this phase: the first ones are looked at, and then one now and then."""
        if self._phase != self._phases.number:
            self._phase = self._phases.number
            self._looks.clear()
        self._looks[id(kind)] += 1
        return self._looks[id(kind)]

    def after_squash(self, called: Called) -> None:
        """Leave the line where a loss finds it."""
        node = called.result.grad_fn if isinstance(called.result, Tensor) else None
        if node is not None:
            node.metadata[SITE] = called.site  # type: ignore[index]

    def _kind(self, called: Called) -> LossKind:
        key = (called.function, called.site)
        kind = self._part.kinds.get(key)
        if kind is None:
            kind = LossKind(called.function, called.site, first_step=self._trace.steps)
            if len(self._part.kinds) < LIMIT:
                self._part.kinds[key] = kind
                self._enclosing.update(self._hub.locator.outer_sites())
        return kind

    def _examine(self, kind: LossKind, called: Called, input: Tensor, target: Any) -> None:
        if isinstance(target, Tensor):
            kind.hard = not target.is_floating_point()
        if not input.numel() or not input.is_floating_point():
            return
        low, high = torch.aminmax(input)
        facts = [low.float(), high.float()]
        if input.dim() >= 2 and input.shape[1] > 1:
            facts.append((input.float().sum(1) - 1).abs().max())
        self._hub.read(torch.stack(facts), partial(_values, kind))


def _name(node: Any) -> str:
    """That of the operation; for a number times something, that of the something: 1 / (1 + exp(-x)) ends in a product."""
    name = str(node.name())
    if name not in SCALING and name != "ExpBackward0":
        return name
    if is_squash(node) and name not in BOUNDED:
        return BY_HAND
    inner = [str(child.name()) for child, _ in node.next_functions if child is not None]
    return inner[0] if name == "MulBackward0" and inner == ["ReciprocalBackward0"] else name


def is_squash(node: Any, depth: int = 6) -> bool:
    """Whether all that a tensor is made of is bounded, and then moved and scaled by numbers: 0.5 * (1 + tanh(x)), 1 - sigmoid(x).

    A layer in between, or a scale that is learned, makes something else of it.
    """
    name = node.name()
    if name in BOUNDED:
        return True
    children = [child for child, _ in node.next_functions if child is not None]
    if name == "ExpBackward0":  # exp(-softplus(-x))
        (child,) = children
        below = [each.name() for each, _ in child.next_functions if each is not None]
        return bool(child.name() == "NegBackward0" and below == ["SoftplusBackward0"]) or child.name() == "LogSigmoidBackward0"
    return name in SCALING and depth > 0 and bool(children) and all(is_squash(child, depth - 1) for child in children)


def _values(kind: LossKind, values: list[float]) -> None:
    low, high = values[:2]
    kind.examined += 1
    kind.input_min, kind.input_max = min(kind.input_min, low), max(kind.input_max, high)
    kind.unit += low >= 0 and high <= 1
    if len(values) > 2:
        kind.probabilities += low >= 0 and values[2] < SUMS_TO_ONE


PATCHES = [
    Patch("loss", tuple(f"torch.nn.functional:{name}" for name in FUNCTIONS)),
    Patch(
        "squash", tuple(f"{owner}{name}" for owner in ("torch.nn.functional:", "torch:", "torch:Tensor.") for name in SQUASHING)
    ),
]
OBSERVERS = [LossWatch]
