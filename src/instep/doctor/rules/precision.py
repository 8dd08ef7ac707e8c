"""Rules about precision: scaled gradients, float16 without scaling, updates lost in rounding."""

from collections.abc import Iterator
from statistics import median

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.hand_scaling import Cuts, HandScaling
from instep.doctor.watch.phases import by_phase
from instep.doctor.watch.residues import Residues
from instep.doctor.watch.scaling import SCALED_LIMIT, Scaling
from instep.doctor.watch.updates import Updates

MEANT = 0.05  # of the loss scale; a limit beyond it was multiplied by the scale


@rule("clip-before-unscale")
def clip_before_unscale(trace: Trace) -> Iterator[Finding]:
    """Clips of gradients that a GradScaler has scaled and not unscaled, before its step."""
    for place in by_phase(trace, trace.part(Scaling).clips.values()):
        if place.scaled < 2 or not trace.has_share(place.scaled, place.count, 0.5):
            continue
        known = place.scale is not None and place.scale != float("inf")
        effect = (
            f": with a scale of {place.scale:g} a limit of {place.limit:g} is one of {place.limit / place.scale:.2g}"
            if known and place.scale
            else ""
        )
        yield Finding(
            "clip-before-unscale",
            f"{place.scaled} of {place.count} clips were done on gradients that were still scaled{effect}.",
            evidence={
                "clips": place.count,
                "scaled": place.scaled,
                "limit": place.limit,
                "scale": place.scale if known else None,
                "norm": place.norm,
            },
            where=place.site,
            since_step=place.first_step,
        )

    yield from _clipped_by_hand(trace)
    yield from _scaled_by_hand(trace)


def _limit(trace: Trace, cuts: Cuts) -> tuple[float, int] | None:
    """The number that gradients were cut down to, by their elements or by their norm, and how often; None where they were not."""
    for kind in (1, 0):  # where elements are cut off, the norm may be the same as well
        cut = [(before[kind], after[kind]) for before, after in cuts.looks if after[kind] < 0.98 * before[kind]]
        if len(cut) < 4 or not trace.has_share(len(cut), len(cuts.looks), 0.3):
            continue
        limits, sizes = [after for _, after in cut], [before for before, _ in cut]
        if max(limits) > 1.005 * min(limits) or not max(limits) < min(SCALED_LIMIT, MEANT * cuts.scale):
            continue
        if trace.exceeds(max(sizes) / min(sizes) - 1, 0.02):
            return max(limits), len(cut)
    return None


def _clipped_by_hand(trace: Trace) -> Iterator[Finding]:
    """Gradients that come down to one norm between a scaled backward and the scaler's step."""
    for cuts in trace.part(HandScaling).cuts.values():
        found = _limit(trace, cuts)
        if found is None:
            continue
        limit, count = found
        yield Finding(
            "clip-before-unscale",
            f"In {count} of {len(cuts.looks)} steps that were looked at the gradients were cut down to {limit:.3g} while they "
            f"were still scaled by {cuts.scale:g}: that is a limit of {limit / cuts.scale:.2g}.",
            evidence={"steps": len(cuts.looks), "scaled": count, "limit": limit, "scale": cuts.scale},
            where=cuts.site,
            since_step=cuts.first_step,
        )


def _scaled_by_hand(trace: Trace) -> Iterator[Finding]:
    """Clips after which the gradients are divided by what the loss was multiplied by."""
    for place in by_phase(trace, trace.part(HandScaling).clips.values()):
        if place.divided < 3 or not trace.has_share(place.divided, place.count, 0.8):
            continue
        yield Finding(
            "clip-before-unscale",
            f"After {place.divided} of {place.count} clips the gradients were divided by {place.scale:g}, which the loss had "
            f"been multiplied by: a limit of {place.limit:g} is one of {place.limit / place.scale:.2g}.",
            evidence={"clips": place.count, "scaled": place.divided, "limit": place.limit, "scale": place.scale},
            where=place.site,
            since_step=place.first_step,
            fix="divide the gradients by the loss scale first, then clip them",
        )


@rule("fp16-without-scaler")
def fp16_without_scaler(trace: Trace) -> Iterator[Finding]:
    """Backwards through float16 whose loss is not scaled."""
    for place in by_phase(trace, trace.part(Scaling).backwards.values()):
        unscaled = place.half - place.scaled
        if unscaled < 3 or not trace.has_share(unscaled, place.count, 0.8):
            continue
        how = "under autocast to float16" if place.autocast >= 0.5 * place.half else "with float16 weights"
        yield Finding(
            "fp16-without-scaler",
            f"{unscaled} of {place.count} backwards went through float16 ({how}) with a loss that nothing scaled.",
            evidence={"backwards": place.count, "unscaled": unscaled, "autocast": place.autocast},
            where=place.site,
            since_step=place.first_step,
        )


@rule("update-below-precision", revocable=True, steps=21)
def update_below_precision(trace: Trace) -> Iterator[Finding]:
    """Low-precision weights most of which a step with gradient leaves exactly as they were."""
    for number, movement in trace.part(Updates).optimizers.items():
        moves = [move for move in movement.moves if len(move.unchanged) >= 5 and move.size >= 16]
        lost = [move for move in moves if trace.has_share(median(move.unchanged), 1.0, 0.6)]
        if not lost or len(lost) < 0.5 * len(moves) or not (movement.torchs or _keeps_nothing(trace, number)):
            continue
        share = median(value for move in lost for value in move.unchanged)
        yield Finding(
            "update-below-precision",
            f"{share:.1%} of the elements of {lost[0].name} ({lost[0].dtype}) that had a gradient were the same after a "
            f"step of {movement.name}.",
            evidence={
                "optimizer": movement.name,
                "dtype": lost[0].dtype,
                "tensors": [move.name for move in lost],
                "unchanged_share": round(share, 4),
                "samples": sum(len(move.unchanged) for move in lost),
            },
            where=movement.site,
        )
    yield from _lost_by_hand(trace)


def _lost_by_hand(trace: Trace) -> Iterator[Finding]:
    """The same of weights that no optimizer of torch's kind holds."""
    fact = trace.part(Residues).by_hand
    enough = {name: shares for name, shares in fact.unchanged.items() if len(shares) >= 5}
    lost = {name: median(shares) for name, shares in enough.items() if trace.has_share(median(shares), 1.0, 0.6)}
    if not lost or len(lost) < 0.5 * len(enough) or fact.backwards < 24 or not trace.has_share(fact.stayed, 1.0, 0.4):
        return
    if fact.searches < 3 or fact.clear < fact.searches or not trace.has_share(fact.plain, fact.updates, 0.8):
        return  # somebody may keep the rest, or rounds by chance
    name, share = max(lost.items(), key=lambda pair: pair[1])
    yield Finding(
        "update-below-precision",
        f"{share:.1%} of the elements of {name} ({fact.dtype}) that had a gradient were the same after an update by hand.",
        evidence={
            "dtype": fact.dtype,
            "tensors": list(lost)[:8],
            "unchanged_share": round(share, 4),
            "samples": sum(len(enough[name]) for name in lost),
            "same_after": fact.backwards,
        },
        where=fact.site,
    )


def _keeps_nothing(trace: Trace, number: int) -> bool:
    """Whether an optimizer of the user's own was searched, has nothing for what rounding takes, and its weights stand still."""
    residue = trace.part(Residues).optimizers.get(number)
    if residue is None or residue.clear < 5 or residue.steps < 24 or not trace.has_share(residue.clear, residue.looks, 0.8):
        return False
    return trace.has_share(residue.stayed, 1.0, 0.4)
