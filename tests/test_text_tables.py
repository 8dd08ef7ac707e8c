"""Text in columns."""

from rich.cells import cell_len

from instep.text import clean, columns, labelled


def test_numbers_stand_to_the_right_and_names_to_the_left() -> None:
    assert columns(("run", "step"), [("a", "1,200"), ("longer", "7")], left=("run",)) == [
        "run      step",
        "a       1,200",
        "longer      7",
    ]


def test_wide_signs_take_their_room() -> None:
    first, second = columns(("名前", "n"), [("x", "1")], left=("名前",))
    assert cell_len(first) == cell_len(second)


def test_a_long_text_goes_on_under_itself() -> None:
    assert labelled([("a", "one two three four five six"), ("label", "")], width=27) == [
        "a      one two three four",
        "       five six",
        "label",
    ]


def test_control_characters_never_reach_the_terminal() -> None:
    assert clean("a\x1b[31mred\nb\t") == "a [31mred b"
