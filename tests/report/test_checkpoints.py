"""The checkpoints of a run, listed."""

import os
from pathlib import Path

import told
from instep.report import runs
from instep.report.checkpoints import lines
from instep.report.show import render
from instep.run.history import History
from instep.run.run_files import find_checkpoints

NOW_S = told.CREATED.timestamp()


def shelf(run: Path, sizes: dict[int, int], *, best: str) -> Path:
    folder = run / "checkpoints"
    for step, length in sizes.items():
        path = folder / f"step-{step:08d}"
        path.mkdir(parents=True)
        (path / "model.safetensors").write_bytes(bytes(length))
        os.utime(path / "model.safetensors", (NOW_S - 7200, NOW_S - 7200))
    (folder / "BEST").write_text(best)
    return folder


def test_they_are_listed_with_their_size_and_what_they_are(tmp_path: Path) -> None:
    folder = shelf(tmp_path, {1200: 2_500_000, 240: 1000, 36: 10}, best="step-00000240\n")
    for odd in (".writing-step-00000300-12", ".gone-step-00000100-ab", "step-12", "notes"):
        (folder / odd).mkdir()
    (folder / "step-00000099").write_text("a file")
    assert lines(find_checkpoints(tmp_path), History(), NOW_S) == [
        "checkpoint     size  age",
        "        36     10 B  2 h",
        "       240  1.00 kB  2 h  best",
        "     1,200  2.50 MB  2 h  latest",
    ]


def test_of_many_the_last_and_the_best_are_listed(tmp_path: Path) -> None:
    shelf(tmp_path, dict.fromkeys(range(1, 101), 10), best="step-00000007")
    first, head, best, *last = lines(find_checkpoints(tmp_path), History(), NOW_S)
    assert first == "the last 20 of 100 checkpoints, and the best ones"
    assert head.split() == ["checkpoint", "size", "age"]
    assert best.split() == ["7", "10", "B", "2", "h", "best"]
    assert [int(line.split()[0]) for line in last] == list(range(81, 101))


def test_the_latest_can_be_the_best_and_a_label_can_be_wrong(tmp_path: Path) -> None:
    folder = shelf(tmp_path, {36: 10}, best="step-00000036")
    assert lines(find_checkpoints(tmp_path), History(), NOW_S)[1].endswith("best, latest")
    for text in ("", "step-00000099", "../../etc", "\xff"):
        (folder / "BEST").write_text(text, encoding="latin1")
        assert [(one.is_best, one.is_latest) for one in find_checkpoints(tmp_path)] == [(False, True)]


def test_a_run_without_any_is_shown_without_them(tmp_path: Path) -> None:
    assert find_checkpoints(tmp_path) == []
    run = told.run_folder(tmp_path / "run", epochs=1)
    assert "checkpoint" not in render(run)
    shelf(run, {36: 10}, best="")
    shown = "\n\ncheckpoint  valid/accuracy  size  age\n        36               -  10 B  2 h  latest"
    assert render(run, now_s=NOW_S).endswith(shown)


def test_a_run_that_was_killed_says_what_is_on_the_disk(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "run", epochs=3, state="running")
    shelf(run, {120: 10, 130: 10}, best="step-00000120")
    text = render(run, width=200, now_s=NOW_S)
    where = "a resume goes on from step 130, the last checkpoint on the disk"
    assert f"state     unfinished at step 360 of 1,200; {where}\n" in text
    best = "best: valid/accuracy 0.5900 at step 360, which has no checkpoint; the best that has one is at step 120"
    assert f"\n\n{best}\n\ncheckpoint" in text
    assert " unfinished (resumes at 130)   360 " in runs.render(tmp_path)


def test_ranks_are_of_what_is_on_the_disk(tmp_path: Path) -> None:
    run = told.run_folder(tmp_path / "run", epochs=5)
    shelf(run, {120: 10, 360: 10, 480: 10}, best="step-00000480")  # the best evaluation, at 600, has none
    marks = [line.split("2 h")[-1].strip() for line in render(run, now_s=NOW_S).splitlines()[-3:]]
    assert marks == ["", "2nd best", "best, latest"]
