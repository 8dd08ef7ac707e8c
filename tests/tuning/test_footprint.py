"""Bytes that can be counted by hand."""

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam

from instep.tuning.footprint import Live, counting_saved, id_of, measure, total_bytes

KB = 1024


def kilobytes(n: int = 1) -> Tensor:
    return torch.empty(256 * n)


def test_the_most_that_lives_at_once() -> None:
    with Live() as live:
        a = kilobytes(4)
        b = a + 1  # 8
        del a  # 4
        c = b[:10] * 2  # a little
        del b
        d = kilobytes(2)
    assert live.peak == 8 * KB
    assert live.now == c.untyped_storage().nbytes() + d.untyped_storage().nbytes()


def test_views_and_what_was_there_before_are_not_counted() -> None:
    before = kilobytes(8)
    with Live() as live:
        before.add_(1)
        seen = before.view(2, -1)[0]
        seen.mul_(2)
        new = kilobytes()
        other = new.t()
    assert live.peak == KB
    del other


def test_tensors_of_backward_are_counted() -> None:
    x = torch.ones(256, requires_grad=True)
    with Live() as live:
        (x * 2).exp().sum().backward()
    # 2x and exp(2x) at the end of the forward (and 4 bytes of sum); then gradients come while those go
    assert 2 * KB <= live.peak <= 4 * KB + 16
    assert x.grad is not None
    assert live.now >= x.grad.untyped_storage().nbytes()


def test_a_storage_that_is_saved_twice_counts_once_and_parameters_do_not() -> None:
    layer = nn.Linear(256, 256, bias=False)
    x = torch.randn(4, 256)
    held = {id_of(p) for p in layer.parameters()}
    with counting_saved(held) as saved:
        hidden = layer(x)
        out = hidden * hidden
    # saved are x (for the weight's gradient) and hidden (twice, for the product); not the weight
    assert sum(saved.values()) == 2 * 4 * KB
    assert out.shape == (4, 256)


def test_the_footprint_of_an_update() -> None:
    model = nn.Sequential(nn.Linear(256, 256, bias=False), nn.Tanh(), nn.Linear(256, 1, bias=False))
    optimizer = Adam(model.parameters())
    x = torch.randn(8, 256)

    def update() -> None:
        optimizer.zero_grad()
        model(x).sum().backward()
        optimizer.step()

    update()
    found = measure(update, 8, model, optimizer)
    assert found.samples == 8
    assert found.parameters == found.gradients == 257 * KB
    assert found.optimizer_state == 2 * 257 * KB + 2 * 4  # two moments, and the number of steps twice
    assert found.saved == 2 * 8 * KB  # x and the output of tanh
    assert found.peak >= found.gradients + found.saved


def test_memory_grows_in_proportion_to_samples() -> None:
    model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(3)))
    optimizer = SGD(model.parameters(), lr=0.1)

    def peak(samples: int) -> int:
        x = torch.randn(samples, 64)
        return measure(lambda: model(x).sum().backward(), samples, model, optimizer).peak

    one, two, three = peak(4096), peak(8192), peak(12_288)
    assert two - one == pytest.approx(three - two, rel=0.01)
    assert (three - two) / 4096 == pytest.approx(3 * 64 * 4, rel=0.01)  # what three layers keep of a sample


def test_total_bytes_counts_each_storage_once() -> None:
    a = kilobytes(4)
    assert total_bytes([a, a.view(2, -1), a[:3], kilobytes()]) == 5 * KB
