"""The core: what is told to whom, when it rests, where a line is, and that its own errors stay its own."""

import gc
import re
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.functional import cross_entropy  # a name of our own, as people have it
from torch.utils.data import DataLoader, TensorDataset

import instep
from instep.doctor import step_sampling
from instep.doctor.engine import Engine
from instep.doctor.finding import Finding
from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch, Patches
from instep.doctor.rules import Rule
from instep.doctor.sites import Locator
from instep.doctor.step_sampling import BURST, EVERY, EVERY_LARGE, FIRST, HALVED_UNTIL, PHASE, multiplications
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards, origin
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.losses import Losses
from instep.doctor.watch.optimizers import Optimizers
from instep.doctor.watcher import Watcher


def hub() -> Hub:
    made = Hub(Trace(), Locator())
    made.open()
    return made


def test_an_error_of_the_doctor_stays_its_own() -> None:
    class Clumsy:
        def on_news(self, news: str) -> None:
            raise RuntimeError(news)

    class Careful:
        heard: list[str] = []  # noqa: RUF012

        def on_news(self, news: str) -> None:
            self.heard.append(news)

    made = hub()
    for observer in (Clumsy(), Careful()):
        made.connect(observer)
    made.tell(made.listeners("on_news"), "fire")
    assert Careful.heard == ["fire"]
    assert made.failed == 1
    assert "RuntimeError: fire" in made.failures[0]
    assert not made.busy


def test_a_patch_tells_the_outermost_call_and_goes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace()
    told: list[tuple[str, object]] = []

    def countdown(n: int) -> int:
        return 0 if n == 0 else 1 + module.countdown(n - 1)

    class Listener:
        def before_count(self, called: Called) -> None:
            told.append(("before", called.argument(0, "n")))

        def after_count(self, called: Called) -> None:
            told.append(("after", called.result))
            assert Path(__file__).name in (called.site or "")
            assert module.countdown(2) == 2  # what observers do themselves is not told

    module.countdown = countdown
    monkeypatch.setitem(__import__("sys").modules, "counting", module)
    made = hub()
    made.connect(Listener())
    patches = Patches(made)
    patches.install([Patch("count", ("counting:countdown",)), Patch("unheard", ("counting:countdown",))])
    assert module.countdown(3) == 3
    assert module.countdown(n=1) == 1
    assert told == [("before", 3), ("after", 3), ("before", 1), ("after", 1)]
    with pytest.raises(ValueError, match=r"countdown of .* is patched twice"):
        patches.install([Patch("count", ("counting:countdown",))])
    patches.remove()
    assert module.countdown is countdown
    assert made.failures == []


def step(model: nn.Module, optimizer: torch.optim.Optimizer, *, clear: bool = True) -> None:
    if clear:
        optimizer.zero_grad()
    cross_entropy(model(torch.ones(4, 3)), torch.zeros(4, dtype=torch.long)).backward()
    optimizer.step()


def small() -> tuple[nn.Module, torch.optim.Optimizer]:
    model = nn.Linear(3, 2)
    return model, torch.optim.SGD(model.parameters(), lr=0.01)


def test_the_ledger_knows_what_each_step_used() -> None:
    with instep.watch(aloud=False) as visit:
        model, optimizer = small()
        step(model, optimizer)
        step(model, optimizer, clear=False)
        for parameter in model.parameters():
            assert parameter.grad is not None
            parameter.grad.data.zero_()  # seen by value, by no call and no version
        step(model, optimizer, clear=False)
        optimizer.step()
    facts = visit.trace.part(Optimizers).all[0].recent
    assert [(fact.fresh, fact.stale, fact.reused, fact.held) for fact in facts] == [
        (2, 0, 0, 1),
        (2, 2, 0, 2),
        (2, 0, 0, 1),
        (0, 0, 2, 1),
    ]
    assert {p.name for p in visit.trace.part(Gradients).parameters.values()} >= {"weight", "bias"}
    assert visit.hub.failures == []


def test_names_that_were_imported_before_are_watched() -> None:
    with instep.watch(aloud=False) as visit:
        step(*small())
        assert cross_entropy is F.cross_entropy
    assert [kind.count for kind in visit.trace.part(Losses).of("cross_entropy")] == [1]
    assert cross_entropy is F.cross_entropy


