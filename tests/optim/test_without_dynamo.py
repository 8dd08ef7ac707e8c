"""Training where nothing is compiled does not import torch.compile's machinery; where it is imported, torch's own methods run."""

import json
import subprocess
import sys
from typing import Any
from unittest import mock

import pytest
import torch

from instep.optim.without_dynamo import spare_dynamo

# One new process: what was imported in this one, by other tests, cannot be taken back.
PROGRAM = """
import json, sys
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from instep import Trainer, UpdateCycle
from instep.schedules import per_epoch

SAID = {}
X, Y = torch.randn(24, 4, generator=torch.Generator().manual_seed(0)), torch.arange(24) % 3
HEARD = []

def dynamo():
    return "torch._dynamo" in sys.modules

def net():
    torch.manual_seed(0)
    return nn.Linear(4, 3)

def fit(make, **other):
    model = net()
    optimizer = make(model.parameters(), lr=0.1)
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.register_step_post_hook(lambda *what: HEARD.append(("post", what[0] is optimizer, len(what[1]), what[2])))
    Trainer(model, loss=cross_entropy, optimizer=optimizer, train=(X, Y), epochs=2, batch_size=8, progress=False, **other).fit()
    return [p.tolist() for p in model.parameters()]

def all_fits():
    return [fit(getattr(torch.optim, name), clip_norm=1.0) for name in ("SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam")]

def cycle():
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    update = UpdateCycle(optimizer)
    for _ in range(2):
        update.backward(cross_entropy(model(X), Y), count=len(X))
    update.step()
    return model.weight.tolist()

def modes():
    model, found = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    step = torch.optim.SGD._init_group
    torch.optim.SGD._init_group = lambda *a: found.append(torch.is_grad_enabled()) or step(*a)
    from instep.loop import torch_calls
    torch_calls.step(optimizer)
    torch.optim.SGD._init_group = step
    return [found, torch.is_grad_enabled()]

def changed_arguments():
    model, found = net(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer.register_step_pre_hook(lambda _, args, kwargs: (args, {"closure": lambda: found.append(1) or torch.zeros(())}))
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    from instep.loop import torch_calls
    torch_calls.step(optimizer)
    return [found, model.weight.tolist()]

def scheduled():
    model = net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    halve = per_epoch(lambda optimizer: torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5))
    of_data = dict(train=(X, Y), epochs=2, batch_size=8, progress=False)
    Trainer(model, loss=cross_entropy, optimizer=optimizer, schedule=halve, **of_data).fit()
    return [optimizer.param_groups[0]["lr"], model.weight.tolist()]

before = [all_fits(), cycle(), modes(), changed_arguments(), scheduled()]
SAID["imported by training"] = dynamo()
SAID["heard"] = HEARD[:]
HEARD.clear()

import torch._dynamo
@torch.compile(backend="eager")
def make_and_forward(x):
    made = torch.optim.SGD(net().parameters(), lr=0.1)
    made.add_param_group({"params": [nn.Parameter(torch.zeros(2))]})
    return x.sum()
SAID["made in a compiled function"] = torch.equal(make_and_forward(X), X.sum())
torch._dynamo.utils.counters.clear()
after = [all_fits(), cycle(), modes(), changed_arguments(), scheduled()]
SAID["same numbers"] = before == after
SAID["heard the same"] = HEARD == SAID["heard"]
model = net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
@torch.compile(backend="eager")
def clear_and_forward(x):
    optimizer.zero_grad()
    return model(x).sum()
clear_and_forward(X).backward()
SAID["gradient"] = torch.allclose(model.weight.grad, X.sum(0).expand(3, 4))
SAID["breaks"] = sum(torch._dynamo.utils.counters["graph_break"].values())
methods = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
kept = [getattr(getattr(torch.optim.Optimizer, name).__wrapped__, "__dynamo_disable", None) for name in methods]
SAID["torch's own"] = [one is None or one.__module__ == "torch._dynamo.eval_frame" for one in kept]
print(json.dumps(SAID))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, Any]:
    ran = subprocess.run([sys.executable, "-c", PROGRAM], check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return found


def test_training_does_not_import_it(said: dict[str, Any]) -> None:
    assert said["imported by training"] is False


def test_the_numbers_are_those_with_it(said: dict[str, Any]) -> None:
    assert said["same numbers"] is True


def test_hooks_are_called_as_torch_calls_them(said: dict[str, Any]) -> None:
    assert said["heard"] == [["post", True, 1, {}]] * (6 * 2 * 3)
    assert said["heard the same"] is True


def test_once_it_is_imported_the_methods_are_torchs_own(said: dict[str, Any]) -> None:
    assert said["torch's own"] == [True] * 4
    assert said["breaks"] == 1
    assert said["gradient"] is True
    assert said["made in a compiled function"] is True


def test_methods_that_somebody_replaced_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    replaced = mock.MagicMock()
    monkeypatch.setattr(torch.optim.Optimizer, "zero_grad", replaced)
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)
    spare_dynamo()
    assert torch.optim.Optimizer.zero_grad is replaced
