"""Rules of the schedule family about optimizers that begin anew: made again, or loaded."""

from collections.abc import Iterator
from itertools import pairwise

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.rates import Rates
from instep.doctor.watch.renewals import Renewals, Term
from instep.doctor.watch.schedulers import Schedulers


@rule("optimizer-recreated")
def optimizer_recreated(trace: Trace) -> Iterator[Finding]:
    """An optimizer with state, made again and again for the same parameters while they go on training.

    Not: stages with other parameters, weights that are set back in between (folds, tasks of a meta-learner), terms of several
    epochs (tasks that follow each other).
    """
    for line in trace.part(Renewals).lines:
        terms = [term for term in line.terms if term.site == line.site]  # made elsewhere: another phase
        ended = [term for term in terms[:-1] if term.steps]  # one that was made and never stepped has lost nothing
        made = line.made - (len(line.terms) - 1 - len(ended))
        if not line.stateful or made < 3 or not ended:
            continue
        if sum(term.rewritten for term in ended) > 0.2 * len(ended):
            continue
        sure = _by_pass(ended) or _by_step(ended)
        lrs = [term.lr for term in (*ended, line.terms[-1])]
        falling = made >= 5 and all(b < a for a, b in pairwise(lrs))  # a decay that is written as a new optimizer
        alike = len(set(lrs)) == 1 or falling
        if not sure and not (alike and made >= 4 and not any(term.passes for term in ended)):
            continue
        each = sum(term.steps for term in ended) / len(ended)
        what = f"lost its state {line.cleared}" if line.cleared >= len(ended) else f"was made {made}"
        yield Finding(
            "optimizer-recreated",
            f"{line.name} {what} times for the same {line.parameters} parameters, after about {each:.0f} steps each time.",
            evidence={"optimizer": line.name, "made": made, "steps_each": each, "parameters": line.parameters},
            where=line.site,
            since_step=terms[terms.index(ended[0]) + 1].made_step,
            severity=None if sure else "hint",
        )


def _by_pass(terms: list[Term]) -> bool:
    """A new one for every pass over the same loader."""
    return len(terms) >= 2 and all(term.passes == 1 for term in terms) and len({term.loader for term in terms}) == 1


def _by_step(terms: list[Term]) -> bool:
    """A new one for every step or two."""
    return len(terms) >= 5 and all(term.steps <= 2 for term in terms)


@rule("lr-overwritten-by-load")
def lr_overwritten_by_load(trace: Trace) -> Iterator[Finding]:
    """A step with a loaded lr that is not the one the optimizer was made with, nor a scheduled descendant of it."""
    written = trace.part(Rates).written
    # What it has cut by then stands in the rate alone: a resumed one goes on there.
    plateaus = {each.optimizer for each in trace.part(Schedulers).all if each.name == "ReduceLROnPlateau"}
    for load in trace.part(Renewals).loads:
        if (
            not load.used
            or load.optimizer in plateaus
            or load.used != load.loaded
            or len(load.made) != len(load.loaded)
            or not written.get(load.optimizer, True)
        ):
            continue
        others = [
            (made, loaded)
            for made, loaded, initial in zip(load.made, load.loaded, load.initial, strict=True)
            if not _near(made, loaded) and not (initial is not None and _near(made, initial))
        ]
        if not others:
            continue
        made, loaded = others[0]
        yield Finding(
            "lr-overwritten-by-load",
            f"{load.name} was made with lr={made:.4g}; load_state_dict set it to {loaded:.4g}, and the next step used that.",
            evidence={"optimizer": load.name, "made_lr": made, "loaded_lr": loaded, "groups": len(others)},
            where=load.site,
        )


def _near(a: float, b: float) -> bool:
    return abs(a - b) <= 1e-6 * max(abs(a), abs(b))
