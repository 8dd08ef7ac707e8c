"""Rules about clipping: after the step, of nothing, inside the accumulation."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.byhand import ByHand
from instep.doctor.watch.clipping import Clipping, ClipPlace
from instep.doctor.watch.hand_clips import LateClips
from instep.doctor.watch.optimizers import Optimizers
from instep.doctor.watch.phases import by_phase
from instep.doctor.watch.spent_iterators import SpentClips


def _places(trace: Trace) -> list[ClipPlace]:
    return [place for place in by_phase(trace, trace.part(Clipping).places.values()) if place.count - place.measuring >= 2]


@rule("clip-after-step")
def clip_after_step(trace: Trace) -> Iterator[Finding]:
    """Clips that only ever see gradients that a step has used."""
    for place in _places(trace):
        if place.after_use < 2 or not trace.has_share(place.after_use, place.count, 0.8) or place.fresh > 0.05 * place.count:
            continue
        yield Finding(
            "clip-after-step",
            f"{place.after_use} of {place.count} calls of {place.function} came after the update that used the gradients, "
            "and no later one uses what was clipped.",
            evidence={"calls": place.count, "after_use": place.after_use, "limit": place.limit},
            where=place.site,
            since_step=place.first_step,
            fix=f"  loss.backward()\n+ {place.function}(model.parameters(), {place.limit:g})\n  optimizer.step()\n"
            f"- {place.function}(model.parameters(), {place.limit:g})",
        )

    yield from _by_hand(trace)


def _by_hand(trace: Trace) -> Iterator[Finding]:
    """Gradients that a step has used, that plain operations make smaller, and that are cleared then."""
    if any(place.after_use for place in _places(trace)):
        return  # a clip function of torch's did it
    for late in trace.part(LateClips).sites.values():
        if late.shrunk < 4 or not trace.has_share(late.shrunk, late.looks, 0.1):
            continue
        yield Finding(
            "clip-after-step",
            f"After {late.shrunk} of {late.looks} steps that were looked at the gradients were made smaller, by a factor of down "
            f"to {late.by:.2g}, and cleared then: the step had used them as they were.",
            evidence={"steps": late.looks, "after_use": late.shrunk, "factor": late.by},
            where=late.site,
            since_step=late.first_step,
            fix="  loss.backward()\n+ clip(parameters)\n  optimizer.step()\n- clip(parameters)",
        )


@rule("clip-of-nothing")
def clip_of_nothing(trace: Trace) -> Iterator[Finding]:
    """Clips of an exhausted generator, or of parameters that have no gradient at that point."""
    for place in _places(trace):
        exhausted = place.empty >= (2 if place.generator else 4) and trace.has_share(place.empty, place.count, 0.9)
        too_early = place.nothing >= 3 and trace.has_share(place.nothing, place.count, 0.8)
        if place.fresh or not (exhausted or too_early):
            continue
        if exhausted and not place.generator:
            seen = "an empty list"
            fix = f"{place.function}(model.parameters(), {place.limit:g})  # after loss.backward()"
        elif exhausted:
            seen, fix = (
                "an empty generator: something had read it to its end before",
                "params = list(model.parameters())  # a generator can be read once",
            )
        else:
            seen = "parameters that had no gradient at that moment"
            fix = f"  loss.backward()\n+ {place.function}(model.parameters(), {place.limit:g})\n  optimizer.step()"
        count = place.empty if exhausted else place.nothing
        yield Finding(
            "clip-of-nothing",
            f"{count} of {place.count} calls of {place.function} were given {seen}.",
            evidence={
                "calls": place.count,
                "empty": place.empty,
                "without_gradient": place.nothing,
                "generator": place.generator,
                "limit": place.limit,
            },
            where=place.site,
            since_step=place.first_step,
            severity="warning" if exhausted and not place.generator else None,
            fix=fix,
        )
    for spent in trace.part(SpentClips).found.values():
        yield Finding(
            "clip-of-nothing",
            f"{spent.function} clips gradients of what a {spent.iterator} gives, and the optimizer had read that to its end.",
            evidence={"function": spent.function, "iterator": spent.iterator},
            where=spent.site,
            since_step=spent.first_step,
            severity="warning",
            fix="params = list(params)  # an iterator can be read once",
        )
    yield from _clips_without_gradients(trace)


def _clips_without_gradients(trace: Trace) -> Iterator[Finding]:
    """Clips of tensors that never have a gradient, in a script that clips nothing else: gradients themselves, another model's."""
    places = trace.part(Clipping).places.values()
    trained = any(optimizer.totals.get("fresh", 0) >= 8 for optimizer in trace.part(Optimizers)) or trace.part(ByHand).grads >= 8
    if not trace.ended or not trained or any(place.fresh or place.after_use or place.nothing for place in places):
        return
    for place in places:
        if place.never < 8 or place.never < place.count - place.measuring:
            continue
        yield Finding(
            "clip-of-nothing",
            f"{place.never} of {place.count} calls of {place.function} were given tensors that never have a gradient.",
            evidence={"calls": place.count, "never": place.never, "limit": place.limit},
            where=place.site,
            since_step=place.first_step,
            severity="warning",
            fix=f"{place.function}(model.parameters(), {place.limit:g})  # those that are trained, not their gradients",
        )


@rule("clip-of-partial-cycle")
def clip_of_partial_cycle(trace: Trace) -> Iterator[Finding]:
    """Clips after which the same line's backward adds to what was clipped, before the step."""
    for place in _places(trace):
        if place.partial < 3 or not trace.has_share(place.partial, place.count, 0.3):
            continue
        yield Finding(
            "clip-of-partial-cycle",
            f"after {place.partial} of {place.count} calls of {place.function} another backward added to the clipped "
            "gradients before the step.",
            evidence={"calls": place.count, "partial": place.partial, "limit": place.limit},
            where=place.site,
            since_step=place.first_step,
            fix=f"clip once, right before the step:\n  if (i + 1) % k == 0:\n+     {place.function}(model.parameters(), "
            f"{place.limit:g})\n      optimizer.step()",
        )
