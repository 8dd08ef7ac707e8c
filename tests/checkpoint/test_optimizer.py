"""Every optimizer of torch goes on after a checkpoint as if nothing had been: same state, same weights, bit for bit."""

import copy
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn, optim

from checkpoint.made import bits, round_trip, same
from instep.checkpoint import capture_optimizer, restore_optimizer
from instep.errors import CheckpointError

Make = Callable[[Any], optim.Optimizer]
OPTIMIZERS: dict[str, Make] = {
    "Adadelta": lambda p: optim.Adadelta(p, lr=0.5),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.1),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, initial_accumulator_value=0.5),
    "Adagrad fused": lambda p: optim.Adagrad(p, lr=0.1, fused=True),
    "Adam": lambda p: optim.Adam(p, lr=0.1),
    "Adam amsgrad": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1),
    "Adam fused": lambda p: optim.Adam(p, lr=0.1, fused=True),
    "Adam foreach": lambda p: optim.Adam(p, lr=0.1, foreach=True),
    "Adam with a tensor as lr": lambda p: optim.Adam(p, lr=torch.tensor(0.1), foreach=False),
    "AdamW": lambda p: optim.AdamW(p, lr=0.1),
    "AdamW fused amsgrad": lambda p: optim.AdamW(p, lr=0.1, fused=True, amsgrad=True),
    "Adamax": lambda p: optim.Adamax(p, lr=0.1),
    "ASGD": lambda p: optim.ASGD(p, lr=0.1, t0=1.0),
    "ASGD foreach": lambda p: optim.ASGD(p, lr=0.1, t0=1.0, foreach=True),
    "LBFGS": lambda p: optim.LBFGS(p, lr=0.1, max_iter=3, history_size=4),
    "LBFGS with line search": lambda p: optim.LBFGS(p, lr=0.1, max_iter=3, history_size=2, line_search_fn="strong_wolfe"),
    "Muon": lambda p: optim.Muon([q for q in p if q.ndim == 2], lr=0.1),
    "NAdam": lambda p: optim.NAdam(p, lr=0.1),
    "RAdam": lambda p: optim.RAdam(p, lr=0.1),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.1),
    "RMSprop centered with momentum": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.9, centered=True),
    "Rprop": lambda p: optim.Rprop(p, lr=0.1),
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "SGD fused": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, fused=True),
    "SparseAdam": lambda p: optim.SparseAdam([next(iter(p))], lr=0.1),
    "groups": lambda p: optim.AdamW(
        [{"params": [q], "lr": 0.1 * i, "note": ("group", i)} for i, q in enumerate(p)], betas=(0.8, 0.9)
    ),
}


def test_every_optimizer_of_torch_is_tested() -> None:
    known = {name for name, kind in vars(optim).items() if inspect.isclass(kind) and issubclass(kind, optim.Optimizer)}
    assert known - {"Optimizer"} <= {name.split()[0] for name in OPTIMIZERS}


def test_no_optimizer_of_torch_brings_its_own_state_dict() -> None:
    """Those that do are asked for it instead; if torch's began to, their state would be cast again."""
    for kind in vars(optim).values():
        if inspect.isclass(kind) and issubclass(kind, optim.Optimizer):
            assert kind.state_dict is optim.Optimizer.state_dict
            assert kind.load_state_dict is optim.Optimizer.load_state_dict


