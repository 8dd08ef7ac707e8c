"""The step of fused Adam and AdamW from lists that are kept: the same to the last bit as torch's, whatever happens between."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from instep import UpdateCycle
from instep.loop import update
from instep.optim.fused_adam import FusedAdam

Between = Callable[[int, nn.Module, Optimizer], object]


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.body = nn.Linear(3, 4)
        self.head = nn.Linear(4, 2)
        self.unused = nn.Linear(2, 2)
        self.uses_it = False

    def forward(self, x: Tensor) -> Tensor:
        x = self.head(self.body(x).relu())
        return self.unused(x) if self.uses_it else x


def make(kind: type[Adam], **options: Any) -> tuple[nn.Module, Optimizer]:
    model = Model()
    groups: list[dict[str, Any]] = [
        {"params": list(model.body.parameters())},
        {"params": list(model.head.parameters()), "lr": 0.02},
    ]
    return model, kind(groups, **{"lr": 0.01, "weight_decay": 0.1, "fused": True, **options})


def train(model: nn.Module, optimizer: Optimizer, step: Callable[[Tensor], object], between: Between) -> list[Tensor]:
    """The weights and the optimizer's state after eight updates, with something done between two of them."""
    torch.manual_seed(1)
    for number in range(8):
        x, y = torch.randn(5, 3), torch.randn(5, 2)
        step((model(x) - y).square().mean())
        between(number, model, optimizer)
    return [*model.state_dict().values(), *(one for state in optimizer.state.values() for one in state.values())]


def by_hand(model: nn.Module, optimizer: Optimizer, between: Between) -> list[Tensor]:
    def step(loss: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    return train(model, optimizer, step, between)


def in_a_cycle(model: nn.Module, optimizer: Optimizer, between: Between) -> list[Tensor]:
    cycle = UpdateCycle(optimizer)

    def step(loss: Tensor) -> None:
        cycle.backward(loss, count=5)
        cycle.step()

    return train(model, optimizer, step, between)


def nothing(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    pass


def other_lr(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    optimizer.param_groups[number % 2]["lr"] *= 0.7


def tensor_lr(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    optimizer.param_groups[0]["lr"] = torch.tensor(0.03) if number % 4 == 2 else 0.01


def loaded(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    if number == 3:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))


def forgotten(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    if number == 3:
        optimizer.state[optimizer.param_groups[0]["params"][0]] = {}


def other_moment(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    state = optimizer.state[optimizer.param_groups[0]["params"][0]]
    if number == 3:
        state["exp_avg"] = state["exp_avg"] * 2


def frozen(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    model.body.requires_grad_(number not in (2, 3))


def more_parameters(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    if number == 3:
        optimizer.add_param_group({"params": list(model.unused.parameters())})  # type: ignore[union-attr]
        model.uses_it = True  # type: ignore[assignment]


def fewer_parameters(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    if number == 3:
        del optimizer.param_groups[0]["params"][0]


def other_type(number: int, model: nn.Module, optimizer: Optimizer) -> None:
    if number == 3:
        optimizer.param_groups[1]["amsgrad"] = True
        for parameter in optimizer.param_groups[1]["params"]:
            optimizer.state[parameter]["max_exp_avg_sq"] = torch.zeros_like(parameter)


@pytest.mark.parametrize("kind", [Adam, AdamW])
@pytest.mark.parametrize(
    "between",
    [
        nothing,
        other_lr,
        tensor_lr,
        loaded,
        forgotten,
        other_moment,
        frozen,
        more_parameters,
        fewer_parameters,
        other_type,
    ],
)
def test_the_same_as_torch(kind: type[Adam], between: Between) -> None:
    for ours, theirs in zip(in_a_cycle(*make(kind), between), by_hand(*make(kind), between), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("options", [{"maximize": True}, {"amsgrad": True}, {"fused": None}, {"betas": (0.5, 0.6), "eps": 1e-3}])
def test_with_any_options(options: dict[str, Any]) -> None:
    for ours, theirs in zip(in_a_cycle(*make(AdamW, **options), nothing), by_hand(*make(AdamW, **options), nothing), strict=True):
        assert torch.equal(ours, theirs)


def test_the_kept_lists_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seven of eight steps; after a change one more is torch's."""
    made: list[bool] = []

    class Counting(FusedAdam):
        def step(self) -> bool:
            made.append(super().step())
            return made[-1]

    monkeypatch.setattr(update, "FusedAdam", Counting)
    in_a_cycle(*make(AdamW), nothing)
    assert made == [False, *[True] * 7]
    made.clear()
    in_a_cycle(*make(AdamW), loaded)
    assert made == [False, True, True, True, False, True, True, True]


def test_a_hook_sees_every_step() -> None:
    seen: list[int] = []
    model, optimizer = make(AdamW)
    optimizer.register_step_post_hook(lambda *_: seen.append(1))
    in_a_cycle(model, optimizer, nothing)
    assert len(seen) == 8


def test_a_subclass_is_left_to_itself() -> None:
    class Own(AdamW):
        pass

    assert FusedAdam.of(Own([nn.Parameter(torch.zeros(2))], fused=True)) is None
    assert FusedAdam.of(torch.optim.SGD([nn.Parameter(torch.zeros(2))], lr=0.1)) is None


def test_an_optimizer_that_is_never_what_it_was_is_left_to_torch() -> None:
    """A parameter that gets no gradient in every second update: nothing is collected for ever, and the numbers are right."""

    def between(number: int, model: nn.Module, optimizer: Optimizer) -> None:
        optimizer.load_state_dict(copy.deepcopy(optimizer.state_dict()))

    for ours, theirs in zip(in_a_cycle(*make(AdamW), between), by_hand(*make(AdamW), between), strict=True):
        assert torch.equal(ours, theirs)
