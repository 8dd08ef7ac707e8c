"""Rules about losses: what they are fed. Shapes, averages and dead losses are in `loss_shapes.py` and `loss_values.py`."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.choices import Choices
from instep.doctor.watch.feeds import Feed, Feeds
from instep.doctor.watch.influence import Influences
from instep.doctor.watch.losses import BY_HAND, Losses, LossKind
from instep.doctor.watch.lossgraphs import LossGraphs
from instep.doctor.watch.optimizers import Optimizers
from instep.doctor.watch.phases import Window, by_phase, windows

HEADS = 6  # inputs of a loss that come from a squashing function, among others that do not
SQUASHED = {"SoftmaxBackward0": "softmax", "SigmoidBackward0": "sigmoid"}


def _after(kind: LossKind, *names: str) -> tuple[str, int]:
    """The squashing function that most inputs come from at once, or all of the last ones, and how many: else ("", 0).

    Those of one head in eight are enough, where one line computes the losses of all heads.
    """
    for name in names:
        count, latest, total = kind.origins[name], kind.latest, kind.origins.total()
        if (count >= 2 and count > 0.5 * total) or (count >= HEADS and count >= total / 8):
            return SQUASHED[name], count
        if len(latest) == latest.maxlen == latest.count(name):
            return SQUASHED[name], count
    return "", 0


@rule("softmax-before-cross-entropy")
def softmax_before_cross_entropy(trace: Trace) -> Iterator[Finding]:
    """Cross-entropy whose input is a softmax by its graph, or by its values where there is no graph to see."""
    found = [finding for window in windows(trace) for finding in _squashed(trace, window)]
    yield from found or _squashed_by_hand(trace)


def _squashed(trace: Trace, window: Window) -> Iterator[Finding]:
    proved_somewhere = False
    kinds = [kind for each in trace.part(Losses).of("cross_entropy") if (kind := window.of(each)) is not None]
    for kind in sorted(kinds, key=lambda kind: -kind.with_graph):
        squashed, count = _after(kind, "SoftmaxBackward0", "SigmoidBackward0")
        looks = kind.examined >= 4 and kind.probabilities == kind.examined
        if _single(trace, window, kind) or not (squashed or looks) or (not kind.with_graph and proved_somewhere):
            continue
        proved_somewhere = True
        seen = kind.origins.total()
        text = (
            f"the result of a {squashed} in {count} of {seen} calls"
            if squashed
            else f"rows that are never negative and sum to 1 in {kind.probabilities} of {kind.examined} calls"
        )
        yield Finding(
            "softmax-before-cross-entropy",
            f"cross_entropy got {text} that were looked at.",
            evidence={
                "calls": kind.count,
                "after": squashed,
                "proved": count,
                "probabilities": kind.probabilities,
                "examined": kind.examined,
            },
            where=kind.squashed_at or kind.site,
            places=_loss_line(kind),
            since_step=kind.first_step,
            severity="error" if squashed == "softmax" else "warning",
        )


def _squashed_by_hand(trace: Trace) -> Iterator[Finding]:
    """A cross-entropy that is written by hand, or by a library: a log-softmax of what is a softmax already."""
    for site in by_phase(trace, trace.part(LossGraphs).sites.values()):
        if site.squashed >= 2 and site.squashed > 0.5 * site.walked:
            yield Finding(
                "softmax-before-cross-entropy",
                f"the log-softmax of the loss got the result of a softmax in {site.squashed} of {site.walked} backwards that "
                "were looked at.",
                evidence={"backwards": site.count, "proved": site.squashed, "examined": site.walked, "after": "softmax"},
                where=site.squashed_at or site.site,
                places=(site.site,) if site.site and site.squashed_at and site.squashed_at != site.site else (),
                since_step=site.first_step,
            )


def _loss_line(kind: LossKind) -> tuple[str, ...]:
    """That of the loss, where the finding stands at what comes before it."""
    return (kind.site,) if kind.site and kind.squashed_at and kind.squashed_at != kind.site else ()


def _single(trace: Trace, window: Window, kind: LossKind) -> bool:
    """Whether that line has one class only, which is said by another rule."""
    feed = window.of(trace.part(Feeds).all.get((kind.function, kind.site)))
    return feed is not None and _has_one_class(feed)


@rule("sigmoid-before-bce-logits")
def sigmoid_before_bce_logits(trace: Trace) -> Iterator[Finding]:
    """A loss on logits whose input is a sigmoid or softmax by its graph, or lies within 0..1 where the graph is closed."""
    whole = trace.part(Losses).of("binary_cross_entropy_with_logits", "multilabel_soft_margin_loss")
    for window, kind in ((window, kind) for window in windows(trace) for each in whole if (kind := window.of(each)) is not None):
        feed = window.of(trace.part(Feeds).all.get((kind.function, kind.site)))
        squashed, count = _after(kind, "SigmoidBackward0", "SoftmaxBackward0")
        closed = (feed is not None and feed.looked > 0 and feed.opaque == feed.looked) or _is_hand_made(kind)
        looks = closed and kind.examined >= 6 and kind.unit == kind.examined
        looks = looks and trace.exceeds(kind.input_max - kind.input_min, 0.05)
        if not (squashed or looks):
            continue
        seen = kind.origins.total()
        yield Finding(
            "sigmoid-before-bce-logits",
            f"{kind.function} got the result of a {squashed} in {count} of {seen} calls that were looked at."
            if squashed
            else f"{kind.function} got values within {kind.input_min:.3g} to {kind.input_max:.3g} in all {kind.examined} "
            "calls that were looked at.",
            evidence={
                "calls": kind.count,
                "after": squashed,
                "proved": count,
                "input_min": kind.input_min,
                "input_max": kind.input_max,
            },
            where=kind.squashed_at or kind.site,
            places=_loss_line(kind),
            since_step=kind.first_step,
            severity="error" if squashed else "warning",
        )

    for site in trace.part(LossGraphs).sites.values():
        if site.sigmoids >= 3 and trace.has_share(site.sigmoids, site.walked, 0.8):
            yield Finding(
                "sigmoid-before-bce-logits",
                "A binary cross-entropy on logits, written by hand, got the result of a sigmoid in "
                f"{site.sigmoids} of {site.walked} backwards that were looked at.",
                evidence={"backwards": site.count, "proved": site.sigmoids, "examined": site.walked, "after": "sigmoid"},
                where=site.site,
                since_step=site.first_step,
            )


def _is_hand_made(kind: LossKind) -> bool:
    """Whether the input comes from what a sigmoid written by hand ends in; a layer's output may lie within 0..1 by chance."""
    ends = ("ReciprocalBackward0", "DivBackward0", "HardsigmoidBackward0", "ClampBackward1", BY_HAND)
    made = sum(count for name, count in kind.origins.items() if name in ends or name.endswith("Backward"))  # or own Functions
    return made > 0.5 * kind.origins.total()


