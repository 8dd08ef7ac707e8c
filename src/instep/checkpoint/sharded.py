"""Sharded checkpoints: each process writes the rows that it holds, through torch.distributed.checkpoint's safetensors storage.

The folder is that of any checkpoint: the same `state.json`, and a manifest with the sizes and checksums of all files; in place of
a file for each part there is one for each process, `shard-00001-model-00001-of-00001.safetensors`, whose tensors are called
`part/name`. It is written beside its place by all, and gets its name by rank 0 once it is whole. `rows` reads it.
"""

import os
import secrets
import shutil
import warnings
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch.distributed as dist
from torch import Tensor

from instep.checkpoint import checkpoint_folder, jsontext
from instep.checkpoint.blocks import BLOCK_BYTES, FileSummary
from instep.checkpoint.durable import WRITING, discard, put_in_place, sync_folder, write_file
from instep.checkpoint.encoded import STATE, require_part_name
from instep.checkpoint.layout import plan_layout
from instep.checkpoint.manifest import ENDING, MANIFEST, STATE_FILE, Manifest
from instep.checkpoint.record import Checkpoint
from instep.checkpoint.tagged import Encoder
from instep.checkpoint.write import explain, prepare_folder
from instep.distributed.dtensors import is_sharded, local
from instep.distributed.world import World
from instep.errors import CheckpointError
from instep.records import record_class


@record_class
class SealedShards:
    """A checkpoint as files to be: what this process holds of it."""

    step: int
    best: int | None
    tensors: Mapping[str, Tensor]  # by "part/name"
    state: bytes
    kept: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


class ShardWriter:
    """Writes the checkpoints of a run whose processes hold shares of its model; all of them call it, and wait for the disk."""

    is_holding = False

    def __init__(self, folder: Path, *, keep: int | None, world: World, before: Callable[[], object] = lambda: None) -> None:
        self.folder = folder
        self._keep = keep
        self._before = before
        self._world = world
        if world.is_first:
            prepare_folder(folder)

    def save(self, checkpoint: Checkpoint) -> None:
        self.save_now(checkpoint)

    def hold(self, checkpoint: Checkpoint) -> None:
        """No process holds what the others may have lost: it is written."""
        self.save_now(checkpoint)

    def save_now(self, checkpoint: Checkpoint) -> None:
        self._before()
        write_shards(self.folder, seal_shards(checkpoint), keep=self._keep, world=self._world)

    def raise_pending(self) -> None:
        """Nothing is written in the background."""

    def wait(self) -> None:
        """Nothing is written in the background."""

    def flush(self) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing is held."""


def seal_shards(checkpoint: Checkpoint) -> SealedShards:
    """Plan the files; raises CheckpointError with the name of what cannot be kept. Tensors are not copied."""
    tensors: dict[str, Tensor] = {}
    encoded: dict[str, Any] = {}
    for part, value in (*checkpoint.parts.items(), (STATE, dict(checkpoint.state))):
        if part != STATE:
            require_part_name(part)
        encoder = Encoder(part)
        encoded[part] = encoder.encode(value)
        plan_layout(dict(zip(encoder.tensors, local(encoder.tensors.values()), strict=True)), part)
        tensors |= {f"{part}/{name}": tensor for name, tensor in encoder.tensors.items()}
    state = jsontext.render({"state": encoded.pop(STATE), "parts": encoded}, STATE_FILE)
    return SealedShards(checkpoint.step, checkpoint.best, tensors, state, checkpoint.kept, checkpoint.dropped)


def write_shards(folder: Path, sealed: SealedShards, *, keep: int | None, world: World) -> Path:
    """Write a checkpoint together with all processes. What goes wrong on one of them is raised on all."""
    name = checkpoint_folder.step_name(sealed.step)
    size_bytes = sum(part.numel() * part.element_size() for part in local(sealed.tensors.values())) * world.size
    beside = folder / f"{WRITING}{name}-{world.broadcast_object(secrets.token_hex(8))}"
    try:
        world.run_on_rank0(lambda: _guarded(lambda: os.mkdir(beside), name, folder, size_bytes))
        files = _own_files(beside, sealed, name, world)
        world.run_on_rank0(lambda: _guarded(lambda: _put(folder, beside, sealed, files, keep), name, folder, size_bytes))
    finally:
        if world.is_first:
            shutil.rmtree(beside, ignore_errors=True)  # there only if something went wrong
    return folder / name


def _own_files(beside: Path, sealed: SealedShards, name: str, world: World) -> dict[str, FileSummary]:
    """The files of all processes, each summed up by the one that wrote it."""
    from torch.distributed.checkpoint.api import CheckpointException
    from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageWriter
    from torch.distributed.checkpoint.state_dict_saver import save

    # What everybody holds, like the statistics of BatchNorm, is rank 0's.
    own = {key: value.detach() for key, value in sealed.tensors.items() if world.is_first or is_sharded(value)}
    error: str | None = None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            save(own, storage_writer=HuggingFaceStorageWriter(str(beside), save_distributed=True))
        written = {path.name: _summarise(path) for path in beside.glob(f"shard-{dist.get_rank() + 1:05d}-*{ENDING}")}
    except (CheckpointException, OSError) as failed:
        written, error = {}, str(failed).strip().splitlines()[-1]
    told = world.gather_objects((written, error))
    if failures := [f"rank {rank}: {said}" for rank, (_, said) in enumerate(told) if said is not None]:
        raise CheckpointError(f"checkpoint {name} could not be written: {failures[0]} The checkpoints before it are whole.")
    return {file: entry for files, _ in told for file, entry in files.items()}


def _summarise(path: Path) -> FileSummary:
    size, checksum = 0, 0
    with open(path, "rb") as file:
        while chunk := file.read(BLOCK_BYTES):
            size, checksum = size + len(chunk), zlib.crc32(chunk, checksum)
    return FileSummary(size, checksum)


def _put(folder: Path, beside: Path, sealed: SealedShards, files: Mapping[str, FileSummary], keep: int | None) -> None:
    """What rank 0 adds, and the rename after which the checkpoint is there."""
    state = write_file(beside / STATE_FILE, [sealed.state])
    manifest = Manifest(sealed.step, sealed.best, {**files, STATE_FILE: state})
    write_file(beside / MANIFEST, [manifest.render()])
    sync_folder(beside)
    name = checkpoint_folder.step_name(sealed.step)
    replaced = put_in_place(beside, folder / name)
    sync_folder(folder)
    if replaced is not None:
        discard(replaced)
    checkpoint_folder.set_aside_later(folder, sealed.step)
    checkpoint_folder.delete_old(folder, keep, also=sealed.kept, dropped=sealed.dropped)
    checkpoint_folder.write_labels(folder, manifest)


def _guarded(do: Callable[[], object], name: str, folder: Path, size_bytes: int) -> None:
    try:
        do()
    except OSError as error:
        reason = explain(error, folder, size_bytes)
        raise CheckpointError(f"checkpoint {name} could not be written: {reason} The checkpoints before it are whole.") from None
