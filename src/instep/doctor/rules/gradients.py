"""Rules about gradients: what steps use, what is thrown away, in which order things come."""

from collections.abc import Iterator, Sequence

from instep.doctor.cycle_tallies import BackwardPlace, Cycles
from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.byhand import ByHand
from instep.doctor.watch.cycles import CyclePart
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.hand_phases import HandPhase
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers, StepFact
from instep.doctor.watch.phases import by_phase, windows
from instep.doctor.watch.scaling import Scaling
from instep.doctor.watch.scores import Praise, Scores
from instep.doctor.watch.unreached import Unreached


def _last(optimizer: OptimizerRecord, name: str) -> StepFact | None:
    """The last step of which a number is not 0."""
    return next((fact for fact in reversed(optimizer.recent) if getattr(fact, name)), None)


def _stepping(trace: Trace) -> Iterator[tuple[OptimizerRecord, Cycles]]:
    """Optimizers and their cycles, of each phase by itself and of the whole run."""
    known = trace.part(CyclePart).optimizers
    for window in windows(trace):
        for record in trace.part(Optimizers):
            optimizer = window.of(record)
            if optimizer is not None:
                yield optimizer, window.of(known.get(optimizer.number)) or Cycles()


def _is_foreign(optimizer: OptimizerRecord, cycles: Cycles, *, at_least: int = 3) -> bool:
    """Whether its steps use gradients of another optimizer's loss: another step between two backwards, which are of two lines,
    or the later of which does not reach that other optimizer."""
    foreign, apart = optimizer.totals.get("foreign", 0), optimizer.totals.get("apart", 0)
    if apart >= 5 and apart >= 0.1 * optimizer.steps:  # a critic may step several times for each step of the other
        return True
    mixed = max(cycles.mixed, apart)
    whole = foreign >= at_least and foreign >= 0.5 * optimizer.steps and mixed >= 0.4 * optimizer.steps
    return whole or (_holds_since(optimizer, "foreign") and mixed >= 0.8 * foreign)


def _holds_since(optimizer: OptimizerRecord, name: str) -> bool:
    """Whether something happens in nearly every step since it came up, after steps without it: in a second phase."""
    count, before = optimizer.totals.get(name, 0), optimizer.begun.get(name, 0)
    return count >= 6 and before >= 6 and count >= 0.8 * (optimizer.steps - before)


@rule("missing-zero-grad")
def missing_zero_grad(trace: Trace) -> Iterator[Finding]:
    """Steps whose gradient still holds what an earlier step has used, below something new."""
    for optimizer, cycles in _stepping(trace):
        stale = optimizer.totals.get("stale", 0)
        often = stale >= 2 and (_holds_since(optimizer, "stale") or trace.has_share(stale, optimizer.steps, 0.3))
        if not often or _is_foreign(optimizer, cycles, at_least=1):
            continue  # foreign-gradients says it
        fact = _last(optimizer, "stale")
        if fact is None or cycles.altered > 0.5 * cycles.compared:
            continue
        if fact.closure and (fact.used_held < 8 or not trace.has_share(stale, optimizer.steps, 0.8)):
            continue  # SAM and its like come back to gradients that a step has used
        yield Finding(
            "missing-zero-grad",
            f"{stale} of {optimizer.steps} steps of {optimizer.name} used gradients that an earlier step had already used: "
            f"at the last one those of {_listed(fact)} still held {fact.used_held} old backward calls below the new one.",
            evidence={
                "optimizer": optimizer.name,
                "steps": optimizer.steps,
                "stale_steps": stale,
                "parameters": fact.stale,
                "names": list(fact.names),
                "old_backwards_in_gradient": fact.used_held,
            },
            where=fact.site,
            since_step=optimizer.first["stale"],
        )
    yield from _stepped_twice(trace)
    hand = trace.part(ByHand)
    if not trace.steps and hand.grown >= 6 and trace.has_share(hand.grown, hand.looked, 0.9):
        yield _by_hand(hand)
    later = trace.part(HandPhase)
    if later.looked >= 24 and trace.has_share(later.grown, later.looked, 0.9):
        yield _by_hand(later)


