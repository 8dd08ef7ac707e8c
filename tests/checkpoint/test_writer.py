"""The writer: the run goes on while a checkpoint is written; errors come out at the next call; the order of syncs is kept."""

import os
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from checkpoint.made import realistic, same, small
from instep.checkpoint import Checkpoint, Writer, blocks, check, read, read_newest, steps, write
from instep.checkpoint import writer as writer_module
from instep.checkpoint.copies import Copies
from instep.checkpoint.encoded import encode_checkpoint
from instep.errors import CheckpointError


def big(step: int) -> Checkpoint:
    """Large enough to be caught being written."""
    return Checkpoint(step, {"model": {"weight": torch.full((1 << 20,), float(step))}})


class Gate:
    """Holds writing up until it is opened."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._open = threading.Event()
        self.reached = threading.Event()
        self.threads: set[int] = set()
        real = write

        def held(*arguments: object, **options: object) -> Path:
            self.threads.add(threading.get_ident())
            self.reached.set()
            assert self._open.wait(10)
            return real(*arguments, **options)  # type: ignore[arg-type]

        monkeypatch.setattr(writer_module, "write", held)

    def open(self) -> None:
        self._open.set()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate(monkeypatch)
    yield made
    made.open()


def test_what_is_saved_is_what_was_there_at_that_moment(tmp_path: Path, gate: Gate) -> None:
    model = torch.nn.Linear(3, 3)
    counts = {"seen": [1, 2]}
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with Writer(tmp_path) as writer:
        writer.save(Checkpoint(1, {"model": model.state_dict()}, {"counts": counts}))
        with torch.no_grad():  # the run goes on while the writer has not even begun
            model.weight.zero_()
        counts["seen"].append(3)
        assert gate.reached.wait(10)
        gate.open()
    assert gate.threads != {threading.get_ident()}
    returned = read(tmp_path / "step-00000001")
    assert same(dict(returned.parts["model"]), before)
    assert returned.state == {"counts": {"seen": [1, 2]}}


def test_two_are_never_written_at_once(tmp_path: Path, gate: Gate) -> None:
    writer = Writer(tmp_path)
    writer.save(small(1))
    assert gate.reached.wait(10)
    threading.Timer(0.05, gate.open).start()
    writer.save(small(2))  # waits for the first
    assert steps(tmp_path)[0] == 1
    writer.close()
    assert steps(tmp_path) == [1, 2]
    assert writer.written == tmp_path / "step-00000002"


def test_the_memory_of_the_copies_is_used_again() -> None:
    copies, first = Copies(), encode_checkpoint(realistic())
    one = copies.copy(first)
    pointers = {name: tensor.data_ptr() for name, tensor in one.parts["model"].tensors.items()}
    two = copies.copy(encode_checkpoint(realistic()))
    assert {name: tensor.data_ptr() for name, tensor in two.parts["model"].tensors.items()} == pointers
    source = first.parts["model"].tensors
    assert not {tensor.data_ptr() for tensor in source.values()} & set(pointers.values())


def test_cores_that_are_free_help_with_a_large_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    """What two threads copy is what one does; a small checkpoint starts none."""
    started: list[str] = []
    begin = threading.Thread.start

    def note(thread: threading.Thread) -> None:
        started.append(thread.name)
        begin(thread)

    monkeypatch.setattr(threading.Thread, "start", note)
    monkeypatch.setattr("instep.checkpoint.copies.available_cores", lambda: 3 * torch.get_num_threads())
    large = {f"{number}": torch.randn(1 << 20) for number in range(5)}
    for tensors, is_helped in ((large, True), ({"small": torch.randn(9)}, False)):
        started.clear()
        copied = Copies().copy(encode_checkpoint(Checkpoint(1, {"model": tensors}))).parts["model"].tensors
        assert {name: torch.equal(copied[name], tensor) for name, tensor in tensors.items()} == dict.fromkeys(tensors, True)
        assert any("instep copy" in name for name in started) is is_helped


def test_copies_follow_a_change_of_shape(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.save(Checkpoint(1, {"model": {"a": torch.ones(2), "b": torch.ones(3)}}))
        writer.save(Checkpoint(2, {"model": {"a": torch.zeros(4).double()}}))
    assert same(read(tmp_path / "step-00000002").parts["model"], {"a": torch.zeros(4).double()})


@pytest.mark.filterwarnings("ignore:ComplexHalf")
def test_odd_tensors_go_through_the_copies(tmp_path: Path) -> None:
    weight = torch.randn(3, 5)
    tensors = {
        "channels last": torch.randn(2, 3, 2, 2).to(memory_format=torch.channels_last),
        "transposed": weight.t(),
        "weight": weight,
        "fp8": torch.randn(7).to(torch.float8_e4m3fn),
        "fp8 of another kind": torch.randn(7).to(torch.float8_e5m2fnuz),
        "complex": torch.randn(3, dtype=torch.complex128),
        "complex half": torch.randn(4, dtype=torch.float16).view(torch.complex32),
        "scalar": torch.tensor(True),
        "empty": torch.zeros(0, 3),
        "parameter": torch.nn.Parameter(torch.ones(2)),
    }
    with Writer(tmp_path) as writer:
        writer.save(Checkpoint(1, {"model": tensors}))
    returned = read(tmp_path / "step-00000001").parts["model"]
    assert {name: same(returned[name], tensor) for name, tensor in tensors.items()} == dict.fromkeys(tensors, True)
    assert returned["weight"].data_ptr() == returned["transposed"].data_ptr()


def test_saving_in_the_foreground_needs_no_copy(tmp_path: Path) -> None:
    with Writer(tmp_path, background=False) as writer:
        writer.save(small(1))
        assert steps(tmp_path) == [1]


# --- Held


def test_what_is_held_is_written_as_it_was_and_with_the_next(tmp_path: Path) -> None:
    weight = torch.ones(3)
    with Writer(tmp_path) as writer:
        writer.hold(Checkpoint(1, {"model": {"w": weight}}, best=1))
        weight.zero_()
        writer.hold(Checkpoint(2, {"model": {"w": weight}}, best=1))
        writer.hold(Checkpoint(3, {"model": {"w": weight}}, best=1))  # 2 is neither the best nor the newest
        assert steps(tmp_path) == []
        writer.save(Checkpoint(4, {"model": {"w": weight}}, best=1))
        writer.wait()
        assert steps(tmp_path) == [1, 4]
        writer.hold(Checkpoint(5, {"model": {"w": weight}}, best=5))
    assert steps(tmp_path) == [1, 4, 5]
    assert torch.equal(read(tmp_path / "step-00000001").parts["model"]["w"], torch.ones(3))


def test_what_a_held_one_would_have_dropped_goes_with_the_one_that_is_written(tmp_path: Path) -> None:
    with Writer(tmp_path) as writer:
        writer.save(small(1))
        writer.hold(replace(small(2), dropped=(1,)))
        writer.hold(small(3))
    assert steps(tmp_path) == [3]


def test_what_has_to_be_on_the_disk_first_is_asked_for_by_the_thread_that_writes(tmp_path: Path) -> None:
    seen: list[tuple[bool, list[int]]] = []

    def note() -> None:
        seen.append((threading.current_thread().name == "instep checkpoint", steps(tmp_path)))

    with Writer(tmp_path, before=note) as writer:
        writer.save(small(1))
        writer.hold(small(2))
    assert seen == [(True, []), (False, [1])]


# --- Errors


def fail(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> None:
    def failing(*arguments: object, **options: object) -> Path:
        raise error

    monkeypatch.setattr(writer_module, "write", failing)


@pytest.mark.parametrize("call", ["raise_pending", "wait", "close", "save"])
def test_an_error_comes_out_at_the_next_call_and_once(call: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path)
    fail(monkeypatch, CheckpointError("the disk is full"))
    writer.save(small(1))
    assert writer._thread is not None
    writer._thread.join()
    with pytest.raises(CheckpointError, match="the disk is full"):
        writer.save(small(2)) if call == "save" else getattr(writer, call)()
    writer.raise_pending()
    monkeypatch.undo()
    writer.save(small(3))
    writer.close()
    assert steps(tmp_path) == [3]


def test_even_what_is_no_checkpoint_error_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = Writer(tmp_path)
    fail(monkeypatch, MemoryError("no more"))
    writer.save(small(1))
    with pytest.raises(MemoryError, match="no more"):
        writer.wait()


def test_an_error_of_the_run_is_not_hidden_by_one_of_the_writer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, CheckpointError("the disk is full"))
    with pytest.raises(ValueError, match="of the run") as caught, Writer(tmp_path) as writer:
        writer.save(small(1))
        raise ValueError("of the run")
    assert caught.value.__notes__ == ["Also: the disk is full"]


def test_an_error_at_the_end_of_a_good_run_comes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fail(monkeypatch, CheckpointError("the disk is full"))
    with pytest.raises(CheckpointError, match="the disk is full"), Writer(tmp_path) as writer:
        writer.save(small(1))


def test_what_cannot_be_kept_is_said_by_save_itself(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"model: 'w' is on the meta device"), Writer(tmp_path) as writer:
        writer.save(Checkpoint(1, {"model": {"w": torch.ones(1, device="meta")}}))
    assert steps(tmp_path) == []


def test_check_refuses_without_writing_and_tells_the_size() -> None:
    assert 24 < check(small(1)) < 2000
    with pytest.raises(CheckpointError, match=r"ema: 'shadow' has the layout torch.sparse_coo"):
        check(Checkpoint(0, {"ema": {"shadow": torch.eye(2).to_sparse()}}))
    with pytest.raises(CheckpointError, match=r"state\['hook'\] is a builtins"):
        check(Checkpoint(0, {}, {"hook": print}))


def test_keep_must_keep_something(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="keep=0 would keep no checkpoint; use 1 or more"):
        Writer(tmp_path, keep=0)


# --- What is on the disk when


def test_everything_is_synced_before_it_gets_its_name_and_old_ones_go_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Writer(tmp_path, keep=1, background=False) as writer:
        writer.save(small(1))
        calls: list[str] = []
        real_fsync, real_rename = os.fsync, os.rename

        def fsync(descriptor: int) -> None:
            calls.append("sync " + _called(os.readlink(f"/proc/self/fd/{descriptor}"), tmp_path))
            real_fsync(descriptor)

        def rename(old: Path, new: Path) -> None:
            calls.append(f"rename {_called(str(old), tmp_path)} {_called(str(new), tmp_path)}")
            real_rename(old, new)

        monkeypatch.setattr(os, "fsync", fsync)
        monkeypatch.setattr(os, "rename", rename)
        writer.save(small(2))
        monkeypatch.undo()
    assert calls == [
        "sync .writing/model.safetensors",
        "sync .writing/optimizer.safetensors",
        "sync .writing/state.json",
        "sync .writing/MANIFEST.json",
        "sync .writing",
        "rename .writing step-00000002",
        "sync .",
        "rename step-00000001 .gone",
    ]  # nothing goes by the labels, so nobody waits for them


def _called(path: str, folder: Path) -> str:
    """A path in the folder, without what is drawn by lot."""
    parts = Path(path).relative_to(folder).parts
    return "/".join(part.split("-")[0] if part.startswith(".") else part for part in parts) or "."


def test_a_writer_beside_a_run_lets_it_run(tmp_path: Path) -> None:
    """Not a measurement (that is benchmarks/checkpoint.py): the thread does its work while this one never waits for it."""
    writer = Writer(tmp_path)
    writer.save(big(1))
    turns = 0
    while writer.writing:
        turns += 1
    writer.close()
    assert turns > 100
    newest, _ = read_newest(tmp_path)
    assert newest is not None
    assert torch.all(newest.parts["model"]["weight"] == 1)


def test_a_nearly_full_disk_takes_less_than_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Stingy:
        """Takes at most 3 bytes at once, as a raw file may."""

        def __init__(self) -> None:
            self.content = b""

        def write(self, part: memoryview) -> int:
            self.content += bytes(part[:3])
            return min(3, len(part))

        def fileno(self) -> int:
            return 0

    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    file = Stingy()
    written = blocks.write_chunks(file, [b"hello ", memoryview(b"world")])  # type: ignore[arg-type]
    assert (file.content, written.size_bytes) == (b"hello world", 11)