def _wrong_axis(feed: Feed) -> bool:
    """A log-softmax whose rows do not sum to 1 ran over another axis. A square matrix may be meant: a contrastive loss."""
    return feed.log_softmax == feed.looked >= 2 and feed.unnormalised == feed.looked and feed.square <= 0.5 * feed.looked


@rule("softmax-wrong-dim")
def softmax_wrong_dim(trace: Trace) -> Iterator[Finding]:
    """A softmax over the samples of the batch, right before a loss, in one written by hand, or as the output of a model."""
    told = False
    for feed in by_phase(trace, trace.part(Feeds).all.values()):
        rows = feed.softmax_rows >= 2 and feed.softmax_rows > 0.5 * feed.looked and feed.function != "cross_entropy"
        if _wrong_axis(feed) or rows:
            told = True
            yield _over_rows(feed.function, feed.site, feed.first_step, max(feed.softmax_rows, feed.unnormalised), feed.looked)
        elif feed.columns >= 2 and feed.columns > 0.5 * feed.looked:
            told = True
            yield _over_columns(feed)
    for site in by_phase(trace, trace.part(LossGraphs).sites.values()):
        if not told and site.softmax_rows >= 2 and site.softmax_rows > 0.5 * site.walked:
            told = True
            yield _over_rows("the loss", site.site, site.first_step, site.softmax_rows, site.walked)
    for seen in by_phase(trace, trace.part(LossGraphs).outputs.values()):
        if not told and seen.rows >= 3 and seen.rows > 0.8 * seen.calls and not trace.part(Losses).of("cross_entropy"):
            yield _over_rows(f"a model ({seen.model}) of output {seen.shape}", seen.site, seen.first_step, seen.rows, seen.calls)
    for choice in by_phase(trace, trace.part(Choices).all.values()):
        if choice.columns >= 3 and trace.has_share(choice.columns, choice.looked, 0.8):
            yield _over_rows("a Categorical", choice.site, choice.first_step, choice.columns, choice.looked)
    for fact in trace.part(Influences).roots.values():
        if fact.weights is not None:
            yield Finding(
                "softmax-wrong-dim",
                f"Weights of shape {fact.weights_shape} sum to 1 over the {fact.batch} samples of the batch (dim 0), and are "
                f"then summed over another dimension: replacing one sample changed the outputs of {fact.reached} others.",
                evidence={
                    "shape": list(fact.weights_shape),
                    "batch": fact.batch,
                    "reached": fact.reached,
                    "called_at": fact.site,
                },
                where=fact.weights.site or fact.site,
                since_step=fact.step,
                fix="torch.softmax(scores, dim=1)  # over what is summed afterwards",
            )