def _listed(fact: StepFact) -> str:
    """All parameters, or the names of some."""
    if fact.stale >= fact.parameters:
        return f"all {fact.parameters} parameters" if fact.parameters > 1 else "its parameter"
    return _some(fact.names, fact.stale)


def _some(names: Sequence[str], count: int | None = None) -> str:
    """The first three of them."""
    rest = (len(names) if count is None else count) - 3
    shown = ", ".join(names[:3])
    return shown if rest <= 0 else f"{shown} and {rest} more"


def _stepped_twice(trace: Trace) -> Iterator[Finding]:
    """Steps that come without any new backward, on gradients that a step has used already."""
    for optimizer in by_phase(trace, trace.part(Optimizers)):
        again = optimizer.totals.get("again", 0)
        fact = next((fact for fact in reversed(optimizer.recent) if fact.reused and not fact.fresh), None)
        if fact is None or fact.closure or again < 3 or not trace.has_share(again, optimizer.steps, 0.3):
            continue
        yield Finding(
            "missing-zero-grad",
            f"{again} of {optimizer.steps} steps of {optimizer.name} came without a new backward: they used the gradients of "
            "the step before once more.",
            evidence={
                "optimizer": optimizer.name,
                "steps": optimizer.steps,
                "repeated_steps": again,
                "parameters": fact.reused,
                "names": list(fact.names),
            },
            where=fact.site,
            since_step=optimizer.first["again"],
            fix="optimizer.step()  # once for each backward; and zero_grad() after it",
        )


def _by_hand(hand: ByHand | HandPhase) -> Finding:
    return Finding(
        "missing-zero-grad",
        f"weights are updated by hand, and {hand.grown} of {hand.looked} backwards added to a gradient that had been "
        "used before: "
        f"that of {hand.name} held {hand.held} old backward calls.",
        evidence={"parameter": hand.name, "backwards": hand.looked, "moved": hand.moved, "old_backwards_in_gradient": hand.held},
        where=max(hand.sites, key=lambda site: hand.sites[site]),
        since_step=hand.first_step if isinstance(hand, HandPhase) else 0,
        fix="p.grad = None  # after each update, for every p",
    )


@rule("foreign-gradients")
def foreign_gradients(trace: Trace) -> Iterator[Finding]:
    """Steps whose gradient holds a backward that another optimizer's step had already answered, or that is meant for another."""
    for optimizer, cycles in _stepping(trace):
        fact = _last(optimizer, "foreign")
        if fact is None or not _is_foreign(optimizer, cycles):
            continue
        foreign, lines = optimizer.totals["foreign"], [line for line in cycles.mixed_sites or cycles.sites if line]
        yield Finding(
            "foreign-gradients",
            f"{foreign} of {optimizer.steps} steps of {optimizer.name} (made at {optimizer.site}) also used gradients "
            "of a loss that another "
            f"optimizer had stepped for: {fact.foreign} of {fact.parameters} gradients hold backwards of {' and '.join(lines)}.",
            evidence={
                "optimizer": optimizer.name,
                "made_at": optimizer.site,
                "steps": optimizer.steps,
                "foreign_steps": foreign,
                "parameters": fact.foreign,
                "backwards_at": lines,
            },
            where=fact.site,
            since_step=optimizer.first.get("foreign"),
        )
    told = {optimizer.number for optimizer, cycles in _stepping(trace) if _is_foreign(optimizer, cycles)}
    for window in windows(trace):
        for record in trace.part(Optimizers):
            stepped, praise = window.of(record), window.of(trace.part(Scores).optimizers.get(record.number))
            if record.number not in told and stepped is not None and praise is not None:
                yield from _praised(trace, stepped, praise)


