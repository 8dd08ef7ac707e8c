"""An evaluation as text and as JSON: what `instep evaluate` prints."""

import math
from typing import Any

from instep.records import Evaluation
from instep.text import clean, columns, number


def render(evaluation: Evaluation, where: str) -> str:
    """A heading that says what was evaluated, and a line for each number."""
    rows = [(clean(name), number(value)) for name, value in evaluation.items()]
    width = max((len(name) for name, _ in rows), default=0)
    return "\n".join([clean(where), *(f"  {name:<{width}}  {value}" for name, value in rows)])


def as_json(evaluation: Evaluation, **said: Any) -> dict[str, Any]:
    """The numbers under their names, with what else is to be said; inf and nan, for which JSON has no words, are null."""
    return {**said, **{name: value if math.isfinite(value) else None for name, value in evaluation.items()}}


def compared(evaluation: Evaluation, recorded: dict[str, Any]) -> list[str]:
    """Numbers that the run recorded otherwise at the same step, as a table; empty where all are the same."""
    rows = [
        (clean(name), number(value), number(recorded[name]))
        for name, value in evaluation.items()
        if isinstance(recorded.get(name), float) and not math.isclose(recorded[name], value, rel_tol=1e-5, abs_tol=1e-12)
    ]
    return columns(("", "now", "recorded"), rows, left=("",)) if rows else []
