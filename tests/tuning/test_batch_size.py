"""The batch-size search on runs that say no above a size, and how its result is shown."""

import json
from dataclasses import replace
from typing import Any

import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from torch.optim import SGD

from drawn import points, xs
from instep.errors import DescriptionError, InstepError
from instep.tuning import resident
from instep.tuning.batch_size import BatchSizeSearch, find_batch_size
from instep.tuning.pace import Paced
from instep.tuning.trying import Tried
from tuning.toyrun import ToyRun


class Narrow(nn.Module):
    """Has no room for more than so many samples."""

    def __init__(self, room: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 1)
        self.room = room
        self.asked: list[int] = []

    def forward(self, x: Tensor) -> Tensor:
        self.asked.append(len(x))
        if len(x) > self.room:
            raise torch.OutOfMemoryError(f"no room for {len(x)}")
        return self.linear(x)  # type: ignore[no-any-return]


def narrow_run(room: int, samples: int = 1000, batch_size: int = 64) -> ToyRun:
    model = Narrow(room)
    data = (torch.randn(samples, 4), torch.randn(samples, 1))
    return ToyRun(model, SGD(model.parameters(), lr=0.1), lambda m, b: mse_loss(m(b[0]), b[1]), data, batch_size=batch_size)


@pytest.mark.parametrize(
    ("room", "margin", "largest"), [(100, 0.0, 100), (100, 0.1, 90), (100, 0.5, 50), (2, 0.5, 2), (3, 0.0, 3)]
)
def test_the_largest_that_fits_less_a_margin(room: int, margin: float, largest: int) -> None:
    search = find_batch_size(narrow_run(room), how="trying", margin=margin, paces=False)
    assert search.largest == largest
    assert search.how == "trying"
    assert (
        search.reason == f"{room} went through on cpu and {room + (2 if room == 100 else 1)} did not; {margin:.0%} are left free."
    )


def test_the_effective_batch_stays_and_its_cut_is_said() -> None:
    run = narrow_run(20, batch_size=64)
    search = find_batch_size(run, how="trying", margin=0.0, paces=False)
    assert (search.largest, search.batch_size, search.update_cycle) == (20, 64, 4)
    assert search.advice == "batch_size=64 fits with update_cycle=4, in micro-batches of 16."
    assert run.batch_size == 64


def test_where_all_fits_it_is_all() -> None:
    search = find_batch_size(narrow_run(10**6), how="trying", paces=False)
    assert search.largest == 1000
    assert search.update_cycle == 1
    assert search.reason == "1,000 is all there is to try, and it went through on cpu."
    assert search.advice == "batch_size=64 fits at once: update_cycle=1."
    assert find_batch_size(narrow_run(10**6), how="trying", most=300, paces=False).largest == 300


def test_where_nothing_fits_it_says_so() -> None:
    search = find_batch_size(narrow_run(1), how="trying")
    assert (search.largest, search.update_cycle, search.knee) == (0, None, None)
    assert search.reason == "not even 2 went through on cpu."
    assert search.advice.startswith("nothing fits: use a smaller model")


def test_an_error_of_another_kind_is_raised_and_leaves_no_trace() -> None:
    run = narrow_run(100)
    before = [p.clone() for p in run.model.parameters()]

    def broken(model: nn.Module, batch: Any) -> Tensor:
        model(batch[0]).sum().backward()
        raise ValueError("mine")

    run._objective = broken
    with pytest.raises(ValueError, match="mine"):
        find_batch_size(run, how="trying")
    assert all(torch.equal(p, old) and p.grad is None for p, old in zip(run.model.parameters(), before, strict=True))


def test_sizes_are_timed_up_to_the_largest() -> None:
    search = find_batch_size(narrow_run(20), how="trying", margin=0.0)
    assert [paced.samples for paced in search.paces] == [2, 4, 8, 16, 20]
    assert search.knee in (2, 4, 8, 16, 20)


# --- By measuring


