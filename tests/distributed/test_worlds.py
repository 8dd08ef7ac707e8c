"""Two and three real processes: what each of them saw, against one."""

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from distributed.conftest import Made, start, waited_for
from distributed.recorded import recorded
from distributed.runs import BUCKETED, EXACT, IN_BUCKETS, everything_on, trainer, unfreezing
from distributed.sizes import each_on_its_sizes, sizes

Worlds = Callable[[int], Made]
Alone = Callable[[Any, int], dict[str, Any]]
# What one process says about its data, as a warning, is no concern here.
pytestmark = pytest.mark.filterwarnings("ignore::instep.errors.Notice", "ignore:.*compute.*before:UserWarning")
COARSE = {"half_precision": 2e-2, "scaled": 2e-3, "lbfgs": 1e-9, "two_dtypes": 1e-5}  # a line search blows rounding up
BOTH_WAYS = EXACT | BUCKETED  # in one message, and by DistributedDataParallel


def close(one: Any, other: Any, tolerance: float = 1e-11) -> None:
    torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance, equal_nan=True, check_dtype=False)


@each_on_its_sizes(BOTH_WAYS)
def test_many_processes_train_as_one_does(name: str, size: int, world: Worlds, alone: Alone) -> None:
    """N processes with two micro-batches each are one with 2·N: same draws, same weights, same numbers."""
    tolerance = COARSE.get(name.removesuffix(IN_BUCKETS), 1e-11)
    expected = alone(BOTH_WAYS[name], 2 * size)
    for found in world(size)[name]:
        assert not isinstance(found, str | Exception), found
        assert found["step"] == expected["step"]
        close(found["weights"], expected["weights"], tolerance)
        close(found["average"], expected["average"], tolerance)
        assert [update[3:5] for update in found["updates"]] == [update[3:5] for update in expected["updates"]]
        for mine, theirs in zip(found["updates"], expected["updates"], strict=True):
            close([*mine[1:3], mine[5] or 0.0], [*theirs[1:3], theirs[5] or 0.0], tolerance)
            close(mine[6], theirs[6], tolerance)
        for mine, theirs in zip(found["evaluations"], expected["evaluations"], strict=True):
            assert mine.keys() == theirs.keys()
            close([v for v in mine.values() if v != "evaluation"], [v for v in theirs.values() if v != "evaluation"])


@each_on_its_sizes(BOTH_WAYS)
def test_all_processes_have_the_same_bits(name: str, size: int, world: Worlds) -> None:
    first, *others = world(size)[name]
    for other in others:
        assert other["updates"] == first["updates"] or name.removesuffix(IN_BUCKETS) in (
            "tokens",
            "nothing_counts",
            "hand_written_mean",
            "skipping",
        )  # nan
        assert all(torch.equal(other["weights"][key], first["weights"][key]) for key in first["weights"])


@sizes("everything_on")
def test_one_process_logs(size: int, world: Worlds, alone: Alone) -> None:
    first, *others = [found["logged"] for found in world(size)["everything_on"]]
    assert first == alone(EXACT["everything_on"], 2 * size)["logged"]
    assert (first[0], first[-1]) == ("start", "stopped")
    assert others == [[]] * (size - 1)


@sizes("other_data", "other_seed", "other_model")
@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("other_data", ["data.train.hash is", "rank 1:", "seed what is drawn at random"]),
        ("other_seed", ["settings.seed is 1, not 0", "settings.clip_norm is 2.0, not 1.0"]),
        ("other_model", ["model.0.weight is torch.float64(9, 6), not torch.float64(8, 6)"]),
    ],
)
def test_a_slip_is_named_on_all(name: str, words: list[str], size: int, world: Worlds) -> None:
    for seen in world(size)[name]:
        assert seen["said"].startswith("PeerError: the processes do not train the same thing")
        assert all(word in seen["said"] for word in words), seen["said"]


@sizes("other_weights")
def test_weights_are_rank_0s(size: int, world: Worlds) -> None:
    first, *others = world(size)["other_weights"]
    torch.manual_seed(0)
    assert any("all have those of rank 0" in note for note in first["notes"])
    for other in others:
        assert torch.equal(other["weights"]["0.weight"], first["weights"]["0.weight"])


@sizes("too_small", "refused")
def test_sizes_and_numbers_that_make_no_sense(size: int, world: Worlds) -> None:
    made = world(size)
    for small, refused in zip(made["too_small"], made["refused"], strict=True):
        assert f"batch_size={size - 1} is less than one sample for each of {size} processes" in small["batch"]
        assert f"update_cycle=2 on {size} processes cannot split batch_size={size}" in small["cycle"]
        assert "sparse=True" in refused["sparse"]
        assert "find_batch_size() measures one process" in refused["batch size"]
        assert "SyncBatchNorm does not run on the CPU" in refused["sync"]


