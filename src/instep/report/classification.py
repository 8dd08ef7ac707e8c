"""A classification report: precision, recall, F1 and support of each class, from a confusion matrix; and the matrix itself.

A matrix has the classes that are there as rows and those that were chosen as columns; labels have a table of 2 × 2 each.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from instep.text import Paint, clean, columns, number, plain

MOST_CLASSES = 40  # that are listed
MOST_COLUMNS = 20  # of a matrix that is shown as a whole
CONFUSIONS = 10  # that are listed of a larger one


@dataclass(frozen=True)
class ClassScores:
    """Of one class, or the mean over several; nan for a class that was neither there nor chosen."""

    precision: float
    recall: float
    f1: float
    support: int  # how often it is there

    def as_json(self) -> dict[str, Any]:
        return {name: value if math.isfinite(value) else None for name, value in vars(self).items()}


@dataclass(frozen=True)
class ClassificationReport:
    """The scores of each class or label, and their means."""

    classes: tuple[ClassScores, ...]
    macro: ClassScores  # the mean over classes that have a value
    weighted: ClassScores  # by support

    def as_json(self, names: Sequence[str] = ()) -> dict[str, Any]:
        labels = _labels(names, len(self.classes))
        by_class = {label: scores.as_json() for label, scores in zip(labels, self.classes, strict=True)}
        return {"classes": by_class, "macro": self.macro.as_json(), "weighted": self.weighted.as_json()}


def classification_report(matrix: Sequence[Any]) -> ClassificationReport:
    """The report of a confusion matrix, of classes or of labels."""
    classes = tuple(_scores(*totals) for totals in _totals(matrix))
    return ClassificationReport(
        classes, _mean(classes, [1] * len(classes)), _mean(classes, [scores.support for scores in classes])
    )


def class_names(description: Mapping[str, Any]) -> tuple[str, ...]:
    """The names of the classes in the order of their numbers, where a run kept those of one target."""
    kept = ((description.get("data") or {}).get("train") or {}).get("classes") or {}
    return tuple(map(str, next(iter(kept.values())))) if isinstance(kept, Mapping) and len(kept) == 1 else ()


def _labels(names: Sequence[str], count: int) -> list[str]:
    return [clean(name) for name in names] if len(names) == count else [str(place) for place in range(count)]


def render_report(
    matrix: Sequence[Any], name: str, classes: Sequence[str] = (), *, width: int | None = None, paint: Paint = plain
) -> list[str]:
    """The report as a table, then the matrix; with the names of the classes where there is one for each."""
    labels = _labels(classes, len(matrix))
    report = classification_report(matrix)
    what = "label" if _is_of_labels(matrix) else "class"
    listed = list(enumerate(report.classes))
    head = f"{name}: precision, recall and F1 of each {what}"
    if len(listed) > MOST_CLASSES:
        rated = [one for one in listed if not math.isnan(one[1].f1)]
        listed = sorted(rated, key=lambda one: one[1].f1)[:MOST_CLASSES]
        head = f"{name}: the {len(listed)} of {len(report.classes):,} {what}{'s' if what == 'label' else 'es'} with the lowest F1"
    rows = [(labels[index], scores) for index, scores in listed] + [("macro", report.macro), ("weighted", report.weighted)]
    table = columns(
        (what, "precision", "recall", "f1", "support"),
        [(label, *(_cell(value) for value in (s.precision, s.recall, s.f1)), f"{s.support:,}") for label, s in rows],
        left=(what,),
        width=width,
        paint=paint,
    )
    told = [paint(head, "bold"), *table]
    return told if _is_of_labels(matrix) else [*told, "", *_render_matrix(matrix, name, labels, width, paint)]


def _render_matrix(
    matrix: Sequence[Sequence[int]], name: str, labels: Sequence[str], width: int | None, paint: Paint
) -> list[str]:
    """The whole matrix, or where it is too large or too wide for that the most frequent confusions."""
    if len(matrix) <= MOST_COLUMNS:
        rows = [(labels[index], *(f"{count:,}" for count in row)) for index, row in enumerate(matrix)]
        table = columns(("class", *labels), rows, left=("class",), paint=paint)
        if width is None or max(map(len, columns(("class", *labels), rows))) <= width:
            return [paint(f"{name}: confusion matrix (rows: true, columns: predicted)", "bold"), *table]
    wrong = [(count, i, j) for i, row in enumerate(matrix) for j, count in enumerate(row) if i != j and count]
    most = sorted(wrong, key=lambda one: -one[0])[:CONFUSIONS]
    rows = [(labels[i], labels[j], f"{count:,}") for count, i, j in most]
    head = ("class", "taken for", "times")
    table = columns(head, rows, left=head[:2], width=width, paint=paint)
    return [paint(f"{name}: the most frequent confusions of {len(matrix)} classes", "bold"), *table] if rows else []


def _is_of_labels(matrix: Sequence[Any]) -> bool:
    return bool(matrix) and isinstance(matrix[0][0], list)


def _totals(matrix: Sequence[Any]) -> list[tuple[int, int, int]]:
    """Of each class: how often it was chosen rightly, how often it was chosen, how often it is there."""
    if _is_of_labels(matrix):
        return [(one[1][1], one[0][1] + one[1][1], one[1][0] + one[1][1]) for one in matrix]
    return [(row[index], sum(other[index] for other in matrix), sum(row)) for index, row in enumerate(matrix)]


def _scores(hits: int, chosen: int, there: int) -> ClassScores:
    if not chosen and not there:
        return ClassScores(math.nan, math.nan, math.nan, 0)
    return ClassScores(hits / chosen if chosen else 0.0, hits / there if there else 0.0, 2 * hits / (chosen + there), there)


def _mean(classes: Sequence[ClassScores], weights: Sequence[int]) -> ClassScores:
    rated = [(scores, weight) for scores, weight in zip(classes, weights, strict=True) if not math.isnan(scores.f1)]
    total = sum(weight for _, weight in rated)

    def mean(name: str) -> float:
        return math.fsum(getattr(scores, name) * weight for scores, weight in rated) / total if total else math.nan

    return ClassScores(mean("precision"), mean("recall"), mean("f1"), sum(scores.support for scores in classes))


def _cell(value: float) -> str:
    return "-" if math.isnan(value) else number(value)
