"""Rules about losses and metrics: shapes that broadcast, padding, means of means, sums."""

from collections.abc import Iterator, Sequence

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.averages import Averages
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.comparisons import Comparisons
from instep.doctor.watch.feeds import ELEMENTWISE, Feeds
from instep.doctor.watch.lossgraphs import LossGraphs
from instep.doctor.watch.padding import BY_HAND, REDUCTIONS, Paddings
from instep.doctor.watch.phases import by_phase
from instep.doctor.watch.summed_terms import SummedTerms


@rule("loss-broadcast")
def loss_broadcast(trace: Trace) -> Iterator[Finding]:
    """Prediction and target that broadcast to more elements than either has, in a loss of torch's or in one written by hand."""
    for feed in by_phase(trace, trace.part(Feeds).of(*ELEMENTWISE)):
        if feed.spread_graphs < 2 or not trace.has_share(feed.spread_graphs, feed.graphs, 0.3) or feed.shapes is None:
            continue
        given, wanted, common = feed.shapes
        yield Finding(
            "loss-broadcast",
            f"{feed.function} got a prediction of shape {given} and a target of shape {wanted}, which gives {common}, "
            f"in {feed.spread_graphs} of {feed.graphs} calls.",
            evidence={
                "calls": feed.graphs,
                "broadcast": feed.spread_graphs,
                "prediction": given,
                "target": wanted,
                "result": common,
            },
            where=feed.site,
            since_step=feed.first_step,
            fix=_same_shape(given, wanted),
        )
    for site in by_phase(trace, trace.part(LossGraphs).sites.values()):
        if site.spread < 3 or not trace.has_share(site.spread, site.walked, 0.8) or site.shapes is None:
            continue
        shape, result = site.shapes
        where = site.site
        if site.spread_by == "Sub":  # the graph does not know the other side; the subtraction was seen itself
            seen = [each for each in trace.part(Comparisons).learned.values() if each.count >= 3]
            if not seen:
                continue
            where = max(seen, key=lambda each: each.count).site
        operation = "difference" if site.spread_by == "Sub" else "product"
        yield Finding(
            "loss-broadcast",
            f"A {operation} of shape {result} is made from a prediction of shape {shape} in {site.spread} of "
            f"{site.walked} backwards "
            "that were looked at: the other side has the same length and another shape.",
            evidence={
                "backwards": site.count,
                "broadcast": site.spread,
                "prediction": shape,
                "result": result,
                "operation": site.spread_by,
            },
            where=where,
            since_step=site.first_step,
            severity="warning",
            fix=_same_shape(shape, (*shape, 1) if len(shape) == 1 else shape[:1]),
        )


def _same_shape(prediction: Sequence[int], target: Sequence[int]) -> str:
    """What to type, by the side that has the dimension too many; "" for the words of the page."""
    return "target.squeeze(1)  # (n,) like the prediction" if (len(prediction), len(target)) == (1, 2) and target[1] == 1 else ""


@rule("metric-broadcast")
def metric_broadcast(trace: Trace) -> Iterator[Finding]:
    """Predictions (n, 1) that are compared with labels (n,), or the other way round."""
    for crossed in trace.part(Comparisons).crossed.values():
        if crossed.count < 2:
            continue
        (one, other), rows = crossed.shapes, crossed.shapes[0][0]
        yield Finding(
            "metric-broadcast",
            f"{one} {crossed.operation} {other} compared each of {rows} samples with all {rows}, {crossed.count} times.",
            evidence={"count": crossed.count, "shapes": [list(one), list(other)], "operation": crossed.operation},
            where=crossed.site,
            since_step=crossed.first_step,
        )
    feeds = trace.part(Feeds)
    trained = {feed.function for feed in feeds.all.values() if feed.spread_graphs}
    for feed in feeds.of(*ELEMENTWISE):
        silent = feed.spread - feed.spread_graphs
        if silent < 2 or feed.graphs or feed.function in trained or feed.shapes is None:
            continue
        given, wanted, common = feed.shapes
        yield Finding(
            "metric-broadcast",
            f"{feed.function} without gradient got a prediction of shape {given} and a target of shape {wanted}, which "
            f"gives {common}, {silent} times.",
            evidence={"count": silent, "shapes": [list(given), list(wanted)], "operation": feed.function},
            where=feed.site,
            since_step=feed.first_step,
        )


