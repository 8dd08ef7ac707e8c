"""Promise 2 for cycles: stopped or killed anywhere, also within a range test, they go on bit for bit."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from cycled import LENGTH, fitted, result, rows, trainer
from instep import Trainer, Update, freeze, keys
from instep.errors import Interrupted
from instep.run.session import Session
from instep.tuning import cycles, range_test
from instep.tuning.cycles import Cycles
from killed import in_a_child, kill_at_random
from tiny import CLASSES, FEATURES, TASKS

Whole = Callable[..., tuple[Cycles, dict[str, Any]]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """The run that never stopped, with these options, made once: what it found, and all that must be equal."""
    made: dict[str, tuple[Cycles, dict[str, Any]]] = {}

    def run(**options: Any) -> tuple[Cycles, dict[str, Any]]:
        if str(options) not in made:
            folder = tmp_path_factory.mktemp("whole")
            one = trainer(folder, **options)
            made[str(options)] = fitted(one), result(one, folder)
        return made[str(options)]

    return run


@pytest.mark.parametrize("checkpoint_every", ["epoch", 1, None])
@pytest.mark.parametrize("stops", [[3], [9], [4, 10, 12], [19]])
def test_stopped_between_updates_it_goes_on_bit_for_bit(
    tmp_path: Path, stops: list[int], checkpoint_every: Any, whole: Whole
) -> None:
    """Step 9 is the last update of a cycle: the next thing would be a range test."""
    options = {"checkpoint_every": checkpoint_every, "log_every": 3, "keep": None}
    expected = whole(**options)
    for stop in stops:
        run = trainer(tmp_path / "stopped", **options)
        with pytest.raises(KeyboardInterrupt):
            stopped_at(run, stop)
    again = trainer(tmp_path / "stopped", **options)
    assert (fitted(again), result(again, tmp_path / "stopped")) == expected


def stopped_at(run: Trainer, step: int, **options: Any) -> None:
    """Ctrl-C right after the update at this step."""
    watched(run, lambda update: signal.raise_signal(signal.SIGINT) if update.step == step else None)
    fitted(run, **options)


def watched(run: Trainer, look: Callable[[Update], object]) -> None:
    """Look at every update of a run."""
    begin = run.run.session

    def watched_session() -> Session:
        session = begin()
        finish = session.finish_update

        def finish_update(*arguments: Any) -> Update:
            update = finish(*arguments)
            look(update)
            return update

        session.finish_update = finish_update  # type: ignore[method-assign, assignment]
        return session

    run.run.session = watched_session  # type: ignore[method-assign]


def interrupted_in_the_range_test(run: Trainer, after: int, number: int = 1) -> None:
    """Ctrl-C after so many updates of the range test before the cycle with this index."""
    made = 0
    heard = run.model.forward

    def forward(x: torch.Tensor) -> torch.Tensor:
        nonlocal made
        if run.step == number * LENGTH and run.model.training:
            made += 1
            if made == after:
                signal.raise_signal(signal.SIGINT)
        scores: torch.Tensor = heard(x)
        return scores

    run.model.forward = forward
    try:
        fitted(run)
    finally:
        del run.model.forward


@pytest.mark.parametrize("number", [0, 1])
def test_stopped_within_a_range_test_it_is_made_again(tmp_path: Path, number: int, whole: Whole) -> None:
    expected = whole(checkpoint_every=None)
    run = trainer(tmp_path / "stopped", checkpoint_every=None)
    with pytest.raises(Interrupted, match=f"stopped by Ctrl-C after {number * LENGTH} updates"):
        interrupted_in_the_range_test(run, 12, number)
    assert json.loads((tmp_path / "stopped" / "run.json").read_text())["status"]["state"] == "interrupted"
    assert run.step == number * LENGTH
    again = trainer(tmp_path / "stopped", checkpoint_every=None)
    assert (fitted(again), result(again, tmp_path / "stopped")) == expected


def test_the_same_trainer_goes_on_too(tmp_path: Path, whole: Whole) -> None:
    expected = whole()
    run = trainer(tmp_path / "stopped")
    with pytest.raises(Interrupted):
        interrupted_in_the_range_test(run, 12)
    assert run.find_lr(steps=20, repeats=1).lrs  # what asked to stop is forgotten
    assert (fitted(run), result(run, tmp_path / "stopped")) == expected


def test_more_cycles_may_be_asked_for(tmp_path: Path, whole: Whole) -> None:
    expected = whole()
    fitted(trainer(tmp_path / "longer"), max_cycles=1)
    again = trainer(tmp_path / "longer")
    assert (fitted(again), result(again, tmp_path / "longer")) == expected


def test_a_finished_run_is_returned_at_once(tmp_path: Path) -> None:
    first = trainer(tmp_path)
    expected = fitted(first)
    before = result(first, tmp_path)
    again = trainer(tmp_path)
    again.run.rehearse = never  # type: ignore[method-assign]
    assert fitted(again) == expected == fitted(again)
    assert result(again, tmp_path) == before


def never(*_: object, **__: object) -> Any:
    raise AssertionError("there is nothing to find any more")


def test_a_run_whose_last_range_test_found_nothing_is_not_tested_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = trainer(tmp_path)
    with monkeypatch.context() as patched:
        blind_after_the_first(patched)
        done = fitted(run)
    assert done.ended.startswith("the range test after cycle 1 suggests no learning rate: noise: ")
    assert len(done.cycles) == 1
    again = trainer(tmp_path)
    again.run.rehearse = never  # type: ignore[method-assign]
    assert fitted(again) == done
    assert rows(tmp_path) == again.history.to_dicts(clock=False)


def blind_after_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    real = range_test.find_lr

    def find_lr(run: Any, **options: Any) -> Any:
        return real(run, **options | ({"high": 1e-6} if run.step else {}))

    monkeypatch.setattr(cycles, "find_lr", find_lr)


def joining(folder: Path) -> Trainer:
    """In the middle of the second cycle a group joins that has ten times the learning rate of what was there."""
    keys.seed_all(keys.for_build(1))
    model = nn.Sequential(nn.Linear(FEATURES, 8), nn.ReLU(), nn.Linear(8, CLASSES))
    freeze(model, "0")
    x, y = TASKS[0].draw(80, seed=0, dtype=torch.float32)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.Adam([{"params": model[2].parameters(), "lr": 1e-4}], lr=1e-3),
        unfreeze_at={3: "0"},
        train=(x, y),
        valid=(x, y),
        epochs=2,
        batch_size=16,
        log_every=1,
        folder=folder,
        progress=False,
    )


@pytest.mark.parametrize("stop", [12, 17])
def test_a_group_that_joins_in_a_cycle(tmp_path: Path, stop: int) -> None:
    whole = joining(tmp_path / "whole")
    lrs: list[tuple[float, ...]] = []
    watched(whole, lambda update: lrs.append(update.lrs))
    expected = fitted(whole, max_cycles=2)
    assert [two / one for one, two in lrs[15:]] == pytest.approx([10.0] * 5)
    assert [len(groups) for groups in lrs] == [1] * 15 + [2] * 5
    run = joining(tmp_path / "stopped")
    with pytest.raises(KeyboardInterrupt):
        stopped_at(run, stop, max_cycles=2)
    again = joining(tmp_path / "stopped")
    assert fitted(again, max_cycles=2) == expected
    assert result(whole, tmp_path / "whole") == result(again, tmp_path / "stopped")


def fit(folder: Path) -> None:
    fitted(trainer(folder, checkpoint_every=3), steps=60)


def check_kills(tmp_path: Path, kills: int) -> None:
    """Kill -9 at random moments; most of the time goes into range tests, so most kills fall into those."""
    begun = time.monotonic()
    os.waitpid(in_a_child(fit, tmp_path / "whole"), 0)
    kill_at_random(fit, tmp_path / "killed", kills=kills, seed=3, whole_s=time.monotonic() - begun)
    whole, again = trainer(tmp_path / "whole", checkpoint_every=3), trainer(tmp_path / "killed", checkpoint_every=3)
    assert fitted(whole, steps=60) == fitted(again, steps=60)
    assert result(whole, tmp_path / "whole") == result(again, tmp_path / "killed")


def test_kill_minus_nine_at_random_moments(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=6)


@pytest.mark.slow
def test_kill_minus_nine_thirty_times(tmp_path: Path) -> None:
    check_kills(tmp_path, kills=30)
