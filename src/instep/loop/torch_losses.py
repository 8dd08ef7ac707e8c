"""What is known of torch's own losses: how (output, target) become their arguments, and what their mean divides by.

A mean loss is valueᵢ = sumᵢ / countᵢ. With countᵢ at hand the mean over a split batch is exact:

    Σ valueᵢ·countᵢ / Σ countᵢ  =  Σ sumᵢ / Σ countᵢ  =  the mean over the whole batch

and a factor that is the same for all pieces of a batch cancels. The table at the end is the knowledge; `known` looks a
loss up in it once, before the loop. Calling the loss, and what is done about strangers, is left to objective.py.

Not in the table: AdaptiveLogSoftmaxWithLoss, which has parameters to train and gives (output, loss), no tensor.
"""

import functools
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep.data.device import readable
from instep.errors import DescriptionError, ObjectiveError
from instep.loop.loss_checks import Compares, checker, explain, wrong_values
from instep.records import record_class
from instep.text import listed

Reduction = Literal["mean", "sum", "none"]
# A single output above it means class 1. "auto": what outputs and targets show, "nearest": halfway between the two targets;
# None: outputs are scores of several classes.
Threshold = float | Literal["auto", "nearest"] | None
Arguments = tuple[Any, ...]
Count = Callable[[Arguments], Tensor | int]
Setting = Callable[[str], Any]  # the name of an option -> its value now, None where the loss has no such option


@record_class
class Counted:
    """What is known of a loss function.

    >>> counted = known(nn.CrossEntropyLoss(ignore_index=0))
    >>> arguments = counted.arguments(torch.zeros(3, 5), torch.tensor([1, 0, 4]))
    >>> counted.reduction, counted.count(arguments)
    ('mean', tensor(2))
    """

    reduction: Reduction
    arguments: Callable[[Any, Any], Arguments]  # (output, target) -> the positional arguments of the loss
    count: Count  # arguments -> what a mean of them divides by: int where shapes tell, else 0-dim, still on the device
    ignore_index: int | None = None  # which targets do not count; None: it has no word for that
    threshold: Threshold = "auto"
    name: str = ""
    compares: Compares | None = None
    check: Callable[[Arguments], None] | None = None  # raises where the shapes of the arguments cannot be meant
    takes_pair: bool = False  # one output and one target

    def require_values(self, target: Any) -> None:
        """Raises where the values of a target cannot be meant. Waits for the device."""
        wrong = wrong_values(self.name, self.compares, target)
        if wrong is not None:
            raise ObjectiveError(wrong)

    def expected(self, target: Any) -> float | None:
        """What the counts of a batch's micro-batches should add up to by the target of the batch. Never waits for a device.

        None where the target alone does not say it. Where output and target have other shapes it may be another number.
        """
        if self.reduction != "mean" or not self.takes_pair or not isinstance(target, Tensor):
            return None
        try:
            count = self.count((target, target))
        except (RuntimeError, IndexError):  # the loss will say what is wrong with this target
            return None
        if isinstance(count, Tensor):
            return float(count.item()) if readable(count) else None
        return float(count)

    def explain(self, arguments: Arguments, error: Exception) -> ObjectiveError | None:
        """What the loss raised, in words; None where nothing better can be said."""
        return explain(self.name, self.compares, arguments, self.ignore_index, error)


def known(loss: Callable[..., Any]) -> Counted | None:
    """What is known of `loss`: a function or module of torch, or a partial of one. None: nobody knows this callable.

    Options are read here, once; only a module's `weight` is read at each count, as `.to(device)` replaces it.
    """
    base, args, keywords = unwrapped(loss)
    rule = RULES.get(called_function(base))
    if rule is None:
        return None
    name, parameters = named(base)
    bound = bound_options(name, parameters, args, keywords)
    setting = module_setting(base) if isinstance(base, nn.Module) else function_setting(name, parameters, bound)
    return Counted(
        reduction=reduction_of(name, setting("reduction")),
        arguments=spreading(name, rule.forms, tuple(parameters.parameters), bound),
        count=rule.count(setting),
        ignore_index=setting("ignore_index"),
        threshold=rule.threshold,
        name=name,
        compares=rule.compares,
        check=checker(name, rule.compares),
        takes_pair=rule.forms == PAIR,
    )


