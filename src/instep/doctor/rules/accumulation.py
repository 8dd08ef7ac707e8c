"""Rules about accumulation: several backwards for one step."""

import itertools
from collections.abc import Iterator

from instep.doctor.cycle_tallies import Cycles
from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.cycles import CyclePart
from instep.doctor.watch.epochs import Epochs
from instep.doctor.watch.loaders import Loaders
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.phases import windows
from instep.doctor.watch.short_cycles import DividedCycles, ShortCycles


def _stepping(trace: Trace) -> Iterator[tuple[OptimizerRecord, Cycles]]:
    """Optimizers that step on something new, and their cycles, of each phase by itself and of the whole run."""
    known = trace.part(CyclePart).optimizers
    for window in windows(trace):
        for record in trace.part(Optimizers):
            optimizer, cycles = window.of(record), window.of(known.get(record.number))
            if optimizer is not None and cycles is not None and optimizer.totals.get("fresh", 0) >= 3:
                yield optimizer, cycles


@rule("accumulation-not-divided")
def accumulation_not_divided(trace: Trace) -> Iterator[Finding]:
    """Steps on the sum of several micro-batches' mean losses."""
    for optimizer, cycles in _stepping(trace):
        if cycles.undivided < 3 or not trace.has_share(cycles.undivided, optimizer.steps, 0.6):
            continue
        if not cycles.sampled or cycles.halved + cycles.by_hand > 0.5 * cycles.sampled:
            continue  # divided by hand, or written anew; or nobody knows
        if not trace.part(Loaders).feeds(trace.backwards) and (len(trace.part(Optimizers).all) > 1 or cycles.undivided < 5):
            continue  # real and fake of a GAN, perhaps
        size, site = cycles.sizes.most_common(1)[0][0], cycles.sites.most_common(1)[0][0]
        if size < 2:
            continue
        several = f"{size} backwards" if len(cycles.sizes) == 1 else f"several backwards, mostly {size}"
        yield Finding(
            "accumulation-not-divided",
            f"{cycles.undivided} of {optimizer.steps} steps of {optimizer.name} used the sum of {several}, each on "
            "the mean loss of its own "
            f"micro-batch and none divided: the gradient is {size} times that of the whole batch.",
            evidence={
                "optimizer": optimizer.name,
                "steps": optimizer.steps,
                "backwards_per_step": size,
                "undivided_steps": cycles.undivided,
            },
            where=site,
            since_step=optimizer.first.get("accumulated"),
            fix=f"- loss.backward()\n+ (loss / {size}).backward()",
        )


def _regular_leaks(cycles: Cycles) -> tuple[int, list[int]]:
    """Where no loader tells when an epoch ends: cycles of two sizes, the larger by less than a cycle, at equal distances.

    The first epoch begins with nothing left over. A last cycle that is smaller than the others, as where the rest of an epoch
    gets a step of its own, has larger ones from the beginning.
    """
    runs = list(cycles.runs)
    sizes = {size for _, size in runs}
    small, large = min(sizes, default=0), max(sizes, default=0)
    places = [place for place, size in runs if size == large]
    distances = [b - a for a, b in itertools.pairwise(places)]
    if small < 2 or not small < large < 2 * small or len(sizes) != 2 or len(places) < 3:
        return small, []
    if any(b - a > 1 for (a, size), (b, _) in itertools.pairwise(runs) if size == large):
        return small, []
    least = min(distances)
    steady = least > 1 and all(distance % least == 0 for distance in distances)
    is_first_known = len(runs) < (cycles.runs.maxlen or 0)
    if not steady or (is_first_known and places[0] - runs[0][0] != least):
        return small, []
    return small, [large - small] * len(places)


def _regular_drops(trace: Trace, cycles: Cycles) -> list[int]:
    """The same where the next epoch clears what is left: the same number each time, at equal distances or where epochs end."""
    left = [count for _, count in cycles.drops]
    places = [place for place, _ in cycles.drops]
    if len(left) < 2 or len(set(left)) > 1:
        return []
    epochs = trace.part(Epochs)
    ends = {*epochs.evaluations, *epochs.trains}
    distances = {b - a for a, b in itertools.pairwise(places)}
    if all(place in ends for place in places) or (len(distances) == 1 and (len(left) > 2 or distances == {places[0]})):
        return left
    return []


