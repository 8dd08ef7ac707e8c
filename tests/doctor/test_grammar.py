"""Scripts of the grammar: right ones run the same with and without the doctor, which has nothing to say; in those with one
mistake it names that, at its line, and nothing else.

10 right ones run by default; 200, and 4 scripts of each mistake, in `make test-slow`; 2,000 in `GRAMMAR=2000 make test-slow`.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from doctor.casebook import Examination
from doctor.generated import MISSED, about_findings, complaints
from doctor.grammar import Script, write
from doctor.grammar.mutations import MUTATIONS
from instep.doctor.catalogue import CATALOGUE
from programs import Programs

QUICK, MANY, SLICE = 10, int(os.environ.get("GRAMMAR", "200")), 20
EACH = MANY // 50  # seeds of a mutation


@pytest.fixture(scope="module")
def examination(programs: Programs) -> Iterator[Examination]:
    """One process that runs the scripts."""
    with Examination(jobs=1 if "PYTEST_XDIST_WORKER" in os.environ else 2, programs=programs) as examination:
        yield examination


def run(scripts: list[Script], folder: Path, examination: Examination) -> list[str]:
    """What is wrong with the runs of scripts, each with its name."""
    paths = [folder / f"{script.name}.py" for script in scripts]
    for script, path in zip(scripts, paths, strict=True):
        path.write_text(script.source, encoding="utf-8")
    examination.send(paths)
    examination.send(paths, watched=False)
    return [
        f"{script.name}: {line}"
        for script, path in zip(scripts, paths, strict=True)
        for line in complaints(script, path, examination.answer(path), examination.answer(path, watched=False))
    ]


def _slices(first: int, last: int, *, slow: bool) -> list[object]:
    marks = [pytest.mark.slow] if slow else []
    starts = range(first, last, SLICE)
    return [pytest.param(start, min(start + SLICE, last), id=f"{start}", marks=marks) for start in starts]


@pytest.mark.parametrize(("first", "last"), [*_slices(0, QUICK, slow=False), *_slices(QUICK, MANY, slow=True)])
def test_right_scripts_run_the_same_and_nothing_is_said(first: int, last: int, tmp_path: Path, examination: Examination) -> None:
    wrong = run([write(seed) for seed in range(first, last)], tmp_path, examination)
    assert not wrong, "\n".join(wrong)


NAMES = list(MUTATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(EACH))
@pytest.mark.parametrize(
    "names", [NAMES[start : start + SLICE] for start in range(0, len(NAMES), SLICE)], ids=lambda names: names[0]
)
def test_a_mistake_is_named_at_its_line_and_nothing_else(
    names: list[str], seed: int, tmp_path: Path, examination: Examination
) -> None:
    wrong = run([write(seed, name) for name in names], tmp_path, examination)
    missed = [line for line in wrong if line.endswith(MISSED)]
    assert wrong == missed, "\n".join(wrong)  # nothing false, nothing at another line, nothing disturbed
    assert len(missed) <= 0.05 * len(names), "\n".join(missed)


def test_every_mutation_has_an_id_and_changes_the_script() -> None:
    ids = {id for mutation in MUTATIONS.values() for id in mutation.ids}
    assert ids <= set(CATALOGUE)
    assert len(ids) >= 50
    for name, mutation in MUTATIONS.items():
        script = write(5, name)
        assert script.ids == frozenset(mutation.ids)
        assert script.lines
        assert script.source != write(5).source


def test_a_seed_gives_the_same_script_each_time() -> None:
    assert write(7).source == write(7).source
    assert len({write(seed).source for seed in range(60)}) == 60


def test_what_would_be_complained_about() -> None:
    """The judge of these tests can say no."""
    script, path = write(0, "no-clear"), Path("a.py")
    line = min(script.lines)
    finding = {"id": "missing-zero-grad", "severity": "error", "where": f"a.py:{line}", "places": [], "message": ""}
    assert about_findings(script, path, [finding]) == []
    assert about_findings(script, path, []) == ["missing-zero-grad is not named"]
    assert about_findings(script, path, [finding | {"where": "b.py:1"}]) == ["missing-zero-grad is at b.py:1"]
    assert about_findings(write(0), path, [finding])[0].startswith("false: error missing-zero-grad at a.py")
    answer = {"out": "1", "error": "", "said": "", "failures": [], "findings": []}
    assert complaints(write(0), path, answer, answer) == []
    assert complaints(write(0), path, answer | {"out": "2"}, answer) == ["out differs: '1', watched '2'"]
    assert complaints(write(0), path, answer | {"said": "!"}, answer) == ["stderr differs: '', watched '!'"]