def ignored_by(loss: Callable[..., Any]) -> int | None:
    """The ignore_index of a loss that nobody knows: bound by a partial, an attribute of a module, or a function's default."""
    base, _, keywords = unwrapped(loss)
    found = keywords.get("ignore_index", getattr(base, "ignore_index", None))
    if found is None and inspect.isfunction(base):
        parameter = inspect.signature(base).parameters.get("ignore_index")
        found = None if parameter is None else parameter.default
    return found if type(found) is int else None


# --- Taking a loss apart


def unwrapped(loss: Callable[..., Any]) -> tuple[Callable[..., Any], Arguments, dict[str, Any]]:
    """The callable inside (nested) partials, and what they bind; an outer keyword replaces an inner one."""
    args: Arguments = ()
    keywords: dict[str, Any] = {}
    while isinstance(loss, functools.partial):
        args, keywords = loss.args + args, {**loss.keywords, **keywords}
        loss = loss.func
    return loss, args, keywords


def called_function(base: Callable[..., Any]) -> Callable[..., Any] | None:
    """The function that runs when `base` is called: itself, or its class's `forward`, which subclasses may inherit."""
    if not isinstance(base, nn.Module):
        return base if inspect.isfunction(base) else None
    replaced = "forward" in vars(base) or type(base).__call__ is not nn.Module.__call__
    return None if replaced else type(base).forward


def named(base: Callable[..., Any]) -> tuple[str, inspect.Signature]:
    """The name of a loss for messages, and the parameters that it is called with."""
    if isinstance(base, nn.Module):
        return type(base).__name__, inspect.signature(base.forward)
    return base.__name__, inspect.signature(base)


def bound_options(name: str, parameters: inspect.Signature, args: Arguments, keywords: Mapping[str, Any]) -> dict[str, Any]:
    """What the partials bind, by parameter."""
    try:
        return dict(parameters.bind_partial(*args, **keywords).arguments)
    except TypeError as error:
        raise DescriptionError(f"this partial of {name} cannot be called: {error}.") from error


def module_setting(module: nn.Module) -> Setting:
    return lambda name: getattr(module, name, None)


def function_setting(name: str, parameters: inspect.Signature, bound: Mapping[str, Any]) -> Setting:
    """The options of a function, bound or default, with `size_average` and `reduce` worked into `reduction`."""
    options = {key: parameter.default for key, parameter in parameters.parameters.items()} | dict(bound)
    size_average, reduce = options.get("size_average"), options.get("reduce")
    if size_average is None and reduce is None:
        return options.get
    if options["reduction"] == "batchmean":  # torch then reduces by the old names and divides by N on top
        raise DescriptionError(
            f"{name} has size_average={size_average}, reduce={reduce} and reduction='batchmean', and would divide "
            "twice; use reduction='batchmean' alone."
        )
    return (options | {"reduction": legacy_reduction(size_average, reduce)}).get


def legacy_reduction(size_average: bool | None, reduce: bool | None) -> Reduction:
    """What the old arguments, which overrule `reduction`, stand for; None is True."""
    if reduce is not None and not reduce:
        return "none"
    return "mean" if size_average is None or size_average else "sum"


REDUCTIONS: Mapping[str, Reduction] = {
    "mean": "mean",
    "elementwise_mean": "mean",
    "batchmean": "mean",
    "sum": "sum",
    "none": "none",
}


def reduction_of(name: str, reduction: Any) -> Reduction:
    if reduction not in REDUCTIONS:
        raise DescriptionError(f"{name} has reduction={reduction!r}; use 'mean' or 'sum'.")
    return REDUCTIONS[reduction]


# --- Arguments: who brings which


