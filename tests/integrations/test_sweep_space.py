"""What to try, as people write it: read by the types of build's parameters, and refused in words before the first trial."""

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal

import pytest

from instep.errors import DescriptionError
from instep.integrations.sweep.space import Choices, Range, read_space


class Shape(enum.Enum):
    flat = 1
    round = 2


def build(
    lr: float = 0.1,
    width: int = 8,
    deep: bool = False,
    kind: Literal["a", "b"] = "a",
    shape: Shape = Shape.flat,
    clip: float | None = None,
    file: Path | str = "x",
    seed: int = 0,
) -> None: ...


@pytest.mark.parametrize(
    ("name", "text", "read"),
    [
        ("lr", "log:1e-4..1e-1", Range(1e-4, 1e-1, log=True)),
        ("lr", "0..1", Range(0.0, 1.0)),
        ("lr", "0..1..0.25", Range(0.0, 1.0, step=0.25)),
        ("width", "8..64", Range(8, 64, is_whole=True)),
        ("width", "log:8..64", Range(8, 64, log=True, is_whole=True)),
        ("width", "8..64..8", Range(8, 64, step=8, is_whole=True)),
        ("width", "8, 16,32", Choices((8, 16, 32))),
        ("width", [8, 16], Choices((8, 16))),
        ("deep", "true,False", Choices((True, False))),
        ("kind", "a,b", Choices(("a", "b"))),
        ("shape", "round,flat", Choices((Shape.round, Shape.flat))),
        ("clip", "none,0.5,1", Choices((None, 0.5, 1.0))),
        ("clip", "0.1..1", Range(0.1, 1.0)),
        ("file", "1,b", Choices((Path("1"), Path("b")))),
    ],
)
def test_texts_are_read_by_the_type_of_the_parameter(name: str, text: Any, read: Any) -> None:
    space = read_space(build, {name: text}, {})
    assert space.parameters == {name: read}
    assert list(map(type, getattr(space.parameters[name], "values", ()))) == list(map(type, getattr(read, "values", ())))
    assert name not in space.fixed
    assert space.fixed.keys() | {name} == {"lr", "width", "deep", "kind", "shape", "clip", "file", "seed"}


def test_what_a_storage_cannot_hold_is_held_by_name() -> None:
    space = read_space(build, {"shape": "round,flat"}, {"width": 3})
    assert space.parameters["shape"].first == "round"
    values = space.values_of({"shape": "flat"})
    assert (values["shape"], values["width"], values["lr"]) == (Shape.flat, 3, 0.1)


@pytest.mark.parametrize(
    ("asked", "fixed", "words"),
    [
        ({"wdith": "8,16"}, {}, r"build\(\) has no parameter 'wdith'; did you mean width\? It has lr, width, deep"),
        ({"lr": "0..1"}, {"momentum": 1}, r"build\(\) has no parameter 'momentum'; It has lr"),
        ({"lr": "0..1"}, {"lr": 1}, "lr is searched and has the one value 1 as well; leave one out"),
        ({}, {}, r"there is nothing to search; say what to try: lr=log:1e-4\.\.1e-1 for a range"),
        ({"lr": ""}, {}, "lr= says nothing to try; use lr=log"),
        ({"lr": []}, {}, "lr= says nothing to try"),
        ({"lr": "1..0.1"}, {}, r"lr=1\.\.0\.1 does not go up; write the smaller number first"),
        ({"lr": "log:0..1"}, {}, "goes by the logarithm, which 0 does not have; begin above 0"),
        ({"lr": "log:1..9..2"}, {}, "a range by the logarithm has no steps"),
        ({"lr": "0..1..2"}, {}, "steps of 2 do not fit between 0 and 1"),
        ({"lr": "0..1..2..3"}, {}, r"has 4 ends; use low\.\.high or low\.\.high\.\.step"),
        ({"lr": "a..1"}, {}, r"lr: 'a' is no number; a range is written like lr=log:1e-4\.\.1e-1"),
        ({"lr": "1..inf"}, {}, "a range needs finite ends, and inf is none"),
        ({"lr": "fast"}, {}, r"lr of build\(\) is float, and 'fast' is not"),
        ({"width": "8..16.5"}, {}, r"width takes whole numbers, and 16\.5 is none"),
        ({"width": "8,x"}, {}, r"width of build\(\) is int, and 'x' is not"),
        ({"width": "8,8"}, {}, "width has the choice 8 twice"),
        ({"deep": "0..1"}, {}, r"deep of build\(\) is bool, which has no range; list its values: deep=a,b,c"),
        ({"kind": "a,c"}, {}, r"kind of build\(\) is one of 'a', 'b', and 'c' is not"),
        ({"shape": "square"}, {}, "is one of flat, round, and 'square' is not"),
        ({"lr": [object]}, {}, "a choice is a number, a text, True, False or None, and <class 'object'> is a type; give it"),
        ({"lr": 3}, {}, "lr=3 is no space to search; use lr=log"),
    ],
)
def test_a_slip_is_said_in_words(asked: Mapping[str, Any], fixed: Mapping[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        read_space(build, asked, fixed)


def needs_depth(lr: float, depth: int) -> None: ...
def by_place(lr: float, /) -> None: ...
def unknown_type(lr: "Lr") -> None: ...  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (needs_depth, r"build\(\) needs depth, with no default and not searched; give a value or a range"),
        (by_place, r"build\(\) has parameters without a name; a sweep calls it with names"),
        (unknown_type, r"build\(\) has a type that cannot be found: name 'Lr' is not defined"),
    ],
)
def test_a_build_that_cannot_be_swept(function: Callable[..., Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        read_space(function, {"lr": "0..1"}, {})


def test_parameters_without_a_type_take_what_the_words_look_like() -> None:
    def untyped(a=1, **more) -> None: ...  # type: ignore[no-untyped-def]

    space = read_space(untyped, {"a": "1,2.5,x", "b": "1..2"}, {})
    assert space.parameters == {"a": Choices((1, 2.5, "x")), "b": Range(1.0, 2.0)}
