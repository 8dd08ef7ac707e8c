"""Models sharded over two and three real processes: what each of them saw, against one that holds the whole model."""

import shutil
import zlib
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from distributed.recorded import recorded
from distributed.sharding import SHARDED, Block, adamw, half_of, momentum, penalties, predicted, ragged, tower
from distributed.sizes import each_on_its_sizes, sizes
from distributed.test_worlds import Alone, Worlds, close
from instep import Trainer, load_model
from instep.checkpoint import read
from instep.checkpoint.blocks import FileSummary
from instep.checkpoint.checkpoint_folder import read_manifest
from instep.checkpoint.manifest import Manifest
from instep.distributed.shard import units_of
from instep.errors import CheckpointError, DescriptionError
from run.test_format import READER, assert_same, plain

pytestmark = pytest.mark.filterwarnings("ignore::instep.errors.Notice")


@each_on_its_sizes(SHARDED)
def test_a_sharded_model_trains_as_a_whole_one_does(name: str, size: int, world: Worlds, alone: Alone) -> None:
    expected, tolerance = alone(SHARDED[name], 2 * size), 2e-2 if name == "in_bfloat16" else 1e-11
    for found in world(size)[name]:
        assert not isinstance(found, str | Exception), found
        assert found["step"] == expected["step"]
        close(found["weights"], expected["weights"], tolerance)
        for mine, theirs in zip(found["updates"], expected["updates"], strict=True):
            assert mine[3:5] == theirs[3:5]
            close([*mine[1:3], mine[5] or 0.0], [*theirs[1:3], theirs[5] or 0.0], tolerance)
        for mine, theirs in zip(found["evaluations"], expected["evaluations"], strict=True):
            close([v for v in mine.values() if v != "evaluation"], [v for v in theirs.values() if v != "evaluation"])


@sizes("shards_saved")
def test_each_process_holds_and_writes_its_share(size: int, world: Worlds) -> None:
    seen = world(size)["shards_saved"]
    whole = sum(p.numel() for p in tower().parameters())
    assert sum(one["held"] for one in seen) == whole
    assert all(one["held"] < 1.2 * whole / size for one in seen)
    shards = [f"shard-{number:05d}-model-00001-of-00001.safetensors" for number in range(1, size + 1)]
    assert seen[0]["files"] == ["MANIFEST.json", *shards, "state.json"]
    assert f"sharded over {size} processes: blocks.0, blocks.1, and the rest" in seen[0]["notes"]


@sizes("shards_saved")
def test_one_process_goes_on_with_shards(size: int, world: Worlds, alone: Alone, tmp_path: Path) -> None:
    shutil.copytree(world(size).folder / "shards", tmp_path / "shards")
    made = penalties(2, shard=False)
    made.run.set_folder(tmp_path / "shards")
    found = recorded(made)
    assert made.resumed_from == 6
    expected = alone(penalties, 2 * size)
    close(found["weights"], expected["weights"])
    for mine, theirs in zip(found["evaluations"], expected["evaluations"], strict=True):
        close([v for v in mine.values() if v != "evaluation"], [v for v in theirs.values() if v != "evaluation"])


@sizes("whole_gone_on_with")
def test_shards_go_on_with_what_one_process_began(size: int, world: Worlds, alone: Alone) -> None:
    begun = read(world(size).folder / "whole" / "checkpoints" / "step-00000006").parts["model"]
    for found in world(size)["whole_gone_on_with"]:
        assert found["from"] == 6
        close(found["weights"], alone(penalties, 2 * size)["weights"])
        assert all(torch.equal(found["at 6"][name], begun[name]) for name in begun)  # trainer.load(6)


@sizes("shards_gone_on_with")
def test_two_and_three_processes_go_on_with_the_shards_of_two(size: int, world: Worlds, alone: Alone) -> None:
    for found in world(size)["shards_gone_on_with"]:
        assert found["from"] == 6
        close(found["weights"], alone(penalties, 2 * size)["weights"])


@sizes("changed")
def test_an_allowed_change_is_written_by_all(size: int, world: Worlds) -> None:
    assert world(size)["changed"] == [{"from": 6, "written": True}] * size