@each_on_its_sizes(["not_finite", "not_finite in buckets"])
def test_a_loss_that_is_not_finite_stops_all(name: str, size: int, world: Worlds) -> None:
    seen = world(size)[name]
    assert {one["step"] for one in seen} == {0}
    culprits = [one for one in seen if "Sample 7 of train: " in one["said"]]
    assert len(culprits) == 1
    assert all("NonFiniteLoss: step 0" in one["said"] and one["again"] == 8 for one in seen)


@sizes("batch_norm")
def test_batch_norm_is_rank_0s_where_it_is_looked_at(size: int, world: Worlds) -> None:
    seen = world(size)["batch_norm"]
    assert any("sync_batchnorm=True" in note for note in seen[0]["notes"])
    for one in seen:
        assert torch.equal(*one["between"])  # an evaluation leaves a process its own statistics
        assert one["numbers"] == seen[0]["numbers"]
        assert all(torch.equal(one["weights"][key], seen[0]["weights"][key]) for key in seen[0]["weights"])
    assert not torch.equal(seen[0]["between"][0], seen[1]["between"][0])


@each_on_its_sizes(["batch_norm_in_legs", "batch_norm_in_legs in buckets"])
def test_batch_norm_goes_on_with_rank_0s(name: str, size: int, world: Worlds) -> None:
    """While it trains, a batch is normalised by itself: the weights do not depend on whose statistics a process resumes with."""
    check_batch_norm_in_legs(world(size)[name])


def check_batch_norm_in_legs(seen: list[Any]) -> None:
    for one in seen:
        assert one["whole"].keys() == one["legs"].keys()
        assert all(torch.equal(one["legs"][key], value) for key, value in one["whole"].items())
        assert all(torch.equal(seen[0]["legs"][key], value) for key, value in one["legs"].items())


@pytest.mark.slow
def test_four_processes(tmp_path: Path, alone: Alone) -> None:
    """Batches of 12 in four times two micro-batches, and a last one with fewer samples than processes."""
    names = ["dropout", "fewer_samples_than_processes", "class_weights", "everything_on", "stream"]
    names += [name + IN_BUCKETS for name in names]
    legs = ["batch_norm_in_legs", "batch_norm_in_legs in buckets"]
    arguments = ["-m", "distributed.process", str(tmp_path), *names, *legs]
    assert waited_for(start(4, tmp_path, arguments)) == [0] * 4, (tmp_path / "said-0.txt").read_text()
    found = [torch.load(tmp_path / f"rank-{rank}.pt", weights_only=False) for rank in range(4)]
    for name in names:
        expected = alone(BOTH_WAYS[name], 8)["weights"]
        for one in found:
            assert not isinstance(one[name], str | Exception), one[name]
            close(one[name]["weights"], expected)
            assert all(torch.equal(one[name]["weights"][key], value) for key, value in found[0][name]["weights"].items())
    for name in legs:
        check_batch_norm_in_legs([one[name] for one in found])


@sizes("own_state")
def test_what_a_model_keeps_by_itself_is_rank_0s_where_a_run_goes_on(size: int, world: Worlds) -> None:
    seen = world(size)["own_state"]
    apart = [text for one in seen for text in one["said"] if "is not the same on all processes" in text]
    assert apart == [
        "model.generator is not the same on all processes; a checkpoint keeps that of rank 0, and a resumed run has it on all "
        "of them."
    ]
    assert not torch.equal(seen[0]["drawn"][0], seen[1]["drawn"][0])
    for one in seen:
        assert one["calls"] == 8
        assert torch.equal(one["drawn"][1], seen[0]["drawn"][1])
        assert torch.equal(one["shift"], torch.zeros(4, dtype=torch.float64))  # all began with rank 0's
        assert all(torch.equal(one["weights"][key], seen[0]["weights"][key]) for key in seen[0]["weights"])


@sizes("looked_at")
def test_numbers_and_predictions_are_those_of_one_process(size: int, world: Worlds) -> None:
    from distributed.slips import looked_at

    first, *others = world(size)["looked_at"]
    one = looked_at(0, 1, world(size).folder)
    for name in ("numbers", "few"):
        close(list(first[name].values()), list(one[name].values()))
        assert first[name].keys() == one[name].keys()
    for name in ("predicted", "predicted few", "stream"):
        close(first[name], one[name])
        assert all(other[name] is None for other in others)
    assert all(other["numbers"] == first["numbers"] and other["few"] == first["few"] for other in others)


