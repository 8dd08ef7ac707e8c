"""Margins: how clearly rules decide. Collected only where somebody asks for it, as the tests do: no case may stand on an edge."""

import math
from dataclasses import dataclass, field


@dataclass
class Margins:
    """By what factor the conditions of rules held or failed. A condition is a comparison of something measured with a limit.

    A finding is as clear as the weakest of the conditions that led to it; a rule that finds nothing is as clear as its closest
    miss. Factors are at least 1, and infinite where nothing came near the limit.
    """

    found: dict[str, float] = field(default_factory=dict)  # rule -> the factor of its clearest finding
    missed: dict[str, float] = field(default_factory=dict)  # rule -> the factor of its closest miss
    _rule: str = ""
    _weakest: float = math.inf

    def begin(self, rule: str, *, revocable: bool) -> None:
        """The conditions of that rule follow. A finding that may be withdrawn counts as it is at the last judgement."""
        self._rule, self._weakest = rule, math.inf
        if revocable:
            self.found.pop(rule, None)

    def note(self, factor: float, held: bool) -> None:
        """A condition of the rule held, or failed, by a factor."""
        if held:
            self._weakest = min(self._weakest, factor)
        else:
            self.missed[self._rule] = min(self.missed.get(self._rule, math.inf), factor)
            self._weakest = math.inf

    def note_finding(self) -> None:
        """The conditions since the last that failed have led to a finding; or to the one before it, where there are none."""
        known = self.found.get(self._rule, math.inf)
        finite = [factor for factor in (known, self._weakest) if factor < math.inf]
        self.found[self._rule] = max(finite, default=math.inf)
        self._weakest = math.inf


def factor_between(value: float, limit: float) -> float:
    """How far two numbers are apart, as a factor of at least 1."""
    low, high = sorted((value, limit))
    if low == high:
        return 1.0
    return high / low if low > 0 else math.inf


def factor_between_shares(value: float, limit: float) -> float:
    """The same for shares of a whole. 99 of 100 are clearly more than 90: what is missing is ten times less."""
    return max(factor_between(value, limit), factor_between(1 - value, 1 - limit))
