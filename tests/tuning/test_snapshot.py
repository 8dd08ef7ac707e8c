"""Everything is as it was found: values, places, structure, whatever became of them meanwhile."""

import copy
import random
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import LBFGS, SGD, Adam
from torch.optim.lr_scheduler import CosineAnnealingLR, LambdaLR, LRScheduler, OneCycleLR, SequentialLR, StepLR

from instep.errors import DescriptionError
from instep.loop.saved_state import SavedState
from instep.schedules.drive import drive
from instep.tuning.snapshot import untouched


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int = 3) -> None:
    x, y = torch.randn(8, 4), torch.randn(8, 2)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = mse_loss(model(x), y)
        loss.backward()
        return loss

    for _ in range(steps):
        closure()
        optimizer.step(closure if isinstance(optimizer, LBFGS) else None)  # type: ignore[arg-type]


def model_of(*layers: nn.Module) -> Any:  # so that its layers can be reached into
    return nn.Sequential(*(layers or (nn.Linear(4, 3), nn.BatchNorm1d(3), nn.Dropout(0.5), nn.Linear(3, 2))))


def seen(model: nn.Module, optimizer: torch.optim.Optimizer) -> Any:
    """All of it, copied."""
    tensors = {name: (id(t), t.data_ptr(), t.detach().clone()) for name, t in [*model.named_parameters(), *model.named_buffers()]}
    gradients = {name: None if p.grad is None else (id(p.grad), p.grad.clone()) for name, p in model.named_parameters()}
    modes = [module.training for module in model.modules()]
    return tensors, gradients, modes, copy.deepcopy(optimizer.state_dict()), [id(p) for p in optimizer.state]


def same(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):
        return isinstance(other, Tensor) and one.dtype == other.dtype and torch.equal(one, other)
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: SGD(p, lr=0.1),
    "momentum": lambda p: SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: Adam(p, lr=0.1, amsgrad=True),
    "tensor lr": lambda p: Adam(p, lr=torch.tensor(0.1), foreach=False),
    "lbfgs": lambda p: LBFGS(p, lr=0.1, max_iter=4),
}


@pytest.mark.parametrize("trained", [False, True])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_training_leaves_no_trace(name: str, trained: bool) -> None:
    torch.manual_seed(0)
    model = model_of()
    optimizer = OPTIMIZERS[name](model.parameters())
    if trained:
        train(model, optimizer)
        model[2].eval()
    before = seen(model, optimizer)
    state = [
        (id(entry), id(value)) for entry in optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)
    ]
    with untouched(model, optimizer):
        train(model, optimizer)
        model.eval()
        for group in optimizer.param_groups:
            group["weight_decay"] = 0.5
            group["new"] = 1
        assert not same(before, seen(model, optimizer))
    assert same(before, seen(model, optimizer))
    after = [
        (id(entry), id(value)) for entry in optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)
    ]
    assert state == after  # the very same tensors, not copies of them


def test_lbfgs_has_its_lists_back() -> None:
    model = model_of(nn.Linear(4, 2))
    optimizer = LBFGS(model.parameters(), lr=0.1, max_iter=3)
    train(model, optimizer, 2)
    state = next(iter(optimizer.state.values()))
    old_dirs, before = state["old_dirs"], [tensor.clone() for tensor in state["old_dirs"]]
    with untouched(model, optimizer):
        train(model, optimizer, 3)
        assert len(old_dirs) > len(before)
    assert state["old_dirs"] is old_dirs
    assert same(before, old_dirs)


def test_a_learning_rate_that_is_a_tensor_is_the_same_tensor_with_the_old_value() -> None:
    lr = torch.tensor(0.1)
    model = model_of()
    optimizer = Adam(model.parameters(), lr=lr, foreach=False)
    with untouched(model, optimizer):
        lr.fill_(5.0)
        optimizer.param_groups[0]["lr"] = 3.0
    assert optimizer.param_groups[0]["lr"] is lr
    assert lr.item() == pytest.approx(0.1)


def test_tied_weights_stay_tied() -> None:
    model = model_of(nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 2))
    model[1].weight = model[0].weight
    optimizer = SGD(model.parameters(), lr=0.1)
    with untouched(model, optimizer):
        train(model, optimizer)
        model[1].weight = nn.Parameter(torch.zeros(4, 4))
    assert model[1].weight is model[0].weight


