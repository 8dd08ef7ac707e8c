"""What the plan says of fused optimizers."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.optim import SGD, AdamW, Optimizer, RMSprop
from torch.optim.optimizer import register_optimizer_step_pre_hook

from instep import Trainer
from instep.errors import DescriptionError
from instep.optim import fused
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


HALVES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)


def leaves_them_as_they_are(dtype: torch.dtype) -> bool:
    parameter = torch.nn.Parameter(torch.ones(1000, dtype=dtype))
    parameter.grad = torch.ones_like(parameter)
    SGD([parameter], lr=0.5, fused=True).step()
    return bool((parameter == 1).any())


@HALVES
def test_a_fused_sgd_that_does_not_train_is_refused(dtype: torch.dtype) -> None:
    """pytorch/pytorch#191763: the weights stay, and with momentum memory is read that belongs to others."""
    model = torch.nn.Linear(8, 8, dtype=dtype)
    x = torch.zeros(4, 8, dtype=dtype)

    def make(**options: bool) -> Trainer:
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, **options)
        return Trainer(model, loss=torch.nn.functional.mse_loss, optimizer=optimizer, train=(x, x), epochs=1, progress=False)

    if leaves_them_as_they_are(dtype):
        name = str(dtype).removeprefix("torch.")
        with pytest.raises(
            DescriptionError, match=rf"does not train {name} parameters on the CPU: this torch \(.*use fused=False"
        ):
            make(fused=True)
        assert fused_advice(SGD(model.parameters())) is None
    else:
        make(fused=True)
        assert fused_advice(SGD(model.parameters())) is not None
    make()


def test_a_fused_sgd_of_float32_is_taken() -> None:
    model = torch.nn.Linear(8, 8)
    x = torch.zeros(4, 8)
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9, fused=True)
    Trainer(model, loss=torch.nn.functional.mse_loss, optimizer=optimizer, train=(x, x), epochs=1, progress=False)


def test_how_it_is_tried_is_heard_by_nobody_and_does_not_depend_on_the_default_device() -> None:
    heard: list[object] = []
    handle = register_optimizer_step_pre_hook(lambda *given: heard.append(given))
    optimizer = SGD([torch.nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))])
    fused._fused_sgd_works.cache_clear()
    try:
        with torch.device("meta"):
            there = fused_advice(optimizer)
    finally:
        handle.remove()
    fused._fused_sgd_works.cache_clear()
    assert there == fused_advice(optimizer)
    assert heard == []
