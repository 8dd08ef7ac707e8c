"""Following a history that grows."""

import json
from pathlib import Path
from typing import Any

import pytest

from instep.run.history.follow import FollowedHistory


def line(step: int, **more: Any) -> str:
    return json.dumps({"kind": "update", "step": step, "epoch": 0, "loss": 1.0 / step, "lr": 0.1, **more}) + "\n"


def steps(followed: FollowedHistory) -> list[int]:
    return [row["step"] for row in followed.read().rows]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "history.jsonl"
    file.write_text("".join(map(line, range(1, 11))))
    return file


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_what_is_new_is_added(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    followed = FollowedHistory(path, most=100)
    assert steps(followed) == list(range(1, 11))
    monkeypatch.setattr(FollowedHistory, "_read_anew", None)  # from here on only what is new
    append(path, line(11))
    assert steps(followed) == list(range(1, 12))
    assert steps(followed) == list(range(1, 12))


def test_half_a_line_waits_for_its_other_half(path: Path) -> None:
    followed = FollowedHistory(path, most=100)
    followed.read()
    text = line(11)
    append(path, text[:20])
    assert steps(followed) == list(range(1, 11))
    assert followed.read().problem == "the last line is torn and left out"
    append(path, text[20:])
    assert steps(followed) == list(range(1, 12))
    assert followed.read().problem is None


def test_a_file_that_was_cut_and_grew_again_is_read_anew(path: Path) -> None:
    followed = FollowedHistory(path, most=100)
    followed.read()
    path.write_text("".join(map(line, range(1, 5))))
    assert steps(followed) == [1, 2, 3, 4]
    path.write_text("".join([*map(line, range(1, 4)), *(line(step, mine=2.0) for step in range(4, 30))]))
    assert steps(followed) == list(range(1, 30))


def test_a_long_history_is_thinned_and_goes_on(path: Path) -> None:
    path.write_text("".join(map(line, range(1, 1_001))))
    followed = FollowedHistory(path, most=60)
    first = steps(followed)
    assert len(first) < 70
    for step in range(1_001, 1_101):
        append(path, line(step))
        now = steps(followed)
        assert now[-1] == step
        assert len(now) <= 2 * 60 + 1
    assert now[0] == 1


def test_a_file_that_is_gone_is_an_error_of_the_system(path: Path) -> None:
    followed = FollowedHistory(path, most=100)
    followed.read()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        followed.read()
