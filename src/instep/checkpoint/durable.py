"""Durable changes to a folder: what is done here is on the disk when it returns, and is done whole or not at all."""

import os
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from instep.checkpoint.blocks import FileSummary, write_chunks
from instep.errors import CheckpointError

# Hidden names of what is on its way in or out; `checkpoint_folder.clean_up` knows what to do with each.
WRITING, GONE, ASIDE = ".writing-", ".gone-", ".aside-"


def make_folder(path: Path) -> None:
    """A folder, with those above it, that has its name on the disk."""
    if not path.is_dir():
        make_folder(path.parent)
        path.mkdir(exist_ok=True)
        sync_folder(path.parent)


def write_file(path: Path, chunks: Iterable[bytes | memoryview]) -> FileSummary:
    """A new file with this content; waits for the disk."""
    with open(path, "xb", buffering=0) as file:
        written = write_chunks(file, chunks)
        sync(file.fileno())
    return written


@contextmanager
def write_beside(path: Path, *, is_synced: bool = True) -> Iterator[Path]:
    """A free name beside `path`, of the same ending, to write; then that file, synced, is `path`. After an error it is gone.

    `path` is the old file or the new one, never half of it. The folder is still to be synced.
    """
    beside = path.with_name(f"{WRITING}{secrets.token_hex(4)}-{path.name}")
    try:
        yield beside
        if is_synced:
            with open(beside, "rb+") as file:
                sync(file.fileno())
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def replace_file(path: Path, content: bytes, *, is_synced: bool = True) -> None:
    """The file is the old one or the new one, never half of it; after a power cut only if synced. The folder still has to be."""
    with write_beside(path, is_synced=is_synced) as beside:
        beside.write_bytes(content)


@contextmanager
def save_as(path: Path) -> Iterator[Path]:
    """`write_beside` for a path that a user gave: what is wrong with it is a CheckpointError that says what to do."""
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder; name a file in it, like {path / 'model.safetensors'}.")
    if not path.parent.is_dir():
        raise CheckpointError(f"{path} cannot be written: there is no folder {path.parent}; make it first.")
    try:
        with write_beside(path) as beside:
            yield beside
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}.") from None


def sync_folder(path: Path) -> None:
    """Names in a folder reach the disk with the folder; Windows has no such call and needs none."""
    if os.name == "nt":
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        sync(descriptor)
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Wait for the disk. On macOS fsync waits only until the drive has it in its own memory; Python leaves the rest to us."""
    if sys.platform == "darwin":
        import fcntl

        fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def put_in_place(beside: Path, place: Path) -> Path | None:
    """Give a finished folder its name. What had the name is moved aside and returned, to be deleted once this is synced."""
    aside = place.with_name(f"{ASIDE}{place.name}")
    if not place.exists():
        os.rename(beside, place)
        return aside if aside.exists() else None
    discard(aside)
    os.rename(place, aside)
    try:
        os.rename(beside, place)
    except BaseException:
        os.rename(aside, place)
        raise
    return aside


def discard(path: Path) -> None:
    """Delete a folder: away under its name at once, then from the disk. What is left where that fails is tidied up later."""
    gone = path.with_name(f"{GONE}{path.name.lstrip('.')}-{secrets.token_hex(4)}")
    try:
        os.rename(path, gone)
    except FileNotFoundError:
        return
    shutil.rmtree(gone, ignore_errors=True)