def test_a_parameter_that_was_replaced_or_sent_elsewhere_comes_back() -> None:
    model = model_of()
    optimizer = SGD(model.parameters(), lr=0.1)
    weight, bias = model[0].weight, model[0].bias
    before, place = weight.detach().clone(), weight.data_ptr()
    with untouched(model, optimizer):
        weight.data = torch.zeros(7)
        model[0].bias = nn.Parameter(torch.zeros(3, dtype=torch.float64))
        model[0].extra = nn.Parameter(torch.zeros(1))
        optimizer.add_param_group({"params": [model[0].extra]})
        bias.requires_grad_(False)
    assert (weight.shape, weight.data_ptr()) == (before.shape, place)
    assert torch.equal(weight, before)
    assert model[0].bias is bias
    assert bias.requires_grad
    assert [name for name, _ in model[0].named_parameters()] == ["weight", "bias"]
    assert len(optimizer.param_groups) == 1


def test_gradients_are_the_same_objects_with_the_old_values() -> None:
    model = model_of()
    optimizer = SGD(model.parameters(), lr=0.1)
    train(model, optimizer)
    gradient = model[0].weight.grad
    before = gradient.clone()
    with untouched(model, optimizer):
        optimizer.zero_grad(set_to_none=False)
        train(model, optimizer)
    assert model[0].weight.grad is gradient
    assert torch.equal(gradient, before)


def test_sparse_gradients_and_expanded_buffers_are_put_back() -> None:
    model: Any = nn.ModuleDict({"embed": nn.Embedding(5, 2, sparse=True)})
    model.register_buffer("ones", torch.ones(1, 3).expand(4, 3))
    optimizer = SGD(model.parameters(), lr=0.1)
    model["embed"](torch.tensor([1, 1])).sum().backward()
    gradient = model["embed"].weight.grad
    assert gradient is not None
    before = gradient.to_dense().clone()
    with untouched(model, optimizer):
        optimizer.zero_grad()
        model["embed"](torch.tensor([2, 3])).sum().backward()
        optimizer.step()
        model.get_buffer("ones")[0:1].fill_(7.0)
    assert model["embed"].weight.grad is gradient
    assert torch.equal(gradient.to_dense(), before)
    assert torch.equal(model.get_buffer("ones"), torch.ones(4, 3))


