"""Where an update's time and memory go, and what is advised: by parts that take a time one knows, and by numbers made up."""

import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import Dataset

from instep import Trainer
from instep.cli.bench import bare
from instep.tuning.advice import Advice, Idea, can_fuse, copied, ideas_for, judge, noise_of, pays_after
from instep.tuning.comparison import Timing
from instep.tuning.operators import memory_of, named_modules, record, without_lines_of_profiler
from instep.tuning.phases import BACKWARD, DATA, FORWARD, OPTIMIZER, PHASES, REST, PhaseClock, clocked_updates
from instep.tuning.profile import Profile, profile
from instep.tuning.profile_text import render

CPU = torch.device("cpu")
SLEEP_S = 0.01


class SlowData(Dataset[tuple[Tensor, Tensor]]):
    def __len__(self) -> int:
        return 16

    def __getitem__(self, place: int) -> tuple[Tensor, Tensor]:
        time.sleep(SLEEP_S / 4)
        return torch.ones(4), torch.tensor(place % 3)


class SlowBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        time.sleep(SLEEP_S)
        return gradients[0]


class Slow(nn.Module):
    """Sleeps in the forward, the backward, both or neither."""

    def __init__(self, where: str) -> None:
        super().__init__()
        self.first, self.second, self.where = nn.Linear(4, 8), nn.Linear(8, 3), where

    def forward(self, x: Tensor) -> Tensor:
        if self.where == FORWARD:
            time.sleep(SLEEP_S)
        x = torch.relu(self.first(x))
        if self.where == BACKWARD:
            x = SlowBackward.apply(x)  # type: ignore[no-untyped-call]
        output: Tensor = self.second(x)
        return output


class SlowSGD(torch.optim.SGD):
    def step(self, closure: Any = None) -> Any:
        time.sleep(SLEEP_S)
        return super().step(closure)


def made(slow: str = "", **other: Any) -> Trainer:
    torch.manual_seed(0)
    model = Slow(slow)
    kind = SlowSGD if slow == OPTIMIZER else torch.optim.SGD
    data = SlowData() if slow == DATA else (torch.randn(16, 4), torch.randint(3, (16,)))
    given: dict[str, Any] = {"optimizer": kind(model.parameters(), lr=0.1), "batch_size": 4, "epochs": 2, **other}
    return Trainer(model, loss=cross_entropy, train=data, progress=False, **given)


def measured(trainer: Trainer, **how: Any) -> Profile:
    return profile(trainer.run, lambda steps, **changes: bare(trainer, steps, **changes), compile=False, **how)


@pytest.mark.parametrize("slow", [DATA, FORWARD, BACKWARD, OPTIMIZER])
def test_a_slow_part_is_found_in_its_phase(slow: str) -> None:
    trainer, clock = bare(made(slow), 100), PhaseClock(CPU)
    with closing(clocked_updates(trainer.run, clock)) as updates:
        for _ in range(3):
            next(updates)
    assert clock.seconds[slow] >= 3 * SLEEP_S
    assert sum(clock.seconds.values()) <= clock.total_s  # and in no other
    shares = clock.shares()
    assert set(shares) == {*PHASES, REST}
    assert sum(shares.values()) == pytest.approx(1.0)


def test_a_phase_inside_another_counts_alone() -> None:
    clock = PhaseClock(CPU)
    with clock.update(), clock.phase(DATA), clock.phase(FORWARD):
        time.sleep(SLEEP_S)
    assert clock.seconds[FORWARD] >= SLEEP_S
    assert sum(clock.seconds.values()) <= clock.total_s


def test_clocked_updates_train_as_the_trainer_does() -> None:
    trainer, plain = made(batch_size=5), made(batch_size=5)
    plain.fit()
    with closing(clocked_updates(trainer.run, PhaseClock(CPU))) as updates:
        assert sum(1 for _ in updates) == plain.total_steps
    for own, theirs in zip(trainer.model.parameters(), plain.model.parameters(), strict=True):
        assert torch.equal(own, theirs)


def everything(trainer: Trainer) -> list[Any]:
    model, optimizer = trainer.model, trainer.optimizer
    tensors = [*model.parameters(), *model.buffers(), *(p.grad for p in model.parameters() if p.grad is not None)]
    tensors += [value for entry in optimizer.state.values() for value in entry.values() if isinstance(value, Tensor)]
    hooks = [len(module._forward_hooks) + len(module._forward_pre_hooks) for module in model.modules()]
    modes = [module.training for module in model.modules()]
    groups = [{name: value for name, value in group.items() if name != "params"} for group in optimizer.param_groups]
    return [[tensor.clone() for tensor in tensors], hooks, modes, groups, trainer.step, torch.random.get_rng_state()]


