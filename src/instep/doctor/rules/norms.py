"""Rules of the modes family about what acts differently in train and eval mode: BatchNorm, spectral norm, dropout."""

import math
from collections.abc import Iterable, Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.dropouts import UNREACHED, Dropouts
from instep.doctor.watch.norms import Early, Norm, Norms
from instep.doctor.watch.phases import by_phase

LATELY = 30  # calls in a row that drop everything


def _by_site(norms: Iterable[tuple[str | None, Norm]]) -> dict[str | None, list[Norm]]:
    groups: dict[str | None, list[Norm]] = {}
    for site, norm in norms:
        groups.setdefault(site, []).append(norm)
    return groups


def _names(norms: list[Norm]) -> str:
    names = [norm.name for norm in norms[:3]]
    return ", ".join(names) + (f" and {len(norms) - 3} more" if len(norms) > 3 else "")


@rule("dropout-in-eval", revocable=True)
def dropout_in_eval(trace: Trace) -> Iterator[Finding]:
    """Dropout that acts although the module that calls it is in eval mode, and that nobody switched on.

    Not: `training=True` in so many words, registered dropouts that were put into train mode, the same input several times over.
    """
    for leak in trace.part(Dropouts).leaks.values():
        if leak.calls < 2 or leak.repeated > 0.2 * leak.calls:
            continue
        if leak.how.startswith(UNREACHED):
            how = f"is not reached by eval(), since {leak.owner}.train does not pass the mode on"
            fix = "super().train(mode)  # in train()"
        elif leak.how.startswith("nn."):
            how, fix = (
                "is not a registered part of the model, so that eval() does not reach it",
                "self.drop = nn.Dropout(p)  # in __init__",
            )
        elif "attention" in leak.how:
            how, fix = "was given dropout_p", "dropout_p=self.p if self.training else 0.0"
        elif "mask" in leak.how:
            how, fix = "does not ask for the mode", "return x * mask / keep if self.training else x"
        else:
            how, fix = "was not told the mode", "F.dropout(x, p, training=self.training)"
        what = leak.how.removeprefix(UNREACHED).strip()
        strength = f" with p={leak.p:g}" if leak.p else ""
        yield Finding(
            "dropout-in-eval",
            f"{what}{strength} was active in {leak.calls} calls of {leak.owner} in eval mode: it {how}.",
            evidence={"function": leak.how, "module": leak.owner, "p": leak.p, "calls": leak.calls},
            where=leak.site,
            since_step=leak.first_step,
            fix=fix,
        )


@rule("frozen-batchnorm-moves", revocable=True, steps=5)
def frozen_batchnorm_moves(trace: Trace) -> Iterator[Finding]:
    """BatchNorms in train mode whose own weights are frozen, from the beginning or from some step on, and do not change.

    Not: a discriminator that is frozen while the generator trains, averages and targets (their weights change), momentum=0.
    """
    frozen = (
        (norm.frozen_site, norm)
        for norm in trace.part(Norms).all
        if norm.frozen >= (5 if not norm.live else 10)
        and norm.frozen >= 4 * norm.thawed
        and not norm.moved
        and len(norm.steps) >= 3
    )
    for site, norms in _by_site(frozen).items():
        model = norms[0].root.name if norms[0].root is not None else "model"
        yield Finding(
            "frozen-batchnorm-moves",
            f"{len(norms)} BatchNorm of {model} ({_names(norms)}) have frozen weights and updated their statistics in "
            f"{norms[0].frozen} calls.",
            evidence={"model": model, "norms": len(norms), "names": [norm.name for norm in norms[:8]], "calls": norms[0].frozen},
            where=site,
            since_step=norms[0].steps[0],
        )


@rule("averaged-batchnorm-stale", revocable=True)
def averaged_batchnorm_stale(trace: Trace) -> Iterator[Finding]:
    """A copy whose weights change from elsewhere, evaluated with other statistics, while a like BatchNorm is trained.

    Those of the moment of the copy; in an average of equal models (SWA), those of the last model, which torch copies; or those
    of the model itself, whose weights are replaced for a call, where these do not fit. Not: moving averages of torch's, whose
    statistics are those of a model close by.
    """
    norms = trace.part(Norms).all
    unfit = _without_fit(trace, norms)
    trained = {norm.features for norm in norms if norm.live >= 3}
    stale = (
        (norm.eval_site, norm)
        for norm in norms
        if norm.features in trained
        and (
            norm.unrefreshed
            or (norm.stale and not norm.train_calls and not norm.optimized and norm.eval_calls)
            or any(norm is each for each in unfit)
        )
    )
    for site, group in _by_site(stale).items():
        model = group[0].root.name if group[0].root is not None else "model"
        weights = "other weights" if group[0].replaced and not group[0].unrefreshed else "averaged weights"
        yield Finding(
            "averaged-batchnorm-stale",
            f"{model} was evaluated with {weights}; the statistics of its {len(group)} "
            f"BatchNorm are those of {_whose(group[0])}.",
            evidence={
                "model": model,
                "norms": len(group),
                "names": [norm.name for norm in group[:8]],
            },
            where=site,
        )


