"""Promise 5 for the doctor: watched or not, the same weights, bit for bit, and torch as it was afterwards."""

import copy
import io
import pickle
import random
import weakref
from functools import partial
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

import instep
from instep import Trainer
from instep.doctor.patches import Patch
from instep.doctor.watch import areas


class Net(nn.Module):
    """Dropout, BatchNorm, and draws of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Dropout(0.3))
        self.head = nn.Linear(12, 3)

    def forward(self, x: Tensor) -> Tensor:
        noise = random.random() + float(np.random.rand())
        scores: Tensor = self.head(self.body(x)) * (1 + 0.01 * noise)
        return scores


def train(optimizer: str, *, cycle: int, clip: bool, mistakes: bool, epochs: int = 2) -> tuple[dict[str, Tensor], list[float]]:
    """Weights and losses of a small loop."""
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)
    model = Net()
    data = DataLoader(TensorDataset(torch.randn(40, 6), torch.randint(3, (40,))), batch_size=8, shuffle=True)
    stepper = getattr(torch.optim, optimizer)(model.parameters(), lr=0.05)
    schedule = torch.optim.lr_scheduler.StepLR(stepper, 1, 0.9)
    losses = []
    for _ in range(epochs):
        model.train()
        for i, (x, y) in enumerate(data):
            scores = model(x)
            loss = F.cross_entropy(scores.softmax(1) if mistakes else scores, y) / cycle
            loss.backward()
            losses.append(loss.item())
            if clip:
                nn.utils.clip_grad_norm_((p for p in model.parameters()), 1.0)
            if (i + 1) % cycle == 0:
                stepper.step()
                if not mistakes:
                    stepper.zero_grad(set_to_none=i % 2 == 0)
        schedule.step()
        if not mistakes:
            model.eval()
        with torch.no_grad():
            losses += [float(F.cross_entropy(model(x), y)) for x, y in data]
    return model.state_dict(), losses


@settings(max_examples=12, deadline=None)
@given(
    optimizer=st.sampled_from(["SGD", "AdamW", "Adagrad"]),
    cycle=st.integers(1, 3),
    clip=st.booleans(),
    mistakes=st.booleans(),
)
def test_the_same_weights_bit_for_bit(optimizer: str, cycle: int, clip: bool, mistakes: bool) -> None:
    plain, losses = train(optimizer, cycle=cycle, clip=clip, mistakes=mistakes)
    with instep.watch(aloud=False) as visit:
        watched, same = train(optimizer, cycle=cycle, clip=clip, mistakes=mistakes)
    assert losses == same
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    assert visit.hub.failures == []
    assert ("softmax-before-cross-entropy" in {finding.id for finding in visit.findings}) == mistakes


def names() -> dict[str, Any]:
    """What the doctor replaces, as it is now."""
    functions = {f"F.{name}": value for name, value in vars(F).items() if callable(value)}
    kinds = [torch.Tensor, nn.Module, torch.optim.Optimizer, DataLoader, torch.optim.lr_scheduler.StepLR]
    methods = {f"{kind.__name__}.{name}": value for kind in kinds for name, value in vars(kind).items()}
    return {**functions, **methods, "clip": nn.utils.clip_grad_norm_, "save": torch.save, "script": torch.jit.script}


def test_torch_is_left_as_it_was() -> None:
    before = names()
    with instep.watch(aloud=False):
        train("SGD", cycle=1, clip=True, mistakes=False, epochs=1)
        assert names() != before
    after = names()
    assert [name for name in before if after[name] is not before[name]] == []
    assert not nn.modules.module._global_forward_hooks
    assert not nn.modules.module._global_forward_pre_hooks


def test_a_visit_that_cannot_begin_leaves_torch_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    class Listener:
        def __init__(self, *_: Any) -> None: ...

        def before_doubled(self, _: Any) -> None: ...

    doubled = SimpleNamespace(OBSERVERS=[Listener], PATCHES=[Patch("doubled", ("torch:Tensor.backward",))])
    monkeypatch.setattr("instep.doctor.watcher.areas", lambda: [*areas(), doubled])
    before, following = names(), _BaseDataLoaderIter.__next__
    with pytest.raises(ValueError, match="is patched twice; listen to the event of the first"):
        instep.watch().begin()
    after = names()
    assert [name for name in before if after[name] is not before[name]] == []
    assert _BaseDataLoaderIter.__next__ is following
    monkeypatch.undo()
    with instep.watch(aloud=False):
        pass


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")
def test_models_and_functions_are_copied_and_pickled_as_ever() -> None:
    with instep.watch(aloud=False) as visit:
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loss = F.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,)))
        torch.autograd.backward(loss)
        optimizer.step()
        twin = copy.deepcopy(model)
        back = pickle.loads(pickle.dumps(model))
        buffer = io.BytesIO()
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, buffer)
        assert pickle.loads(pickle.dumps(F.cross_entropy)) is F.cross_entropy
        scripted = torch.jit.script(nn.Sequential(nn.Linear(6, 3), nn.Dropout(0.5)))
    for other in (twin, back):
        assert all(torch.equal(a, b) for a, b in zip(model.state_dict().values(), other.state_dict().values(), strict=True))
    assert scripted(torch.zeros(2, 6)).shape == (2, 3)
    assert visit.hub.failures == []


def run(doctor: bool) -> dict[str, Tensor]:
    torch.manual_seed(0)
    model = Net()
    data = (torch.randn(40, 6), torch.randint(3, (40,)))
    optimizer = torch.optim.AdamW(model.parameters())
    valid = (torch.randn(16, 6), torch.randint(3, (16,)))
    trainer = Trainer(
        model,
        loss=F.cross_entropy,
        optimizer=optimizer,
        train=data,
        valid=valid,
        epochs=3,
        batch_size=10,
        update_cycle=2,
        doctor=doctor,
    )
    trainer.fit()
    return model.state_dict()


def test_a_trainer_with_the_doctor_gives_the_same_weights_and_has_no_mistakes(capsys: Any) -> None:
    plain, watched = run(doctor=False), run(doctor=True)
    assert all(torch.equal(plain[name], watched[name]) for name in plain)
    said = capsys.readouterr().err
    assert "instep doctor: " in said
    assert not {"error", "warning"} & set(said.partition("instep doctor: ")[2].split())


@pytest.mark.parametrize("loss", [F.cross_entropy, partial(F.cross_entropy, label_smoothing=0.1), nn.CrossEntropyLoss()])
def test_the_loss_of_a_trainer_is_seen_in_each_of_its_forms(
    loss: Any, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instep.loop.first_loss.mistake_in", lambda value: None)  # which refuses it by itself
    x, y = torch.randn(160, 6, generator=torch.Generator().manual_seed(0)), torch.arange(160) % 3
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3), nn.Softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    trainer = Trainer(model, loss=loss, optimizer=optimizer, train=(x, y), epochs=3, batch_size=4, progress=False, doctor=True)
    trainer.fit()
    assert "softmax-before-cross-entropy" in capsys.readouterr().err


def test_looking_at_names_keeps_nothing_alive() -> None:
    """A frame that is asked for its names keeps them, and with them the graph of a loss that the script has let go."""
    student = nn.Linear(4, 2)
    alias = student
    losses: list[weakref.ref[Tensor]] = []
    optimizer = torch.optim.SGD(student.parameters(), lr=0.1)

    def train() -> None:
        for _ in range(8):
            x = torch.randn(8, 4)
            loss = F.mse_loss(student(x), alias(x).detach() + 1)
            losses.append(weakref.ref(loss))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            assert sum(each() is not None for each in losses) == 1

    with instep.watch(aloud=False):
        train()
    assert sum(each() is not None for each in losses) == 0


def test_names_that_a_function_asked_for_are_left_alone() -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> dict[str, Any]:
        rate = 0.1
        kept = locals()
        for _ in range(8):
            x = torch.randn(8, 4)
            F.mse_loss(model(x), model(x).detach() + rate).backward()
            optimizer.step()
        return kept

    with instep.watch(aloud=False):
        assert set(train()) == {"rate", "model", "optimizer"}
