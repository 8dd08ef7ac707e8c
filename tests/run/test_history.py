"""History: rows, the best of them, HTML, and JSON lines that survive a kill."""

import json
import math
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import told
from instep.errors import DescriptionError, FolderError
from instep.records import Evaluation
from instep.run.history import History, HistoryFile


@pytest.fixture
def history() -> History:
    """Three evaluations, the second the best by loss and the third by accuracy, and six lines of the log."""
    history = History(monitor="valid/loss")
    for epoch, (loss, accuracy) in enumerate([(0.5, 0.6), (0.2, 0.7), (0.3, 0.8)], start=1):
        history.add_update(told.logged(epoch * 120 - 60, loss + 0.1))
        history.add_update(told.logged(epoch * 120, loss))
        history.add_evaluation(told.evaluation(epoch * 120, loss, accuracy), seconds=epoch * 1.5)
    return history


def test_rows_are_plain_and_in_order(history: History) -> None:
    assert [row["step"] for row in history.rows] == [60, 120, 120, 180, 240, 240, 300, 360, 360]
    assert history.rows[1] == {
        "kind": "update",
        "step": 120,
        "epoch": 0,
        "loss": 0.5,
        "lr": 0.003,
        "clock": {"samples_per_s": 12_345.0, "waiting": 0.03, "seconds": 1.2},
    }
    assert history.rows[2] == {
        "kind": "evaluation",
        "step": 120,
        "epoch": 0,
        "valid/loss": 0.5,
        "valid/accuracy": 0.6,
        "clock": {"seconds": 1.5},
    }
    assert len(history) == 9
    assert (len(history.updates), len(history.evaluations)) == (6, 3)


def test_an_update_has_what_there_was_to_say() -> None:
    row = History().add_update(told.logged(1, grad_norm=2.5, skipped=3, extra={"my_norm": 7.0}))
    assert {name: row[name] for name in ("grad_norm", "skipped", "my_norm")} == {"grad_norm": 2.5, "skipped": 3, "my_norm": 7.0}
    assert History().add_update(told.logged(1, None))["loss"] is None


def test_tables_stand_apart_from_the_numbers(tmp_path: Path) -> None:
    """A confusion matrix is kept and read back; no column, no curve, no table of evaluations meets it."""
    history = History()
    matrix = {"valid/confusion_matrix": [[3, 1], [0, 4]]}
    row = history.add_evaluation(Evaluation({"valid/loss": 0.5}, 8, 0, matrix), seconds=1.0)
    assert row["tables"] == matrix
    assert history.names == ["step", "epoch", "valid/loss"]
    assert "confusion" not in history._repr_html_()
    file = HistoryFile(tmp_path / "history.jsonl")
    file.append(row)
    assert HistoryFile.read(file.path).rows == [row]


@pytest.mark.parametrize("name", ["step", "clock", "loss", "tables"])
def test_a_name_that_a_row_needs_itself_is_refused(name: str) -> None:
    with pytest.raises(DescriptionError, match=f"'{name}' is a column of the history itself; log it under another name"):
        History().add_update(told.logged(1, extra={name: 1.0}))
    with pytest.raises(DescriptionError, match=f"'{name}' is a column of the history itself"):
        History().add_evaluation(Evaluation({name: 1.0}), seconds=0.0)


def test_the_best_is_by_the_monitor_and_its_mode(history: History) -> None:
    assert history.best is history.evaluations[1]
    by_accuracy = History(history.rows, monitor="valid/accuracy", mode="max")
    assert by_accuracy.best == history.evaluations[2]


def test_the_first_of_equals_is_the_best_and_nan_never() -> None:
    history = History()
    for step, loss in enumerate([math.nan, 2.0, 1.0, 1.0, math.nan]):
        history.add_evaluation(told.evaluation(step, loss), seconds=0.0)
    assert history.best is history.evaluations[2]
    assert History(history.rows[:1]).best is None
    assert History(history.rows, monitor="valid/no").best is None


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(DescriptionError, match='mode=\'smallest\' is not known; use "min" or "max"'):
        History(mode="smallest")  # type: ignore[arg-type]


def test_the_last_is_an_evaluation_where_there_is_one(history: History) -> None:
    history.add_update(told.logged(400))
    assert history.last is history.evaluations[-1]
    updates = History(history.updates)
    assert updates.last is updates.updates[-1]
    assert History().last is None


def test_columns_and_curves(history: History) -> None:
    assert history.column("valid/loss") == [0.5, 0.2, 0.3]
    assert history.curve("valid/accuracy") == [(120, 0.6), (240, 0.7), (360, 0.8)]
    assert history.names == ["step", "epoch", "loss", "lr", "valid/loss", "valid/accuracy"]
    with pytest.raises(DescriptionError, match="no column 'los'; it has: step, epoch, loss, lr, valid/loss"):
        history.column("los")
    with pytest.raises(DescriptionError, match="it has: nothing yet"):
        History().column("loss")