class Wide(nn.Module):
    """Keeps 8 MB a sample for backward: from 4 samples on, blocks so large that the C library hands them back when freed."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))

    def forward(self, x: Tensor) -> Tensor:
        return (x.expand(-1, 2**21) * self.scale).exp().mean(1, keepdim=True)


def wide_run(samples: int = 256) -> ToyRun:
    model = Wide()
    data = (torch.zeros(samples, 1), torch.zeros(samples, 1))
    return ToyRun(model, SGD(model.parameters(), lr=1e-3), lambda m, b: mse_loss(m(b[0]), b[1]), data, batch_size=64)


def test_a_budget_is_kept_and_used() -> None:
    find_batch_size(wide_run(4), memory_bytes=1e12, paces=False)  # what torch loads at its first update is loaded
    resident.give_back()
    held = resident.resident_bytes()
    if held is None or not resident.restart_peak():
        pytest.skip("this system does not tell")
    budget = held + 400e6
    search = find_batch_size(wide_run(), memory_bytes=budget, margin=0.0, paces=False)
    assert search.how == "measuring"
    # There are 24 MB a sample between the forward and the backward: 16 samples at most. How near the search dares to go depends
    # on what the C library has kept of earlier tests of this process.
    assert 4 <= search.largest <= 16
    assert search.peak_bytes is not None
    assert held < search.peak_bytes <= budget
    assert all(tried.peak_bytes is not None for tried in search.tried)
    assert "more would not fit into memory_bytes=" in search.reason


def test_a_budget_that_is_spent_already() -> None:
    search = find_batch_size(wide_run(), memory_bytes=10e6)
    assert search.largest == 0
    assert "more than fit into memory_bytes=10.0 MB" in search.reason


def test_all_of_a_small_set_fits() -> None:
    search = find_batch_size(wide_run(8), memory_bytes=50e9, paces=False)
    assert search.largest == 8
    assert search.reason.startswith("that is all there is to try, and the process held ")
    assert search.reason.endswith("of memory_bytes=50.0 GB.")


def test_without_a_budget_it_is_what_the_machine_has(monkeypatch: pytest.MonkeyPatch) -> None:
    search = find_batch_size(wide_run(8), most=4, paces=False)
    assert search.memory_bytes is not None
    assert "that this process may hold" in search.reason
    monkeypatch.setattr(resident, "available_bytes", lambda: None)
    with pytest.raises(InstepError, match="how much memory is free is not known on this system; pass memory_bytes="):
        find_batch_size(wide_run(8))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"margin": 1.0}, "margin=1.0 is no share of the memory to leave free; use one from 0 to below 1, such as 0.1"),
        ({"most": 0}, "most=0 must be a whole number, 1 or more"),
        ({"how": "guessing"}, r'how=\'guessing\' is not known; use "trying", "measuring" or "auto"'),
        ({"memory_bytes": 0}, "memory_bytes=0 is no size of a memory; use for example memory_bytes=8e9 for 8 GB"),
        ({"memory_bytes": float("inf")}, "memory_bytes=inf is no size of a memory"),
        ({"memory_bytes": "2GB"}, "memory_bytes='2GB' is no size of a memory"),
        (
            {"memory_bytes": 1e9, "how": "trying"},
            r"memory_bytes=1e\+09 is for a CPU; on cpu the memory is what there is: use margin=",
        ),
    ],
)
def test_wrong_options(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        find_batch_size(narrow_run(100), **options)


def test_batch_norm_is_not_measured_with_one_sample() -> None:
    run = narrow_run(100)
    run.model.add_module("norm", nn.BatchNorm1d(4))
    with pytest.raises(DescriptionError, match=r"^most=1 leaves one sample, and the model has BatchNorm, which needs two; use"):
        find_batch_size(run, most=1)


def test_measuring_is_for_a_cpu() -> None:
    run = narrow_run(100)
    run.device = torch.device("meta")
    with pytest.raises(
        DescriptionError, match='how="measuring" counts what a CPU holds, and the run is on meta; use how="trying"'
    ):
        find_batch_size(run, how="measuring")


# --- How it is shown

SHOWN = BatchSizeSearch(
    largest=48,
    how="measuring",
    reason="with it the process held 0.95 GB.",
    batch_size=128,
    tried=(Tried(48, True, 950_000_000),),
    paces=(Paced(2, 100.0), Paced(16, 400.0), Paced(48, 420.0)),
    memory_bytes=10**9,
    peak_bytes=950_000_000,
)


def test_as_text() -> None:
    assert str(SHOWN).splitlines() == [
        "largest micro-batch: 48 samples; with it the process held 0.95 GB.",
        "",
        "samples  samples/s",
        "      2        100  ██████",
        "     16        400  ███████████████████████   knee",
        "     48        420  ████████████████████████",
        "",
        "batch_size=128 fits with update_cycle=3, in micro-batches of 43.",
    ]


def test_drawn() -> None:
    figure = Figure()
    axes = figure.subplots()
    assert SHOWN.plot(ax=axes) is figure
    assert points(axes.lines[0]) == [(2, 100), (16, 400), (48, 420)]
    assert xs(axes.lines[1]) == [16, 16]  # the knee
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("samples in a micro-batch", "Samples per second")
    with pytest.raises(DescriptionError, match="no size was timed, so there is nothing to draw; search with paces=True"):
        replace(SHOWN, paces=()).plot()


def test_in_a_notebook() -> None:
    shown = SHOWN._repr_html_()
    assert "samples per second from 100.0 to 420.0, knee: 16" in shown
    assert shown.endswith("<p>batch_size=128 fits with update_cycle=3, in micro-batches of 43.</p></div>")
    assert "<svg" not in replace(SHOWN, paces=())._repr_html_()


def test_repr_and_json() -> None:
    assert repr(SHOWN).startswith("BatchSizeSearch(largest 48: with it the process held 0.95 GB. batch_size=128 fits with")
    told = json.loads(SHOWN.to_json())
    assert (told["largest"], told["knee"], told["update_cycle"]) == (48, 16, 3)
    assert told["tried"] == [{"samples": 48, "fits": True, "peak_bytes": 950_000_000}]
