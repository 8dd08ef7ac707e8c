"""The rule about ReduceLROnPlateau: does it wait for what the metric does?"""

import re
from collections.abc import Iterator, Sequence

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.rates import Rate, Rates
from instep.doctor.watch.schedulers import Schedulers

SCORES = re.compile(
    r"acc|f1|auc|auroc|score|dice|iou|bleu|rouge|precision|recall|r2|reward|return|psnr|ssim|\bmap\b", re.IGNORECASE
)
LOSSES = re.compile(r"loss|err|mse|mae|rmse|nll|perplexity|ppl|cost|entropy|dist", re.IGNORECASE)


@rule("plateau-wrong-sign", revocable=True)
def plateau_wrong_sign(trace: Trace) -> Iterator[Finding]:
    """The rate is cut while the metric goes the good way: a score that rises under "min", a loss that falls under "max"."""
    rates = trace.part(Rates).all
    for scheduler in trace.part(Schedulers).all:
        rate, mode = rates.get(scheduler.number), scheduler.horizon.get("mode")
        if rate is None or scheduler.name != "ReduceLROnPlateau" or scheduler.cuts < 1 or len(rate.metrics) < 4:
            continue
        sure = _rising_score(trace, rate) if mode == "min" else _falling_loss(trace, rate)
        if sure is None:
            continue
        first, last = rate.metrics[0][0], rate.metrics[-1][0]
        what = f" ({rate.metric_text})" if rate.metric_text else ""
        yield Finding(
            "plateau-wrong-sign",
            f"ReduceLROnPlateau with mode={mode!r} cut the learning rate {scheduler.cuts} times while its metric{what} "
            f"went from {first:.4g} to {last:.4g}.",
            evidence={
                "mode": mode,
                "cuts": scheduler.cuts,
                "first": first,
                "last": last,
                "steps": scheduler.steps,
                "given": rate.metric_text,
            },
            where=scheduler.sites.most_common(1)[0][0],
            fix='ReduceLROnPlateau(optimizer, mode="max")  # for a score' if mode == "min" else 'mode="min"  # for a loss',
            severity=None if sure else "hint",
        )


def _rising_score(trace: Trace, rate: Rate) -> bool | None:
    """Whether a rising metric is a score: True if surely, False if probably, None if not."""
    metrics = [metric for metric, _, _ in rate.metrics]
    if LOSSES.search(rate.metric_text) or metrics[-1] <= metrics[0]:
        return None
    if SCORES.search(rate.metric_text) and trace.exceeds(-(_agreement(rate, 1) or 0.0), 0.5):
        return True  # it is called a score and goes against the loss; cut so early, it may not rise for long
    if not trace.exceeds(_trend(metrics), 0.5):
        return None
    if not trace.exceeds(-(_agreement(rate, 2) or -1.0), 0.3):  # the training loss does not fall
        return None
    with_loss = _agreement(rate, 1)
    if with_loss is not None and (with_loss > 0 or _is_the_loss(rate)):
        return None
    if SCORES.search(rate.metric_text) or with_loss is not None:
        return True
    return False if min(metrics) >= 0 and max(metrics) <= 1 and max(metrics) > 0.5 else None


def _falling_loss(trace: Trace, rate: Rate) -> bool | None:
    """Whether a falling metric is a loss."""
    metrics = [metric for metric, _, _ in rate.metrics]
    if SCORES.search(rate.metric_text) or metrics[-1] >= metrics[0] or not trace.exceeds(-_trend(metrics), 0.5):
        return None
    if not trace.exceeds(_agreement(rate, 2) or 0.0, 0.5):
        return None
    return bool(LOSSES.search(rate.metric_text)) or _is_the_loss(rate) or (_agreement(rate, 1) or 0.0) > 0.8


def _is_the_loss(rate: Rate) -> bool:
    """Whether the metric is the mean loss of the evaluation, or near it."""
    pairs = [(metric, loss) for metric, loss, _ in rate.metrics if loss is not None]
    return bool(pairs) and all(abs(metric - loss) <= 0.05 * abs(loss) + 1e-9 for metric, loss in pairs)


def _trend(values: Sequence[float]) -> float:
    return _correlation(list(values), [float(i) for i in range(len(values))])


def _agreement(rate: Rate, column: int) -> float | None:
    """How the metric moves with a loss, from -1 to 1; None where that was not seen."""
    pairs = [(row[0], row[column]) for row in rate.metrics]
    known = [(metric, other) for metric, other in pairs if other is not None]
    return _correlation([a for a, _ in known], [b for _, b in known]) if len(known) > 3 else None


def _correlation(a: list[float], b: list[float]) -> float:
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    spread = (sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b)) ** 0.5
    return sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True)) / spread if spread else 0.0