def _over_columns(feed: Feed) -> Finding:
    return Finding(
        "softmax-wrong-dim",
        f"The targets of {feed.function} sum to 1 over the samples of the batch, and not over the classes, in {feed.columns} of "
        f"{feed.looked} calls that were looked at.",
        evidence={"calls": feed.columns, "looked": feed.looked},
        where=feed.site,
        since_step=feed.first_step,
        fix="torch.softmax(scores, dim=1)  # over the classes",
    )


def _over_rows(what: str, site: str | None, step: int, count: int, seen: int) -> Finding:
    return Finding(
        "softmax-wrong-dim",
        f"The softmax before {what} ran over the samples of the batch in {count} of {seen} calls that were looked at.",
        evidence={"calls": count, "looked": seen},
        where=site,
        since_step=step,
    )


@rule("nll-on-unnormalised")
def nll_on_unnormalised(trace: Trace) -> Iterator[Finding]:
    """NLL loss on scores or probabilities: nothing took a logarithm, and their exponentials do not sum to 1."""
    for feed in by_phase(trace, trace.part(Feeds).of("nll_loss", "ctc_loss")):
        kind = trace.part(Losses).kinds.get((feed.function, feed.site))
        if kind is None or feed.looked < 2:
            continue
        bare = feed.bare_logs >= 0.9 * feed.looked and _is_whole_loss(trace)
        if feed.logged > 0.1 * feed.looked and not bare and not _is_negative(trace):
            continue  # of something that is normalised elsewhere, perhaps
        if not trace.has_share(feed.unnormalised, feed.looked, 0.9):
            continue
        probabilities = kind.origins["SoftmaxBackward0"] > 0.5 * kind.origins.total()
        given = "probabilities" if probabilities else "scores that are no log-probabilities"
        given = "logarithms of numbers that nothing has divided by their sum" if bare else given
        given = "logarithms whose exponentials are above 1" if feed.logged and not bare else given
        yield Finding(
            "nll-on-unnormalised",
            f"{feed.function} got {given} in {feed.unnormalised} of {feed.looked} calls that were looked at: "
            f"the logarithm of the sum of their exponentials is {feed.worst_sum:.3g} away from 0.",
            evidence={
                "calls": feed.graphs,
                "unnormalised": feed.unnormalised,
                "looked": feed.looked,
                "logsumexp": feed.worst_sum,
            },
            where=feed.site,
            since_step=feed.first_step,
            severity="warning" if feed.opaque == feed.looked else "error",
        )
    yield from _evaluated_on_scores(trace)
    yield from _picked_by_hand(trace)


def _picked_by_hand(trace: Trace) -> Iterator[Finding]:
    """A loss by hand that is the negative mean of the targets' scores: nothing keeps them from growing."""
    lowest = {site.site: site.lowest for site in trace.part(Backwards).sites.values()}
    for site in trace.part(LossGraphs).sites.values():
        if site.bare < 3 or not trace.has_share(site.bare, site.walked, 0.9) or not lowest.get(site.site, 0.0) < 0.0:
            continue
        if (
            len(trace.part(Optimizers).all) > 1
            or len({each.site for each in trace.part(LossGraphs).sites.values() if each.count >= 3}) > 1
        ):
            continue  # a critic, perhaps, which something else keeps in bounds
        yield Finding(
            "nll-on-unnormalised",
            f"The loss is the negative mean of the targets' scores in {site.bare} of {site.walked} backwards that were looked "
            "at, and no logarithm of a softmax was taken: it has no lowest value.",
            evidence={"backwards": site.count, "proved": site.bare, "looked": site.walked, "lowest": lowest[site.site]},
            where=site.site,
            since_step=site.first_step,
            fix="log_probs = torch.log_softmax(scores, dim=1)  # then pick from these",
        )


