"""What is known of torch's own losses: how (output, target) become their arguments, and what their mean divides by.

A mean loss is valueᵢ = sumᵢ / countᵢ. With countᵢ at hand the mean over a split batch is exact:

    Σ valueᵢ·countᵢ / Σ countᵢ  =  Σ sumᵢ / Σ countᵢ  =  the mean over the whole batch

and a factor that is the same for all pieces of a batch cancels. The table at the end is the knowledge; `known` looks a
loss up in it once, before the loop. The counts are in loss_counts.py, the arguments in loss_forms.py. Calling the loss, and
what is done about strangers, is left to objective.py.

Not in the table: AdaptiveLogSoftmaxWithLoss, which has parameters to train and gives (output, loss), no tensor.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal

from torch import Tensor, nn
from torch.nn import functional as F

from instep.data.device import readable
from instep.errors import DescriptionError, ObjectiveError
from instep.loop.loss_checks import Compares, checker, explain, wrong_values
from instep.loop.loss_counts import (
    Count,
    Setting,
    always,
    by_classes,
    by_reduction,
    by_weight,
    elements,
    elements_of_two,
    labels,
    pairs,
    rows,
    sequences,
)
from instep.loop.loss_forms import MEAN_AND_VARIANCE, PAIR, SEQUENCES, TRIPLET, TWO_AND_TARGET, Arguments, Form, spreading
from instep.records import record_class

Reduction = Literal["mean", "sum", "none"]
# A single output above it means class 1. "auto": what outputs and targets show, "nearest": halfway between the two targets;
# None: outputs are scores of several classes.
Threshold = float | Literal["auto", "nearest"] | None


@record_class
class Counted:
    """What is known of a loss function.

    >>> import torch
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
