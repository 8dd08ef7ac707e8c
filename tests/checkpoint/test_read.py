"""Reading: what was written comes back, and what was damaged in any place comes out as a CheckpointError that names it."""

import json
import os
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from checkpoint.made import realistic, same, shelf_of, small
from instep.checkpoint import Checkpoint, Writer, jsontext, locate, manifest_of, read, read_newest, verify, write
from instep.checkpoint.blocks import FileSummary
from instep.checkpoint.manifest import Manifest
from instep.errors import CheckpointError


def test_a_checkpoint_comes_back(tmp_path: Path) -> None:
    checkpoint = realistic()
    returned = read(write(tmp_path, checkpoint))
    assert (returned.step, returned.best) == (checkpoint.step, None)
    assert same(returned.state, checkpoint.state)
    assert {name: same(returned.parts[name], part) for name, part in checkpoint.parts.items()} == {
        "model": True,
        "optimizer": True,
    }


def test_the_same_checkpoint_is_the_same_bytes(tmp_path: Path) -> None:
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        write(tmp_path / folder, realistic())
    for file in (tmp_path / "one" / "step-00000003").iterdir():
        assert file.read_bytes() == (tmp_path / "other" / "step-00000003" / file.name).read_bytes()


def test_tensors_in_the_state_are_kept_too(tmp_path: Path) -> None:
    state = {"sums": {"loss": torch.tensor(1.5)}, "scale": torch.tensor(2.0, dtype=torch.float64)}
    path = write(tmp_path, Checkpoint(1, {"model": {"w": torch.ones(1)}}, state))
    assert (path / "state.safetensors").exists()
    assert same(read(path, parts=["model"]).state, state)


def test_single_parts_can_be_read(tmp_path: Path) -> None:
    path = write(tmp_path, small(4))
    (path / "optimizer.safetensors").write_bytes(b"broken, and nobody looks")
    assert list(read(path, parts=["model"]).parts) == ["model"]
    with pytest.raises(CheckpointError, match="has no part ema; was the run made without it"):
        read(path, parts=["model", "ema"])


def test_several_models_are_several_parts(tmp_path: Path) -> None:
    path = write(tmp_path, Checkpoint(1, {"g": {"w": torch.ones(1)}, "d": {"w": torch.zeros(2)}}))
    assert {file.name for file in path.iterdir()} >= {"g.safetensors", "d.safetensors"}
    assert read(path).parts["d"]["w"].tolist() == [0, 0]