@sizes("metrics_by_name")
def test_metrics_by_name_are_those_of_one_process(size: int, world: Worlds) -> None:
    """Tables are whole numbers, the same in any order; batches, and so roundings, are others."""
    from distributed.slips import metrics_by_name

    one = metrics_by_name(0, 1, world(size).folder)
    for found in world(size)["metrics_by_name"]:
        assert found["tables"] == one["tables"]
        for mine, theirs in zip(found["numbers"], one["numbers"], strict=True):
            assert mine.keys() == theirs.keys()
            close(list(mine.values()), list(theirs.values()), 1e-13)


@sizes("range_test")
def test_a_range_test_leaves_no_trace(size: int, world: Worlds) -> None:
    from distributed.slips import range_test

    first, *others = world(size)["range_test"]
    close(first["losses"], range_test(0, 1, world(size).folder)["losses"], 1e-6)
    close(first["weights"], recorded(trainer(n=60))["weights"])
    assert all(other["losses"] == first["losses"] and other["suggestion"] == first["suggestion"] for other in others)


@sizes("waits", "waits in buckets")
def test_processes_wait_for_each_other_once_an_update(size: int, world: Worlds) -> None:
    """33 gradients, which of 3 parameters has one, 6 numbers and 5 flags; one that nobody has a gradient for keeps none."""
    for rank in world(size)["waits"]:
        assert rank["calls"] == ["47 numbers"] * 2
        assert rank["unused"] is None
    for rank in world(size)["waits in buckets"]:
        assert rank["calls"] == ["3 numbers"] * 2  # where a gradient is lacking, who has which is asked by itself
        assert rank["unused"] is None


@each_on_its_sizes(["kept_gradients", "kept_gradients in buckets"])
def test_gradients_that_somebody_keeps_stay_what_they_were(name: str, size: int, world: Worlds) -> None:
    for rank in world(size)[name]:
        assert len(rank["kept"]) == 8
        for kept, copies in zip(rank["kept"], rank["copies"], strict=True):
            assert all(map(torch.equal, kept, copies))
        assert not torch.equal(rank["kept"][0][0], rank["kept"][1][0])


@sizes("exchanged_otherwise_later")
def test_what_is_trained_may_become_too_much_for_one_message(size: int, world: Worlds, alone: Alone) -> None:
    for found in world(size)["exchanged_otherwise_later"]:
        close(found["weights"], alone(unfreezing, 2 * size)["weights"])


@sizes("saved")
def test_one_process_goes_on_with_a_run_of_many(size: int, world: Worlds, alone: Alone) -> None:
    made = world(size)
    resumed = everything_on(2)
    resumed.run.set_folder(made.folder / "half")
    resumed.fit()
    assert resumed.resumed_from == 3
    close(dict(resumed.model.state_dict()), alone(everything_on, 2 * size)["weights"])


@sizes("gone_on_with")
def test_many_go_on_with_a_run_of_one_process(size: int, world: Worlds, alone: Alone) -> None:
    for found in world(size)["gone_on_with"]:
        assert found["from"] == 3
        close(found["weights"], alone(everything_on, 2 * size)["weights"])


@sizes("stopped")
def test_a_signal_to_one_stops_all_after_the_same_update(size: int, world: Worlds) -> None:
    for seen in world(size)["stopped"]:
        assert seen["said"].startswith("Interrupted: stopped by SIGTERM after 4 updates")
        assert seen["step"] == 4
        assert seen["signal"]


@sizes("folder_in_use")
def test_what_rank_0_cannot_do_is_raised_on_all(size: int, world: Worlds) -> None:
    for seen in world(size)["folder_in_use"]:
        assert seen["said"].startswith("FolderError:")
        assert seen["again"] == 8


def test_a_hung_process_ends_in_an_error(world: Worlds) -> None:
    """In a group that the script opened, which stays open."""
    *waiting, hanging = world(3)["hung"]
    for rank, one in enumerate(waiting):
        assert one["said"].startswith(
            f"PeerError: rank {rank} of 3 lost another process after 1 update: it ended, or gave no answer"
        )
        assert one["seconds"] < 300  # torch would wait for half an hour
        assert one["open"]
    assert hanging["said"] == "nothing"


def test_an_error_of_rank_0_reaches_the_others(world: Worlds) -> None:
    first, other = world(2)["checkpoint_error"]
    assert first["said"].startswith("CheckpointError:")
    assert re.match(
        "PeerError: rank 1 of 2 lost another process after . updates?, which says: rank 0: CheckpointError", other["said"]
    )