def _praised(trace: Trace, optimizer: OptimizerRecord, praise: Praise) -> Iterator[Finding]:
    """Steps that also use the loss by which an actor or a generator raises what this optimizer's own network says of it."""
    if praise.uses < 4 or not trace.has_share(praise.uses, optimizer.steps, 0.5):
        return
    own, other = praise.sites
    yield Finding(
        "foreign-gradients",
        f"{praise.uses} of {optimizer.steps} steps of {optimizer.name} (made at {optimizer.site}) used, besides the loss of "
        f"{own}, that of {other}, by which another optimizer raises the output of this one's own network: it learns to give "
        "high scores.",
        evidence={
            "optimizer": optimizer.name,
            "made_at": optimizer.site,
            "steps": optimizer.steps,
            "foreign_steps": praise.uses,
            "backwards_at": [own, other],
        },
        where=praise.site,
        since_step=praise.first_step,
        fix=f"critic_optimizer.zero_grad()  # between the backward of {other} and that of {own}",
    )


def _nothing(trace: Trace, optimizer: OptimizerRecord, count: int) -> bool:
    return count >= 3 and trace.has_share(count, optimizer.steps, 0.8)


@rule("zero-grad-before-step")
def zero_grad_before_step(trace: Trace) -> Iterator[Finding]:
    """Steps that find nothing, since the gradients were cleared after their backward."""
    for optimizer, cycles in _stepping(trace):
        fact = _last(optimizer, "arrived")
        if fact is None or not _nothing(trace, optimizer, cycles.lost) or cycles.early >= 0.5 * cycles.lost:
            continue
        yield Finding(
            "zero-grad-before-step",
            f"{cycles.lost} of {optimizer.steps} steps of {optimizer.name} found no gradients: they had come by "
            "backward and were cleared "
            f"{f'at {cycles.clear_site} ' if cycles.clear_site else ''}before the step.",
            evidence={
                "optimizer": optimizer.name,
                "steps": optimizer.steps,
                "steps_without_gradient": cycles.lost,
                "cleared_at": cycles.clear_site,
                "step_at": fact.site,
            },
            where=cycles.clear_site or fact.site,
            since_step=optimizer.first.get("lost"),
        )


@rule("step-before-backward")
def step_before_backward(trace: Trace) -> Iterator[Finding]:
    """Steps that find nothing while the loss at hand still waits for its backward."""
    for optimizer, cycles in _stepping(trace):
        fact = _last(optimizer, "arrived")
        if fact is None or not _nothing(trace, optimizer, cycles.early) or cycles.lost < max(2, 0.5 * cycles.early):
            continue
        yield Finding(
            "step-before-backward",
            f"{cycles.early} of {optimizer.steps} steps of {optimizer.name} came before the backward of their loss"
            f"{f' (at {cycles.backward_site})' if cycles.backward_site else ''} and found no gradients.",
            evidence={
                "optimizer": optimizer.name,
                "steps": optimizer.steps,
                "steps_without_gradient": cycles.early,
                "backward_at": cycles.backward_site,
            },
            where=fact.site,
            since_step=0,
        )


@rule("gradients-discarded")
def gradients_discarded(trace: Trace) -> Iterator[Finding]:
    """Backwards of a training line, each on new data, whose gradients are cleared before any step."""
    part = trace.part(CyclePart)
    by_hand = any(cycles.by_hand > 0.5 * cycles.sampled for cycles in part.optimizers.values() if cycles.sampled)
    skipped = trace.part(Scaling).skipped
    for place in by_phase(trace, part.backwards.values()):
        if place.moved >= 3 or place.used < 2:
            continue
        thrown = place.thrown - skipped
        if not by_hand and thrown >= 4 and trace.has_share(thrown, thrown + place.used, 0.3):
            yield _discarded(place, thrown)
            continue
        lost = place.repeated + place.thrown - skipped  # without a loader nobody knows which of the two
        starved = _starved(trace) if lost >= 4 else []
        if starved:
            yield _discarded(place, lost, starved)


