"""The recommendation: which learning rate to take, why, and how sure that is; or that the curve allows none, and why not.

"Before divergence" is followed where the loss rises at the end. How good that is was measured as the validation error of a
one-cycle at the suggestion over that of the best of 18 to 20 learning rates [M]:

- eleven small problems (MLPs, CNNs, a transformer, a line; momentum and Adam; 100 and 400 updates): 1.06, worst 1.8. The rule,
  its margin and the smoothing were chosen on these, so that flatters it.
- six others, looked at only afterwards (spirals, a smooth regression; AdamW, momentum, RMSprop, batches of 8): 1.18, worst 2.1,
  but for one that failed: with momentum on the regression, cycles of 100 updates diverged at the suggestion, those of 400 did
  not. Its confidence was 0.16 to 0.26. The steepest point had 2.2, the valley 2.3, a tenth of the minimum 2.7.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from instep.tuning.curve import Curve
from instep.tuning.rules import FLOOR_MARGIN, MARGIN, RULES

RULES_APART = 2.0  # decades between two rules at which they do not agree at all
REPEATS_APART = 1.0  # decades between two repeats at which they do not
ALONE = 0.5  # what one rule, or one sweep, agrees with itself
DOUBTFUL = 0.3  # of confidence: below, the reason says how far apart the rules are
CLEAR = 0.6  # of an agreement: from here on the rules, or the passes, agree well
UNSEEN = 0.5  # of the confidence is left where no fall, or no divergence, was seen
REMEDY = "use larger batches, or more steps=."
BLURRED = 0.5  # of the level: where not even so large a fall would stand out, the curve is noise


@dataclass(frozen=True)
class Recommendation:
    """A suggestion with its reason and a confidence from 0 to 1; `suggestion` and `rule` are None where there is none."""

    suggestion: float | None
    rule: str | None
    reason: str
    confidence: float
    basis: str = ""  # what the confidence is made of


def recommend(curve: Curve, sweeps: Sequence[Curve]) -> Recommendation:
    """The recommendation on a merged curve and on the sweeps that it was made of."""
    none = why_none(curve)
    if none is not None:
        return Recommendation(None, None, none, 0.0)
    rule = "steepest" if curve.risen is None else "before divergence"
    suggestion = RULES[rule](curve)
    assert suggestion is not None  # the rule's own condition holds
    repeats = [RULES[rule](sweep) for sweep in sweeps]
    repeated = spread(repeats)
    if repeated is not None and repeated >= REPEATS_APART:
        known = [lr for lr in repeats if lr is not None]
        apart = f"the same test gives anything from {min(known):.2g} to {max(known):.2g}"
        return Recommendation(None, None, f"noise: on other batches {apart}; {REMEDY}", 0.0)
    if not curve.falls and None in repeats:
        return Recommendation(None, None, f"noise: the loss does not fall, and only sometimes rises at the end; {REMEDY}", 0.0)
    confidence, basis = _confidence(curve, rule, repeated)
    return Recommendation(suggestion, rule, _reason(curve, rule) + _warning(curve, suggestion, confidence), confidence, basis)


def why_none(curve: Curve) -> str | None:
    """Why a curve allows no suggestion; None where it does allow one."""
    first, last, bottom = curve.lrs[0], curve.lrs[-1], curve.smoothed[curve.lowest]
    if curve.risen is not None and curve.lrs[curve.risen] / MARGIN < first:
        risen = f"the loss has risen at lr {curve.lrs[curve.risen]:.2g} already"
        return f"it diverges at once: {risen}; use a smaller low= than {first:g}."
    if curve.falls or curve.risen is not None:
        return None
    if curve.doubt > BLURRED * abs(curve.level):
        varies = f"the loss varies by ±{curve.noise:.2g} around {curve.level:.3g} after smoothing"
        return f"noise: {varies}, and no fall stands out; {REMEDY}"
    return (
        f"flat: from lr {first:.2g} to {last:.2g} the loss stays at {curve.level:.3g} (the lowest is {bottom:.3g}); use a larger "
        "high=, or see whether the parameters that matter are in the optimizer and not frozen."
    )


def spread(lrs: Sequence[float | None]) -> float | None:
    """How many decades lie between the smallest and the largest; None where there are not two."""
    known = [lr for lr in lrs if lr is not None]
    return math.log10(max(known) / min(known)) if len(known) > 1 else None


def rules_of(curve: Curve) -> Mapping[str, float | None]:
    """What each rule says of a curve."""
    return {name: rule(curve) for name, rule in RULES.items()}


def _reason(curve: Curve, rule: str) -> str:
    bottom = f"{curve.smoothed[curve.lowest]:.3g} at lr {curve.lrs[curve.lowest]:.2g}"
    if rule == "steepest":
        return (
            f"the loss falls from {curve.level:.3g} to {bottom} and does not diverge up to {curve.lrs[-1]:.2g}, so this is where "
            "it falls fastest; a larger high= would show where it breaks."
        )
    assert curve.risen is not None
    risen = f"has risen at lr {curve.lrs[curve.risen]:.2g}"
    if not curve.falls:
        return (
            f"the loss does not fall from {curve.level:.3g} within the test (is the model trained already?), and {risen}; "
            f"this is that divided by {MARGIN:g}."
        )
    at_floor = curve.lrs[curve.floor] / FLOOR_MARGIN < curve.lrs[curve.risen] / MARGIN
    below = (
        f"a little below lr {curve.lrs[curve.floor]:.2g}, up to where it stays there"
        if at_floor
        else f"that divided by {MARGIN:g}"
    )
    return f"the loss falls from {curve.level:.3g} to {bottom} and {risen}; this is {below}."


def _warning(curve: Curve, suggestion: float, confidence: float) -> str:
    """That other rules say less, where the confidence is low."""
    known = [lr for lr in rules_of(curve).values() if lr is not None]
    if confidence >= DOUBTFUL or min(known) >= suggestion:
        return ""
    span = f"{min(known):.2g} to {max(known):.2g}"
    return f" But the rules disagree, from {span}: a short cycle may diverge here; smaller is safer."


def _confidence(curve: Curve, rule: str, repeated: float | None) -> tuple[float, str]:
    """How far the other rules agree with this one, times how far the repeats agree, each from 0 to 1; and that in words."""
    rules = rules_of(curve)
    apart = [spread([rules[rule], lr]) for name, lr in rules.items() if name != rule]
    agreements = [max(0.0, 1 - decades / RULES_APART) for decades in apart if decades is not None]
    by_rules = sum(agreements) / len(agreements) if agreements else ALONE
    by_repeats = ALONE if repeated is None else 1 - repeated / REPEATS_APART
    has_seen_all = curve.falls and curve.risen is not None
    words = [
        f"the rules agree {_how_far(by_rules)}" if agreements else "one rule applies",
        "one pass was made" if repeated is None else f"the passes agree {_how_far(by_repeats)}",
        *([] if curve.falls else ["no fall was seen"]),
        *([] if curve.risen is not None else ["no divergence was seen"]),
    ]
    return round(by_rules * by_repeats * (1.0 if has_seen_all else UNSEEN), 2), ", ".join(words)


def _how_far(agreement: float) -> str:
    return "well" if agreement >= CLEAR else "in part" if agreement >= DOUBTFUL else "little"
