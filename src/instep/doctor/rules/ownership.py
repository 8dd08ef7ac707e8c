"""Rules about ownership: which model a parameter is registered in, which optimizer holds it, who else has it."""

from collections.abc import Iterator

from instep.doctor.bare_leaves import NOBODY
from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.byhand import ByHand
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.cycles import CyclePart
from instep.doctor.watch.losses import Losses
from instep.doctor.watch.made_anew import MadeAnew
from instep.doctor.watch.moves import Moves
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.owners import Orphan, Owners, Starved
from instep.doctor.watch.silenced import Silences
from instep.doctor.watch.structure import Structure
from instep.text import plural

STEPS = 5  # gradients that a parameter has had before anything is said of it
GIVE_GRADIENT = "in the torch.autograd.Function: let backward() return a gradient for this input, not None"


def names(all: list[str], limit: int = 4) -> str:
    """A few names, and how many more there are."""
    shown = ", ".join(dict.fromkeys(all[:limit]))
    return shown if len(all) <= limit else f"{shown} and {len(all) - limit} more"


def root_site(trace: Trace, number: int | None) -> str | None:
    """Where a root is called in training; otherwise where it was called first."""
    kinds = [kind for kind in trace.part(Calls).kinds.values() if kind.root.number == number]
    kinds.sort(key=lambda kind: (kind.trained, kind.count), reverse=True)
    site = next((kind.site for kind in kinds if kind.site), None)
    return site or trace.part(Structure).first_sites.get(number if number is not None else -1)


def _root_name(trace: Trace, number: int | None) -> str:
    return next((root.name for root in trace.part(Calls).roots if root.number == number), "the model")


def _orphans(trace: Trace) -> list[Orphan]:
    """Those that nobody updates."""
    return [orphan for orphan in trace.part(Owners).orphans.values() if not orphan.moved and orphan.arrivals >= STEPS]


def _optimizer(trace: Trace, number: int | None = None) -> OptimizerRecord | None:
    """That of the number, or the one with the most steps."""
    all = trace.part(Optimizers).all
    if number is not None:
        return next((record for record in all if record.number == number), None)
    return max(all, key=lambda record: record.steps, default=None)


@rule("unregistered-module", revocable=True, steps=5)
def unregistered_module(trace: Trace) -> Iterator[Finding]:
    """Parameters that get gradients inside a root call, and that the root does not know."""
    yield from _made_anew(trace)
    lost = [orphan for orphan in _orphans(trace) if not orphan.registered]
    for number in dict.fromkeys(orphan.root for orphan in lost):
        mine = [orphan for orphan in lost if orphan.root == number]
        model, bare = mine[0].holder or _root_name(trace, number), [orphan for orphan in mine if orphan.bare]
        what = (
            "plain tensors that are kept as attributes"
            if len(bare) == len(mine)
            else "layers that are kept in a plain list, dict or object"
        )
        fix = "self.layers = nn.ModuleList([...])   # or nn.ModuleDict({...})"
        if len(bare) == len(mine):
            fix = "self.name = nn.Parameter(tensor)"
        yield Finding(
            "unregistered-module",
            f"{plural(len(mine), 'parameter')} ({names([orphan.name for orphan in mine])}) got gradients inside {model} and did "
            f"not change: {model} does not know of {what}, and no optimizer has them.",
            evidence={
                "model": model,
                "parameters": len(mine),
                "names": [orphan.name for orphan in mine][:8],
                "gradients": mine[0].arrivals,
            },
            where=root_site(trace, number),
            since_step=0,
            fix=fix,
        )


def _made_anew(trace: Trace) -> Iterator[Finding]:
    """Layers that a forward makes for itself each time: drawn anew in every step, and never learned.

    A model that leaves them out in eval mode augments its inputs by them. Where it is never seen in eval mode, a hint if the
    layer could be left out: it gives as many features as it takes.
    """
    for made in trace.part(MadeAnew).all.values():
        if made.count < 10 or not trace.is_below(made.alive, 0.25 * made.count):
            continue
        if not made.evaluated and any(k.root.number == made.root and not k.training for k in trace.part(Calls).kinds.values()):
            continue
        optional = all(shape[0] == shape[1] for shape in made.shapes if len(shape) > 1)
        model = _root_name(trace, made.root)
        yield Finding(
            "unregistered-module",
            f"{model} made {made.count} {made.name} layers of one shape while it was called, each for one call: their weights "
            "are drawn anew every time, and never learned.",
            evidence={"model": model, "layer": made.name, "made": made.count, "shapes": [list(shape) for shape in made.shapes]},
            where=root_site(trace, made.root),
            since_step=0,
            fix="self.layer = nn.Linear(...)   # in __init__, and call it in forward",
            cause=f"{made.root}|{made.name}|{made.shapes}",
            severity="hint" if optional and not made.evaluated else None,
        )