def _evaluated_on_scores(trace: Trace) -> Iterator[Finding]:
    """NLL loss in an evaluation, on what the training gives to cross_entropy: scores. The value that it reports means nothing."""
    if not any(kind.with_graph for kind in trace.part(Losses).of("cross_entropy")):
        return
    for feed in trace.part(Feeds).of("nll_loss"):
        if feed.graphs or feed.silent < 4 or not trace.has_share(feed.silent_unnormalised, feed.silent, 0.9):
            continue
        yield Finding(
            "nll-on-unnormalised",
            f"nll_loss without gradient got scores that are no log-probabilities in {feed.silent_unnormalised} of "
            f"{feed.silent} calls that were looked at, while the training uses cross_entropy: the logarithm of the sum of "
            f"their exponentials is {feed.worst_sum:.3g} away from 0.",
            evidence={"calls": feed.silent, "unnormalised": feed.silent_unnormalised, "logsumexp": feed.worst_sum},
            where=feed.site,
            since_step=feed.first_step,
            severity="warning",
            fix="loss = F.cross_entropy(scores, target)  # as in the training",
        )


def _is_whole_loss(trace: Trace) -> bool:
    """Whether backwards begin at the NLL itself: a point process adds an integral to it, which keeps its intensities low."""
    sites = trace.part(Backwards).sites.values()
    return any(site.count >= 2 and (site.node or "").startswith("NllLoss") for site in sites)


def _is_negative(trace: Trace) -> bool:
    """Whether a loss that is the NLL itself was below 0: probabilities were above 1."""
    sites = trace.part(Backwards).sites.values()
    return any(site.count >= 2 and (site.node or "").startswith("NllLoss") and site.lowest < -0.01 for site in sites)


def _has_one_class(feed: Feed) -> bool:
    return (feed.single >= 3 and feed.single > 0.5 * feed.graphs) or (
        feed.softmax_single >= 3 and feed.softmax_single > 0.5 * feed.looked
    )


@rule("single-class-loss")
def single_class_loss(trace: Trace) -> Iterator[Finding]:
    """Cross-entropy over one class, a softmax over one element before a loss, or one class that `ignore_index` leaves over."""
    for feed in by_phase(trace, trace.part(Feeds).all.values()):
        if feed.left_out >= 6 and feed.left_out > 0.8 * feed.looked and feed.counted_low == feed.counted_high:
            yield _left_over(feed)
        if not _has_one_class(feed):
            continue
        crossed = feed.single > 0
        count, seen = (feed.single, feed.graphs) if crossed else (feed.softmax_single, feed.looked)
        text = "cross_entropy has one class only" if crossed else f"The softmax before {feed.function} runs over one element only"
        yield Finding(
            "single-class-loss",
            f"{text} in {count} of {seen} calls.",
            evidence={"calls": seen, "single": count, "function": feed.function},
            where=feed.site,
            since_step=feed.first_step,
        )


def _left_over(feed: Feed) -> Finding:
    return Finding(
        "single-class-loss",
        f"{feed.function} leaves targets out by ignore_index in {feed.left_out} of {feed.looked} calls that were looked at, "
        f"and all {feed.counted} that it counts are {feed.counted_low:g}: nothing tells this class from another.",
        evidence={"calls": feed.looked, "counted": feed.counted, "class": feed.counted_low, "function": feed.function},
        where=feed.site,
        since_step=feed.first_step,
        severity="warning",
        fix="nn.CrossEntropyLoss()  # a criterion of its own, without ignore_index, where no class is padding",
    )


@rule("kl-on-probabilities")
def kl_on_probabilities(trace: Trace) -> Iterator[Finding]:
    """KL divergence with an input above 0, or a target below 0: not on the scale that it takes."""
    for feed in by_phase(trace, trace.part(Feeds).of("kl_div")):
        for count, text, fix in (
            (feed.positive, f"an input up to {feed.high:.3g}, where log-probabilities are never above 0",
             "F.kl_div(F.log_softmax(student, dim=1), F.softmax(teacher, dim=1), reduction='batchmean')"),
            (feed.negative_target, f"a target down to {feed.low:.3g}, where probabilities are never below 0",
             "F.kl_div(input, target, reduction='batchmean', log_target=True)  # where the target is a logarithm too"),
            (feed.positive_target, "a target that is never below 0 with log_target=True, where logarithms are never above 0",
             "F.kl_div(input, target, reduction='batchmean')  # where the target is probabilities"),
        ):  # fmt: skip
            if count < 2 or not trace.has_share(count, feed.looked, 0.5):
                continue
            yield Finding(
                "kl-on-probabilities",
                f"kl_div got {text}, in {count} of {feed.looked} calls that were looked at.",
                evidence={
                    "calls": feed.graphs,
                    "wrong": count,
                    "looked": feed.looked,
                    "input_max": feed.high,
                    "target_min": feed.low,
                },
                where=feed.site,
                since_step=feed.first_step,
                fix=fix,
            )
            break
