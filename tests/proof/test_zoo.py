"""`prove` is right on every training of the zoo: no false alarm, no miss."""

from collections.abc import Iterable, Sequence

import pytest

import instep
from instep.proof.result import PROMISES
from instep.proof.split import prove_split
from instep.proof.subject import examine, quiet, seeded
from proof import zoo
from proof.answers import ANSWERS, expected, is_right

STEPS = 6


def assert_right(name: str, proof: instep.Proof, promises: Iterable[str] = PROMISES) -> None:
    found = {row.promise: (row.verdict, tuple(cause.name for cause in row.causes)) for row in proof.rows}
    assert list(found) == [promise for promise in PROMISES if promise in {"repeat", *promises}]
    wrong = {promise: found[promise] for promise in found if not is_right(name, promise, *found[promise])}
    assert not wrong, f"{name}: {wrong}\n{proof}"


def prove_here(name: str, promises: Sequence[str]) -> instep.Proof:
    """Without new processes: no other one can find this function."""

    def build() -> instep.Trainer:
        made: instep.Trainer = getattr(zoo, name)()
        return made

    return instep.prove(build, steps=STEPS, promises=promises)


@pytest.mark.parametrize("name", [name for name in ANSWERS if expected(name, "split").verdict != "not tried"])
def test_a_split_is_judged_right(name: str) -> None:
    with quiet():
        subject, trainer = examine(seeded(getattr(zoo, name), {}), 4, None, name)
        row = prove_split(subject, trainer.run, lambda words: None)
    assert (row.verdict, tuple(cause.name for cause in row.causes)) == expected(name, "split"), row
    assert row.bound == 1e-10
    assert row.verdict == "differs" or (row.measured["float64"] < 1e-12 and row.measured["float32"] < 1e-5)


@pytest.mark.parametrize("name", ["clock", "own_generator_unseeded"])
def test_a_run_that_does_not_repeat_itself_is_tried_no_further(name: str) -> None:
    proof = instep.prove(getattr(zoo, name), steps=STEPS)
    assert_right(name, proof)
    assert "zoo.py:" in proof["repeat"].causes[0].where


@pytest.mark.parametrize(
    ("name", "promises"),
    [("own_generator", ["load", "interrupt"]), ("mutating", ["load", "plain"]), ("unkeyed_forward", ["observe", "tune"])],
)
def test_state_outside_of_the_run_is_found(name: str, promises: list[str]) -> None:
    assert_right(name, prove_here(name, promises), promises)


def test_a_gan_and_a_stream_pass_what_applies_to_them() -> None:
    for name, promises in (("gan", ["overflow", "tune", "plain", "observe"]), ("iterable", ["load", "interrupt", "plain"])):
        assert_right(name, prove_here(name, promises), promises)


@pytest.mark.slow
@pytest.mark.parametrize("name", ANSWERS)
def test_every_promise_is_judged_right(name: str) -> None:
    assert_right(name, instep.prove(getattr(zoo, name), steps=STEPS))