@rule("padding-in-loss")
def padding_in_loss(trace: Trace) -> Iterator[Finding]:
    """Targets in rows that end or begin in runs of one value, as their inputs do, which the loss does not ignore."""
    for padded in trace.part(Paddings).all.values():
        if padded.tails < 3 or not trace.has_share(padded.tails, padded.looked, 0.8) or not trace.exceeds(padded.share, 0.05):
            continue
        if not trace.has_share(padded.matched + padded.unseen, padded.tails, 0.5):
            continue  # inputs go on where targets end: a state that lasts, not padding
        value = padded.values.most_common(1)[0][0]
        sure = padded.matched >= 0.5 * padded.tails and padded.lone < padded.tails
        if padded.function == BY_HAND:
            seen, fix = "backwards that were looked at; a loss written by hand counts them like all others.", _masked(value)
        elif padded.function in REDUCTIONS:
            seen, fix = f"calls of {padded.function} that were looked at, which counts them like all others.", _masked(value)
        else:
            seen = f"calls of {padded.function} that were looked at; ignore_index is not {value}."
            fix = f"nn.CrossEntropyLoss(ignore_index={value})"
        yield Finding(
            "padding-in-loss",
            f"Up to {padded.share:.0%} of the targets are {value:g}, in runs at one end of the rows, in "
            f"{padded.tails} of {padded.looked} {seen}",
            evidence={
                "calls": padded.calls, "padded": padded.tails, "looked": padded.looked, "value": value, "share": padded.share,
                "inputs_end_there_too": padded.matched,
            },
            where=padded.site,
            since_step=padded.first_step,
            severity="warning" if sure else "hint",
            fix=fix,
        )  # fmt: skip


def _masked(value: float) -> str:
    return f"mask = target != {value:g}\nloss = (loss_of_each * mask).sum() / mask.sum()"


@rule("loss-summed", steps=10)
def loss_summed(trace: Trace) -> Iterator[Finding]:
    """Backward from a loss of torch's with reduction='sum' over many samples; a sum over the batch that is added to means.

    Not: sums that are added to sums, sums over weights, and those that do not outweigh the means.
    """
    yield from _summed_terms(trace)
    samples = max((feed.samples for feed in trace.part(Feeds).all.values() if feed.reductions["sum"]), default=0)
    for site in trace.part(Backwards).sites.values():
        if site.reduction != "sum" or site.count < 10 or samples < 8:
            continue
        yield Finding(
            "loss-summed",
            f"{site.count} backwards start at a loss that is a sum over up to {samples} samples.",
            evidence={"backwards": site.count, "samples": samples, "node": site.node},
            where=site.site,
            since_step=site.first_step,
        )


def _summed_terms(trace: Trace) -> Iterator[Finding]:
    for term in by_phase(trace, trace.part(SummedTerms).all.values()):
        if term.looked < 8 or not term.samples or not trace.has_share(term.outweighed, term.looked, 0.5):
            continue
        yield Finding(
            "loss-summed",
            f"A term of the loss is a sum over {term.most} numbers of a batch, and others are means: it was "
            f"{term.ratio:.3g} times as large as all of them, and would be smaller with a smaller batch.",
            evidence={"elements": term.most, "samples": term.samples, "ratio": term.ratio, "looks": term.looked},
            where=term.site,
            since_step=term.first_step,
            fix="divide the sum by what it goes over: (error * mask).sum() / mask.sum()",
        )


@rule("ragged-mean")
def ragged_mean(trace: Trace) -> Iterator[Finding]:
    """A mean of batch means that differs from the mean over samples, in a function that divides by the number of batches."""
    for average in trace.part(Averages).all.values():
        if not average.unweighted or not trace.exceeds(average.difference, 0.01):
            continue
        yield Finding(
            "ragged-mean",
            f"The mean of the batch means is {average.by_batch:.4g}, the mean over samples {average.by_sample:.4g} "
            f"({average.difference:.1%} apart): batches have {average.smallest} to {average.largest} samples and count alike.",
            evidence={
                "by_batch": average.by_batch, "by_sample": average.by_sample, "difference": average.difference,
                "passes": average.passes,
                "sizes": [average.smallest, average.largest],
            },
            where=average.site,
            since_step=average.first_step,
        )  # fmt: skip