def test_a_profile_leaves_everything_as_it_was(tmp_path: Path) -> None:
    trainer, other = made(folder=tmp_path / "run", batch_size=4), made(batch_size=4)
    calls = Tensor.backward, len(trainer.optimizer._optimizer_step_pre_hooks)
    for started in (trainer, other):
        updates = started.updates()
        next(updates), next(updates)
        updates.close()
    before = everything(trainer)
    files = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    found = measured(trainer, updates=3, trace=None)
    for one, two in zip(before, everything(trainer), strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=0) if isinstance(one, list | Tensor) else None
        assert isinstance(one, list | Tensor) or one == two
    assert files == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    assert (Tensor.backward, len(trainer.optimizer._optimizer_step_pre_hooks)) == calls
    assert found.updates == 3
    trainer.fit()
    other.fit()
    for own, theirs in zip(trainer.model.parameters(), other.model.parameters(), strict=True):
        assert torch.equal(own, theirs)


def test_operators_stand_with_their_modules_and_the_trace_has_both(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trainer = bare(made(clip_norm=1.0), 100)
    with closing(clocked_updates(trainer.run, PhaseClock(CPU))) as updates:
        next(updates)
        seen = record(updates, 4, trainer.model, CPU, trace)
    known = {(one.name, one.module, one.is_backward): one for one in seen.operators}
    assert known["aten::addmm", "first Linear", False].calls == 1
    assert known["aten::addmm", "second Linear", False].calls == 1
    assert known["aten::mm", "first Linear", True].calls == 1  # of its weights alone
    assert known["aten::mm", "second Linear", True].calls == 2  # and of its input
    assert [one.self_s for one in seen.operators] == sorted((one.self_s for one in seen.operators), reverse=True)
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"instep: forward", "instep: backward", "instep: optimizer", "instep: data", "module: first Linear"} <= names


def test_without_advice_nothing_takes_turns() -> None:
    found = measured(made(), updates=2, advice=False)
    assert 0 < len(found.operators) <= 10
    assert (found.advice, found.noise) == ((), None)
    assert len(found.timing.blocks_s) == 2


def test_the_bytes_of_an_update() -> None:
    model = nn.Linear(10, 5)
    optimizer = torch.optim.Adam(model.parameters(), foreach=False)
    model(torch.randn(3, 10)).sum().backward()
    optimizer.step()
    held = memory_of(model, [optimizer], 7, CPU)
    assert (held.weights, held.gradients, held.activations, held.peak) == (55 * 4, 55 * 4, 7, None)
    assert held.optimizer == 2 * 55 * 4 + 2 * 4  # two moments, and a counter for each parameter


def test_what_a_forward_keeps() -> None:
    wide = nn.Sequential(nn.Linear(4, 1000), nn.Tanh(), nn.Linear(1000, 3))
    data = torch.randn(8, 4), torch.randint(3, (8,))
    trainer = Trainer(
        wide, loss=cross_entropy, optimizer=torch.optim.SGD(wide.parameters(), lr=0.1), train=data, epochs=1, batch_size=8
    )
    kept = measured(trainer, updates=2, advice=False).memory.activations
    assert 8 * 1000 * 4 <= kept <= 3 * 8 * 1000 * 4  # what tanh gives, and at most what it was given


def test_hooks_are_removed_where_a_forward_fails() -> None:
    model = nn.Linear(2, 1)
    with pytest.raises(RuntimeError, match="mat1 and mat2"), named_modules(model):
        model(torch.ones(1, 3))
    assert not model._forward_hooks
    assert not model._forward_pre_hooks


def test_what_others_say_on_stderr_is_kept(capfd: pytest.CaptureFixture[str]) -> None:
    import os

    with without_lines_of_profiler():
        os.write(2, b"USDT: profiler_start\nkeep this\n[W CPUAllocator.cpp:245] no\n")
    assert capfd.readouterr().err == "keep this\n"


# --- Advice


def timing(*blocks_s: float, first_s: float = 0.0) -> Timing:
    return Timing(first_s, blocks_s)


def judged(tried: Timing, base: Timing, again: Timing) -> Advice:
    (advice,) = judge(base, again, {Idea("x", "x=1", dict): tried})
    return advice


def test_a_gain_above_the_noise_is_advised_and_one_below_is_not() -> None:
    quiet, noisy = timing(1.0, 1.01, 1.0, 1.01), timing(1.0, 1.3, 0.9, 1.2)
    quick = timing(0.8, 0.81, 0.8, 0.81)
    assert judged(quick, timing(1.0, 1.0, 1.0, 1.0), quiet).is_advised
    assert judged(quick, timing(1.0, 1.0, 1.0, 1.0), quiet).ratio == pytest.approx(1.25, abs=0.01)
    assert not judged(quick, timing(1.0, 1.0, 1.0, 1.0), noisy).is_advised  # 1.25 beside a noise of up to 0.2
    assert not judged(timing(0.98, 0.98, 0.98, 0.98), timing(1.0, 1.0, 1.0, 1.0), quiet).is_advised  # too little
    assert not judged(timing(0.5, 0.5, 1.1, 1.1), timing(1.0, 1.0, 1.0, 1.0), quiet).is_advised  # not in three turns of four
    assert noise_of(quiet, quiet) == 0.0