@rule("parameter-not-optimized", revocable=True, steps=5)
def parameter_not_optimized(trace: Trace) -> Iterator[Finding]:
    """Registered parameters that get gradients at every step, and that no optimizer holds."""
    record = _optimizer(trace)
    if record is None or trace.part(Owners).stale:
        return
    idle = {number for number, steps in _untrainable(trace)}
    left = [orphan for orphan in _orphans(trace) if orphan.registered and orphan.root is not None]
    left = [] if idle else [orphan for orphan in left if trace.has_share(orphan.arrivals, trace.backwards - orphan.since, 0.3)]
    for number in dict.fromkeys(orphan.root for orphan in left):
        mine = [orphan for orphan in left if orphan.root == number]
        partly = mine[0].partial
        if not partly and (mine[0].frozen_mode or mine[0].through):
            continue  # a fixed network that gradients pass through: a feature loss, an image that is optimized
        calls = sum(kind.count for kind in trace.part(Calls).kinds.values() if kind.root.number == number and kind.trained)
        losses = [kind for kind in trace.part(Losses).kinds.values() if kind.with_graph]
        # A whole network of its own may be a feature loss that nobody froze; not where there are only class numbers to learn.
        doubtful = not partly and (calls > 1.2 * trace.watched or not all(kind.hard for kind in losses))
        model = _root_name(trace, number)
        what = f"{plural(len(mine), 'parameter')} {'in no module' if number == NOBODY else f'of {model}'}"
        yield Finding(
            "parameter-not-optimized",
            f"{what} ({names([orphan.name for orphan in mine])}) got a gradient {mine[0].arrivals} times and did not change: "
            f"no optimizer holds {'it' if len(mine) == 1 else 'them'}{' any more' if mine[0].owners else ''}.",
            evidence={
                "model": model,
                "parameters": len(mine),
                "names": [orphan.name for orphan in mine][:8],
                "gradients": mine[0].arrivals,
            },
            where=record.site,
            since_step=0 if not mine[0].since else None,
            severity="hint" if doubtful else None if partly and not mine[0].frozen_mode else "warning",
            cause=f"{record.site}|{number}",
        )


@rule("stale-optimizer", revocable=True, steps=5)
def stale_optimizer(trace: Trace) -> Iterator[Finding]:
    """An optimizer that holds tensors of a model that was replaced."""
    for number, stale in trace.part(Owners).stale.items():
        record = _optimizer(trace, number)
        if record is None:
            continue
        yield Finding(
            "stale-optimizer",
            f"{record.name} holds {stale.held} parameters that no module in use has, while {stale.orphans} parameters of "
            "the model "
            f"({names(stale.names)}) get gradients and are in no optimizer.",
            evidence={
                "optimizer": record.name,
                "held_for_nobody": stale.held,
                "not_held": stale.orphans,
                "names": stale.names[:8],
            },
            where=record.site,
            since_step=stale.since_step,
        )


@rule("dead-parameter", revocable=True, steps=10)
def dead_parameter(trace: Trace) -> Iterator[Finding]:
    """Parameters in an optimizer that have never had a gradient, once there was time for every branch to be used."""
    if (not trace.ended and trace.steps < 500) or trace.part(Owners).stale:
        return
    for starved in trace.part(Owners).starved.values():
        owner = _optimizer(trace, starved.optimizer)
        if owner is not None and owner.steps >= 10 and not _is_barren(trace):
            yield _starved(owner, starved)
    yield from _unfed(trace)
    yield from _silenced(trace)
    dead = trace.part(Owners).dead.values()
    for number, root in dict.fromkeys((fact.optimizer, fact.root) for fact in dead):
        record = _optimizer(trace, number)
        if record is None or record.totals.get("fresh", 0) < 20:
            continue
        mine = [fact for fact in dead if (fact.optimizer, fact.root) == (number, root)]
        cut = [fact for fact in mine if fact.in_grad and not fact.unused]
        shown, model = cut or mine, "" if mine[0].bare else _root_name(trace, root)
        reason = "the loss does not depend on them" if mine[0].bare else "their layers take no part in the loss"
        if shown[0].in_graph:
            reason = "the loss depends on them, and a function on the way gives None for their gradient"
        elif shown[0].called:
            reason = "their layers are called, but nothing comes back" if cut else "their layers run under torch.no_grad()"
            reason = reason if cut else shown[0].unused or reason
        yield Finding(
            "dead-parameter",
            f"{plural(len(shown), 'parameter' if model else 'tensor')}{f' of {model}' if model else ''} in {record.name} "
            f"({names([fact.name for fact in shown])}) had no gradient in {record.steps} steps: {reason}.",
            evidence={
                "model": model,
                "parameters": len(shown),
                "names": [fact.name for fact in shown][:8],
                "steps": record.steps,
            },
            where=root_site(trace, root) or record.site,
            since_step=0,
            severity=None if cut else "hint",
            fix=GIVE_GRADIENT if shown[0].in_graph else "",
        )


