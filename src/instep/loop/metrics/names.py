"""What users pass as `metrics=`: names that are known here, functions, torchmetrics objects."""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from instep.errors import DescriptionError
from instep.loop.metrics import classification, ranking
from instep.loop.metrics.counts import ClassTotals, Confusion, Right
from instep.loop.metrics.errors import Errors, LogLikelihood, Variation
from instep.loop.metrics.forms import IGNORED, classify
from instep.loop.metrics.functions import from_function, from_torchmetrics, is_torchmetrics
from instep.loop.metrics.metric import Metric, State

CLASS_METRICS = ("precision", "recall", "f1", "iou", "dice")
AVERAGES = ("macro", "micro", "weighted")
ERRORS = ("mae", "mse", "rmse")
RANKINGS = ("auroc", "average_precision")
NAMES = ("accuracy", "top5", *CLASS_METRICS, *RANKINGS, *ERRORS, "r2", "perplexity", "confusion_matrix")
_ELSEWHERE = {"acc": "accuracy", "auc": "auroc", "ap": "average_precision", "jaccard": "iou", "ppl": "perplexity"}
_TOP = re.compile(r"top_?(\d+)")


def accuracy(output: Tensor, target: Tensor, *, ignore_index: int = IGNORED) -> Tensor:
    """Whether each sample is classified right, as one value a sample.

    `output` holds scores with the classes in dimension 1 (or one logit a sample), `target` class indices. Where a sample has
    several positions (tokens, pixels), its value is the share of them that is right. `ignore_index` marks positions that do not
    count, and a sample without any that does is nan. `metrics="accuracy"` is the share of right answers among all that count.

    >>> import torch
    >>> accuracy(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])).tolist()
    [1.0, 0.0]
    """
    seen = classify("accuracy", output, target, ignore_index=ignore_index)
    counted = seen.counted.reshape(len(target), -1)
    return ((seen.chosen == seen.right).reshape(len(target), -1) & counted).sum(1) / counted.sum(1)


def as_metrics(given: Any) -> dict[str, Metric]:
    """What a user passed as `metrics=`, by name: a mapping, a name, or several names, functions and torchmetrics objects."""
    if given is None:
        return {}
    states: dict[object, State] = {}  # metrics that count the same things share one
    if isinstance(given, Mapping):
        return {name: _as_metric(name, metric, states) for name, metric in given.items()}
    if isinstance(given, str) or callable(given):
        given = [given]
    if not isinstance(given, Iterable):
        raise DescriptionError(f'metrics={given!r} is no metric; pass for example {{"accuracy": accuracy}} or "accuracy".')
    listed = [(_name(metric), metric) for metric in given]
    names = [name for name, _ in listed]
    if twice := {name for name in names if names.count(name) > 1}:
        raise DescriptionError(f"two metrics are called {min(twice)}; pass a mapping that names them.")
    return {name: _as_metric(name, metric, states) for name, metric in listed}


def _as_metric(name: Any, metric: Any, states: dict[object, State]) -> Metric:
    if not isinstance(name, str) or not name or "/" in name or name in ("loss", "ema", "swa"):
        raise DescriptionError(f'metrics= has the name {name!r}; use a word without "/", other than "loss", "ema" and "swa".')
    if metric is accuracy:
        metric = "accuracy"
    if isinstance(metric, str):
        return _known(metric, states)
    if is_torchmetrics(metric):
        return from_torchmetrics(name, metric)
    if not callable(metric) or isinstance(metric, type):
        what = f"the class {metric.__name__}" if isinstance(metric, type) else f"a {type(metric).__name__}"
        raise DescriptionError(f"metric {name} is {what}; pass a function f(output, target), a torchmetrics object, or a name.")
    return from_function(name, metric)


def _known(name: str, states: dict[object, State]) -> Metric:
    """The metric with this name."""

    def state(kind: Callable[..., State], *options: Any) -> State:
        return states.setdefault((kind, *options), kind(name, *options))

    what, how = _taken_apart(name)
    if what == "accuracy" and not how:
        return Metric.of(state(Right), classification.accuracy, more_is_better=True)
    if (top := _TOP.fullmatch(name)) and int(top[1]):
        return Metric.of(state(Right, int(top[1])), classification.accuracy, more_is_better=True)
    if what in CLASS_METRICS and how == "per_class":
        return Metric.of(state(ClassTotals), partial(classification.per_class, what), more_is_better=True, gives="parts")
    if what in CLASS_METRICS and how in ("", *AVERAGES):
        return Metric.of(state(ClassTotals), partial(classification.average, what, how), more_is_better=True)
    if what in RANKINGS and how == "per_class":
        return Metric.of(state(ranking.Scores), partial(ranking.per_class, what), more_is_better=True, gives="parts")
    if what in RANKINGS and how in ("", "macro"):
        return Metric.of(state(ranking.Scores), partial(ranking.average, what), more_is_better=True)
    if name in ERRORS:
        return Metric.of(state(Errors), lambda total: total[name], more_is_better=False)
    if name == "r2":
        return Metric.of(state(Variation), lambda total: total, more_is_better=True)
    if name == "perplexity":
        return Metric.of(state(LogLikelihood), lambda total: total, more_is_better=False)
    if name == "confusion_matrix":
        return Metric.of(state(Confusion), classification.table, more_is_better=None, gives="table")
    raise DescriptionError(_unknown(name))


def _taken_apart(name: str) -> tuple[str, str]:
    """ "f1_per_class" is ("f1", "per_class")."""
    for how in ("per_class", *AVERAGES):
        if name.endswith(f"_{how}"):
            return name.removesuffix(f"_{how}"), how
    return name, ""


def _unknown(name: str) -> str:
    what, _ = _taken_apart(name.lower())
    what = what.removeprefix("roc_").removesuffix("_score")
    near = [_ELSEWHERE[what]] if what in _ELSEWHERE else difflib.get_close_matches(what, NAMES, n=1)
    meant = f"did you mean {near[0]!r}? Known" if near else "known"
    return (
        f"metric {name!r} is not known; {meant} are: {', '.join(NAMES)}; {', '.join(CLASS_METRICS)} also with _macro, _micro, "
        "_weighted and _per_class, auroc and average_precision with _per_class, top with any number. "
        "Or pass a function f(output, target)."
    )


def _name(metric: Any) -> str:
    return metric if isinstance(metric, str) else getattr(metric, "__name__", type(metric).__name__)
