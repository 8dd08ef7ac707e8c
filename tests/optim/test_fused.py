"""What the plan says of fused optimizers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer, RMSprop

from instep.optim.fused import fused_advice


def test_a_loop_over_parameters_on_a_cpu() -> None:
    assert fused_advice(AdamW([torch.nn.Parameter(torch.zeros(3))])) == "AdamW(…, fused=True) is often faster on a CPU"


class Own(SGD):
    """Nothing is known of it."""


@pytest.mark.parametrize(
    "make",
    [
        lambda p: AdamW(p, fused=True),
        lambda p: AdamW(p, foreach=True),
        lambda p: AdamW([{"params": p, "capturable": True}]),
        RMSprop,
        lambda p: Own(p, lr=0.1),
    ],
    ids=["fused", "foreach", "capturable", "none", "own"],
)
def test_nothing_is_said_where_it_was_chosen_or_there_is_none(make: Callable[[list[Tensor]], Optimizer]) -> None:
    assert fused_advice(make([torch.nn.Parameter(torch.zeros(3))])) is None


def test_nor_on_another_device_or_of_complex_weights() -> None:
    assert fused_advice(AdamW([torch.nn.Parameter(torch.zeros(3, device="meta"))])) is None
    assert fused_advice(AdamW([torch.nn.Parameter(torch.zeros(3, dtype=torch.complex64))])) is None
