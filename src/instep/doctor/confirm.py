"""Confirming: the losses of a script as it is beside those of the same script with the fixes, and what that shows, in words."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from instep.doctor.curves import Curve
from instep.doctor.finding import Finding
from instep.doctor.remedies import REMEDIES
from instep.doctor.second_run import SecondRun
from instep.text import GAP, Paint, columns, number, plain, plural, sparkline, wrapped

ROWS = 8  # of a table of two curves
BARS = 40
END, LEAST = 0.2, 3  # of a curve, whose mean is where it ends; values that this takes
CLEAR = 0.05  # of what the loss fell, by which two ends must differ
SIDES = ("as it is", "with the fix")
WIDE = 100.0  # of the highest to the lowest value, from where on bars show logarithms
SYMPTOMS = frozenset(
    {"diverging-loss", "non-finite", "constant-loss", "exploding-updates", "vanishing-updates", "dead-parameter"}
)


@dataclass(frozen=True)
class Pair:
    """The curves of one line in both runs."""

    before: Curve
    after: Curve

    @property
    def rises(self) -> bool:
        """Whether more is better."""
        return self.before.kind == "share of right answers"


def to_be_measured(findings: Sequence[Finding]) -> list[Finding]:
    """Those whose fix changes what the loss measures: the script as it is must be measured by the right formula too."""
    return [finding for finding in findings if REMEDIES[finding.id].other_formula]


def can_be_tried(findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
    """Those with a remedy, and those without; hints are left out."""
    told = [finding for finding in findings if finding.level != "hint"]
    return [one for one in told if one.id in REMEDIES], [one for one in told if one.id not in REMEDIES]


def pair_up(before: Sequence[Curve], after: Sequence[Curve]) -> list[Pair]:
    """The curves of the same kind and line, the longest first."""
    known = {(curve.kind, _line(curve)): curve for curve in after if curve.values}
    pairs = [Pair(one, known[one.kind, _line(one)]) for one in before if one.values and (one.kind, _line(one)) in known]
    return sorted(pairs, key=lambda pair: -pair.before.count)


def _line(curve: Curve) -> str:
    return curve.where.rpartition("/")[2]  # the file has another folder in the copy


@dataclass(frozen=True)
class Comparison:
    """The script as it is and with the fixes of `tried`."""

    tried: Sequence[Finding]
    untried: Sequence[Finding]
    before: Sequence[Curve]
    run: SecondRun

    @property
    def ids(self) -> list[str]:
        return list(dict.fromkeys(finding.id for finding in self.tried))

    @property
    def pairs(self) -> list[Pair]:
        """What is shown; the first decides."""
        return _chosen(pair_up(self.before, self.run.curves), self.ids)

    @property
    def verdict(self) -> str:
        return verdict(self.pairs, self.ids, self.run)

    def render(self, *, width: int, paint: Paint = plain) -> str:
        """All of it, for a terminal."""
        lines = [paint("instep doctor --confirm: the script ran again, with these changes in memory", "bold")]
        for id in self.ids:
            count = self.run.counts.get(id, 0)
            acted = plural(count, "time") if count else "did not come to act"
            lines += _hanging(f"{id}: {REMEDIES[id].words} ({acted})", width)
        for finding in self.untried:
            why = "has causes, no fix of its own" if finding.id in SYMPTOMS else "cannot be changed in memory; change the script"
            lines += _hanging(f"{finding.id}: {why}", width)
        if self.run.code:
            lines += ["", paint(f"The second run ended with exit code {self.run.code}; its last lines were:", "yellow")]
            lines += [f"  {line}" for line in self.run.said]
        for pair in self.pairs:
            lines += ["", *_drawn(pair, width, paint)]
        return "\n".join([*lines, "", *(paint(line, "bold") for line in wrapped(self.verdict, width))])


def _hanging(text: str, width: int) -> list[str]:
    return [f"{'  ' if first else '    '}{line}" for first, line in ((i == 0, t) for i, t in enumerate(wrapped(text, width - 4)))]


def _chosen(pairs: list[Pair], ids: Sequence[str]) -> list[Pair]:
    """One of each kind that says something about these fixes; the first decides."""
    kinds = ["training loss"]
    if any(REMEDIES[id].other_formula for id in ids):
        kinds = ["loss by the right formula", "share of right answers"]
    elif any(REMEDIES[id].shows != "training" for id in ids):
        kinds = ["evaluation loss", "share of right answers", "training loss"]
    found = [next((pair for pair in pairs if pair.before.kind == kind), None) for kind in kinds]
    return [pair for pair in found if pair is not None]


def _drawn(pair: Pair, width: int, paint: Paint) -> list[str]:
    """Both curves as bars over the same range, and as numbers at the same places."""
    one, other = pair.before, pair.after
    head = f"{one.kind} at {one.where}, {plural(one.count, 'value')}"
    if other.count != one.count:
        head += f" ({other.count:,} with the fix)"
    bars = min(BARS, max(10, width - 40), len(one.values), len(other.values))
    heights = [*_means(one.values, bars), *_means(other.values, bars)]
    if min(heights) > 0 and max(heights) > WIDE * min(heights):
        heights, head = [math.log(height) for height in heights], f"{head}, bars by logarithm"
    drawn = sparkline(heights, 2 * bars)
    lines = [paint(head, "bold")]
    for name, curve, shown in zip(SIDES, (one, other), (drawn[:bars], drawn[bars:]), strict=True):
        lines.append(f"  {name:<12}{GAP}{shown}{GAP}{number(curve.values[0])} → {number(end_of(curve))}")
    places = sorted({round(row * (bars - 1) / max(1, min(ROWS, bars) - 1)) for row in range(min(ROWS, bars))})
    means = [_means(curve.values, bars) for curve in (one, other)]
    rows = [(f"{_at(one, place, bars):,}", *(number(values[place]) for values in means)) for place in places]
    lines += [f"  {line}" for line in columns(("value", *SIDES), rows, paint=paint)]
    return lines


def _at(curve: Curve, place: int, bars: int) -> int:
    return len(curve.values) * place // bars * curve.stride + 1


def _means(values: Sequence[float], count: int) -> list[float]:
    cuts = [len(values) * place // count for place in range(count + 1)]
    return [math.fsum(values[a:b]) / (b - a) for a, b in pairwise(cuts)]


def end_of(curve: Curve) -> float:
    """Where a curve ends: the mean of its last fifth, of three values at least."""
    last = _ending(curve)
    return math.fsum(last) / len(last)


def _ending(curve: Curve) -> list[float]:
    return curve.values[-max(LEAST, math.ceil(END * len(curve.values))) :]


def verdict(pairs: Sequence[Pair], ids: Sequence[str], run: SecondRun) -> str:
    """What the two runs show, in words; never more than they do."""
    if not any(run.counts.get(id) for id in ids):
        return f"Verdict: none. The fixes did not come to act: {_why_not(ids, run)}"
    if not pairs:
        return "Verdict: none. The two runs have no loss in common that could be compared."
    if pairs[0].before.kind == "training loss" and all(REMEDIES[id].shows == "evaluation" for id in ids):
        return (
            "Verdict: none. The fix changes the evaluation, which has no loss and no comparison of torch's; see what it prints."
        )
    said = _compared(pairs[0])
    return f"Verdict: {said}" + (" The second run failed, so this is about what it did until then." if run.code else "")


def _why_not(ids: Sequence[str], run: SecondRun) -> str:
    """Why no fix acted, as far as the second run knows."""
    calls = sum(run.elsewhere.get(id, 0) for id in ids)
    if calls:
        return f"what they change was called {plural(calls, 'time')}, and never from the lines that the findings name."
    return "no function of torch's that they change was called in the way that was found; the script does it by its own means."


def _compared(pair: Pair) -> str:
    kind, before, after = pair.before.kind, end_of(pair.before), end_of(pair.after)
    ends = f"{number(after)} in place of {number(before)}"
    if not math.isfinite(before) or not math.isfinite(after):
        better = math.isfinite(after)
        return f"with the fix the {kind} {'stays finite and ends at' if better else 'does not stay finite:'} {ends}."
    if not is_clear(pair):
        return f"the {kind} ends about the same, {ends}: in so many steps the fix changes little."
    if (after > before) == pair.rises:
        return f"confirmed. With the fix the {kind} ends {'higher' if pair.rises else 'lower'}, at {ends}."
    return (
        f"with the fix the {kind} ends {'lower' if pair.rises else 'higher'}, at {ends}. That does not make the script right: "
        "its learning rate and length were chosen with the mistake in it. Try others with the fix."
    )


def is_clear(pair: Pair) -> bool:
    """Whether the two ends differ by more than their noise, and by a share of the way that the curves went."""
    if min(len(pair.before.values), len(pair.after.values)) <= LEAST:
        return False
    difference = abs(end_of(pair.before) - end_of(pair.after))
    way = max(abs(curve.values[0] - end_of(curve)) for curve in (pair.before, pair.after))
    noise = 2 * math.hypot(*(_error(_ending(curve)) for curve in (pair.before, pair.after)))
    return difference > max(CLEAR * way, noise, 1e-9)


def _error(values: Sequence[float]) -> float:
    """Of a mean of so many values."""
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values)) / len(values)