def _starved(trace: Trace) -> list[str]:
    """Parameters of optimizers that get gradients, none of which is there when a step comes: heads of tasks, for instance.

    Gradients that are cleared before another backward on the same batch prove nothing by themselves: those of an attack on
    the inputs are thrown away on purpose, and those that a surgery of gradients reads are written back. But no parameter is in
    an optimizer to have all of its gradients thrown away.
    """
    stepping = {optimizer.number for optimizer in trace.part(Optimizers) if optimizer.totals.get("fresh", 0) >= 4}
    known = trace.part(Gradients).parameters.values()
    return [p.name for p in known if p.dropped >= 4 and not p.fed and p.optimizers & stepping]


def _discarded(place: BackwardPlace, thrown: int, starved: Sequence[str] = ()) -> Finding:
    total = thrown + place.used
    never = f" No step ever found a gradient in {_some(starved)}." if starved else ""
    return Finding(
        "gradients-discarded",
        f"the gradients of {thrown} of {total} backwards at {place.site} were cleared before any step had used them"
        f"{f' (by {place.clear_site})' if place.clear_site else ''}.{never}",
        evidence={
            "backwards": total,
            "discarded": thrown,
            "share": round(thrown / total, 3),
            "cleared_at": place.clear_site,
            **({"never_updated": list(starved[:8])} if starved else {}),
        },
        where=place.clear_site or place.site,
        cause=place.site,
        since_step=place.first_thrown,
    )


@rule("detached-loss")
def detached_loss(trace: Trace) -> Iterator[Finding]:
    """Backwards that start at a bare number, or that reach no parameter while the optimizer waits for gradients."""
    for window in windows(trace):
        known = [o for record in trace.part(Optimizers) if (o := window.of(record)) is not None]
        starved = [o for o in known if o.steps >= 3 and not o.totals.get("fresh") and not o.totals.get("reused")]
        starved = [o for o in starved if all(fact.missing == fact.parameters > 0 for fact in o.recent)]
        places = trace.part(CyclePart).backwards.values()
        yield from _detached(trace, [found for place in places if (found := window.of(place)) is not None], starved)
    yield from _output_not_in_loss(trace)


def _output_not_in_loss(trace: Trace) -> Iterator[Finding]:
    """Steps on gradients that come from a penalty on the weights alone: nothing that the network gave has a part in the loss."""
    for passing in trace.part(Unreached).optimizers.values():
        if passing.passed or passing.looks < 12 or not trace.has_share(passing.fed, passing.looks, 0.9):
            continue
        yield Finding(
            "detached-loss",
            f"In {passing.looks} steps of {passing.name} that were looked at, no gradient came through the network's output: the "
            "loss reaches the parameters by another way, as a penalty on weights does.",
            evidence={"optimizer": passing.name, "steps": passing.looks, "passed": passing.passed},
            where=passing.site,
            since_step=passing.first_step,
        )


def _detached(trace: Trace, places: Sequence[BackwardPlace], starved: Sequence[OptimizerRecord]) -> Iterator[Finding]:
    for place in places:
        leaf = place.leaf >= 2 and trace.has_share(place.leaf, place.count, 0.5)
        barren = bool(starved) and place.barren >= 4 and trace.has_share(place.barren, place.count, 0.9)
        if not leaf and not barren:
            continue
        count = place.leaf if leaf else place.barren
        seen = "began at a tensor that no graph belongs to" if leaf else "reached no parameter at all"
        yield Finding(
            "detached-loss",
            f"{count} of {place.count} backwards {seen}: no parameter got a gradient from them.",
            evidence={
                "backwards": place.count,
                "without_graph": place.leaf,
                "without_parameters": place.barren,
                "steps_without_gradient": sum(o.steps for o in starved),
            },
            where=place.site,
            since_step=place.first_step,
        )
