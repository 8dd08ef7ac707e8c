"""Rules about weights: frozen ones that move, flags misspelt, layers and teachers that are the same object, values all alike."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.rules.ownership import names, root_site
from instep.doctor.trace import Trace
from instep.doctor.watch.equal_members import EqualMemberships
from instep.doctor.watch.equal_units import EqualStarts
from instep.doctor.watch.hand_symmetry import HandSymmetries
from instep.doctor.watch.held_rows import HeldRows
from instep.doctor.watch.mirrors import Mirrors
from instep.doctor.watch.moves import Moves
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.structure import Structure
from instep.doctor.watch.teachers import Sharing, Teachers


@rule("frozen-parameter-moves")
def frozen_parameter_moves(trace: Trace) -> Iterator[Finding]:
    """Parameters that were trained, then frozen, and that steps still change; or whose gradient is set to zero instead."""
    frozen = [fact for fact in trace.part(Moves).frozen.values() if fact.moves >= 2]
    facts = [fact for fact in frozen if trace.has_share(fact.moves, fact.looks, 0.5)]
    if trace.ended:  # what is held for now may be used later
        yield from _held_by_zeros(trace)
        yield from _held_rows(trace)
        yield from _shrunk(trace)
    for number in dict.fromkeys(fact.optimizer for fact in facts):
        mine = [fact for fact in facts if fact.optimizer == number]
        change = max(fact.change for fact in mine)
        yield Finding(
            "frozen-parameter-moves",
            f"{len(mine)} frozen parameters ({names([fact.name for fact in mine])}) were changed by {mine[0].moves} of "
            f"{mine[0].looks} steps "
            f"that were looked at, by up to {change:.2g} in one step.",
            evidence={
                "parameters": len(mine),
                "names": [f.name for f in mine][:8],
                "moves": mine[0].moves,
                "largest_change": change,
            },
            where=mine[0].site,
            since_step=mine[0].first_step,
        )


def _held_by_zeros(trace: Trace) -> Iterator[Finding]:
    """A gradient of zero holds a weight still under plain SGD only: decay and momentum go on."""
    held = [fact for fact in trace.part(Moves).zeroed.values() if fact.moves >= 4 and not fact.used]
    facts = [fact for fact in held if trace.has_share(fact.moves, fact.looks, 0.8)]
    for number in dict.fromkeys(fact.optimizer for fact in facts):
        mine = [fact for fact in facts if fact.optimizer == number]
        yield Finding(
            "frozen-parameter-moves",
            f"The gradients of {names([fact.name for fact in mine])} are set to zero before the step, and {mine[0].moves} of "
            f"{mine[0].looks} steps that were looked at moved them all the same, by up to {mine[0].change:.2g}: by decay or "
            "momentum.",
            evidence={"parameters": len(mine), "names": [f.name for f in mine][:8], "moves": mine[0].moves},
            where=mine[0].site,
            since_step=mine[0].first_step,
            severity="warning",
            fix="p.grad = None  # instead of p.grad.zero_(): the optimizer leaves out what has none",
        )


def _held_rows(trace: Trace) -> Iterator[Finding]:
    """The same of some rows of a weight, as those of words that are known already."""
    for fact in trace.part(HeldRows).all:
        if fact.moves < 4 or fact.used or not trace.has_share(fact.moves, fact.looks, 0.8):
            continue
        yield Finding(
            "frozen-parameter-moves",
            f"The gradients of {fact.rows} of {fact.of} rows of {fact.name} are set to zero before the step, and {fact.moves} of "
            f"{fact.looks} steps that were looked at moved them all the same: by decay or momentum.",
            evidence={"name": fact.name, "rows": fact.rows, "of": fact.of, "moves": fact.moves},
            where=fact.site,
            since_step=fact.first_step,
            severity="warning",
            fix="# give this weight a group of its own with weight_decay=0, or put the rows back after optimizer.step()",
        )


def _shrunk(trace: Trace) -> Iterator[Finding]:
    """Frozen weights that all become smaller by one factor: a decay by hand that runs over everything."""
    facts = [fact for fact in trace.part(HeldRows).shrunk if fact.moves >= 4]
    facts = [fact for fact in facts if trace.has_share(fact.moves, fact.looks, 0.8)]
    if facts:
        yield Finding(
            "frozen-parameter-moves",
            f"{names([fact.name for fact in facts])}: frozen, and smaller by one factor in {facts[0].moves} of {facts[0].looks} "
            "looks: something besides the optimizer shrinks all parameters.",
            evidence={"parameters": len(facts), "names": [fact.name for fact in facts][:8], "moves": facts[0].moves},
            where=facts[0].site,
            since_step=facts[0].first_step,
            severity="warning",
            fix="for p in model.parameters():\n    if p.requires_grad:\n        p.mul_(1 - decay)",
        )


@rule("requires-grad-typo")
def requires_grad_typo(trace: Trace) -> Iterator[Finding]:
    """Flags that torch does not know, on parameters; `requires_grad` on a module, where it does nothing."""
    for typo in trace.part(Structure).typos.values():
        module = typo.owner != "Parameter"
        what = f"the module {typo.owner}" if module else f"{typo.count} parameters"
        tail = "on a module it changes nothing; its parameters are as they were" if module else "torch does not know that name"
        yield Finding(
            "requires-grad-typo",
            f"`.{typo.attribute} = {typo.value}` was set on {what}: {tail}.",
            evidence={"attribute": typo.attribute, "value": typo.value, "owner": typo.owner, "count": typo.count},
            where=typo.where,
            since_step=0,
            severity="warning" if module else None,
            fix=f"module.requires_grad_({typo.value})" if module else f"param.requires_grad = {typo.value}",
        )


@rule("layer-shared-by-accident")
def layer_shared_by_accident(trace: Trace) -> Iterator[Finding]:
    """One layer with parameters several times in a list of layers."""
    for shared in trace.part(Structure).shared:
        yield Finding(
            "layer-shared-by-accident",
            f"{shared.places} places of a {shared.container} hold the same {shared.layer}: one set of {shared.parameters} "
            "parameters.",
            evidence={
                "container": shared.container,
                "layer": shared.layer,
                "places": shared.places,
                "parameters": shared.parameters,
            },
            where=root_site(trace, shared.root),
            since_step=0,
            cause=f"{shared.root}|{shared.layer}",
        )


@rule("weights-not-tied")
def weights_not_tied(trace: Trace) -> Iterator[Finding]:
    """Two weights of one model that began equal, as if tied, and are trained apart."""
    for twin in trace.part(Structure).twins:
        steps = trace.steps or twin.backwards
        if not twin.optimized or twin.drift <= 0 or steps < 3:
            continue
        how = "the transpose of " if twin.transposed else ""
        target = twin.second.removesuffix(".weight")
        yield Finding(
            "weights-not-tied",
            f"{twin.second} began as {how}{twin.first}, but is a parameter of its own: after {steps} steps they "
            f"differ by up to {twin.drift:.2g}.",
            evidence={"first": twin.first, "second": twin.second, "largest_difference": twin.drift, "steps": steps},
            where=twin.site or root_site(trace, twin.root),
            since_step=0,
            cause=f"{twin.first}|{twin.second}",
            fix=f"F.linear(h, {twin.first}.t())   # use the one weight in both places"
            if twin.transposed
            else f"{target}.weight = {twin.first}   # the object",
        )


@rule("symmetric-weights", steps=5)
def symmetric_weights(trace: Trace) -> Iterator[Finding]:
    """Weights whose rows (or columns) were equal at the start and still are after many steps: units that learn the same."""
    yield from _by_hand(trace)
    for record in trace.part(Optimizers):
        if record.totals.get("fresh", 0) < 5 or not record.last_lr:
            continue
        same = [
            fact
            for fact in trace.part(Structure).symmetries.values()
            if fact.optimizer == record.number
            and fact.arrivals >= 5
            and fact.spread is not None
            and trace.is_below(fact.spread, 1e-4)
        ]
        if not same:
            yield from _equal_members(trace, record)
            yield from _began_equal(trace, record)
            continue
        first = same[0]
        units = f"{first.shape[0]} rows" if first.rows else f"{first.shape[1]} columns"
        yield Finding(
            "symmetric-weights",
            f"All {units} of {first.name} began equal ({first.value:g}) and still are after {record.steps} steps"
            + (f"; so it is with {len(same) - 1} more weights." if len(same) > 1 else "."),
            evidence={
                "names": [fact.name for fact in same][:8],
                "shape": list(first.shape),
                "value": first.value,
                "steps": record.steps,
            },
            where=record.site,
            since_step=0,
        )


def _by_hand(trace: Trace) -> Iterator[Finding]:
    """The same of weights that are updated by hand."""
    same = [fact for fact in trace.part(HandSymmetries).all if fact.same]
    if not same:
        return
    first = same[0]
    units = f"{first.shape[0]} rows" if first.rows else f"{first.shape[1]} columns"
    yield Finding(
        "symmetric-weights",
        f"All {units} of {first.name} began equal ({first.value:g}) and still are after {first.backwards} backwards"
        + (f"; so it is with {len(same) - 1} more weights." if len(same) > 1 else "."),
        evidence={"names": [fact.name for fact in same][:8], "shape": list(first.shape), "value": first.value},
        where=first.site,
        since_step=0,
    )


def _equal_members(trace: Trace, record: OptimizerRecord) -> Iterator[Finding]:
    """Whole weights that began equal and still are: parts that learn the same."""
    mine = [fact for fact in trace.part(EqualMemberships).all if fact.optimizer == record.number]
    same = [fact for fact in mine if fact.moved and not fact.apart and not fact.averaged and fact.steps >= 20]
    if not same:
        return
    first = same[0]
    yield Finding(
        "symmetric-weights",
        f"{len(first.names)} weights of shape {tuple(first.shape)} ({names(first.names)}) began equal and still are after "
        f"{first.steps} steps: these parts learn the same.",
        evidence={"names": first.names[:8], "shape": list(first.shape), "steps": first.steps, "groups": len(same)},
        where=record.site,
        since_step=0,
        fix="# draw each part with numbers of its own: set the seed once, not before each of them",
    )


def _began_equal(trace: Trace, record: OptimizerRecord) -> Iterator[Finding]:
    """Hidden units that began with one draw of weights; the layer behind them sets them apart by and by."""
    same = [fact for fact in trace.part(EqualStarts).all.values() if fact.optimizer == record.number]
    if not same:
        return
    first = same[0]
    yield Finding(
        "symmetric-weights",
        f"All {first.units} units of {first.name} began with the same weights"
        + (f"; so it is with {len(same) - 1} more layers." if len(same) > 1 else "."),
        evidence={"names": [fact.name for fact in same][:8], "shape": list(first.shape), "steps": record.steps},
        where=record.site,
        since_step=0,
        fix="draw as many numbers as the weight has: weight.copy_(torch.randn_like(weight) * scale)",
    )


@rule("leaf-written-in-place")
def leaf_written_in_place(trace: Trace) -> Iterator[Finding]:
    """Parameters written between forward and backward, or along the gradient besides the optimizer.

    Not: an attack on the weights that is undone, before the step or after it.
    """
    part = trace.part(Moves)
    for fact in part.written.values():
        looks = part.looks.get(fact.how, 0)
        if fact.times < 3 or not trace.has_share(fact.times, looks, 0.3):
            continue
        if fact.how == "between":
            message = f"{fact.name} was changed between the forward and its backward in {fact.times} of {looks} looks."
            fix = "# write to parameters after optimizer.step(), under torch.no_grad()"
        elif fact.how == "kept":
            message = (
                f"{fact.name} was moved up along its gradient by hand, as by an attack, in {fact.times} of {looks} looks, and "
                "was not put back: the optimizer stepped from there."
            )
            fix = "param.data.copy_(backup[name])  # for every parameter that was moved, before optimizer.step()"
        else:
            message = (
                f"{fact.name} was moved along its gradient by hand in {fact.times} of {looks} looks, besides the optimizer's "
                f"own steps."
            )
            fix = "# keep either optimizer.step() or the update by hand"
        yield Finding(
            "leaf-written-in-place", message, evidence={"name": fact.name, "times": fact.times, "looks": looks},
            where=fact.site, since_step=fact.first_step, fix=fix,
        )  # fmt: skip


def _is_certain(sharing: Sharing, teachers: Teachers) -> bool:
    if sharing.how != "name":
        return True
    is_loose = f"{sharing.scope}:{sharing.student}" in teachers.loose
    return sharing.both >= 2 and not is_loose and sharing.root not in teachers.swaps.found


@rule("teacher-shares-weights", steps=5, revocable=True)
def teacher_shares_weights(trace: Trace) -> Iterator[Finding]:
    """A teacher, target or averaged network that has the student's own parameters."""
    for key, sharing in trace.part(Teachers).sharings.items():
        if not _is_certain(sharing, trace.part(Teachers)):
            continue
        yield Finding(
            "teacher-shares-weights",
            f"{sharing.teacher} and {sharing.student} have the same {sharing.parameters} parameters: there is one network, "
            "not two.",
            evidence={
                "teacher": sharing.teacher,
                "student": sharing.student,
                "parameters": sharing.parameters,
                "by": sharing.how,
            },
            where=sharing.site,
            since_step=0,
            severity="warning" if sharing.how == "name" else "hint" if sharing.how == "copy" and not sharing.named else None,
            cause=key,
        )
    yield from _mirrored(trace)


def _mirrored(trace: Trace) -> Iterator[Finding]:
    """A loss that compares a model with itself, by whatever name, and has never found a difference."""
    for mirror in trace.part(Mirrors).all.values():
        if mirror.looked < 20 or mirror.steps < 10 or not trace.has_share(mirror.equal, mirror.looked, 0.95):
            continue
        yield Finding(
            "teacher-shares-weights",
            f"The target of {mirror.function} was what {mirror.model} itself gives for the same input, in {mirror.equal} of "
            f"{mirror.looked} calls over {mirror.steps} steps: teacher and student have the same {mirror.parameters} parameters, "
            "and this loss teaches nothing.",
            evidence={
                "model": mirror.model,
                "parameters": mirror.parameters,
                "equal": mirror.equal,
                "looked": mirror.looked,
                "loss_at": mirror.site,
                "by": "value",
            },
            where=mirror.called_at,
            since_step=mirror.first_step,
        )
