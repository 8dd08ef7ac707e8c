"""Extra forwards leave nothing changed, and are not made where that cannot be promised."""

import random
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from instep.doctor.extra_forward import ExtraForward, is_safe
from instep.doctor.positions import shifted
from instep.doctor.settings import Settings
from instep.doctor.watcher import Watcher


class Busy(nn.Module):
    """Changes whatever a forward can change."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.queue: Tensor
        self.register_buffer("queue", torch.zeros(4))
        self.calls = 0
        self.seen: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.seen.append(self.calls)
        self.late = self.calls
        print("called")
        with torch.no_grad():
            self.queue += 1
            self.fc.weight.data.mul_(0.5)
        return F.dropout(self.norm(self.fc(x)), 0.5) * random.random()


def test_an_extra_forward_leaves_everything_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    torch.manual_seed(0)
    model, x = Busy(), torch.randn(6, 4)
    model.norm.eval()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    versions = [tensor._version for tensor in model.state_dict(keep_vars=True).values()]
    generators = torch.get_rng_state(), random.getstate()
    with ExtraForward(model) as forward:
        first, second = forward((x,), {}), forward((x,), {})
    assert torch.equal(first, second)
    assert all(torch.equal(state[name], tensor) for name, tensor in model.state_dict().items())
    assert versions == [tensor._version for tensor in model.state_dict(keep_vars=True).values()]
    assert torch.equal(torch.get_rng_state(), generators[0])
    assert random.getstate() == generators[1]
    assert (model.calls, model.seen, hasattr(model, "late")) == (0, [], False)
    assert model.training
    assert model.fc.training
    assert not model.norm.training
    assert capsys.readouterr().out == ""


def test_an_extra_forward_that_fails_puts_everything_back() -> None:
    model = Busy()
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"), ExtraForward(model) as forward:
        forward((torch.zeros(2, 3),), {})
    assert model.calls == 0
    assert model.training
    assert model.norm.training


class Reaching(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        with open("log.txt", "a") as file:
            file.write("called")
        return x


def test_models_that_reach_outside_get_no_extra_forward() -> None:
    hooked = nn.Sequential(nn.Linear(2, 2))
    hooked[0].register_forward_hook(lambda *_: None)
    assert is_safe(nn.Sequential(nn.Linear(2, 2)))
    assert not is_safe(nn.Sequential(Reaching()))
    assert not is_safe(hooked)


@pytest.mark.parametrize(
    ("target", "axis"),
    [
        (lambda s: s[:, 1:], 1),  # logits[:, :-1] against ids[:, 1:]
        (lambda s: s[:, 1:].reshape(-1), 1),
        (lambda s: torch.cat([s[:, 1:], s[:, :1]], 1), 1),  # as many targets as inputs
        (lambda s: s, None),  # an autoencoder
        (lambda s: s[:, 0], None),  # one label a sample
    ],
)
def test_the_next_position_is_known_from_the_targets(target: Any, axis: int | None) -> None:
    source = torch.arange(60).reshape(5, 12) * 7 % 23
    assert shifted(source, target(source)) == axis


class Mixed(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(6, 2)

    def forward(self, x: Tensor) -> Tensor:
        out: Tensor = self.fc(x.permute(1, 0, 2).reshape(len(x), 6))
        return out


def _train(settings: Settings) -> list[str]:
    torch.manual_seed(0)
    x, y, model = torch.randn(64, 2, 3), torch.randint(0, 2, (64,)), Mixed()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with Watcher(settings) as visit:
        for _ in range(6):
            for pick in torch.randperm(64).split(8):
                optimizer.zero_grad()
                F.cross_entropy(model(x[pick]), y[pick]).backward()
                optimizer.step()
    return [finding.id for finding in visit.findings]


def test_probes_can_be_switched_off() -> None:
    assert "batch-mixed" in _train(Settings())
    assert "batch-mixed" not in _train(Settings(probes=False))