@record_class
class Form:
    """Which positional arguments of a loss the output brings and which the target; none: that side is not looked at."""

    output: tuple[int, ...]
    target: tuple[int, ...]

    @property
    def width(self) -> int:
        return len(self.output) + len(self.target)

    @property
    def sides(self) -> tuple[bool, bool]:
        return bool(self.output), bool(self.target)

    def up_to(self, width: int) -> "Form":
        """The form without the arguments from position `width` on."""
        return Form(tuple(i for i in self.output if i < width), tuple(i for i in self.target if i < width))

    def placed(self, output: Any, target: Any) -> Arguments | None:
        """The arguments in the loss's order; None where output and target do not have this form."""
        left, right = parts(output, len(self.output)), parts(target, len(self.target))
        if left is None or right is None:
            return None
        by_position = dict(zip((*self.output, *self.target), (*left, *right), strict=True))
        return tuple(by_position[i] for i in range(len(by_position)))

    def in_words(self, names: tuple[str, ...]) -> str:
        sides = (("output", self.output), ("target", self.target))
        return " and ".join(f"{side}={wanted([names[i] for i in places])}" for side, places in sides if places)


PAIR = (Form(output=(0,), target=(1,)),)
TWO_AND_TARGET = (Form(output=(0, 1), target=(2,)),)
TRIPLET = (Form(output=(0, 1, 2), target=()),)
MEAN_AND_VARIANCE = (Form(output=(0, 2), target=(1,)),)
SEQUENCES = (Form(output=(0,), target=(1, 2, 3)), Form(output=(0, 2), target=(1, 3)))


def spreading(
    name: str, forms: tuple[Form, ...], names: tuple[str, ...], bound: Mapping[str, Any]
) -> Callable[[Any, Any], Arguments]:
    """The function (output, target) -> arguments of a loss in one of these forms, less what a partial binds."""
    inputs = names[: forms[0].width]
    free = tuple(i for i in inputs if i not in bound)
    left = tuple(form.up_to(len(free)) for form in forms)
    # What is bound must stand behind what is still passed by position, and leave each side something to bring.
    if free != inputs[: len(free)] or any(old.sides != new.sides for old, new in zip(forms, left, strict=True)):
        taken = " and ".join(repr(i) for i in inputs if i in bound)
        raise DescriptionError(
            f"this partial of {name} binds {taken}, so it cannot take {in_words(forms, names)}; "
            "write an objective that returns Loss(value, count)."
        )
    expected = f"{name} takes {in_words(left, names)}"
    return functools.partial(pair, expected) if left == PAIR else functools.partial(spread, expected, left)


def pair(expected: str, output: Any, target: Any) -> Arguments:
    """The usual case, which every micro-batch goes through."""
    if isinstance(output, Tensor) and isinstance(target, Tensor):
        return output, target
    raise misshapen(expected, output, target)


def spread(expected: str, forms: tuple[Form, ...], output: Any, target: Any) -> Arguments:
    """The arguments by the first form that output and target have."""
    for form in forms:
        arguments = form.placed(output, target)
        if arguments is not None:
            return arguments
    raise misshapen(expected, output, target)


def parts(side: Any, number: int) -> Arguments | None:
    """A side as `number` arguments: one is a tensor by itself, several are a tuple or list."""
    if number == 0:
        return ()
    if number == 1:
        return (side,) if isinstance(side, Tensor) else None
    return tuple(side) if isinstance(side, tuple | list) and len(side) == number else None


def misshapen(expected: str, output: Any, target: Any) -> ObjectiveError:
    if isinstance(target, list | tuple) and target and isinstance(target[0], str):
        words = listed(dict.fromkeys(map(repr, target)), most=3)
        return ObjectiveError(
            f"{expected}; the target is a list of words ({words}). Losses compare numbers: give each word a number in the data, "
            "like names.index(word) for a sorted list of all names."
        )
    return ObjectiveError(f"{expected}; got output={seen(output)} and target={seen(target)}.")


def in_words(forms: tuple[Form, ...], names: tuple[str, ...]) -> str:
    return ", or ".join(form.in_words(names) for form in forms)


def wanted(names: list[str]) -> str:
    return f"a tensor ({names[0]})" if len(names) == 1 else f"({', '.join(names)})"