def test_a_seed_that_was_set_before_is_known() -> None:
    """As in an earlier cell of a notebook, or before `instep.watch()`."""

    def found() -> set[str]:
        with Watcher() as watcher:
            model, optimizer = small()
            for _ in range(12):
                step(model, optimizer)
        return {finding.id for finding in watcher.findings}

    state = torch.get_rng_state()
    try:
        torch.manual_seed(2**31)
        assert "no-seed" not in found()
        torch.seed()  # drawn anew, as at the start of a process
        assert "no-seed" in found()
    finally:
        torch.set_rng_state(state)


HALVED = (HALVED_UNTIL - FIRST) // 2  # of these steps, at most so many are watched


def test_after_the_first_steps_half_of_them_are_watched_and_then_few() -> None:
    watched: list[int] = []
    with instep.watch(aloud=False) as visit:
        model, optimizer = small()
        for number in range(HALVED_UNTIL + 2 * BURST):
            before = visit.trace.part(Optimizers).all[0].steps if number else 0
            step(model, optimizer)
            if visit.trace.part(Optimizers).all[0].steps > before:
                watched.append(number)
    assert watched[:FIRST] == list(range(FIRST))
    bursts = range(FIRST + 2 * BURST, HALVED_UNTIL, 2 * BURST)
    assert watched[FIRST:] == [
        number for first in bursts for number in range(first + 1, first + BURST)
    ]  # woken in its first step


def test_a_long_run_is_watched_in_bursts() -> None:
    steps = FIRST + 2 * EVERY
    with instep.watch(aloud=False) as visit:
        model, optimizer = small()
        for _ in range(steps):
            step(model, optimizer, clear=False)
    record = visit.trace.part(Optimizers).all[0]
    assert visit.trace.steps == record.all_steps == steps
    assert FIRST < record.steps <= FIRST + HALVED + 4 * BURST
    assert record.totals["stale"] >= record.steps - 8  # a rest forgets what a gradient held, once
    assert "missing-zero-grad" in {finding.id for finding in visit.findings}


def test_of_steps_with_much_to_compute_more_are_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = FIRST + EVERY
    watched = []
    for limit in (23, 24):  # a step multiplies 4 × 2 × 3 times
        monkeypatch.setattr(step_sampling, "LARGE", limit)
        with instep.watch(aloud=False) as visit:
            model, optimizer = small()
            for _ in range(steps):
                step(model, optimizer)
        watched.append(visit.trace.part(Optimizers).all[0].steps)
    bursts = EVERY // EVERY_LARGE
    assert FIRST + (bursts - 2) * (BURST - 1) <= watched[0] <= FIRST + HALVED + (bursts + 1) * BURST
    assert watched[1] <= FIRST + HALVED + 2 * BURST


def test_after_a_rest_gradients_are_noted_before_hooks_of_the_users_run() -> None:
    with instep.watch(aloud=False) as visit:
        model, optimizer = small()
        for _ in range(FIRST):
            step(model, optimizer)
        assert visit.hub.resting
        known = visit.trace.part(Gradients).parameters[id(model.weight)]
        noted: list[int] = []
        handle = next(model.parameters()).register_post_accumulate_grad_hook(lambda _: noted.append(known.arrivals))
        for _ in range(3 * BURST):
            step(model, optimizer)
        handle.remove()
    assert noted == [FIRST] * (2 * BURST) + list(range(FIRST + 1, FIRST + 1 + BURST))


def test_parameters_that_are_set_free_after_a_rest_are_noted_again() -> None:
    with instep.watch(aloud=False) as visit:
        model, optimizer = small()
        for _ in range(FIRST):
            step(model, optimizer)
        model.weight.requires_grad_(False)
        for _ in range(2 * BURST + 2):
            step(model, optimizer)
        assert not visit.hub.resting
        known = visit.trace.part(Gradients).parameters[id(model.weight)]
        assert (known.arrivals, known.hooked) == (FIRST, False)
        model.weight.requires_grad_(True)
        step(model, optimizer)
        assert (known.arrivals, known.hooked) == (FIRST + 1, True)


def test_other_parameters_to_train_open_a_phase() -> None:
    loader = DataLoader(TensorDataset(torch.randn(40, 3), torch.randint(2, (40,))), batch_size=4)
    with instep.watch(aloud=False) as visit:
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
        model[0].requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        watched = []
        for epoch in range(60):
            model[0].requires_grad_(epoch >= 50)
            for x, y in loader:
                optimizer.zero_grad()
                F.cross_entropy(model(x), y).backward()
                optimizer.step()
            watched.append(visit.trace.part(Optimizers).all[0].steps)
    assert watched[56] - watched[49] >= PHASE - 1