@pytest.mark.parametrize("name", ["", "..", "a/b", "State", "state", "nul", "com1", "a.b", "ä", "x" * 65, "-x"])
def test_a_part_s_name_must_do_as_a_file_s_on_every_system(name: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be a part of a checkpoint; use a short name"):
        write(tmp_path, Checkpoint(1, {name: {}}))


@pytest.mark.parametrize("step", [-1, 1.0, True, 10**15])
def test_a_step_is_a_whole_number(step: Any, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="of a checkpoint is not a whole number from 0 on"):
        write(tmp_path, Checkpoint(step, {}))


def test_a_manifest_can_be_looked_at(tmp_path: Path) -> None:
    path = write(tmp_path, small(5, best=3))
    manifest = manifest_of(path)
    assert (manifest.step, manifest.best, sorted(manifest.files)) == (
        5,
        3,
        ["model.safetensors", "optimizer.safetensors", "state.json"],
    )
    assert manifest.size_bytes == sum(file.stat().st_size for file in path.iterdir() if file.name != "MANIFEST.json")
    assert verify(path) == manifest


# --- Damage


def refused(path: Path, words: str = "") -> None:
    for look in (read, verify):
        with pytest.raises(CheckpointError, match=words):
            look(path)


def test_every_flipped_bit_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    for file in sorted(path.iterdir()):
        content = file.read_bytes()
        for place in range(0, len(content), 1 if file.name == "MANIFEST.json" else 3):
            damaged = bytearray(content)
            damaged[place] ^= 1 << (place % 8)
            file.write_bytes(damaged)
            with pytest.raises(CheckpointError, match=f"{path.name} (is damaged|is not complete)"):
                read(path)
        file.write_bytes(content)
    assert same(read(path).state, small(1).state)


def test_every_truncation_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    for file in sorted(path.iterdir()):
        content = file.read_bytes()
        for length in {0, 1, 7, 8, 9, len(content) // 2, len(content) - 1}:
            file.write_bytes(content[:length])
            refused(path, "is damaged")
        file.write_bytes(content + b" ")
        refused(path, "is damaged")
        file.write_bytes(content)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    for name in ("MANIFEST.json", "state.json", "optimizer.safetensors"):
        path = write(tmp_path, small(1))
        (path / name).unlink()
        refused(path, f"step-00000001 is not complete: {name} is missing")


def test_a_checkpoint_under_another_s_name_is_found(tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    os.rename(path, tmp_path / "step-00000002")
    refused(tmp_path / "step-00000002", "MANIFEST.json is that of step 1")


def test_files_of_another_checkpoint_are_found(tmp_path: Path) -> None:
    one, other = write(tmp_path, small(1)), write(tmp_path, small(2))
    (other / "model.safetensors").write_bytes((one / "model.safetensors").read_bytes())
    refused(other, "model.safetensors has the checksum [0-9a-f]{8}, not")


def test_the_one_before_is_used(tmp_path: Path) -> None:
    folder = shelf_of(tmp_path, 1, 2, 3)
    (folder / "step-00000003" / "state.json").unlink()
    damaged = folder / "step-00000002" / "model.safetensors"
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"\xff")
    newest, skipped = read_newest(folder)
    assert newest is not None
    assert newest.step == 1
    assert [one.path.name for one in skipped] == ["step-00000003", "step-00000002"]
    assert "state.json is missing" in skipped[0].reason
    assert "checksum" in skipped[1].reason


@pytest.mark.skipif(os.name == "nt", reason="no such things there")
def test_what_is_no_regular_file_is_not_opened(tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    secret = tmp_path / "secret"
    os.rename(path / "model.safetensors", secret)
    (path / "model.safetensors").symlink_to(secret)
    refused(path, "model.safetensors is not a regular file")
    (path / "model.safetensors").unlink()
    os.mkfifo(path / "model.safetensors")  # to open it would wait for ever
    refused(path, "model.safetensors is not a regular file")
    (path / "MANIFEST.json").unlink()
    os.mkfifo(path / "MANIFEST.json")
    refused(path, "MANIFEST.json is not a regular file")


@pytest.mark.skipif(os.name == "nt", reason="no such things there")
def test_nobody_waits_for_a_pipe_in_the_folder(tmp_path: Path) -> None:
    shelf_of(tmp_path, 1, 2, best=1)
    for name in ("LATEST", "BEST", "step-00000002/MANIFEST.json"):
        (tmp_path / name).unlink()
        os.mkfifo(tmp_path / name)
    assert locate(tmp_path, "best").name == "step-00000001"
    Writer(tmp_path, keep=1).close()
    assert (tmp_path / "LATEST").read_text() == "step-00000002\n"


def test_a_file_in_place_of_the_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "step-00000001").write_text("nothing")
    refused(tmp_path / "step-00000001", "it is not a folder")


# --- Manifests that lie, with checksums that fit


def with_manifest(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads((path / "MANIFEST.json").read_bytes())
    del content["crc32"]
    change(content)
    text = jsontext.render(content, "")
    (path / "MANIFEST.json").write_bytes(jsontext.render(content | {"crc32": f"{zlib.crc32(text):08x}"}, "") + b"\n")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda m: m.update(format="pickle"), "is not that of an Instep checkpoint"),
        (lambda m: m.update(version=2), "has version 2 of the format, and this Instep reads 1"),
        (lambda m: m.update(files=[]), "names no files"),
        (lambda m: m.update(step="1"), "gives no valid step"),
        (lambda m: m.update(best=[1]), "gives no valid step"),
        (lambda m: m.update(extra=1), "is not as it was written"),
        (
            lambda m: m["files"].update({"../../etc/passwd": {"bytes": 1, "crc32": "00000000"}}),
            "names '../../etc/passwd', which is no file",
        ),
        (
            lambda m: m["files"].update({"/etc/passwd": {"bytes": 1, "crc32": "00000000"}}),
            "names '/etc/passwd', which is no file",
        ),
        (lambda m: m["files"].update({"c:\\x.json": {"bytes": 1, "crc32": "00000000"}}), "which is no file"),
        (lambda m: m["files"].update({"x.pkl": {"bytes": 1, "crc32": "00000000"}}), "which is no file"),
        (lambda m: m["files"].update({"x.json": {"bytes": -1, "crc32": "00000000"}}), "no valid size and checksum of x.json"),
        (lambda m: m["files"].update({"x.json": {"bytes": 1, "crc32": "0"}}), "no valid size and checksum of x.json"),
        (lambda m: m["files"].update({"x.json": 3}), "no valid size and checksum of x.json"),
        (lambda m: m["files"].pop("state.json"), "does not name state.json"),
        (
            lambda m: m["files"]["state.json"].update(bytes=10**15),
            "state.json has 1,000,000,000,000,000 bytes; at most|has .* bytes, not",
        ),
    ],
)
def test_a_manifest_that_lies_is_refused(change: Callable[[dict[str, Any]], None], words: str, tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    with_manifest(path, change)
    refused(path, words)


def test_a_huge_manifest_is_not_read(tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    os.truncate(path / "MANIFEST.json", 10**12)
    refused(path, "MANIFEST.json has 1,000,000,000,000 bytes")


def resealed(path: Path, name: str, content: bytes) -> None:
    """Put other content into a checkpoint and make the manifest fit: what somebody with bad intent would do."""
    (path / name).write_bytes(content)
    manifest = manifest_of(path)
    files = dict(manifest.files) | {name: FileSummary(len(content), zlib.crc32(content))}
    (path / "MANIFEST.json").write_bytes(Manifest(manifest.step, manifest.best, files).render())


@pytest.mark.parametrize(
    ("state", "words"),
    [
        (b"[]", "state.json does not hold a state and its parts"),
        (b'{"state": {}, "parts": []}', "does not hold a state and its parts"),
        (b'{"state": [], "parts": {}}', "the state in state.json is no dictionary"),
        (b'{"state": {}, "parts": {"ema": {"$tensor": "x"}}}', "holds what it cannot"),
        (b'{"state": {"x": {"$tensor": "weight"}}, "parts": {}}', "holds what it cannot"),
        (b"[" * 10**6, "nests deeper than JSON can be read"),
        (b'{"state": ' + b'{"a":' * 500 + b"1" + b"}" * 500 + b', "parts": {}}', "nests deeper than"),
        (b'{"state": {"$reduce": ["os.system", "true"]}, "parts": {}}', "is not known; was it written by a newer Instep"),
    ],
    ids=range(8),
)
def test_a_hostile_state_with_a_fitting_manifest_is_refused(state: bytes, words: str, tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    resealed(path, "state.json", state)
    with pytest.raises(CheckpointError, match=words):
        read(path)


def test_a_hostile_header_with_a_fitting_manifest_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path, small(1))
    text = b'{"w":{"dtype":"F32","shape":[1000000000000],"data_offsets":[0,4000000000000]}}'
    resealed(path, "model.safetensors", len(text).to_bytes(8, "little") + text)
    with pytest.raises(
        CheckpointError, match=r"model.safetensors: its header describes 4,000,000,000,000 bytes of data, it has 0"
    ):
        read(path)