def seen(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {tuple(value.shape)}"
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)} ({', '.join(seen(item) for item in value)})"
    return "None" if value is None else type(value).__name__


# --- Counts: what a mean divides by


def broadcast(*shapes: torch.Size) -> torch.Size:
    """The common shape. torch's own function takes 13 µs, also where the shapes are equal, as they mostly are."""
    first, *others = shapes
    if all(shape == first for shape in others):
        return first
    return torch.Size(torch.broadcast_shapes(*shapes))


def elements(arguments: Arguments) -> int:
    """Elements of what the arguments broadcast to."""
    return math.prod(broadcast(*(argument.shape for argument in arguments)))


def elements_of_two(arguments: Arguments) -> int:
    """Gaussian NLL: a variance is broadcast to input and target in a way of its own, and adds no elements."""
    return elements(arguments[:2])


def rows(arguments: Arguments) -> int:
    """(N, C) -> N, (C) -> 1. What a user's distance makes of a row is unknown, but the same for all, so it cancels."""
    return math.prod(broadcast(*(argument.shape for argument in arguments))[:-1])


def pairs(arguments: Arguments) -> int:
    """Cosine embedding: (N, D), (N, D), target (N) -> N."""
    one, two, target = arguments
    return math.prod(broadcast(one.shape[:-1], two.shape[:-1], target.shape))


def samples(arguments: Arguments) -> int:
    """The first dimension of the input, which KL's "batchmean" divides by; 1 where there is none."""
    return math.prod(arguments[0].shape[:1])


def labels(arguments: Arguments) -> int:
    """Multi-margin: one label a sample; its class weights are multiplied with, not divided by."""
    return math.prod(arguments[1].shape)


def sequences(arguments: Arguments) -> int:
    """CTC: log_probs (T, N, C) -> N, (T, C) -> 1. Each sequence is divided by its own length before the mean."""
    return math.prod(arguments[0].shape[1:-1])


def always(count: Count) -> Callable[[Setting], Count]:
    """The count that no option changes."""
    return lambda setting: count


def by_reduction(setting: Setting) -> Count:
    return samples if setting("reduction") == "batchmean" else elements


def by_weight(setting: Setting) -> Count:
    """l1_loss and mse_loss divide by Σ weight where they have one; huber_loss has one too and divides by elements."""
    return elements if setting("weight") is None else lambda arguments: summed(setting("weight"))


def by_classes(setting: Setting) -> Count:
    """Cross-entropy and NLL, the target their last argument. Label smoothing changes none of it.

    class indices:       targets that are not ignored; with class weights Σ weight[y] over these
    class probabilities: (N, C, d₁, …) -> N·d₁·…, with or without weights; nothing is ignored
    """
    option = setting("ignore_index")
    ignore_index: int = -100 if option is None else option  # linear_cross_entropy's None is the -100 of the others

    may_all_count = ignore_index < 0  # until some were ignored: the other batches are likely to have such ones too

    def kept(arguments: Arguments) -> Tensor | int:
        nonlocal may_all_count
        target = arguments[-1]
        if target.is_floating_point():
            return probabilities(target)
        if may_all_count and readable(target) and target.numel():
            if target.min().item() >= 0:
                return int(target.numel())  # nothing is ignored, found with one operation instead of two
            may_all_count = False
        return torch.count_nonzero(indices(target) != ignore_index)

    def weight_of_kept(arguments: Arguments) -> Tensor | int:
        target = arguments[-1]
        if target.is_floating_point():
            return probabilities(target)
        target = indices(target).flatten()
        is_kept = target != ignore_index
        # An ignored target may be no index, so it looks up class 0: picking out the kept would wait for the device.
        weights = setting("weight").index_select(0, target * is_kept)
        return summed(torch.where(is_kept, weights, 0))

    return kept if setting("weight") is None else weight_of_kept


def indices(target: Tensor) -> Tensor:
    """Class indices as int64. torch takes uint8 too, where 156 would equal an ignore_index of -100."""
    return target if target.dtype is torch.int64 else target.long()