@sizes("predicted")
def test_numbers_and_predictions_of_shards(size: int, world: Worlds) -> None:
    first, *others = world(size)["predicted"]
    one = predicted(0, 1, world(size).folder)
    for name in ("predicted", "few", "stream"):
        close(first[name], one[name])
        assert all(other[name] is None for other in others)
    close(list(first["numbers"].values()), list(one["numbers"].values()))
    assert all(other["numbers"] == first["numbers"] for other in others)


@sizes("not_sharded")
def test_what_cannot_be_done_with_shards(size: int, world: Worlds) -> None:
    for seen in world(size)["not_sharded"]:
        assert "is sharded over processes" in seen["whole file"]
        assert "load_model(model, folder) and save_model in one process" in seen["whole file"]
        assert "holds parameters that are not the model's" in seen["extra"]
        assert "a run with shard= cannot be rehearsed" in seen["rehearsal"]
        assert "shard is ['blocks.0', 'blocks.1'], not ['head']" in seen["units"]


@sizes("not_finite_shards")
def test_a_loss_that_is_not_finite_stops_all_shards(size: int, world: Worlds) -> None:
    for seen in world(size)["not_finite_shards"]:
        assert "NonFiniteLoss: step 0" in seen["said"]
        assert seen["step"] == 0
        assert seen["again"] == 8


@sizes("not_finite_gradients")
def test_gradients_that_are_not_finite_are_named_on_all(size: int, world: Worlds) -> None:
    for seen in world(size)["not_finite_gradients"]:
        assert "NonFiniteGradient: step 0" in seen["said"]
        assert "stem.weight (48 nan of 48), blocks.0.inner.weight (72 nan of 72)" in seen["said"]
        assert seen["groups"] == 2


@sizes("shards_unwritable")
def test_a_folder_that_is_gone_is_heard_of_by_all(size: int, world: Worlds) -> None:
    for seen in world(size)["shards_unwritable"]:
        assert "CheckpointError: checkpoint step-00000002 could not be written" in seen["said"]
        assert "checkpoints is gone; was it deleted" in seen["said"]
        assert seen["again"] == 8


@sizes("rehearsed")
def test_a_dry_run_of_shards_leaves_no_trace(size: int, world: Worlds) -> None:
    for seen in world(size)["rehearsed"]:
        assert seen["same"]
        assert seen["numbers"]["valid/a/loss"] > 0


def test_weights_of_shards_are_loaded_into_a_model(world: Worlds, tmp_path: Path) -> None:
    shutil.copytree(world(2).folder / "shards", tmp_path / "run")
    model = tower()
    assert not load_model(model, tmp_path / "run")  # nothing did not fit
    checkpoint = read(tmp_path / "run" / "checkpoints" / "step-00000006")
    best = read(tmp_path / "run" / "checkpoints" / f"step-{checkpoint.best:08d}")
    assert all(torch.equal(value, best.parts["model"][name]) for name, value in model.state_dict().items())
    with pytest.raises(AssertionError):
        close(dict(model.state_dict()), dict(tower().state_dict()))


def damaged(world: Worlds, tmp_path: Path) -> Path:
    """A checkpoint of shards to break."""
    path = tmp_path / "step-00000006"
    shutil.copytree(world(2).folder / "shards" / "checkpoints" / "step-00000006", path)
    return path


def test_a_damaged_shard_is_named(world: Worlds, tmp_path: Path) -> None:
    path = damaged(world, tmp_path)
    shard = path / "shard-00002-model-00001-of-00001.safetensors"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"is damaged: shard-00002.* has the checksum"):
        read(path)
    shard.unlink()
    with pytest.raises(CheckpointError, match=r"not complete: shard-00002.* is missing"):
        read(path)


def test_a_manifest_that_leaves_a_shard_out(world: Worlds, tmp_path: Path) -> None:
    path = damaged(world, tmp_path)
    whole = read_manifest(path)
    files = {name: file for name, file in whole.files.items() if not name.startswith("shard-00001")}
    (path / "MANIFEST.json").write_bytes(Manifest(whole.step, whole.best, files).render())
    with pytest.raises(CheckpointError, match=r"has row \d+ where row 0 should be|missing|no tensor"):
        read(path)