def test_how_much_a_module_computes() -> None:
    assert multiplications(nn.Linear(3, 2), torch.ones(4, 2)) == 4 * 2 * 3
    assert multiplications(nn.Conv2d(2, 4, 3), torch.ones(1, 4, 5, 5)) == 100 * 2 * 3 * 3
    assert multiplications(nn.ReLU(), torch.ones(4, 2)) == 0
    assert multiplications(nn.Linear(3, 2), torch.ones(4, 2, device="meta")) == 0


def test_nothing_depends_on_a_clock() -> None:
    """What the doctor says of a run is a function of the run."""
    folder = Path(step_sampling.__file__).parent
    clocks = re.compile(
        r"\b(import time|from time|import datetime|from datetime|perf_counter\(|monotonic\(|process_time\(|st_.time)"
    )
    assert [path.name for path in folder.rglob("*.py") if clocks.search(path.read_text(encoding="utf-8"))] == []


def test_memory_stays_constant() -> None:
    """A thousand models and optimizers, and ten thousand lines of steps, leave no more than a few of each."""

    def rounds(count: int) -> None:
        for _ in range(count):
            model, optimizer = small()
            for _ in range(3):
                step(model, optimizer)

    with instep.watch(aloud=False) as visit:
        rounds(300)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        rounds(300)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
        tracemalloc.stop()
    assert grown < 300_000
    assert len(visit.trace.part(Gradients).parameters) < 50
    assert len(visit.trace.part(Backwards).recent) <= 128


def test_one_visit_at_a_time() -> None:
    with instep.watch(aloud=False), pytest.raises(RuntimeError, match="the doctor is watching already"):
        instep.watch().begin()
    assert not Watcher.is_going_on()


def test_where_a_tensor_comes_from() -> None:
    x = torch.randn(2, 3, 4, requires_grad=True)
    assert origin(x.softmax(1).permute(0, 2, 1).reshape(8, 3)).name() == "SoftmaxBackward0"
    assert origin(torch.sigmoid(x)[0]).name() == "SigmoidBackward0"
    assert origin(x) is None


def test_a_line_is_the_users() -> None:
    locator = Locator()

    def ask() -> str | None:
        return locator.site()

    line = ask.__code__.co_firstlineno + 1
    assert (ask() or "").endswith(f"test_watching.py:{line}")
    assert not locator.is_users(torch.__file__)
    assert not locator.is_users(instep.__file__)
    assert Locator((str(Path(torch.__file__).parent),)).is_users(torch.__file__)


def test_each_cause_is_said_once_and_may_be_withdrawn() -> None:
    trace = Trace()
    said: list[tuple[int, bool]] = []
    gone: list[Finding] = []
    seen = {"a.py:1": 1}

    def judge(_: Trace) -> Iterator[Finding]:
        for where, count in seen.items():
            yield Finding("no-seed", "seen", evidence={"count": count}, where=where)

    engine = Engine(
        trace, Hub(trace, Locator()), said=lambda f, new: said.append((f.evidence["count"], new)), withdrawn=gone.append
    )
    engine._rules = [Rule("no-seed", judge, revocable=True)]
    engine.judge()
    engine.judge()
    seen["a.py:1"] = 2
    engine.judge()
    assert said == [(1, True), (2, False)]
    seen.clear()
    engine.judge()
    assert [finding.where for finding in gone] == ["a.py:1"]
    assert engine.findings == {}


def test_the_report_of_nothing_and_of_something(capsys: pytest.CaptureFixture[str]) -> None:
    with instep.watch(ignore=["no-seed"]):
        step(*small())
    said = capsys.readouterr().err
    assert said.startswith("instep doctor: nothing to say in 1 steps.\ntoo short to judge everything; it takes at least")
    assert "22 for vanishing-updates" in " ".join(said.split())
    assert "no-seed" not in said
    with instep.watch(ignore=["no-seed"]):
        model, optimizer = small()
        for _ in range(6):
            step(model, optimizer, clear=False)
    said = capsys.readouterr().err
    assert "error missing-zero-grad" in said
    assert "test_watching.py:" in said
    assert "instep doctor --explain missing-zero-grad" in said


def test_no_hook_is_left_behind() -> None:
    with instep.watch(aloud=False):
        model, optimizer = small()
        step(model, optimizer)
    module = torch.nn.modules.module
    left = {name: len(value) for name, value in vars(module).items() if name.startswith("_global") and isinstance(value, dict)}
    assert not any(left.values()), left
