"""Long histories: little is parsed, little is kept, nothing is lost. Counts and bytes stand for seconds."""

import gc
import math
import pickle
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import told
from instep.errors import DescriptionError, FolderError
from instep.report.page.document import document
from instep.report.show import render
from instep.run import run_files
from instep.run.history import History, HistoryFile, Row, lines
from instep.run.history.jsonl import _line
from instep.run.run_files import read_ends, read_run

LONG = 20_000


def update(step: int, **more: Any) -> Row:
    clock = {"samples_per_s": 1e5 / step, "waiting": 1 / 3, "seconds": step / 7, "memory_bytes": 10**8}
    values = {"loss": math.sin(step), "lr": 1 / step, "grad_norm": 1 + math.cos(step)}
    return {"kind": "update", "step": step, "epoch": 0, **values, **more, "clock": clock}


def evaluation(step: int, loss: float) -> Row:
    return {"kind": "evaluation", "step": step, "epoch": 0, "valid/loss": loss, "clock": {"seconds": 1.0}}


def write(path: Path, rows: list[Row]) -> Path:
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"".join(map(_line, rows)))
    return path


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """20,000 lines of the log, with an evaluation every 1,000; the best is the seventh."""
    rows = []
    for step in range(1, LONG + 1):
        rows.append(update(step))
        if step % 1_000 == 0:
            rows.append(evaluation(step, abs(step - 7_000) + 1.0))
    return write(tmp_path_factory.mktemp("run") / "history.jsonl", rows)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The lines that were parsed."""
    seen: list[bytes] = []
    parse = lines._parse

    def count(line: bytes) -> Row:
        seen.append(line)
        return parse(line)

    monkeypatch.setattr(lines, "_parse", count)
    return seen


def bytes_taken(make: Callable[[], object]) -> int:
    """That stay, of what this makes."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        return tracemalloc.get_traced_memory()[0] if made is not None else 0
    finally:
        tracemalloc.stop()


def test_going_on_parses_the_evaluations_and_no_line_of_the_log(long: Path, parsed: list[bytes]) -> None:
    history = History(HistoryFile(long).go_on_after(LONG + 20))
    assert len(parsed) == 20
    assert (len(history), len(history.updates), len(history.evaluations)) == (LONG + 20, LONG, 20)
    assert history.best is not None
    assert history.best["step"] == 7_000
    assert len(parsed) == 20
    assert history.rows[-2] == update(LONG)
    assert history.updates[-1] == update(LONG)
    assert history.updates[1_000] == update(1_001)
    assert len(parsed) == 23


def test_columns_of_a_file_are_cut_not_parsed(long: Path, parsed: list[bytes]) -> None:
    history = History(HistoryFile.read(long).rows)
    assert history.column("grad_norm") == [1 + math.cos(step) for step in range(1, LONG + 1)]
    assert history.curve("valid/loss")[6] == (7_000, 1.0)
    assert history.names == ["step", "epoch", "loss", "lr", "grad_norm", "valid/loss"]
    assert len(parsed) < 30


def test_a_row_takes_few_bytes() -> None:
    count = 5_000

    def live() -> History:
        history = History()
        for step in range(1, count + 1):
            history.add_update(told.logged(step, 1 / step, grad_norm=0.5, extra={"mine": 2.0}))
        return history

    assert bytes_taken(live) / count < 200


def test_a_history_of_a_file_takes_the_bytes_of_the_file(long: Path) -> None:
    taken = bytes_taken(lambda: History(HistoryFile.read(long).rows))
    assert taken < 1.1 * long.stat().st_size


def test_damage_in_the_middle_is_named(long: Path, tmp_path: Path) -> None:
    content = bytearray(long.read_bytes())
    at = content.index(b'"step": 15000,')
    content[at + 9] = ord("2")
    path = tmp_path / "history.jsonl"
    path.write_bytes(content)
    number = 15_000 + 14
    words = f"line {number} of {LONG + 20} is damaged"
    for about in (None, 0, 500):
        found = HistoryFile.read(path, about=about)
        assert found.problem == f"{words}; read up to it"
        assert found.rows[-1]["step"] == 14_999
        assert found.length_bytes == content.rindex(b"\n", 0, at) + 1
    with pytest.raises(FolderError, match=f"{words}. Mend the file, or start again in another folder"):
        HistoryFile(path).go_on_after(LONG)
    assert path.read_bytes() == content