def test_when_compiling_has_paid() -> None:
    base = timing(1.0, 1.0, 1.0, 1.0)
    assert pays_after(judged(timing(0.5, 0.5, 0.5, 0.5, first_s=100.0), base, base), 1.0) == 201
    assert pays_after(judged(timing(0.5, 0.5, 0.5, 0.5, first_s=1.0), base, base), 1.0) is None


class Pictures(Dataset[tuple[Tensor, int]]):
    def __len__(self) -> int:
        return 32

    def __getitem__(self, place: int) -> tuple[Tensor, int]:
        return torch.full((1, 4, 4), float(place)), place % 3


def pictures(**other: Any) -> Trainer:
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 3))
    given: dict[str, Any] = {"optimizer": torch.optim.AdamW(model.parameters()), "train": Pictures(), **other}
    return Trainer(model, loss=cross_entropy, epochs=1, batch_size=8, progress=False, **given)


def names(trainer: Trainer, share: float = 0.5, *, compile: bool = True) -> list[str]:
    return [idea.name for idea in ideas_for(trainer.run, share, compile=compile)]


def test_only_what_may_help_is_tried() -> None:
    assert names(pictures()) == ["fused", "num_workers", "bf16", "channels_last", "compile"]
    assert names(pictures(), 0.01, compile=False) == ["fused", "bf16", "channels_last"]
    assert names(pictures(num_workers=1, precision="bf16")) == ["fused", "channels_last", "compile"]
    assert "num_workers" not in names(made())  # the data is in memory
    assert "channels_last" not in names(made())
    assert "fused" not in names(made(optimizer=lambda parameters: torch.optim.Adam(parameters, fused=True)))
    assert not can_fuse(torch.optim.RMSprop([nn.Parameter(torch.ones(1))]))


def test_copies_are_like_the_run_and_apart_from_it() -> None:
    trainer = pictures(optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=0.5, weight_decay=0.25))
    changes = copied(trainer.run, fused=True, channels_last=True)
    model, optimizer = changes["model"], changes["optimizer"]
    assert optimizer.param_groups[0]["fused"]
    assert (optimizer.param_groups[0]["lr"], optimizer.param_groups[0]["weight_decay"]) == (0.5, 0.25)
    assert {id(p) for p in optimizer.param_groups[0]["params"]} == {id(p) for p in model.parameters()}
    assert model[0].weight.is_contiguous(memory_format=torch.channels_last)
    before = [p.clone() for p in trainer.model.parameters()]
    with closing(bare(trainer, 2, **changes).updates()) as updates:
        next(updates)
    for now, was in zip(trainer.model.parameters(), before, strict=True):
        assert torch.equal(now, was)


def test_ideas_take_turns_and_what_fails_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: Any, **named: Any) -> None:
        raise RuntimeError("\nno bf16 on this processor\nand more")

    monkeypatch.setattr(torch, "autocast", refuse)
    found = measured(made(), updates=3)
    assert [one.name for one in found.advice] == ["fused"]
    assert [(one.name, one.why) for one in found.not_measured] == [('precision="bf16"', "no bf16 on this processor")]
    text = render(found)
    assert 'precision="bf16" could not be measured: no bf16 on this processor' in text
    assert "two runs that are the same differ by up to" in text


def test_several_optimizers_are_profiled_without_what_needs_one() -> None:
    models = {"a": nn.Linear(4, 3), "b": nn.Linear(4, 3)}
    objectives = {name: lambda model, batch, name=name: cross_entropy(model[name](batch[0]), batch[1]) for name in models}
    optimizers = {name: torch.optim.SGD(model.parameters(), lr=0.1) for name, model in models.items()}
    data = torch.randn(8, 4), torch.randint(3, (8,))
    trainer = Trainer(models, objective=objectives, optimizer=optimizers, train=data, epochs=1, batch_size=4, progress=False)
    options = vars(trainer.run.options)
    quiet = {"epochs": None, "progress": False}

    def make(steps: int, **changes: Any) -> Trainer:
        return Trainer(**{**options, **quiet, "max_steps": steps, **changes})

    found = profile(trainer.run, make, updates=2, compile=False)
    assert [one.name for one in found.advice] == ["bf16"]
    assert found.shares[OPTIMIZER] > 0
