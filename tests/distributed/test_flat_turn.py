"""The flat tensor: what stands where, and which gradients travel in one."""

import pytest
import torch
from torch import nn

from instep.distributed.chosen_turn import FLAT_AT_MOST_BYTES, is_flat
from instep.distributed.flat_turn import fill, lay_out
from instep.errors import DescriptionError

SHAPES = [(3, 2), (), (0,), (4, 3, 2, 2)]


def parameters() -> list[nn.Parameter]:
    made = [nn.Parameter(torch.randn(shape)) for shape in SHAPES]
    made.append(nn.Parameter(torch.randn(4, 3, 2, 2).to(memory_format=torch.channels_last)))
    made.append(nn.Parameter(torch.randn(1, 3).expand(2, 3)))
    return made


def test_gradients_keep_their_values_and_the_strides_of_their_parameters() -> None:
    made = parameters()
    for parameter in made:
        parameter.grad = torch.randn(parameter.shape)
    before = [p.grad.clone() for p in made if p.grad is not None]
    layout = lay_out(torch.float32, list(made), 5)
    flat = fill(layout)
    assert len(flat) == layout.gradients + 5 == sum(p.numel() for p in made) + 5
    for parameter, gradient in zip(made, before, strict=True):
        assert parameter.grad is not None
        assert torch.equal(parameter.grad, gradient)
        assert parameter.grad._base is flat
    assert made[4].grad is not None
    assert made[4].grad.stride() == made[4].stride()
    flat[: layout.gradients] = torch.arange(float(layout.gradients))
    elements = torch.cat([p.grad.flatten() for p in made if p.grad is not None])
    assert elements.sort().values.tolist() == list(range(layout.gradients))  # none stands in two places


def test_what_has_no_gradient_sends_zeros() -> None:
    made = parameters()
    made[0].grad = torch.ones(3, 2)
    layout = lay_out(torch.float32, list(made), 0)
    assert fill(layout).tolist() == [1.0] * 6 + [0.0] * (layout.gradients - 6)
    assert all(p.grad is not None for p in made)
    for parameter in made:
        parameter.grad = None
    assert not fill(layout).any()


def test_a_new_flat_tensor_is_made_each_time() -> None:
    made = parameters()[:1]
    layout = lay_out(torch.float32, list(made), 0)
    made[0].grad = torch.ones(3, 2)
    fill(layout)
    kept = made[0].grad
    made[0].grad = torch.zeros(3, 2)
    fill(layout)
    assert kept.tolist() == [[1.0, 1.0]] * 3


def test_sparse_gradients_are_refused() -> None:
    table = nn.Parameter(torch.randn(5, 2))
    nn.functional.embedding(torch.tensor([1, 3]), table, sparse=True).sum().backward()
    with pytest.raises(DescriptionError, match=r"sparse gradients .* cannot be exchanged between processes"):
        fill(lay_out(torch.float32, [table], 0))


def test_few_gradients_on_the_cpu_go_in_one_message() -> None:
    most = FLAT_AT_MOST_BYTES // 4
    assert is_flat([torch.empty(most - 1), torch.empty(1)])
    assert not is_flat([torch.empty(most), torch.empty(1)])
    assert not is_flat([torch.empty(most, dtype=torch.float64)])
    assert not is_flat([torch.empty(1), torch.empty(1, device="meta")])
