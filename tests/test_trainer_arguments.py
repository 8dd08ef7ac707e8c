"""Every argument of the Trainer is explained: in its docstring, for editors, and on docs/trainer.md. The three agree."""

import inspect
import re
from pathlib import Path

import pytest

from instep import Trainer

PAGE = Path(__file__).parent.parent / "docs" / "trainer.md"
GROUPS = ("Model and data", "Length and batches", "Optimisation", "Evaluation", "Run folder", "Computing")
PARAMETERS = {
    name: parameter
    for name, parameter in inspect.signature(Trainer).parameters.items()
    if parameter.kind is not parameter.VAR_KEYWORD  # which refuses unknown names
}


def in_docstring() -> dict[str, dict[str, str]]:
    """The words about each argument, by group."""
    assert Trainer.__doc__ is not None
    text = inspect.cleandoc(Trainer.__doc__)
    found = {}
    for group in GROUPS:
        block = re.search(rf"^{group}:\n((?:    .*\n)+)", text, re.MULTILINE)
        assert block, f"the docstring has no group {group!r}"
        found[group] = dict(re.findall(r"^    (\w+): (.*(?:\n     +.*)*)", block[1], re.MULTILINE))
    return found


def on_page() -> dict[str, dict[str, tuple[str, str]]]:
    """The default of each argument and the words about it, by group."""
    found = {}
    for title, block in re.findall(r"^## (.*)\n((?:(?!## ).*\n)*)", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        if title in GROUPS:
            rows = re.findall(r"^\| `(\w+)` \| (.*?) \| (.*) \|$", block, re.MULTILINE)
            found[title] = {name: (default, words) for name, default, words in rows}
    return found


def test_every_argument_is_in_the_docstring_and_on_the_page() -> None:
    docstring, page = in_docstring(), on_page()
    assert tuple(docstring) == tuple(page) == GROUPS
    assert {group: list(rows) for group, rows in docstring.items()} == {group: list(rows) for group, rows in page.items()}
    assert sorted(name for rows in page.values() for name in rows) == sorted(PARAMETERS)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_page_has_the_default(name: str) -> None:
    default, words = next(rows[name] for rows in on_page().values() if name in rows)
    expected = PARAMETERS[name].default
    assert default == ("required" if expected is inspect.Parameter.empty else f"`{_written(expected)}`")
    assert len(words) > 20


def _written(default: object) -> str:
    return f'"{default}"' if isinstance(default, str) else repr(default)


@pytest.mark.parametrize("name", PARAMETERS)
def test_the_docstring_explains_it_in_a_line_or_two(name: str) -> None:
    words = next(rows[name] for rows in in_docstring().values() if name in rows)
    assert len(words) > 20
    assert words.count("\n") <= 1
    assert words.endswith(".")


@pytest.mark.parametrize("words", ["Gradient accumulation", "model(**batch).loss"])
def test_what_people_search_for_is_there(words: str) -> None:
    assert words in (Trainer.__doc__ or "")
    assert words in PAGE.read_text(encoding="utf-8")
