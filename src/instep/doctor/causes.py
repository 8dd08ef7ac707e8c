"""Causes: one mistake is one finding. What follows from another stands under it; a cause on several lines is said once.

What the user wants to leave out is left out before lines are put together, and after causes have taken what follows from them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from instep.doctor.finding import SEVERITIES, Finding

_GROWING = ("non-finite", "diverging-loss", "exploding-updates")
_STILL = ("vanishing-updates", "update-below-precision", "constant-loss")
# What a mistake may show in besides itself. The first cause of this list that is found takes what is there.
SIGNALS: Mapping[str, tuple[str, ...]] = {
    "step-before-backward": ("zero-grad-before-step", "gradients-discarded", "clip-of-nothing", "clip-after-step", *_STILL),
    "zero-grad-before-step": ("gradients-discarded", "clip-of-nothing", "clip-after-step", "dead-parameter", *_STILL),
    "detached-loss": ("dead-parameter", "gradients-discarded", "clip-of-nothing", "nothing-trainable", *_STILL),
    "nothing-trainable": ("dead-parameter", "clip-of-nothing", *_STILL),
    "stale-optimizer": ("dead-parameter", "parameter-not-optimized", "clip-of-nothing", *_STILL),
    "requires-grad-typo": ("parameter-not-optimized",),
    "unregistered-module": ("parameter-not-optimized",),
    "parameter-not-optimized": ("dead-parameter",),
    "foreign-gradients": ("missing-zero-grad",),
    "clip-before-unscale": ("vanishing-updates",),
    "single-class-loss": ("softmax-before-cross-entropy", "dead-parameter", *_STILL),
    "dropout-extreme": ("dead-parameter", *_STILL),
    "symmetric-weights": ("dead-parameter", *_STILL),
    "nll-on-unnormalised": _GROWING,
    "kl-on-probabilities": _GROWING,
    "targets-out-of-range": _GROWING,
    "missing-zero-grad": _GROWING,
    "accumulation-not-divided": ("diverging-loss", "exploding-updates"),
    "loss-broadcast": ("metric-broadcast",),
    "same-batch-every-step": ("not-shuffled",),
    "batch-first": ("batch-mixed",),
    "schedule-wrong-unit": ("lambda-absolute-lr", *_STILL),
    "lambda-absolute-lr": _STILL,
    "fp16-without-scaler": ("vanishing-updates", "update-below-precision", "non-finite"),
    "update-below-precision": ("vanishing-updates",),
    "graph-retained": ("graph-kept",),
    "non-finite": ("diverging-loss", "exploding-updates", "inputs-not-scaled"),
    "diverging-loss": ("exploding-updates", "inputs-not-scaled"),
    "constant-loss": ("vanishing-updates",),
    "teacher-shares-weights": ("layer-shared-by-accident",),
    "ddp-bypassed": ("ranks-diverge",),
}


def gather(found: Mapping[str, Finding], admit: Callable[[Finding], Finding | None]) -> dict[str, Finding]:
    """The findings as they are said, by their keys."""
    taken = _taken(found)
    causes = {key: _with_signals(finding, taken, found) for key, finding in found.items() if key not in taken}
    admitted = {key: kept for key, finding in causes.items() if (kept := admit(finding)) is not None}
    said: dict[str, Finding] = {}
    for key, finding in admitted.items():
        same = next((known for known, first in said.items() if _is_same_cause(first, finding)), None)
        if same is None:
            said[key] = finding
        else:
            said[same] = _with_place(said[same], finding)
    return said


def _taken(found: Mapping[str, Finding]) -> dict[str, str]:
    """Keys of findings that stand under another, and the id of that one."""
    ids = {finding.id for finding in found.values()}
    taken: dict[str, str] = {}
    for cause, signals in SIGNALS.items():
        if cause in ids and any(key not in taken for key, finding in found.items() if finding.id == cause):
            for key, finding in found.items():
                if finding.id in signals and finding.id != cause:
                    taken.setdefault(key, cause)
    return taken


def _with_signals(finding: Finding, taken: Mapping[str, str], found: Mapping[str, Finding]) -> Finding:
    under = [found[key] for key, cause in taken.items() if cause == finding.id]
    if not under:
        return finding
    levels = [finding.level, *(signal.level for signal in under)]
    worst = min(levels, key=SEVERITIES.index)
    return replace(finding, signals=tuple(dict.fromkeys(_text(signal) for signal in under)), severity=worst)


def _text(signal: Finding) -> str:
    place = f" ({signal.where})" if signal.where else ""
    return f"{signal.id}{place}: {signal.message}"


def _is_same_cause(one: Finding, other: Finding) -> bool:
    """Whether two findings say the same of two lines: none of them has a cause of its own."""
    return one.id == other.id and one.cause is None and other.cause is None and one.level == other.level


def _with_place(first: Finding, other: Finding) -> Finding:
    places = tuple(dict.fromkeys((*first.places, *_places(other))))
    return replace(first, places=tuple(place for place in places if place != first.where))


def _places(finding: Finding) -> Iterable[str]:
    return (place for place in (finding.where, *finding.places) if place)