class Model(nn.Module):
    def __init__(self, dtype: torch.dtype, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(5, 4, sparse=sparse, dtype=dtype)
        self.conv = nn.Conv2d(1, 2, 2, dtype=dtype)
        self.conv.weight.data = self.conv.weight.data.to(memory_format=torch.channels_last)
        self.out = nn.Linear(4, 3, dtype=dtype)
        self.unused = nn.Linear(2, 2, dtype=dtype)  # never gets a gradient, so no state

    def forward(self, index: Tensor) -> Tensor:
        rows = self.table(index)
        loss: Tensor = self.out(rows).square().mean() + self.conv(rows.view(-1, 1, 2, 2)).square().mean()
        return loss


def train(model: nn.Module, optimizer: optim.Optimizer, steps: range) -> None:
    for step in steps:
        index = torch.randint(0, 5, (6,), generator=torch.Generator().manual_seed(step))

        def closure(index: Tensor = index) -> Tensor:
            optimizer.zero_grad()
            loss: Tensor = model(index)
            loss.backward()
            return loss

        optimizer.step(closure)  # type: ignore[arg-type]  # torch says float and takes tensors


IN_HALF = [name for name in OPTIMIZERS if name != "SGD fused"]  # torch's does not work there, and is refused


@pytest.mark.parametrize(
    ("name", "dtype"),
    [*((name, torch.float32) for name in OPTIMIZERS), *((name, torch.bfloat16) for name in IN_HALF)],
    ids=str,
)
def test_an_optimizer_goes_on_bit_for_bit(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    model = Model(dtype, sparse=name == "SparseAdam")
    optimizer = OPTIMIZERS[name](list(model.parameters()))
    train(model, optimizer, range(3))
    captured = round_trip(capture_optimizer(optimizer, model.named_parameters()), tmp_path)

    other = copy.deepcopy(model)
    resumed = OPTIMIZERS[name](list(other.parameters()))
    restore_optimizer(resumed, captured, other.named_parameters())
    assert_same_state(model, optimizer, other, resumed)

    train(model, optimizer, range(3, 6))
    train(other, resumed, range(3, 6))
    assert_same_state(model, optimizer, other, resumed)
    for one, two in zip(model.parameters(), other.parameters(), strict=True):
        assert bits(one) == bits(two)


def assert_same_state(model: nn.Module, optimizer: optim.Optimizer, other: nn.Module, resumed: optim.Optimizer) -> None:
    twins: dict[Tensor, Tensor] = dict(zip(model.parameters(), other.parameters(), strict=True))
    assert {twins[parameter] for parameter in optimizer.state} == set(resumed.state)
    for parameter, entry in optimizer.state.items():
        assert same(dict(entry), dict(resumed.state[twins[parameter]]))
    for group, twin in zip(optimizer.param_groups, resumed.param_groups, strict=True):
        assert same({k: v for k, v in group.items() if k != "params"}, {k: v for k, v in twin.items() if k != "params"})


def test_state_in_a_wider_dtype_is_not_cast(tmp_path: Path) -> None:
    """float32 moments of a bfloat16 model; load_state_dict rounds them."""
    parameter = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = optim.SGD([parameter], lr=0.1, momentum=0.9)
    moment = torch.tensor([1.00001, 2.00001, 3.00001])
    optimizer.state[parameter]["momentum_buffer"] = moment
    captured = round_trip(capture_optimizer(optimizer), tmp_path)
    optimizer.state.clear()
    restore_optimizer(optimizer, captured)
    assert same(optimizer.state[parameter]["momentum_buffer"], moment)


def test_capturable_state_is_kept(tmp_path: Path) -> None:
    """Capturable optimizers step on accelerators only; what they would keep is kept all the same."""
    parameter = nn.Parameter(torch.ones(3))
    optimizer = optim.Adam([parameter], lr=torch.tensor(0.1), capturable=True)
    optimizer.state[parameter] = {"step": torch.tensor(3.0), "exp_avg": torch.ones(3), "exp_avg_sq": torch.ones(3)}
    captured = round_trip(capture_optimizer(optimizer), tmp_path)
    lr = optimizer.param_groups[0]["lr"]
    lr.fill_(5.0)
    optimizer.state.clear()
    restore_optimizer(optimizer, captured)
    assert optimizer.param_groups[0]["lr"] is lr  # a compiled step holds on to it
    assert lr.item() == pytest.approx(0.1)
    assert optimizer.state[parameter]["step"].item() == 3


def test_state_goes_where_its_parameter_is_but_for_what_counts_on_the_host() -> None:
    """The meta device stands in for an accelerator: the question is where things go, not what they hold."""

    def adam(device: str, fused: bool) -> tuple[optim.Optimizer, dict[str, Any]]:
        parameter = nn.Parameter(torch.ones(3, device=device))
        optimizer = optim.Adam([parameter], lr=0.1)
        optimizer.param_groups[0]["fused"] = fused
        step = torch.tensor(3.0, device=device if fused else "cpu")
        optimizer.state[parameter] = {"step": step, "exp_avg": torch.ones(3, device=device), "offloaded": torch.ones(3)}
        return optimizer, optimizer.state[parameter]

    for fused in (False, True):
        for here, there in (("meta", "meta"), ("cpu", "meta")):
            captured = capture_optimizer(adam(here, fused)[0])
            resumed, _ = adam(there, fused)
            restore_optimizer(resumed, captured)
            (entry,) = resumed.state.values()
            kept_on_host = {key for key, value in entry.items() if value.device.type == "cpu"}
            # What was beside its parameter on the host is beside it on the accelerator.
            assert kept_on_host == ({"offloaded"} if here == "meta" else set()) | (set() if fused else {"step"})


def test_what_schedulers_and_users_put_into_groups_comes_back(tmp_path: Path) -> None:
    model, other = nn.Linear(2, 2), nn.Linear(2, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    optimizer.param_groups[0].update(initial_lr=0.4, lr=0.2, name="base")
    captured = round_trip(capture_optimizer(optimizer, model.named_parameters()), tmp_path)
    resumed = optim.SGD(other.parameters(), lr=0.7)
    resumed.param_groups[0]["swa_lr"] = 1.0  # not there when the checkpoint was made
    restore_optimizer(resumed, captured, other.named_parameters())
    group = resumed.param_groups[0]
    assert (group["initial_lr"], group["lr"], group["name"], "swa_lr" in group) == (0.4, 0.2, "base", False)


def test_options_that_are_to_change_are_left(tmp_path: Path) -> None:
    model = nn.Linear(2, 2)
    captured = round_trip(capture_optimizer(optim.SGD(model.parameters(), lr=0.1, momentum=0.9)), tmp_path)
    resumed = optim.SGD(model.parameters(), lr=0.7, momentum=0.5)
    restore_optimizer(resumed, captured, leave=("lr",))
    assert (resumed.param_groups[0]["lr"], resumed.param_groups[0]["momentum"]) == (0.7, 0.9)


def test_state_goes_by_the_names_of_the_parameters() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    extra = nn.Parameter(torch.ones(1))
    captured = capture_optimizer(optim.SGD([*model.parameters(), extra], lr=0.1), model.named_parameters(remove_duplicate=False))
    assert captured["groups"][0]["parameters"] == ["0.weight", "0.bias", "1.bias", "#3"]


def two_groups(model: nn.Module, *, lr: float = 0.1) -> optim.Optimizer:
    parameters = list(model.parameters())
    return optim.SGD([{"params": parameters[:2]}, {"params": parameters[2:]}], lr=lr, momentum=0.9)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (
            lambda m: optim.SGD(m.parameters(), lr=0.1),
            "the optimizer has 1 parameter group, in the checkpoint it has 2; make the groups",
        ),
        (lambda m: optim.Adam(m.parameters()), "holds the state of SGD, and the optimizer is Adam; use the same one"),
        (
            lambda m: optim.SGD([{"params": [m[0].weight]}, {"params": [m[0].bias, *m[1].parameters()]}], lr=0.1),
            "parameter group 0 is not that of the checkpoint: it lacks 0.bias",
        ),
        (
            lambda m: optim.SGD([{"params": [m[0].weight, m[1].bias]}, {"params": [m[1].weight]}], lr=0.1),
            "group 0 is not that of the checkpoint: it lacks 0.bias and also has 1.bias",
        ),
        (
            lambda m: optim.SGD([{"params": [m[0].bias, m[0].weight]}, {"params": m[1].parameters()}], lr=0.1),
            "group 0 has another order than in the checkpoint: number 0 is 0.bias, and was 0.weight; pass the parameters",
        ),
    ],
)
def test_another_optimizer_is_refused_and_left_as_it_was(make: Make, words: str) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    captured = capture_optimizer(two_groups(model, lr=0.5), model.named_parameters())
    optimizer = make(model)
    with pytest.raises(CheckpointError, match=words):
        restore_optimizer(optimizer, captured, model.named_parameters())
    assert optimizer.param_groups[0]["lr"] != 0.5
    assert not optimizer.state


def test_parameters_of_another_shape_or_dtype_are_refused() -> None:
    model, wider, finer = nn.Linear(2, 2), nn.Linear(3, 2), nn.Linear(2, 2).double()
    captured = capture_optimizer(optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    with pytest.raises(
        CheckpointError, match=r"parameter 'weight' is torch.float32 of shape \[2, 3\]; in the checkpoint .* \[2, 2\]"
    ):
        restore_optimizer(optim.SGD(wider.parameters(), lr=0.1), captured, wider.named_parameters())
    with pytest.raises(CheckpointError, match=r"parameter 'weight' is torch.float64 .* in the checkpoint it is torch.float32"):
        restore_optimizer(optim.SGD(finer.parameters(), lr=0.1), captured, finer.named_parameters())


def test_a_parameter_as_state_is_refused_by_name() -> None:
    parameter = nn.Parameter(torch.ones(3))
    optimizer = optim.SGD([parameter], lr=0.1)
    optimizer.state[parameter]["slow"] = parameter.data
    with pytest.raises(CheckpointError, match="SGD: state 'slow' of '#0' is the memory of the parameter '#0' itself"):
        capture_optimizer(optimizer)


def test_state_of_a_parameter_that_left_is_refused() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.ones(3))], lr=0.1)
    optimizer.state[nn.Parameter(torch.ones(7))]["momentum_buffer"] = torch.ones(7)
    with pytest.raises(CheckpointError, match=r"SGD holds state of a parameter of shape \(7,\) that is in none of its groups"):
        capture_optimizer(optimizer)


