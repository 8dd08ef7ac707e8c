"""Errors in the words of the command."""

from dataclasses import dataclass

import pytest

from instep.cli.words import with_options, words_of
from instep.errors import DescriptionError, NonFiniteLoss


@dataclass(frozen=True)
class Own:
    margin: float = 0.1
    memory_bytes: str | None = None
    folder: str | None = None


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("margin=2.0 is no share", "--margin 2.0 is no share"),
        ("pass memory_bytes=, such as memory_bytes=8e9.", "pass --memory-bytes, such as --memory-bytes 8e9."),
        ("use another folder=.", "use another --folder."),
        ("folder='a' and folder=('b',)", "--folder 'a' and --folder ('b',)"),
        ("my_margin=2, run.margin=2, margin == 2, margin==2, low=1", "my_margin=2, run.margin=2, margin == 2, margin==2, low=1"),
        ("margin=-1 is below 0", "--margin -1 is below 0"),
    ],
)
def test_arguments_become_options(python: str, command: str) -> None:
    assert with_options(python, ["margin", "memory_bytes", "folder"]) == command


def test_the_error_stays_what_it_is() -> None:
    with pytest.raises(DescriptionError, match=r"^--margin 2 is wrong$") as caught, words_of(Own):
        raise DescriptionError("margin=2 is wrong")
    assert caught.value.args == ("--margin 2 is wrong",)
    with pytest.raises(NonFiniteLoss, match="use another --folder") as late, words_of(Own):
        raise NonFiniteLoss("use another folder=", late=3)
    assert late.value.late == 3
    with pytest.raises(DescriptionError) as empty, words_of(Own):
        raise DescriptionError
    assert empty.value.args == ()
