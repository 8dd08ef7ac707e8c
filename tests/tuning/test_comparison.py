"""A comparison of ways to make updates: its turns, its numbers and its words."""

import json
from collections.abc import Iterator

import pytest
import torch

from instep.tuning.comparison import COMPILED, PLAIN, TRAINER, Comparison, Timing, Way, enough_updates, take_turns

CPU = torch.device("cpu")


class Clock:
    """A clock that only the updates move."""

    def __init__(self) -> None:
        self.now = 0.0
        self.order: list[str] = []

    def updates(self, name: str, first_s: float, update_s: float) -> Iterator[None]:
        while True:
            self.now += first_s if name not in self.order else update_s
            self.order.append(name)
            yield


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr("instep.tuning.comparison.time.perf_counter", lambda: made.now)
    return made


def test_the_ways_take_turns_and_the_first_update_is_timed_alone(clock: Clock) -> None:
    slow, quick = Way(clock.updates("slow", 5.0, 2.0), CPU), Way(clock.updates("quick", 1.0, 1.0), CPU)
    take_turns([slow, quick], 25)
    assert slow.timing() == Timing(5.0, (2.0,) * 10)
    assert quick.timing() == Timing(1.0, (1.0,) * 10)
    assert clock.order[:8] == ["slow", "slow", "quick", "quick", "slow", "slow", "quick", "quick"]
    assert clock.order.count("slow") == 2 + 25
    assert slow.total_s == 5.0 + 26 * 2.0


def test_few_updates_make_few_turns(clock: Clock) -> None:
    way = Way(clock.updates("one", 1.0, 1.0), CPU)
    take_turns([way], 3)
    assert way.timing().blocks_s == (1.0, 1.0, 1.0)


@pytest.mark.parametrize(("update_s", "updates"), [(1.0, 10), (0.02, 100), (1e-6, 2000)])
def test_enough_updates_take_about_two_seconds(clock: Clock, update_s: float, updates: int) -> None:
    assert enough_updates(clock.updates("one", 9.0, update_s), CPU) == updates


def compared(compiled: Timing | None = None, **other: object) -> Comparison:
    timings = {PLAIN: Timing(0.002, (0.001, 0.002, 0.001)), TRAINER: Timing(0.002, (0.002, 0.002, 0.002))}
    if compiled is not None:
        timings[COMPILED] = compiled
    return Comparison(64, 1, "cpu", 30, 1000, timings, **other)  # type: ignore[arg-type]


def test_a_ratio_is_the_median_over_the_turns() -> None:
    assert compared().ratio(TRAINER, PLAIN) == (0.5, 0.5, 0.75)


def test_the_words() -> None:
    assert str(compared(waiting=0.25, left_out=("ema=0.9",))).splitlines() == [
        "batch_size=64, 1 thread, cpu; 30 updates each, in 3 turns",
        "",
        "            samples/s  µs an update  middle half",
        "plain loop      64.0k         1,000  1,000–1,500",
        "Trainer         32.0k         2,000  2,000–2,000",
        "",
        "The Trainer is 0.50 × as fast as the plain loop (0.50 to 0.75 in the middle half",
        "of the turns).",
        "The Trainer spends 25% of its time waiting for batches.",
        "Only the Trainer has ema=0.9.",
    ]


def test_compiling_that_pays() -> None:
    comparison = compared(Timing(8.0, (0.001,) * 3))
    assert comparison.pays_after == 8000
    said = " ".join(str(comparison).splitlines())
    assert "compile=True pays after 8,000 updates: the first update takes 8.0 s; the others are 2.00 × as fast" in said
    assert said.endswith("This run has 1,000 updates.")


def test_a_second_size_of_batch_is_compiled_again() -> None:
    comparison = compared(Timing(8.0, (0.001,) * 3), compilations=2)
    assert comparison.pays_after == 16_000
    assert "takes 8.0 s, as does the smaller last batch of an epoch;" in " ".join(str(comparison).splitlines())


@pytest.mark.parametrize("blocks", [(0.004,) * 3, (0.001, 0.0025, 0.0025)])
def test_compiling_that_does_not_pay(blocks: tuple[float, ...]) -> None:
    """Slower, or faster in too few of the turns."""
    comparison = compared(Timing(8.0, blocks))
    assert comparison.pays_after is None
    assert "compile=True does not pay: the first update takes 8.0 s; the others are" in str(comparison)


def test_compiling_that_failed() -> None:
    said = " ".join(str(compared(compile_failed="there is no compiler.")).splitlines())
    assert said.endswith("Whether compile=True pays could not be measured: there is no compiler.")


def test_as_json() -> None:
    told = json.loads(json.dumps(compared(Timing(8.0, (0.001,) * 3)).as_json()))
    assert told["update_s"] == {PLAIN: 0.001, TRAINER: 0.002, COMPILED: 0.001}
    assert told["samples_per_s"][TRAINER] == 32_000
    assert told["ratio"] == {"Trainer / plain loop": 0.5, "Trainer, compile=True / Trainer": 2.0}
    assert (told["pays_after"], told["timings"][COMPILED]["first_s"]) == (8000, 8.0)
