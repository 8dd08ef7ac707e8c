"""Rules about the size of updates and the course of the loss."""

from collections.abc import Iterator
from statistics import median

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.optimizers import Optimizers
from instep.doctor.watch.phases import Phases
from instep.doctor.watch.scaling import Scaling
from instep.doctor.watch.updates import Movement, Moves, Trend, Updates


@rule("non-finite")
def non_finite(trace: Trace) -> Iterator[Finding]:
    """Weights that are inf or nan after a step on a loss that was; or losses that are, most of the time, and steps go on."""
    sites = trace.part(Backwards).sites
    for movement in trace.part(Updates).optimizers.values():
        site = sites.get(movement.loss_site)
        count, total = (site.non_finite, site.count) if site is not None else (movement.odd, movement.odd)
        damaged = movement.non_finite >= 2 or (movement.non_finite == 1 and movement.non_finite_last and trace.ended)
        ever_since = site is not None and site.count - site.last_finite >= 12
        odd = movement.odd >= 5 and (count >= 0.5 * total or ever_since)
        if not damaged and not odd:
            if movement.lost >= 2 and not movement.odd:
                yield _lost(movement)
            continue
        hopeless = damaged or (count >= 8 and count >= 0.9 * total)
        damage = "and the weights are inf or nan as well" if damaged else "and steps were done on them"
        yield Finding(
            "non-finite",
            f"{count} of {total} losses were inf or nan, {damage}.",
            evidence={
                "backwards": total,
                "non_finite": count,
                "weights_spoiled": damaged,
                "first_step": site.first_non_finite if site is not None else movement.first_non_finite,
            },
            where=movement.loss_site,
            since_step=site.first_non_finite if site is not None else movement.first_non_finite,
            severity="error" if hopeless else "warning",
        )
    if not trace.steps:
        yield from _unusable(trace)


def _unusable(trace: Trace) -> Iterator[Finding]:
    """The same where weights are updated by hand: most losses are, and all of the last."""
    for site in trace.part(Backwards).sites.values():
        if not trace.ended or site.non_finite < 8 or site.last_finite > site.count - 8:
            continue
        if trace.has_share(site.non_finite, site.count, 0.3):
            yield Finding(
                "non-finite",
                f"{site.non_finite} of {site.count} losses were inf or nan, all of the last ones among them.",
                evidence={"backwards": site.count, "non_finite": site.non_finite},
                where=site.site,
                since_step=0,
            )


def _lost(movement: Movement) -> Finding:
    """Weights that became nan behind a loss that looks healthy."""
    return Finding(
        "non-finite",
        f"{movement.lost_name} has been nan since about step {movement.first_lost}, and the loss shows nothing: "
        "its value is guarded where its gradient is not.",
        evidence={"parameter": movement.lost_name, "first_step": movement.first_lost, "looks": movement.lost},
        where=movement.site,
        since_step=movement.first_lost,
        fix="guard what goes into the function, not what comes out of it:\n"
        "- torch.where(x > 0, x.sqrt(), 0)\n"
        "+ torch.where(x > 0, x, 1).sqrt() * (x > 0)",
    )


def _are_weights_non_finite(trace: Trace) -> bool:
    return any(movement.non_finite or movement.lost >= 2 for movement in trace.part(Updates).optimizers.values())


def _level(movement: Movement) -> float:
    """The median of the last relative updates, of the tensor that moves most."""
    return max((median(list(move.ratios)[-4:]) for move in movement.moves if len(move.ratios) >= 3), default=0.0)