@rule("accumulation-tail")
def accumulation_tail(trace: Trace) -> Iterator[Finding]:
    """Backwards left over at the end of a pass, which are dropped, make the next step larger or one of their own too small."""
    for optimizer, cycles in _stepping(trace):
        if not cycles.sizes:
            continue
        size = cycles.plain_sizes.most_common(1)[0][0] if cycles.plain_sizes else 0
        if size < 2 or cycles.sizes.total() < 3:
            continue
        dropped = [left for left, used_by in cycles.tails if used_by == 0]
        leaked = [left for left, used_by in cycles.tails if used_by > size]
        if not trace.part(Loaders).feeds(trace.backwards):
            if all(optimizer is not each for each in trace.part(Optimizers)):
                continue  # distances tell something of a whole run only
            dropped = _regular_drops(trace, cycles)
            if not dropped:
                size, leaked = _regular_leaks(cycles)
        if len(dropped) + len(leaked) < 2 or len(dropped) + len(leaked) < 0.5 * min(cycles.passes - 1, 64):
            continue
        left = (dropped or leaked)[-1]
        became = "were cleared unused" if dropped else f"went into the first step of the next, which then held {size + left}"
        yield Finding(
            "accumulation-tail",
            f"{optimizer.name} steps on {size} backwards; at the end of {len(dropped) + len(leaked)} passes over the "
            f"data {left} were left over and {became}.",
            evidence={
                "optimizer": optimizer.name,
                "backwards_per_step": size,
                "left_over": left,
                "passes": cycles.passes or len(dropped) + len(leaked),
                "dropped": len(dropped),
                "leaked": len(leaked),
                "batches": next((loader.length for loader in trace.part(Loaders).all if loader.trained), None),
            },
            where=optimizer.recent[-1].site if optimizer.recent else optimizer.site,
            fix=f"- if (i + 1) % {size} == 0:\n+ if (i + 1) % {size} == 0 or i + 1 == len(loader):\n"
            f"# and divide by the batches of a cycle, fewer in the last: min({size}, len(loader) - i // {size} * {size})",
        )
    yield from _divided_tails(trace)


def _divided_tails(trace: Trace) -> Iterator[Finding]:
    """Last cycles of epochs that have fewer backwards than the others and are divided by the same number: a smaller step."""
    optimizers = {record.number: record for record in trace.part(Optimizers)}
    for cycles in trace.part(ShortCycles).all.values():
        optimizer, known = optimizers.get(cycles.optimizer), trace.part(CyclePart).optimizers.get(cycles.optimizer)
        if optimizer is None or known is None:
            continue
        size, times = cycles.sizes.most_common(1)[0] if cycles.sizes else (0, 0)
        if size < 2 or size not in cycles.divisors or times < 3 or len(cycles.sizes) > 1:
            continue
        if trace.part(Loaders).feeds(trace.backwards):
            short = list(cycles.ends) if not cycles.others and len(cycles.ends) >= 0.5 * min(known.passes, 64) else []
        else:
            short = _regular_short_cycles(cycles)
        if len(short) < 2:
            continue
        first, left = short[0]
        yield Finding(
            "accumulation-tail",
            f"{optimizer.name} steps on {size} backwards, each on a mean loss divided by {size}; the last step of {len(short)} "
            f"epochs had {left} only, divided by {size} too: its gradient is {left / size:.2f} times the mean of its batches.",
            evidence={
                "optimizer": optimizer.name,
                "backwards_per_step": size,
                "divided_by": size,
                "backwards_in_the_last_step": left,
                "epochs": len(short),
            },
            where=cycles.site,
            since_step=first,
            severity="hint",
            fix=f"- (loss / {size}).backward()\n+ (loss / min({size}, len(loader) - i // {size} * {size})).backward()",
        )


def _regular_short_cycles(cycles: DividedCycles) -> list[tuple[int, int]]:
    """Where no loader tells when an epoch ends: short ones of one size, three at least, at equal distances."""
    short = sorted([*cycles.ends, *cycles.others])
    distances = {b - a for (a, _), (b, _) in itertools.pairwise(short)}
    steady = len(short) >= 3 and len(distances) == 1 and min(distances) > 1
    return short if steady and len({size for _, size in short}) == 1 else []