def _without_fit(trace: Trace, norms: list[Norm]) -> list[Norm]:
    """Of each model the norm to which replaced weights gave the most unlike variances, at two times or more, if unlike."""
    worst: dict[int, Norm] = {}
    for norm in norms:
        if len(norm.misfits) >= 2 and norm.root is not None and not norm.unrefreshed:
            known = worst.setdefault(norm.root.number, norm)
            worst[norm.root.number] = max(known, norm, key=_misfit)
    return [norm for norm in worst.values() if trace.exceeds(_misfit(norm), 0.6)]


def _misfit(norm: Norm) -> float:
    return sorted(norm.misfits)[-2]


def _whose(norm: Norm) -> str:
    if norm.unrefreshed:
        return "the last model that went into it"
    if not norm.misfits:
        return "the moment when it was copied"
    return f"the model that is trained, whose variances differ by a factor of up to {math.exp(max(norm.misfits)):.2g}"


@rule("norm-before-first-forward")
def norm_before_first_forward(trace: Trace) -> Iterator[Finding]:
    """Spectral norm whose first call was in eval mode, with an estimate of the norm that is far off."""
    groups: dict[str, list[float]] = {}
    first: dict[str, Early] = {}
    for early in trace.part(Norms).early:
        first.setdefault(early.root, early)
        groups.setdefault(early.root, []).append(abs(early.sigma) / early.norm)
    for root, shares in groups.items():
        early = first[root]
        if trace.steps < 1:
            continue
        yield Finding(
            "norm-before-first-forward",
            f"{len(shares)} layers of {root} with spectral_norm were called in eval mode before any call in train mode: "
            f"{early.layer} is divided by {early.sigma:.3g}, and its norm is about {early.norm:.3g}.",
            evidence={"model": root, "layers": len(shares), "sigma": early.sigma, "norm": early.norm},
            where=early.site,
            since_step=early.step,
        )


@rule("batchnorm-of-one", revocable=True, steps=8)
def batchnorm_of_one(trace: Trace) -> Iterator[Finding]:
    """BatchNorms that train on one sample at a time; a hint where the running statistics are never used."""
    ones = (
        (norm.ones_site, norm)
        for norm in by_phase(trace, trace.part(Norms).all)
        if not norm.shared and norm.ones >= 8 and trace.has_share(norm.ones, norm.graded, 0.6) and norm.live and trace.steps
    )
    for site, norms in _by_site(ones).items():
        model = norms[0].root.name if norms[0].root is not None else "model"
        evaluated = any(norm.eval_calls for norm in norms)
        yield Finding(
            "batchnorm-of-one",
            f"{len(norms)} BatchNorm of {model} ({_names(norms)}) saw one sample at a time in {norms[0].ones} of "
            f"{norms[0].graded} training calls.",
            evidence={"model": model, "norms": len(norms), "calls": norms[0].ones, "of": norms[0].graded, "evaluated": evaluated},
            where=site,
            severity=None if evaluated else "hint",
        )


@rule("dropout-extreme", revocable=True, steps=5)
def dropout_extreme(trace: Trace) -> Iterator[Finding]:
    """Dropout that drops everything, or nearly: a keep-probability given as p. A hint where the rate has grown by and by."""
    for drop in by_phase(trace, trace.part(Dropouts).drops.values()):
        lately = drop.latest >= LATELY  # a rate that has grown
        if not drop.root.trained or drop.extreme < 5 or not (lately or trace.has_share(drop.extreme, drop.calls, 0.9)):
            continue
        everything = lately or drop.all >= 0.9 * drop.calls
        what = "everything" if everything else f"{100 * drop.p:.0f} % of its input"
        yield Finding(
            "dropout-extreme",
            f"{drop.name} of {drop.root.name} has p={drop.p:g} and drops {what} in train mode.",
            evidence={"model": drop.root.name, "name": drop.name, "p": drop.p, "calls": drop.calls},
            where=drop.site,
            cause=f"{drop.site} {drop.name}",
            fix=f"nn.Dropout({1 - drop.p:.2g})  # if {drop.p:g} was meant to be kept",
            severity=None if everything and not drop.has_grown else "hint",
        )