def test_notes_that_lie_about_their_rows(world: Worlds, tmp_path: Path) -> None:
    path = damaged(world, tmp_path)
    whole = read_manifest(path)
    name = "shard-00002-model-00001-of-00001.safetensors"
    content = (path / name).read_bytes().replace(b'\\"saved_offsets\\": [5', b'\\"saved_offsets\\": [7')
    assert content != (path / name).read_bytes()
    (path / name).write_bytes(content)
    files = {**whole.files, name: FileSummary(len(content), zlib.crc32(content))}
    (path / "MANIFEST.json").write_bytes(Manifest(whole.step, whole.best, files).render())
    with pytest.raises(CheckpointError, match="has row 7 where row 5 should be"):
        read(path)


# --- What needs no processes


def test_one_process_has_nothing_to_share() -> None:
    made = ragged(1)
    assert any("shard=True has nothing to share with one process" in note for note in made.plan().notes)


def test_a_shard_setting_is_no_change(tmp_path: Path) -> None:
    made = penalties(2, shard=False, folder=tmp_path / "run")
    half_of(made)
    again = penalties(2, shard=["blocks.0"], folder=tmp_path / "run")
    half_of(again)
    assert again.resumed_from == 6


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"optimizer": momentum(tower().parameters())}, "needs optimizer= as a function of the parameters.*SGD"),
        ({"ema": 0.9}, "cannot be used together with ema=0.9"),
        ({"compile": True}, "cannot be used together with compile=True"),
        ({"sync_batchnorm": True}, "cannot be used together with sync_batchnorm=True"),
        ({"precision": "fp16"}, "cannot be used together with precision='fp16'"),
        ({"optimizer": torch.optim.LBFGS}, "LBFGS evaluates the loss several times a step"),
        ({"shard": 3}, "shard=3 is not known; use True, a pattern"),
        ({"shard": "layers.*"}, "shard='layers.*' fits no module of the model that has parameters; there are stem, blocks"),
        ({"shard": "blocks"}, r"names blocks, a list of modules, which is never called itself; use blocks\.\*"),
    ],
)
def test_what_does_not_go_with_shard(options: dict[str, Any], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        ragged(1, **options)


def test_several_models_are_refused() -> None:
    with pytest.raises(DescriptionError, match="works with one model and one optimizer so far"):
        Trainer({"a": tower()}, optimizer={"a": adamw}, objective={"a": max}, train=torch.zeros(4, 1), epochs=1, shard=True)


def test_own_state_is_refused() -> None:
    class Own(torch.optim.SGD):
        def train(self) -> None:
            """Has modes."""

    with pytest.raises(DescriptionError, match="Own keeps its state in a way of its own"):
        ragged(1, optimizer=lambda p: Own(p, lr=0.1))


def test_parameters_that_cannot_be_shared() -> None:
    model = tower()
    model.scale = nn.Parameter(torch.tensor(1.0))
    with pytest.raises(DescriptionError, match=r"scale is a single number.*give it the shape \(1,\)"):
        units_of(model, True)
    tied = tower()
    tied.blocks[1].inner.weight = tied.blocks[0].inner.weight  # type: ignore[index, union-attr]
    with pytest.raises(DescriptionError, match=r"inner\.weight belongs to blocks\.0 and to blocks\.1; tied parameters"):
        units_of(tied, True)


def test_the_units_of_a_model() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    encoder = nn.Sequential(nn.Linear(6, 8), nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))
    assert list(units_of(encoder, True)) == ["1.layers.0", "1.layers.1"]
    assert list(units_of(encoder, "1.*.*")) == ["1.layers.0", "1.layers.1"]
    assert list(units_of(encoder, ["1.layers.*", "1.layers.*.linear1"])) == [
        "1.layers.0.linear1", "1.layers.1.linear1", "1.layers.0", "1.layers.1",
    ]  # fmt: skip
    assert list(units_of(nn.Sequential(nn.ModuleList([nn.ModuleList([Block(0.0)])]), nn.Linear(2, 2)), True)) == ["0.0.0"]
    assert units_of(nn.Linear(2, 2), True) == {}


@sizes("shards_saved")
def test_another_program_puts_the_shards_together(size: int, world: Worlds) -> None:
    """As docs/reference/format.md says."""
    path = world(size).folder / "shards" / "checkpoints" / "step-00000006"
    found, expected = READER.read_checkpoint(path), read(path)
    for name, weights in expected.parts["model"].items():
        assert (found["parts"]["model"][name] == weights.numpy()).all(), name
    assert_same(found["parts"]["optimizer"], plain(expected.parts["optimizer"]))
