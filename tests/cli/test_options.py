"""Options from typed parameters, and the one line that a wrong one gets."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import tyro

from instep.cli.border import WrongUse
from instep.cli.options import RESERVED, ParsedOptions, parse, parse_with_build
from instep.cli.train import TrainOptions


@dataclass(frozen=True)
class Own:
    folder: Path | None = None
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False


def build(
    lr: float = 0.1,
    layers: tuple[int, ...] = (4, 4),
    kind: Literal["sgd", "adam"] = "sgd",
    name: "str | None" = None,
    *,
    nesterov: bool = False,
) -> None:
    """Says nothing.

    Args:
        lr: How far.
    """
    raise AssertionError("only its signature is looked at")


def given(*arguments: str, build: Callable[..., Any] = build) -> ParsedOptions:
    return parse_with_build(Own, build, arguments, prog="instep train my.py", where="build() of my.py")


DEFAULTS = {"lr": 0.1, "layers": (4, 4), "kind": "sgd", "name": None, "nesterov": False}


def test_nothing_given_is_the_defaults() -> None:
    assert given() == ParsedOptions(Own(), DEFAULTS)


def test_options_of_build_and_of_the_command_stand_side_by_side() -> None:
    found = given("--json", "--lr", "1e-3", "--layers", "1", "2", "3", "--folder", "a/b", "--nesterov", "--name=x")
    assert found == ParsedOptions(
        Own(Path("a/b"), True), {**DEFAULTS, "lr": 1e-3, "layers": (1, 2, 3), "nesterov": True, "name": "x"}
    )


def test_help_shows_the_docstring(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        given("--help")
    out = capsys.readouterr().out
    assert "usage: instep train my.py" in out
    assert "Says nothing." in out
    assert "How far. (default: 0.1)" in out
    assert "command options" in out
    assert "instep_own" not in out
    assert "--command" not in out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--lrr", "3"], r"^instep train my.py has no option --lrr; did you mean --lr\? See instep train my.py --help.$"),
        (["--learning-rate", "3"], r"^instep train my.py has no option --learning-rate; did you mean --lr\?"),
        (["--output-dir", "x"], r"^instep train my.py has no option --output-dir; did you mean --folder\?"),
        (["--max-epochs", "3"], r"^instep train my.py has no option --max-epochs; see instep train my.py --help.$"),
        (["--jsn"], r"^instep train my.py has no option --jsn; did you mean --json\?"),
        (["--qqqq=3"], r"^instep train my.py has no option --qqqq; see instep train my.py --help.$"),
        (["extra"], r"^instep train my.py does not know what to do with 'extra'; see instep train my.py --help.$"),
        (["--lr", "fast"], r"^--lr fast is no number. See instep train my.py --help.$"),
        (["--lr"], r"^Missing value for argument '--lr'. Expected 1 values. See"),
        (["--kind", "lion"], r"^invalid choice 'lion' for argument '--kind'. Expected one of \('sgd', 'adam'\). See"),
    ],
)
def test_wrong_options(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(WrongUse, match=words):
        given(*arguments)
    assert capsys.readouterr() == ("", "")


def untyped(lr=0.1): ...  # type: ignore[no-untyped-def]
def untyped_bare(lr): ...  # type: ignore[no-untyped-def]
def untyped_none(name=None): ...  # type: ignore[no-untyped-def]
def starred(*layers: int) -> None: ...
def keywords(lr: float, **rest: float) -> None: ...
def reserved(lr: float, folder: str, json: bool) -> None: ...
def missing(data: str, size: int, lr: float = 0.1) -> None: ...
def unreadable(loss: Callable[[int], int]) -> None: ...
def misspelt(lr: "flaot" = 0.1) -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (untyped, r"^build\(\) of my.py has a parameter without a type: lr; write lr: float = 0.1.$"),
        (untyped_bare, r"has a parameter without a type: lr; write lr: float \(or int, str, …\).$"),
        (untyped_none, r"has a parameter without a type: name; write name: str \| None = None.$"),
        (starred, r"^build\(\) of my.py takes \*layers: int; options need parameters that have a name and a type"),
        (keywords, r"^build\(\) of my.py takes \*\*rest: float; options need"),
        (reserved, r"^build\(\) of my.py has the parameter folder, json, which the command itself uses; give it another name.$"),
        (missing, r"^missing: --data STR, --size INT. See instep train my.py --help.$"),
        (unreadable, r"^Unsupported type annotation for parameter loss with type .*Callable\[\[int\], int\]. See"),
        (misspelt, r"^build\(\) of my.py has a type that cannot be found: name 'flaot' is not defined.$"),
    ],
)
def test_builds_that_give_no_options(build: Callable[..., Any], words: str) -> None:
    with pytest.raises(WrongUse, match=words):
        given(build=build)


def test_every_option_of_the_command_is_reserved() -> None:
    assert set(TrainOptions.__dataclass_fields__) <= RESERVED


@dataclass(frozen=True)
class Plain:
    """A command."""

    run: Annotated[Path, tyro.conf.Positional]


def test_a_command_without_build() -> None:
    assert parse(Plain, ["runs/a"], prog="instep show") == Plain(Path("runs/a"))
    with pytest.raises(WrongUse, match=r"See instep show --help.$"):
        parse(Plain, [], prog="instep show")
    with pytest.raises(WrongUse, match=r"^instep show has no option --rum; did you mean --run"):
        parse(Plain, ["a", "--rum"], prog="instep show")