@pytest.mark.parametrize(
    "captured", [{}, {"kind": "SGD"}, 3, {"kind": "SGD", "groups": [3], "forms": {}, "state": {}, "other": {}}], ids=str
)
def test_what_is_no_optimizer_state_is_refused(captured: Any) -> None:
    with pytest.raises(CheckpointError, match="does not hold the state of an optimizer"):
        restore_optimizer(optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1), captured)


def test_state_of_strangers_is_refused() -> None:
    optimizer = optim.SGD([nn.Parameter(torch.ones(1))], lr=0.1)
    captured = capture_optimizer(optimizer)
    captured["state"]["ghost"] = {}
    with pytest.raises(CheckpointError, match="holds state of ghost, which no group has"):
        restore_optimizer(optimizer, captured)


class Lookahead(optim.SGD):
    """An optimizer of another make, which has more to keep than torch asks for."""

    rounds = 0

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"rounds": self.rounds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        state_dict = dict(state_dict)
        self.rounds = state_dict.pop("rounds")
        super().load_state_dict(state_dict)


def test_an_optimizer_with_a_state_dict_of_its_own_is_asked_for_it(tmp_path: Path) -> None:
    optimizer = Lookahead([nn.Parameter(torch.ones(1))], lr=0.1)
    optimizer.rounds = 7
    captured = round_trip(capture_optimizer(optimizer), tmp_path)
    resumed = Lookahead([nn.Parameter(torch.ones(1))], lr=0.5)
    restore_optimizer(resumed, captured)
    assert (resumed.rounds, resumed.param_groups[0]["lr"]) == (7, 0.1)


def test_state_that_belongs_to_no_parameter_is_kept(tmp_path: Path) -> None:
    parameter = nn.Parameter(torch.ones(1))
    optimizer = optim.SGD([parameter], lr=0.1)
    state: dict[Any, Any] = optimizer.state
    state["global"] = {"d": torch.tensor(0.5), "k": 3}
    captured = round_trip(capture_optimizer(optimizer), tmp_path)
    state.clear()
    restore_optimizer(optimizer, captured)
    assert same(state["global"], {"d": torch.tensor(0.5), "k": 3})
