"""The classification report: against scikit-learn's numbers, worked out by hand, and as text."""

import math

import pytest

from instep.records import Evaluation
from instep.report import evaluation as report
from instep.report.classification import classification_report, render_report

MATRIX = [[3, 1, 0, 0], [0, 2, 2, 0], [1, 0, 1, 0], [0, 0, 0, 0]]  # class 3 was neither there nor chosen


def test_the_scores_of_each_class() -> None:
    found = classification_report(MATRIX)
    assert [(s.precision, s.recall, s.support) for s in found.classes[:3]] == [
        (3 / 4, 3 / 4, 4),
        (2 / 3, 2 / 4, 4),
        (1 / 3, 1 / 2, 2),
    ]
    assert found.classes[1].f1 == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert math.isnan(found.classes[3].f1)
    assert found.macro.recall == pytest.approx((3 / 4 + 2 / 4 + 1 / 2) / 3)
    assert found.weighted.precision == pytest.approx((4 * 3 / 4 + 4 * 2 / 3 + 2 * 1 / 3) / 10)
    assert found.macro.support == found.weighted.support == 10


def test_a_class_that_was_never_chosen_or_never_there() -> None:
    never_chosen, never_there = classification_report([[0, 2], [0, 0]]).classes
    assert (never_chosen.precision, never_chosen.recall, never_chosen.f1) == (0, 0, 0)
    assert (never_there.precision, never_there.recall, never_there.support) == (0, 0, 0)


def test_labels_have_a_table_each() -> None:
    found = classification_report([[[5, 1], [2, 2]], [[9, 0], [0, 1]]])
    assert (found.classes[0].precision, found.classes[0].recall, found.classes[0].support) == (2 / 3, 2 / 4, 4)
    assert found.macro.f1 == pytest.approx((4 / 7 + 1) / 2)
    assert "confusion" not in "\n".join(render_report([[[5, 1], [2, 2]], [[9, 0], [0, 1]]], "valid"))


def test_as_text() -> None:
    evaluation = Evaluation({"valid/loss": 0.5}, 8, 0, {"valid/confusion_matrix": MATRIX})
    assert report.render(evaluation, "runs/my at step 8").splitlines() == [
        "runs/my at step 8",
        "  valid/loss  0.5000",
        "",
        "valid: precision, recall and F1 of each class",
        "class     precision  recall      f1  support",
        "0            0.7500  0.7500  0.7500        4",
        "1            0.6667  0.5000  0.5714        4",
        "2            0.3333  0.5000  0.4000        2",
        "3                 -       -       -        0",
        "macro        0.5833  0.5833  0.5738       10",
        "weighted     0.6333  0.6000  0.6086       10",
        "",
        "valid: confusion matrix (rows: true, columns: predicted)",
        "class  0  1  2  3",
        "0      3  1  0  0",
        "1      0  2  2  0",
        "2      1  0  1  0",
        "3      0  0  0  0",
    ]


def test_many_classes_are_cut_down() -> None:
    classes = 50
    matrix = [[10 if i == j else 0 for j in range(classes)] for i in range(classes)]
    matrix[7][9] = 30
    lines = render_report(matrix, "valid")
    assert lines[0] == "valid: the 40 of 50 classes with the lowest F1"
    assert lines[2].split()[0] in ("7", "9")
    assert lines[-3] == "valid: the most frequent confusions of 50 classes"
    assert lines[-1].split() == ["7", "9", "30"]
    assert "confusions" not in "\n".join(render_report([[1 if i == j else 0 for j in range(30)] for i in range(30)], "valid"))


def test_as_json() -> None:
    evaluation = Evaluation({"valid/loss": math.inf}, 8, 0, {"valid/confusion_matrix": MATRIX})
    found = report.as_json(evaluation, run="runs/my")
    assert found["valid/loss"] is None
    assert found["tables"] == {"valid/confusion_matrix": MATRIX}
    assert found["reports"]["valid"]["classes"]["0"] == {"precision": 0.75, "recall": 0.75, "f1": 0.75, "support": 4}
    assert found["reports"]["valid"]["classes"]["3"] == {"precision": None, "recall": None, "f1": None, "support": 0}
    assert "tables" not in report.as_json(Evaluation({"valid/loss": 1.0}))