def test_a_spike_of_any_column_stays_and_so_do_first_last_and_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_files, "MOST_ROWS", 1_200)
    rows = [update(step) for step in range(1, LONG + 1)]
    rows[5_000] = update(5_001, grad_norm=1e9)
    rows[6_000] = update(6_001, grad_norm=math.nan)
    rows[7_000] = update(7_001, loss=None)
    rows[8_000] = update(8_001, mine=1.0)
    rows[9_000] = update(9_001, mine=3.0)
    rows[9_500] = update(9_501, mine=2.0)
    rows += [evaluation(LONG + step, 1.0 if step in (77, 900) else 2.0) for step in range(1, 1_501)]
    path = write(tmp_path / "run" / "history.jsonl", rows)
    run = read_run(path.parent)
    history = run.history
    steps = {row["step"] for row in history.updates}
    assert {1, 5_001, 6_001, 7_001, 8_001, 9_001, 9_501, LONG} <= steps
    assert history.column("mine") == [1.0, 3.0, 2.0]
    assert history.best == evaluation(LONG + 77, 1.0)
    assert history.last == rows[-1]
    assert len(history) < 3_000
    assert (len(history.updates) + run.left_out, len(history.evaluations) + run.left_out_evaluations) == (LONG, 1_500)
    text = render(path.parent)
    assert f"\ndrawn from {len(history.updates):,} of {LONG:,} lines, the extremes among them\n" in text
    assert "the last 10 of 1500 evaluations" in text
    shown = document([run])
    assert shown["runs"][0]["evaluations"]["all"] == 1_500
    loss = shown["charts"][0]["curves"][0]
    assert (loss["name"], loss["left_out"] + len(loss["values"])) == ("loss", LONG)


def test_a_table_of_runs_needs_the_evaluations_and_the_ends(long: Path) -> None:
    history = read_run(long.parent, read=read_ends).history
    assert [row["step"] for row in history.updates] == [1]
    assert len(history.evaluations) == 20
    assert history.rows[-1]["step"] == LONG


numbers = st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats())
names = st.text(min_size=1, max_size=8).map(lambda name: f"my {name}")
extras = st.dictionaries(
    st.one_of(names, st.sampled_from(['a", "loss": 7', "a, {b}", "é", "loss/1", "loss/2"])), numbers, max_size=3
)
clocks = st.one_of(st.none(), st.dictionaries(st.sampled_from(["seconds", "waiting"]), st.floats(), max_size=2))


@st.composite
def any_row(draw: st.DrawFn) -> Row:
    kind = draw(st.sampled_from(["update", "update", "log", "evaluation"]))
    row = {"kind": kind, "step": draw(st.integers(0, 99)), "epoch": 0, **draw(extras)}
    clock = draw(clocks)
    return {**row, "clock": clock} if clock else row


@settings(max_examples=40, deadline=None)
@given(st.lists(any_row(), max_size=30), st.lists(any_row(), max_size=6))
def test_a_history_says_the_same_however_its_rows_are_kept(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Row], more: list[Row]
) -> None:
    """As lines of a file, packed, or after a pickle: against rows in a list."""
    path = write(tmp_path_factory.mktemp("any") / "history.jsonl", rows)
    read, packed = History(HistoryFile.read(path).rows), History(rows)
    for history in (read, packed):
        for row in more:
            history._append(dict(row))
    every = [*rows, *more]
    log = [row for row in every if row["kind"] != "evaluation"]
    columns = dict.fromkeys(name for row in every for name in row if name not in ("kind", "clock"))
    for history in (read, packed, pickle.loads(pickle.dumps(read)), History(read.rows)):
        assert repr(history.rows) == repr(every)  # nan is not equal to nan
        assert repr(history.to_dicts()) == repr(every)
        assert repr(history.updates) == repr(log)
        assert repr(history.rows[1::2]) == repr(every[1::2])
        assert repr(list(history.updates[-3:])) == repr(log[-3:])
        assert len(history) == len(every)
        assert history.names == list(columns)
        for name in columns:
            assert repr(history.curve(name)) == repr([(row["step"], row[name]) for row in every if name in row])
        with pytest.raises(DescriptionError, match="has no column 'seconds'"):
            history.column("seconds")  # it stands under the clock
        with pytest.raises(IndexError):
            history.updates[len(log)]


def test_more_sets_of_columns_than_there_are_patterns(tmp_path: Path) -> None:
    rows = [update(step, **{f"part/{step % 50}": float(step)}) for step in range(1, 2_001)]
    path = write(tmp_path / "history.jsonl", rows)
    assert History(HistoryFile.read(path).rows).column("part/49") == [float(step) for step in range(49, 2_001, 50)]
    some = History(HistoryFile.read(path, about=300).rows)
    assert {f"part/{part}" for part in range(50)} <= set(some.names)
    assert [some.column("part/49")[end] for end in (0, -1)] == [49.0, 1_999.0]


def test_the_best_rows_are_ranked_as_they_come() -> None:
    history = History()
    losses = [math.nan, 3.0, 1.0, 2.0, 1.0, -math.inf, 5.0]
    for step, loss in enumerate(losses):
        history.add_evaluation(told.evaluation(step, loss, accuracy=-loss), seconds=0.0)
        rated = sorted((one, at) for at, one in enumerate(losses[: step + 1]) if not math.isnan(one))
        assert [row["step"] for row in history.best_rows(3)] == [at for _, at in rated[:3]]
    history.monitor, history.mode = "valid/accuracy", "max"
    assert [row["step"] for row in history.best_rows(3)] == [5, 2, 4]
    history.mode = "min"
    assert [row["step"] for row in history.best_rows(2)] == [6, 1]