def test_dictionaries_are_copies_with_or_without_the_clock(history: History) -> None:
    copies = history.to_dicts()
    assert copies == history.rows
    copies[0]["clock"]["seconds"] = copies[0]["loss"] = -1.0
    assert history.rows[0]["loss"] > 0 < history.rows[0]["clock"]["seconds"]
    assert all("clock" not in row and "step" in row for row in history.to_dicts(clock=False))


def test_it_can_be_read_at_a_glance(history: History) -> None:
    assert repr(history) == "History(360 steps, 3 evaluations, best valid/loss 0.2 at step 240)"
    assert repr(History(history.updates)) == "History(360 steps, 0 evaluations, loss 0.3)"
    assert repr(History()) == "History(nothing yet)"
    skipped = History()
    skipped.add_update(told.logged(1, None))
    assert repr(skipped) == "History(1 step, 0 evaluations)"


# HTML ------------------------------------------------------------------------------------------------------------------------


class Tags(HTMLParser):
    """Which tags there are, whether they close, and the words between them."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.seen: list[str] = []
        self.open: list[str] = []
        self.words: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: object) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)


def test_html_is_whole_and_shows_the_curves_and_evaluations(history: History) -> None:
    tags = Tags(history._repr_html_())
    assert not tags.open
    assert tags.seen.count("svg") == 3  # losses, accuracy, learning rate
    assert tags.seen.count("polyline") == 4  # of the first chart two
    assert tags.seen.count("tr") == 1 + 3
    assert {"valid/accuracy", "0.7", "240"} <= set(tags.words)


def test_html_escapes_names() -> None:
    history = History(monitor="<script>alert(1)</script>loss")
    for step in (1, 2):
        history.add_evaluation(Evaluation({history.monitor: 0.5, "a&b": 1.0}, step), seconds=0.0)
    text = history._repr_html_()
    assert "<script" not in text
    assert "a&amp;b" in text
    assert history.monitor in Tags(text).words


def test_html_of_odd_histories() -> None:
    for losses in ([], [1.0], [1.0, 1.0], [math.nan, math.inf, 1.0, 2.0], [None, 1.0, 2.0], [1.0] * 5_000):
        history = History()
        for step, loss in enumerate(losses):
            history.add_update(told.logged(step, loss))
        text = history._repr_html_()
        assert not Tags(text).open
        assert "nan" not in text.partition("</svg>")[0]
        assert len(text) < 20_000


# JSON lines ------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path: Path) -> HistoryFile:
    return HistoryFile(tmp_path / "history.jsonl")


def test_what_is_appended_is_there_at_once_and_reads_back(file: HistoryFile, history: History) -> None:
    assert file.length_bytes == 0
    for row in history.rows:
        file.append(row)
        found = HistoryFile.read(file.path)
        assert found.rows[-1] == row
        assert found.length_bytes == file.length_bytes == file.path.stat().st_size
        assert found.problem is None
    assert History(HistoryFile.read(file.path).rows).best == history.best


def test_inf_and_nan_are_json_for_everybody_and_floats_for_us(file: HistoryFile) -> None:
    row = {
        "kind": "update",
        "step": 1,
        "epoch": 0,
        "loss": math.nan,
        "a": math.inf,
        "b": -math.inf,
        "clock": {"seconds": math.inf},
    }
    file.append(row)

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is not JSON")

    text = file.path.read_text(encoding="utf-8")
    assert json.loads(text, parse_constant=refuse)["a"] == {"$float": "inf"}
    (found,) = HistoryFile.read(file.path).rows
    assert repr(found) == repr(row)  # nan is not equal to nan


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(min_size=1), st.floats(), max_size=4))
def test_any_name_and_number_comes_back_to_the_bit(tmp_path_factory: pytest.TempPathFactory, numbers: dict[str, float]) -> None:
    row = {"kind": "update", "step": 1, "epoch": 0, **{f"my {name}": value for name, value in numbers.items()}}
    file = HistoryFile(tmp_path_factory.mktemp("any") / "history.jsonl")
    file.append(row)
    assert repr(HistoryFile.read(file.path).rows) == repr([row])


def test_a_file_cut_at_any_byte_reads_up_to_its_last_whole_line(file: HistoryFile, history: History) -> None:
    ends = [0]
    for row in history.rows[:3]:
        file.append(row)
        ends.append(file.length_bytes)
    whole = file.path.read_bytes()
    for length in range(len(whole)):
        file.path.write_bytes(whole[:length])
        found = HistoryFile.read(file.path)
        rows = max(index for index, end in enumerate(ends) if end <= length)
        assert (len(found.rows), found.length_bytes) == (rows, ends[rows])
        assert found.problem == (None if length in ends else "the last line is torn and left out")


@pytest.mark.parametrize(
    "damage",
    [
        "{}",
        "[1]",
        "\x00\x00",
        '{"kind": "update", "step": 1}',
        '{"kind": "update", "step": 1, "epoch": 0, "loss": "low"}',
        '{"kind": "update", "step": 1, "epoch": 0, "loss": {"$float": []}}',
        '{"kind": "diary", "step": 1, "epoch": 0}',
        '{"kind": "evaluation", "step": 1, "epoch": 0, "tables": 3}',
    ],
)
def test_damage_inside_is_named_and_read_up_to(file: HistoryFile, history: History, damage: str) -> None:
    file.append(history.rows[0])
    good = file.length_bytes
    with file.path.open("a", encoding="utf-8") as more:
        more.write(f"{damage}\n" + json.dumps(history.rows[1]) + "\n")
    found = HistoryFile.read(file.path)
    assert found.rows == [history.rows[0]]
    assert found.length_bytes == good
    assert found.problem == "line 2 of 3 is damaged; read up to it"


def test_a_torn_file_is_cut_before_it_goes_on(file: HistoryFile, history: History) -> None:
    file.append(history.rows[0])
    with file.path.open("a", encoding="utf-8") as more:
        more.write('{"kind": "upd')
    file = HistoryFile(file.path)  # in the next process
    with pytest.raises(FolderError, match=r"ends in a torn line; cut\(\) it to the length that read\(\) gives"):
        file.append(history.rows[1])
    file.cut(HistoryFile.read(file.path).length_bytes)
    file.append(history.rows[1])
    assert HistoryFile.read(file.path).rows == list(history.rows[:2])


def test_cut_and_go_on_leaves_no_gap_and_no_double_line(file: HistoryFile, history: History) -> None:
    lengths = []
    for row in history.rows:
        file.append(row)
        lengths.append(file.length_bytes)
    whole = file.path.read_bytes()
    file.cut(lengths[3])
    for row in history.rows[4:]:
        file.append(row)
    assert file.path.read_bytes() == whole


def test_a_cut_that_cannot_be_right_is_refused(file: HistoryFile, history: History) -> None:
    file.cut(0)  # nothing there, nothing to keep
    file.append(history.rows[0])
    with pytest.raises(FolderError, match=rf"has {file.length_bytes} bytes, fewer than the 5000 to be kept: rows are lost"):
        file.cut(5000)
    with pytest.raises(FolderError, match="cannot be cut to 7 bytes: that is inside a line"):
        file.cut(7)


def test_a_history_is_read_without_torch() -> None:
    program = "import sys, instep.report.show, instep.report.runs, instep.report.progress; print('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "False\n"


def test_every_flipped_bit_is_found_and_its_line_named(file: HistoryFile, history: History) -> None:
    for row in history.rows[:4]:
        file.append(row)
    whole = file.path.read_bytes()
    ends = [index + 1 for index, byte in enumerate(whole) if byte == ord("\n")]
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 1 << (place % 8)
        file.path.write_bytes(damaged)
        found = HistoryFile.read(file.path)
        line = sum(end <= place for end in ends)
        assert found.rows == list(history.rows[:line]), place
        assert found.problem is not None
        assert found.problem.startswith((f"line {line + 1} of ", "the last line is torn")), place


def test_the_checksum_is_for_readers_of_json_lines_a_word_beside_the_clock(file: HistoryFile) -> None:
    """What depends on the clock stands under "clock", and so does a checksum of it."""
    rows = [
        {"kind": "log", "step": 1, "epoch": 0, "mine": 2.0},
        {"kind": "update", "step": 2, "epoch": 0, "clock": {"seconds": 1.0}},
    ]
    for row in rows:
        file.append(row)
    lines = [json.loads(line) for line in file.path.read_text(encoding="utf-8").splitlines()]
    assert [len(line["clock"].pop("crc")) for line in lines] == [8, 8]
    assert lines == [{**rows[0], "clock": {}}, rows[1]]
    assert HistoryFile.read(file.path).rows == rows


def test_lines_of_an_earlier_version_have_no_checksum_and_are_read(file: HistoryFile, history: History) -> None:
    file.path.write_text("".join(f"{json.dumps(row)}\n" for row in history.rows[:2]), encoding="utf-8")
    file.append(history.rows[2])
    assert HistoryFile.read(file.path).rows == list(history.rows[:3])
    assert HistoryFile.read(file.path).problem is None


def test_a_damaged_row_to_go_on_from_is_said_before_anything_is_cut(file: HistoryFile, history: History) -> None:
    for row in history.rows[:4]:
        file.append(row)
    damaged = file.path.read_bytes().replace(b'"loss": ', b'"lass": ', 1)
    file.path.write_bytes(damaged)
    words = r"history\.jsonl: line 1 of 4 is damaged\. Mend the file, or start again in another folder\."
    with pytest.raises(FolderError, match=words):
        file.go_on_after(3)
    assert file.path.read_bytes() == damaged


def test_rows_after_those_to_go_on_from_are_cut_whatever_they_are(file: HistoryFile, history: History) -> None:
    for row in history.rows[:2]:
        file.append(row)
    with file.path.open("a", encoding="utf-8") as more:
        more.write('not a row\n{"kind": "upd')
    assert file.go_on_after(2) == list(history.rows[:2])
    file.append(history.rows[2])
    assert HistoryFile.read(file.path).rows == list(history.rows[:3])