def _silenced(trace: Trace) -> Iterator[Finding]:
    """Parameters that had gradients before their optimizer was made, and have had none in its steps."""
    for silenced in trace.part(Silences).all:
        owner = _optimizer(trace, silenced.optimizer)
        if owner is None or not silenced.names or _is_barren(trace):
            continue
        why = "what comes from them does not reach the loss" if silenced.in_grad else "their layers run under torch.no_grad()"
        yield Finding(
            "dead-parameter",
            f"{plural(len(silenced.names), 'parameter')} of {_root_name(trace, silenced.root)} in {owner.name} "
            f"({names(silenced.names)}) had gradients before, and none in its {owner.all_steps} steps: {why}.",
            evidence={"parameters": len(silenced.names), "names": silenced.names[:8], "steps": owner.all_steps},
            where=owner.site,
            since_step=owner.made_step,
            severity=None if silenced.alone else "hint",  # else perhaps a head that is called and not wanted any more
            fix="let the loss depend on them: no torch.no_grad() and no detach() on the way; or leave them out of this optimizer",
        )


def _unfed(trace: Trace) -> Iterator[Finding]:
    """Weights that are updated by hand: what the loss depends on and no gradient comes to."""
    unfed, hand = trace.part(Owners).unfed, trace.part(ByHand)
    if not unfed or trace.steps or hand.moved < 8:
        return
    yield Finding(
        "dead-parameter",
        f"{len(unfed)} tensors ({names(unfed)}) have had no gradient in {trace.backwards} backwards, though the loss depends on "
        "them: a function on the way gives None for it.",
        evidence={"parameters": len(unfed), "names": unfed[:8], "backwards": trace.backwards},
        where=max(hand.sites, key=lambda site: hand.sites[site]),
        since_step=0,
        fix=GIVE_GRADIENT,
    )


def _is_barren(trace: Trace) -> bool:
    """Whether backwards reach no parameter at all, which is said by another rule."""
    places = trace.part(CyclePart).backwards.values()
    return not trace.backwards or any(place.barren + place.leaf >= 0.5 * place.count for place in places)


def _starved(owner: OptimizerRecord, starved: Starved) -> Finding:
    return Finding(
        "dead-parameter",
        f"none of the {starved.parameters} parameters of {owner.name} ({names(starved.names)}) has had a gradient in "
        f"{owner.steps} steps: its steps do nothing.",
        evidence={
            "optimizer": owner.name,
            "parameters": starved.parameters,
            "names": starved.names[:8],
            "steps": owner.steps,
            "made_at": owner.site,
        },
        where=owner.site,
        since_step=0,
        fix="let the loss depend on them: no detach(), no torch.no_grad() and no .data on the way; or drop this optimizer",
    )


def _untrainable(trace: Trace) -> Iterator[tuple[int, int]]:
    """Optimizers, and how many steps, if in all of them nothing could be trained."""
    for number, steps in trace.part(Moves).idle.items():
        record = _optimizer(trace, number)
        if record is not None and steps >= 3 and steps >= record.steps:
            yield number, steps


@rule("nothing-trainable", revocable=True)
def nothing_trainable(trace: Trace) -> Iterator[Finding]:
    """An optimizer in whose every step no parameter required a gradient."""
    for number, steps in _untrainable(trace):
        record = _optimizer(trace, number)
        if record is None or (not trace.ended and steps < 500):  # layers may be unfrozen later
            continue
        site = record.recent[-1].site if record.recent else record.site
        yield Finding(
            "nothing-trainable",
            f"{record.name} took {steps} steps and in none of them did any of its {len(record.parameters)} parameters "
            "require a gradient.",
            evidence={"optimizer": record.name, "steps": steps, "parameters": len(record.parameters), "made_at": record.site},
            where=site,
            since_step=0,
        )