class Peculiar(nn.Module):
    """Holds what modules should not hold, and changes it in every forward."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 2)
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.register_buffer("later", None)
        self.calls = 0
        self.cache = torch.zeros(2)
        self.seen: list[float] = []
        self.recent: deque[float] = deque([1.0], maxlen=2)
        self.kinds = {"a"}
        self.counted = Counter({"a": 1})
        self.named: OrderedDict[str, Any] = OrderedDict(first=[torch.zeros(1)])
        self.array = np.zeros(2)
        self.own = torch.Generator().manual_seed(3)
        self.dice, self.die, self.old = random.Random(3), np.random.default_rng(3), np.random.RandomState(3)

    def forward(self, x: Tensor) -> Tensor:
        draw = torch.rand(1, generator=self.own).item() + self.dice.random() + self.die.random() + self.old.rand()
        self.calls += 1
        self.get_buffer("passing").add_(1)
        self.later = torch.ones(1)
        self.cache.add_(1)
        self.cache = self.cache + 1
        self.seen.append(draw)
        self.recent.append(draw)
        self.kinds.add("b")
        self.counted["a"] += 1
        self.named["first"][0].add_(1)
        self.named["second"] = 1
        self.array += 1
        return self.linear(x) + draw  # type: ignore[no-any-return]


def test_buffers_that_are_not_saved_and_attributes_of_modules_are_put_back() -> None:
    torch.manual_seed(0)
    model, twin = Peculiar(), Peculiar()
    optimizer = SGD(model.parameters(), lr=0.1)
    cache, named = model.cache, model.named["first"][0]
    with untouched(model, optimizer):
        train(model, optimizer)
    assert (model.calls, model.seen, list(model.recent), model.kinds, model.counted) == (0, [], [1.0], {"a"}, Counter({"a": 1}))
    assert getattr(model, "later") is None  # noqa: B009  # mypy takes it for None always
    assert torch.equal(model.get_buffer("passing"), torch.zeros(2))
    assert model.cache is cache
    assert torch.equal(cache, torch.zeros(2))
    assert list(model.named) == ["first"]
    assert model.named["first"][0] is named
    assert not named.any()
    assert not model.array.any()
    twin.load_state_dict(model.state_dict())
    x = torch.randn(3, 4)
    assert torch.equal(model(x), twin(x))  # the module's own generators stand where they stood


SCHEDULERS: dict[str, Callable[[Any, int], LRScheduler]] = {
    "cosine": lambda optimizer, total: CosineAnnealingLR(optimizer, 2 * total),
    "one cycle": lambda optimizer, total: OneCycleLR(optimizer, 0.1, total),
    "lambda": lambda optimizer, total: LambdaLR(optimizer, lambda step: 0.5**step),
    "sequence": lambda optimizer, total: SequentialLR(optimizer, [StepLR(optimizer, 1), StepLR(optimizer, 2)], [2]),
}


@pytest.mark.filterwarnings("ignore:The epoch parameter")
@pytest.mark.parametrize("through_drive", [True, False])
@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_are_put_back(name: str, through_drive: bool) -> None:
    def rates(disturbed: bool) -> list[float]:
        torch.manual_seed(0)
        model = model_of()
        optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
        driver = drive(SCHEDULERS[name], optimizer, total_steps=20)
        scheduler = driver._scheduler  # type: ignore[attr-defined]
        found = []
        for step in range(8):
            if disturbed and step == 3:
                with untouched(model, optimizer, driver if through_drive else scheduler):
                    for _ in range(5):
                        train(model, optimizer, 1)
                        driver.after_update()
            train(model, optimizer, 1)
            driver.after_update()
            found.append(optimizer.param_groups[0]["lr"])
        return found

    assert rates(disturbed=True) == rates(disturbed=False)


def test_a_scaler_is_put_back_also_between_unscale_and_update() -> None:
    """Its state_dict does not know that it was in the middle of an update."""
    model = model_of()
    optimizer = SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(model(torch.randn(3, 4)).sum()).backward()
    with pytest.raises(ZeroDivisionError), untouched(model, optimizer, scaler):
        scaler.unscale_(optimizer)
        scaler.update(4.0)
        scaler.scale(model(torch.randn(3, 4)).sum()).backward()
        scaler.unscale_(optimizer)
        raise ZeroDivisionError
    assert scaler.get_scale() == 8.0
    scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


class Counting:
    """Anything that says its state."""

    def __init__(self) -> None:
        self.count = [0]

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = state["count"]


@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit])
def test_also_after_an_exception(error: type[BaseException]) -> None:
    model, other = model_of(), Counting()
    optimizer = Adam(model.parameters())
    before = seen(model, optimizer)
    torch_state, numpy_state, python_state = torch.get_rng_state(), np.random.get_state(), random.getstate()
    with pytest.raises(error), untouched(model, optimizer, other):
        train(model, optimizer)
        other.count[0] += 1
        random.random(), np.random.rand()
        raise error
    assert same(before, seen(model, optimizer))
    assert other.count == [0]
    assert torch.equal(torch_state, torch.get_rng_state())
    assert same(list(numpy_state)[2:], list(np.random.get_state())[2:])
    assert python_state == random.getstate()


def test_half_a_pair_of_normal_draws_is_kept() -> None:
    """NumPy and Python draw normal numbers in pairs and keep the second one."""
    model = model_of()
    optimizer = SGD(model.parameters(), lr=0.1)
    drawn = []
    for disturbed in (False, True):
        np.random.seed(0)
        random.seed(0)
        np.random.randn(), random.gauss(0, 1)
        if disturbed:
            with untouched(model, optimizer):
                np.random.randn(), random.gauss(0, 1)
        drawn.append((np.random.randn(), random.gauss(0, 1)))
    assert drawn[0] == drawn[1]


def test_ctrl_c_while_it_is_put_back_waits() -> None:
    kept = SavedState(model := model_of())
    before = model[0].weight.detach().clone()
    with torch.no_grad():
        model[0].weight.zero_()
        model[3].weight.zero_()
    interrupts = iter([KeyboardInterrupt, KeyboardInterrupt])

    def impatient() -> bool:
        for interrupt in interrupts:
            raise interrupt
        return False

    kept._ways_back.insert(len(kept._ways_back) // 2, impatient)
    with pytest.raises(KeyboardInterrupt):
        kept.put_back()
    assert torch.equal(model[0].weight, before)
    assert model[3].weight.any()


def test_it_costs_one_copy_of_the_state() -> None:
    model = model_of(nn.Linear(4, 4, bias=False), nn.Linear(4, 2, bias=False))
    optimizer = SGD(model.parameters(), lr=0.1, momentum=0.9)
    with untouched(model, optimizer) as kept:
        assert kept.size_bytes == 4 * (16 + 8)
    train(model, optimizer)
    with untouched(model, optimizer, on_host=True) as kept:
        assert kept.size_bytes == 3 * 4 * (16 + 8)  # weights, gradients, momentum


def test_lazy_parameters_are_refused_with_a_way_out() -> None:
    model = model_of(nn.LazyLinear(2))
    words = r"lazy parameters without a shape yet, which cannot be put back; send one batch"
    with pytest.raises(DescriptionError, match=words), untouched(model, SGD(model.parameters(), lr=0.1)):
        raise AssertionError