def probabilities(target: Tensor) -> int:
    """Distributions in a target of (C) or (N, C, d₁, …). torch knows these by their shape and insists on the dtype."""
    return math.prod(target.shape[:1]) * math.prod(target.shape[2:]) if target.dim() > 1 else 1


def summed(weights: Tensor) -> Tensor:
    """Σ, at least in float32: in bfloat16 a sum stands still at 256."""
    return weights.detach().sum(dtype=torch.promote_types(weights.dtype, torch.float32))


# --- The table


@record_class
class Rule:
    """How the losses of these names, modules and functions, take their arguments and what their mean divides by."""

    names: tuple[str, ...]
    forms: tuple[Form, ...]
    count: Callable[[Setting], Count]
    threshold: Threshold = "auto"
    compares: Compares | None = None


TABLE = (
    Rule(("CrossEntropyLoss", "cross_entropy"), PAIR, by_classes, threshold=None, compares="scores"),
    Rule(("NLLLoss", "NLLLoss2d", "nll_loss"), PAIR, by_classes, threshold=None, compares="log-probabilities"),
    Rule(("LinearCrossEntropyLoss",), PAIR, by_classes, threshold=None),
    Rule(("linear_cross_entropy",), TWO_AND_TARGET, by_classes, threshold=None),
    Rule(("BCELoss", "binary_cross_entropy"), PAIR, always(elements), threshold=0.5, compares="probabilities"),
    Rule(("BCEWithLogitsLoss", "binary_cross_entropy_with_logits"), PAIR, always(elements), threshold=0.0, compares="logits"),
    Rule(("L1Loss", "MSELoss"), PAIR, always(elements), threshold="nearest", compares="numbers"),
    Rule(("l1_loss", "mse_loss"), PAIR, by_weight, threshold="nearest", compares="numbers"),
    Rule(
        ("SmoothL1Loss", "smooth_l1_loss", "HuberLoss", "huber_loss"),
        PAIR,
        always(elements),
        threshold="nearest",
        compares="numbers",
    ),
    Rule(("KLDivLoss", "kl_div"), PAIR, by_reduction, compares="numbers"),
    Rule(("PoissonNLLLoss", "poisson_nll_loss"), PAIR, always(elements), compares="numbers"),
    Rule(("GaussianNLLLoss", "gaussian_nll_loss"), MEAN_AND_VARIANCE, always(elements_of_two), compares="numbers"),
    Rule(("HingeEmbeddingLoss", "hinge_embedding_loss"), PAIR, always(elements), compares="numbers"),
    Rule(("SoftMarginLoss", "soft_margin_loss"), PAIR, always(elements), threshold=0.0, compares="numbers"),
    Rule(("MultiMarginLoss", "multi_margin_loss"), PAIR, always(labels), threshold=None),
    Rule(("MultiLabelMarginLoss", "multilabel_margin_loss"), PAIR, always(rows)),
    Rule(("MultiLabelSoftMarginLoss", "multilabel_soft_margin_loss"), PAIR, always(rows), threshold=0.0, compares="numbers"),
    Rule(("CosineEmbeddingLoss", "cosine_embedding_loss"), TWO_AND_TARGET, always(pairs)),
    Rule(("MarginRankingLoss", "margin_ranking_loss"), TWO_AND_TARGET, always(elements)),
    Rule(("TripletMarginLoss", "triplet_margin_loss"), TRIPLET, always(rows)),
    Rule(("TripletMarginWithDistanceLoss", "triplet_margin_with_distance_loss"), TRIPLET, always(rows)),
    Rule(("CTCLoss", "ctc_loss"), SEQUENCES, always(sequences)),
)


def by_function(table: tuple[Rule, ...]) -> dict[object, Rule]:
    """The table by the function that runs: torch's, or a module's forward. Names that this torch lacks are left out."""
    rules: dict[object, Rule] = {}
    for rule in table:
        for name in rule.names:
            if name in vars(nn):
                rules[vars(nn)[name].forward] = rule
            elif name in vars(F):
                rules[vars(F)[name]] = rule
    return rules


RULES = by_function(TABLE)
