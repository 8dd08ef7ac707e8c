"""Colours where they are wanted, and lines that fit."""

import io

import pytest

from instep.text import coloured, columns, fold, fold_for, paint_for, plain, shorten_middle, terminal_width, wants_colour


class Terminal(io.StringIO):
    """A stream that says it is a terminal, and cannot say how wide."""

    def isatty(self) -> bool:
        return True


VARIABLES = ("NO_COLOR", "FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM", "COLUMNS")


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("said", "on_terminal", "in_file"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"TERM": "dumb"}, False, False),
        ({"CLICOLOR": "0"}, False, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, False, False),
        ({"CLICOLOR_FORCE": "1"}, True, True),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, False, False),
    ],
    ids=str,
)
def test_who_wants_colours(monkeypatch: pytest.MonkeyPatch, said: dict[str, str], on_terminal: bool, in_file: bool) -> None:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    assert wants_colour(Terminal()) is on_terminal
    assert wants_colour(io.StringIO()) is in_file
    assert not wants_colour(None)
    assert paint_for(Terminal()) is (coloured if on_terminal else plain)


def test_styles_are_codes_that_end() -> None:
    assert coloured("a", "bold cyan") == "\x1b[1;36ma\x1b[0m"
    assert coloured("", "red") == ""
    assert coloured("a", "") == plain("a", "red") == "a"


def test_the_width_is_that_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert terminal_width(Terminal()) == 80  # it does not say
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal_width(Terminal()) == 60
    assert terminal_width(io.StringIO()) is terminal_width(None) is None
    assert fold_for(io.StringIO(), "word " * 30) == "word " * 30
    assert max(map(len, fold_for(Terminal(), "word " * 30).split("\n"))) <= 60


def test_a_line_goes_on_under_its_last_column() -> None:
    text = "usage\n  --strict   count hints as warnings, and more\n" + "no gap in this line, so it goes on at the left\n"
    assert fold(text, 40).split("\n") == [
        "usage",
        "  --strict   count hints as warnings,",
        "             and more",
        "no gap in this line, so it goes on at",
        "the left",
        "",
    ]


def test_a_table_gives_way_column_by_column() -> None:
    head, rows = ("run", "best", "size"), [("a-long-name-of-a-run-that-nobody-reads", "0.5", "12 kB")]

    def table(width: int | None) -> list[str]:
        return columns(head, rows, left=("run",), width=width, optional=("size",))

    assert table(None)[1] == "a-long-name-of-a-run-that-nobody-reads   0.5  12 kB"
    assert table(40)[1] == "a-long-name-o…-nobody-reads   0.5  12 kB"
    assert table(30)[1] == "a-long-name-…obody-reads   0.5"
    assert all(len(line) <= 30 for line in table(30))
    assert table(5)[1] == "a-lo…ads   0.5"  # numbers are never cut


def test_cells_are_painted_by_their_column() -> None:
    head, line = columns(
        ("run", "state"), [("a", "failed")], left=("run", "state"), paint=coloured, styles={"state": lambda _: "red"}
    )
    assert head == "\x1b[2mrun  state\x1b[0m"
    assert line == "a    \x1b[31mfailed\x1b[0m"


def test_wide_signs_are_shortened_by_their_width() -> None:
    assert shorten_middle("名前名前名前", 7) == "名前…前"
    assert shorten_middle("short", 5) == "short"
