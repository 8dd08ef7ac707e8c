"""What the doctor teaches: the experiment of every page prints what the page says; symptoms lead to candidates."""

import contextlib
import io
import warnings

import pytest
import torch

from instep.cli import main
from instep.doctor.catalogue import CATALOGUE
from instep.doctor.symptoms import find_symptoms, symptoms

MOST_LINES = 10  # of an experiment, imports apart: most have five


@pytest.mark.parametrize("id", CATALOGUE)
def test_an_experiment_prints_what_its_page_says(id: str) -> None:
    code, expected = CATALOGUE[id].experiment
    lines = [line for line in code.splitlines() if line.strip() and not line.startswith(("import ", "from "))]
    assert 2 <= len(lines) <= MOST_LINES
    said = io.StringIO()
    with contextlib.redirect_stdout(said), warnings.catch_warnings(), torch.random.fork_rng():
        warnings.simplefilter("ignore")  # torch's own; they go to another stream
        exec(compile(code, f"{id}.md", "exec"), {"__name__": "experiment"})
    assert said.getvalue() == expected


def test_the_experiment_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--explain", "missing-zero-grad"]) == 0
    assert "## Try it" in (said := capsys.readouterr().out)
    assert "batch 2: the step would use 15" in said


def test_every_id_has_a_symptom() -> None:
    named = {id for symptom in symptoms() for id, _ in symptom.candidates}
    assert named == set(CATALOGUE)
    for symptom in symptoms():
        ids = [id for id, _ in symptom.candidates]
        assert len(ids) == len(set(ids)), symptom.name
        assert all(question.endswith(("?", ".")) for _, question in symptom.candidates)


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("loss is constant", "the loss is constant"),
        ("My loss doesn't change!", "the loss is constant"),
        ("it learns, then NaN", "the loss rises, jumps, or becomes nan"),
        ("test accuracy is far below", "test accuracy is far below training accuracy"),
        ("CUDA out of memory after 3 epochs", "memory grows"),
        ("memory grows", "memory grows"),
        ("lr drops too early", "the learning rate is not what I set"),
        ("loaded checkpoint is bad", "a resumed or loaded model is worse"),
        ("negative loss", "the loss is negative"),
        ("the order of the data matters", "the order of the data matters"),
        ("it does not learn", "the loss is constant"),
        ("regression predicts the mean", "the loss falls slowly, and stops at a floor"),
        ("results not reproducible", "the metric changes from one evaluation to the next"),
        ("gradients are zero", "the loss is constant"),
        ("works in notebook but not in production", "a resumed or loaded model is worse"),
        ("weights do not change", "some layers never change"),
        ("val accuracy much lower than train", "test accuracy is far below training accuracy"),
    ],
)
def test_words_find_a_symptom(words: str, name: str) -> None:
    assert find_symptoms(words)[0].name == name


def test_symptoms_in_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor", "--symptom", "loss is constant"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("The loss is constant\n\n  single-class-loss: cross-entropy has one class only\n")
    assert "      Does zero_grad() stand between backward() and step()?" in said
    assert main(["doctor", "--symptom"]) == 0
    said = capsys.readouterr().out
    assert all(f"\n  {symptom.name}\n" in said for symptom in symptoms())
    assert main(["doctor", "--symptom", "loss", "is", "nan"]) == 0
    assert capsys.readouterr().out.startswith("The loss rises, jumps, or becomes nan\n")
    assert main(["doctor", "--symptom", "purple"]) == 2
    assert "no symptom is like 'purple'; instep doctor --symptom lists those that there are." in capsys.readouterr().err
