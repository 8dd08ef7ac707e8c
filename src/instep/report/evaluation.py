"""An evaluation as text and as JSON: what `instep evaluate` prints."""

import math
from collections.abc import Sequence
from typing import Any

from instep.records import Evaluation
from instep.report.classification import classification_report, render_report
from instep.text import Paint, clean, columns, number, plain


def render(
    evaluation: Evaluation, where: str, classes: Sequence[str] = (), *, width: int | None = None, paint: Paint = plain
) -> str:
    """A heading that says what was evaluated, a line for each number, and a report for each confusion matrix."""
    rows = [(clean(_with_class(name, classes)), number(value)) for name, value in evaluation.items()]
    widest = max((len(name) for name, _ in rows), default=0)
    lines = [paint(clean(where), "bold"), *(f"  {name:<{widest}}  {value}" for name, value in rows)]
    for name, matrix in evaluation.tables.items():
        lines += ["", *render_report(matrix, clean(name.removesuffix("/confusion_matrix")), classes, width=width, paint=paint)]
    return "\n".join(lines)


def _with_class(name: str, classes: Sequence[str]) -> str:
    """`valid/f1_per_class/0` with the name of the class."""
    metric, _, place = name.rpartition("/")
    is_class = metric.endswith("_per_class") and place.isdecimal() and int(place) < len(classes)
    return f"{metric}/{classes[int(place)]}" if is_class else name


def as_json(evaluation: Evaluation, classes: Sequence[str] = (), **said: Any) -> dict[str, Any]:
    """The numbers under their names, with what else is to be said; inf and nan, for which JSON has no words, are null.

    Confusion matrices stand under "tables", what is read from them under "reports".
    """
    numbers = {name: value if math.isfinite(value) else None for name, value in evaluation.items()}
    if not evaluation.tables:
        return {**said, **numbers}
    reports = {
        name.removesuffix("/confusion_matrix"): classification_report(matrix).as_json(classes)
        for name, matrix in evaluation.tables.items()
    }
    return {**said, **numbers, "tables": dict(evaluation.tables), "reports": reports}


def compared(evaluation: Evaluation, recorded: dict[str, Any]) -> list[str]:
    """Numbers that the run recorded otherwise at the same step, as a table; empty where all are the same."""
    rows = [
        (clean(name), number(value), number(recorded[name]))
        for name, value in evaluation.items()
        if isinstance(recorded.get(name), float) and not math.isclose(recorded[name], value, rel_tol=1e-5, abs_tol=1e-12)
    ]
    return columns(("", "now", "recorded"), rows, left=("",)) if rows else []
