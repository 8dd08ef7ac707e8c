"""Weights side by side."""

import math

import torch

from instep.report.weights import compare, lines


def test_bitwise_means_bitwise() -> None:
    one = torch.tensor([1.0, math.nan, 0.0])
    assert compare("a", one, one.clone()) is None
    assert compare("a", one.expand(2, 3).T, one.expand(2, 3).T.contiguous()) is None
    signed = compare("a", torch.zeros(2), -torch.zeros(2))
    assert signed is not None
    assert (signed.largest, signed.note) == (0.0, "only the sign of zeros")
    step = compare("a", torch.ones(2), torch.nextafter(torch.ones(2), torch.tensor(2.0)))
    assert step is not None
    assert step.largest == 2**-23
    other = compare("a", torch.ones(2), torch.tensor([1.0, math.nan]))
    assert other is not None
    assert other.largest == math.inf


def test_every_kind_of_tensor_can_be_compared() -> None:
    for dtype in (torch.bool, torch.int64, torch.uint8, torch.bfloat16, torch.float8_e4m3fn, torch.complex64):
        one, other = torch.tensor([0, 1]).to(dtype), torch.tensor([1, 1]).to(dtype)
        assert compare("a", one, one.clone()) is None
        found = compare("a", one, other)
        assert found is not None
        assert (found.largest, found.relative) == (1.0, 1.0)
    assert compare("a", torch.tensor(1.0), torch.tensor(1.0)) is None
    assert compare("a", torch.empty(0, 3), torch.empty(0, 3)) is None


def test_the_most_different_come_first() -> None:
    one = {
        "same": torch.ones(2),
        "little": torch.full((2,), 4.0),
        "much": torch.ones(2),
        "shape": torch.ones(2),
        "gone": torch.ones(1),
    }
    other = {"same": torch.ones(2), "little": torch.full((2,), 5.0), "much": torch.zeros(2), "shape": torch.ones(3).half()}
    assert lines(one, other, ("a", "b")) == [
        "weights: 3 of 4 tensors differ",
        "tensor  largest difference  relative",
        "shape                    -         -  float32 (2,) and float16 (3,)",
        "much                 1.000     1.000",
        "little               1.000    0.2000",
        "only in a: gone",
    ]


def test_many_are_cut() -> None:
    one = {f"layer.{number}": torch.ones(1) for number in range(30)}
    other = {name: torch.zeros(1) for name in one}
    assert lines(one, other, ("a", "b"))[-1] == "and 10 more"
    assert lines(one, {"layer.0": torch.ones(1)}, ("a", "b")) == [
        "weights: the 1 tensors of both are bitwise equal",
        "only in a: layer.1, layer.2, layer.3, layer.4, layer.5, layer.6, layer.7, layer.8 and 21 more",
    ]
