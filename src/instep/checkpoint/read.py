"""Reading checkpoints: every byte is checked against the manifest, and whatever is wrong comes out as a CheckpointError.

Nothing that is read is executed, and sizes are checked before memory is taken: at most what the files take on the disk, and a
third of a gigabyte for JSON made to be large.
"""

import stat
import zlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import BinaryIO, TypeVar

from torch import Tensor

from instep.checkpoint import checkpoint_folder, jsontext
from instep.checkpoint.blocks import BLOCK_BYTES, FileSummary
from instep.checkpoint.encoded import STATE, decode_checkpoint
from instep.checkpoint.manifest import ENDING, STATE_FILE, Manifest
from instep.checkpoint.record import Checkpoint, Skipped
from instep.checkpoint.rows import SHARD, Holding, held_of, read_rows
from instep.checkpoint.tensorfile import read_tensors
from instep.errors import CheckpointError

T = TypeVar("T")


def read(
    path: Path, *, parts: Collection[str] | None = None, held: Holding | None = None, is_verified: bool = False
) -> Checkpoint:
    """The checkpoint in this folder, on the host; with `parts`, only those of its parts are read. Reads every byte once.

    A process that holds a share of the model reads its own rows: `held` says which. It need not look at the checksums of a
    checkpoint of shards that `is_verified`.
    """
    checkpoint = _at_the_border(path, lambda: _read(path, parts, held, is_verified))
    absent = set(parts or ()) - set(checkpoint.parts)
    if absent:
        raise CheckpointError(f"{path} has no part {', '.join(sorted(absent))}; was the run made without it?")
    return checkpoint


def verify(path: Path) -> Manifest:
    """Check every byte of a checkpoint without loading it; takes a few megabytes of memory."""
    return _at_the_border(path, lambda: _verify(path))


def manifest_of(path: Path) -> Manifest:
    """What a checkpoint says of itself: its step, the best step it knows of, its files and their sizes. They are not read."""
    return _at_the_border(path, lambda: _read_manifest(path))


def read_newest(
    folder: Path, *, parts: Collection[str] | None = None, held: Holding | None = None
) -> tuple[Checkpoint | None, list[Skipped]]:
    """The newest checkpoint that is whole, and those that had to be passed over. (None, []) where there is none at all.

    Where there are some and all are damaged, that is an error: to begin again from nothing is not for a library to decide.
    """
    skipped: list[Skipped] = []
    for step in reversed(checkpoint_folder.steps(folder)):
        path = checkpoint_folder.path_of(folder, step)
        try:
            return read(path, parts=parts, held=held), skipped
        except CheckpointError as error:
            skipped.append(Skipped(path, str(error)))
    if skipped:
        reasons = "\n".join(f"  {one.reason}" for one in skipped)
        raise CheckpointError(
            f"none of the {len(skipped)} checkpoints in {folder} can be used:\n{reasons}\nMove them away to begin again."
        )
    return None, []


def _at_the_border(path: Path, do: Callable[[], T]) -> T:
    """Inner code says what is wrong; here it is said of which checkpoint."""
    try:
        return do()
    except FileNotFoundError as error:
        raise CheckpointError(f"{path} is not complete: {Path(error.filename).name} is missing.") from None
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path} is damaged: {error}.") from None


def _read(path: Path, parts: Collection[str] | None, held: Holding | None, is_verified: bool) -> Checkpoint:
    manifest = _read_manifest(path)
    state = _read_state(path, manifest.files[STATE_FILE])
    tensors: dict[str, dict[str, Tensor]] = {}
    shards = {name: file for name, file in manifest.files.items() if name.startswith(SHARD)}
    if shards:
        for name, file in shards.items() if not is_verified else ():
            _read_file(path / name, file, _checksum)
        tensors = read_rows([path / name for name in shards], None if parts is None else {*parts, STATE}, held)
        return decode_checkpoint(manifest.step, manifest.best, state, tensors, parts)
    for name, file in manifest.files.items():
        part = name.removesuffix(ENDING)
        if name.endswith(ENDING) and (parts is None or part in parts or part == STATE):
            tensors[part] = _read_file(path / name, file, read_tensors)
    if held is not None:
        tensors = held_of(tensors, held)
    return decode_checkpoint(manifest.step, manifest.best, state, tensors, parts)


def _verify(path: Path) -> Manifest:
    manifest = _read_manifest(path)
    for name, file in manifest.files.items():
        _read_file(path / name, file, _checksum)
    return manifest


def _read_manifest(path: Path) -> Manifest:
    if not stat.S_ISDIR(path.lstat().st_mode):
        raise CheckpointError("it is not a folder")
    return checkpoint_folder.read_manifest(path)


def _read_state(path: Path, expected: FileSummary) -> bytes:
    if expected.size_bytes > jsontext.LIMIT_BYTES:
        raise CheckpointError(f"{STATE_FILE} has {expected.size_bytes:,} bytes; at most {jsontext.LIMIT_BYTES:,} are read")
    return _read_file(path / STATE_FILE, expected, _content)


def _read_file(path: Path, expected: FileSummary, take: Callable[[BinaryIO, int], tuple[T, int]]) -> T:
    """What `take` makes of a file, where its size and checksum are those of the manifest."""
    size = checkpoint_folder.regular_size(path)
    if size != expected.size_bytes:
        raise CheckpointError(f"{path.name} has {size:,} bytes, not {expected.size_bytes:,}")
    with open(path, "rb") as file:
        try:
            taken, checksum = take(file, size)
        except CheckpointError as error:
            raise CheckpointError(f"{path.name}: {error}") from None
    if checksum != expected.crc32:
        raise CheckpointError(f"{path.name} has the checksum {checksum:08x}, not {expected.crc32:08x}")
    return taken


def _content(file: BinaryIO, size: int) -> tuple[bytes, int]:
    content = file.read(size)
    return content, zlib.crc32(content)


def _checksum(file: BinaryIO, size: int) -> tuple[None, int]:
    checksum = 0
    while chunk := file.read(BLOCK_BYTES):
        checksum = zlib.crc32(chunk, checksum)
    return None, checksum