def _growth(trace: Trace, trend: Trend) -> tuple[float, float, float] | None:
    """(first, lowest, last) of a loss that is ten times its minimum now, and far above all that it was in its first third."""
    blocks = trend.blocks
    if len(blocks) < 4 or trend.negative:
        return None
    first, lowest, last = blocks[0], min(blocks), min(blocks[-2:])
    if not lowest >= 0 or not trace.exceeds(last, 10 * max(lowest, 1e-6)):
        return None
    if not trace.exceeds(last, 3 * max(blocks[: max(len(blocks) // 3, 1)])):
        return None
    return first, lowest, last


def _growth_at_once(trace: Trace, trend: Trend) -> tuple[float, float, float] | None:
    """The same of a loss that is far above its first value from the third step on."""
    site = trace.part(Backwards).sites.get(trend.site)
    if site is None or site.first_value is None or trend.negative or not site.first_value > 1e-6:
        return None
    later = [value for _, value in site.values][3:] if site.count <= len(site.values) else trend.blocks
    if len(later) < 6 or not trace.exceeds(min(later), 30 * site.first_value):
        return None
    return site.first_value, site.first_value, later[-1]


def _growth_in_phase(trace: Trace, trend: Trend) -> tuple[float, float, float] | None:
    """The same of a phase: its first steps have replaced weights that were good, and the loss has not come back since."""
    site, began = trace.part(Backwards).sites.get(trend.site), trace.part(Phases).began[-1]
    if site is None or not began or trend.negative or not any(_has_replaced(each) for each in _movements(trace)):
        return None
    values = [value for step, value in site.values if step >= began]
    if len(values) < 12 or site.values[0][0] >= began or not values[0] > 1e-6:
        return None
    return (values[0], values[0], values[-1]) if trace.exceeds(min(values[3:]), 30 * values[0]) else None


def _movements(trace: Trace) -> list[Movement]:
    return list(trace.part(Updates).optimizers.values())


def _has_replaced(movement: Movement) -> bool:
    """Whether its first steps have changed every tensor by nearly as much as there was."""
    moves = [move for move in movement.moves if move.size >= 16]
    return bool(moves) and all(len(move.ratios) < 32 and move.ratios[0] > 0.3 for move in moves if move.ratios)


def _diverging(trace: Trace, trend: Trend) -> tuple[float, float, float] | None:
    if (replaced := _growth_in_phase(trace, trend)) is not None:
        return replaced
    growth = _growth(trace, trend) or _growth_at_once(trace, trend)
    if growth is None:
        return None
    stepping = [o for o in trace.part(Optimizers) if o.steps >= 10]
    if not trace.steps and not _movements(trace):  # by hand: how large updates are next to the weights is not known
        return growth if trace.exceeds(growth[2], 100 * max(growth[0], growth[1])) else None
    level = max((_level(movement) for movement in trace.part(Updates).optimizers.values()), default=0.0)
    enough = 100.0 if len(stepping) > 1 else 2.0  # the losses of a GAN go up and down
    return growth if trace.exceeds(level, 0.03) and trace.exceeds(growth[2], enough * growth[0]) else None


@rule("diverging-loss", revocable=True, steps=10)
def diverging_loss(trace: Trace) -> Iterator[Finding]:
    """A loss far above its minimum and its beginning, while updates are large."""
    if _are_weights_non_finite(trace):
        return  # non-finite says it
    for trend in trace.part(Updates).trends.values():
        growth = _diverging(trace, trend)
        if growth is None:
            continue
        first, lowest, last = growth
        at = trend.steps[trend.blocks.index(lowest)] if lowest in trend.blocks else 0
        yield Finding(
            "diverging-loss",
            f"the loss has grown from {lowest:.3g} at step {at} to "
            f"{last:.3g}{f'; it began at {first:.3g}' if lowest < first else ''}.",
            evidence={"first": first, "lowest": lowest, "lowest_step": at, "last": last},
            where=trend.site,
            since_step=at,
        )


def _is_blown_up(movement: Movement) -> bool:
    """Whether the first steps replaced the weights, which have grown since, and steps are large even next to that."""
    moves = [move for move in movement.moves if move.size >= 16]
    enough = [
        move
        for move in moves
        if move.late >= 5 and len(move.ratios) < 32 and move.ratios[0] > 0.3 and median(list(move.ratios)[-4:]) > 0.03
    ]
    return bool(enough) and len(enough) == len(moves)


def _level_with_start(trace: Trace, trend: Trend) -> bool:
    """Whether the loss is at least not above where it began."""
    site = trace.part(Backwards).sites.get(trend.site)
    first = site.first_value if site is not None else None
    return first is None or len(trend.blocks) < 2 or trend.blocks[-1] < 0.9 * first


def _improves(trace: Trace, trend: Trend) -> bool:
    """Whether the loss is well below where it began."""
    site = trace.part(Backwards).sites.get(trend.site)
    first = site.first_value if site is not None else None
    return first is not None and len(trend.blocks) >= 2 and not trace.exceeds(trend.blocks[-1], 0.6 * first)


def _name(moves: list[Moves]) -> str:
    names = [move.name for move in moves]
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


@rule("exploding-updates", revocable=True, steps=30)
def exploding_updates(trace: Trace) -> Iterator[Finding]:
    """Tensors that most steps change by more than a tenth."""
    updates = trace.part(Updates)
    trends = updates.trends.values()
    if _are_weights_non_finite(trace) or trace.is_excluded(lambda: any(_diverging(trace, trend) for trend in trends)):
        return  # non-finite or diverging-loss says it
    for movement in updates.optimizers.values():
        large = [move for move in movement.moves if move.size >= 16]
        moves = [move for move in large if move.late >= 5 and trace.has_share(move.high, move.late, 0.6)]
        moves = [move for move in moves if trace.exceeds(median(move.ratios), 0.1)]
        if not moves and _is_blown_up(movement) and not any(_level_with_start(trace, trend) for trend in trends):
            moves = large
        if not moves or any(_improves(trace, trend) for trend in trends):
            continue
        typical = median(ratio for move in moves for ratio in move.ratios)
        yield Finding(
            "exploding-updates",
            f"steps of {movement.name} change {_name(moves)} by more than a tenth of their size again and again: the "
            f"median is {typical:.2g}.",
            evidence={
                "optimizer": movement.name,
                "tensors": [move.name for move in moves],
                "median_ratio": typical,
                "samples": sum(move.late for move in moves),
                "above_a_tenth": sum(move.high for move in moves),
            },
            where=movement.site,
            severity="hint",
        )


@rule("vanishing-updates", revocable=True, steps=22)
def vanishing_updates(trace: Trace) -> Iterator[Finding]:
    """Tensors that get gradients and have never moved by more than float32 can just about show."""
    if any(place.scaled for place in trace.part(Scaling).clips.values()):
        return  # clip-before-unscale says it
    for movement in trace.part(Updates).optimizers.values():
        whole = [move for move in movement.moves if move.dtype in ("float32", "float64")]
        low = [move for move in whole if move.samples >= 6 and trace.has_share(move.low, move.samples, 0.9)]
        moves = [move for move in low if trace.is_below(move.highest, 1e-6)]
        if not moves:
            continue
        typical = median(ratio for move in moves for ratio in move.ratios)
        yield Finding(
            "vanishing-updates",
            f"no step of {movement.name} that was looked at changes {_name(moves)} by more than a millionth of their "
            f"size: the median is {typical:.1g}.",
            evidence={
                "optimizer": movement.name,
                "tensors": [move.name for move in moves],
                "of": len(whole),
                "median_ratio": typical,
                "samples": sum(move.samples for move in moves),
            },
            where=movement.site,
            severity="hint",
            fix="raise the learning rate"
            if len(moves) == len(whole)
            else "the gradient dies on its way down: use ReLU-like activations, residual connections or normalisation",
        )
