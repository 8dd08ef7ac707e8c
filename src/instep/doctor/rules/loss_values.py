"""Rules about losses: targets that cannot be met, and losses that do not depend on the weights."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.rules.losses import _has_one_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.feeds import BOUNDS, Feeds
from instep.doctor.watch.lossgraphs import LossGraphs
from instep.doctor.watch.phases import by_phase
from instep.doctor.watch.sides import Sides

_NAMES = {"SigmoidBackward0": "sigmoid", "SoftmaxBackward0": "softmax", "TanhBackward0": "tanh", "ReluBackward0": "relu"}


@rule("targets-out-of-range")
def targets_out_of_range(trace: Trace) -> Iterator[Finding]:
    """Targets outside of 0..1 for a loss on probabilities, or out of reach of the activation before a regression loss."""
    for feed in by_phase(trace, trace.part(Feeds).all.values()):
        far = feed.outside >= 2 and feed.outside > 0.3 * feed.looked
        near = feed.slightly >= 3 and feed.slightly > 0.3 * feed.looked
        if far or near:
            count = feed.outside if far else feed.slightly
            yield Finding(
                "targets-out-of-range",
                f"{feed.function} got targets from {feed.low:.4g} to {feed.high:.4g}, where 0 to 1 is expected, in "
                f"{count} of {feed.looked} calls "
                "that were looked at.",
                evidence={"calls": feed.graphs, "outside": count, "looked": feed.looked, "min": feed.low, "max": feed.high},
                where=feed.site,
                since_step=feed.first_step,
                severity=None if far else "hint",
            )
        for name, count in feed.unreachable.items():
            if count < 3 or not trace.has_share(count, feed.looked, 0.8):
                continue
            low, high = feed.reach.get(name, BOUNDS[name])
            yield Finding(
                "targets-out-of-range",
                f"{feed.unreachable_share:.0%} of the targets of {feed.function} lie outside of {low:g} to {high:g}, all "
                f"that the {_NAMES[name]} "
                f"before it can give, in {count} of {feed.looked} calls that were looked at.",
                evidence={
                    "calls": feed.graphs,
                    "share": feed.unreachable_share,
                    "activation": _NAMES[name],
                    "looked": feed.looked,
                },
                where=feed.site,
                since_step=feed.first_step,
                severity="hint" if name == "ReluBackward0" else "warning",
                fix="no activation before a regression loss, or targets scaled into its range",
            )

    yield from _outside_by_hand(trace)
    yield from _without_other_side(trace)


def _without_other_side(trace: Trace) -> Iterator[Finding]:
    """Labels 0 and 1 for a loss that wants -1 and 1: whatever the model says of a 0 counts nothing, or the same.

    Not: zeros that leave out padded pairs. Where they may be that, a hint.
    """
    for sides in by_phase(trace, trace.part(Sides).all.values()):
        if sides.zeros < 3 or sides.negative or sides.mask or not trace.has_share(sides.zeros, sides.looked, 0.8):
            continue
        yield Finding(
            "targets-out-of-range",
            f"{sides.function} wants targets of 1 and -1, and got 0 and 1 in {sides.zeros} of {sides.looked} calls that were "
            f"looked at: the {sides.share:.0%} that are 0 teach nothing.",
            evidence={"calls": sides.calls, "zeros": sides.zeros, "looked": sides.looked, "share": sides.share},
            where=sides.site,
            since_step=sides.first_step,
            severity=None if sides.meant else "hint",
            fix="target = 2 * target - 1  # 1 and -1",
        )


def _outside_by_hand(trace: Trace) -> Iterator[Finding]:
    """A binary cross-entropy that is written by hand, whose targets lie above 1: it falls below 0, and has no lowest value."""
    lowest = {site.site: site.lowest for site in trace.part(Backwards).sites.values()}
    for site in trace.part(LossGraphs).sites.values():
        if site.outside < 3 or not trace.has_share(site.outside, site.walked, 0.5) or not lowest.get(site.site, 0.0) < 0.0:
            continue
        yield Finding(
            "targets-out-of-range",
            f"A binary cross-entropy written by hand got targets from {site.low:.4g} to {site.high:.4g}, where 0 to 1 is "
            f"expected, in {site.outside} of {site.walked} backwards that were looked at.",
            evidence={"backwards": site.count, "outside": site.outside, "looked": site.walked, "min": site.low, "max": site.high},
            where=site.site,
            since_step=site.first_step,
        )


@rule("constant-loss", revocable=True, steps=10)
def constant_loss(trace: Trace) -> Iterator[Finding]:
    """Every backward from a line gave zero gradients only, from the first on, or from the first of a phase."""
    if any(_has_one_class(feed) for feed in trace.part(Feeds).all.values()):
        return  # said by another rule
    for site in by_phase(trace, trace.part(LossGraphs).sites.values()):
        least = 5 if trace.strict else 10
        if site.alive or site.zero < least or not trace.has_share(site.zero, site.count, 0.9):
            continue
        if site.value == 0 and site.zero < 3 * least:
            continue  # a reward that has not come yet, a margin that is kept
        yield Finding(
            "constant-loss",
            f"All {site.zero} backwards from this line gave gradients that are exactly zero; the loss was {site.value:.6g}."
            if site.value is not None
            else f"All {site.zero} backwards from this line gave gradients that are exactly zero.",
            evidence={"backwards": site.zero, "loss": site.value},
            where=site.site,
            since_step=site.first_step,
            severity="hint" if site.value == 0 else "error",
        )
