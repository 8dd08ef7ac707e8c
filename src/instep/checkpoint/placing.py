"""Placing a file: written beside its place, synced, then given its name. Until then what had the name stays as it is."""

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from instep.checkpoint.durable import WRITING, sync_folder
from instep.errors import CheckpointError


@contextmanager
def placing(path: Path) -> Iterator[Path]:
    """A free name beside `path`, of the same ending, to write; then that file is `path`, synced. After an error it is gone."""
    if path.is_dir():
        raise CheckpointError(f"{path} is a folder; name a file in it, like {path / 'model.safetensors'}.")
    if not path.parent.is_dir():
        raise CheckpointError(f"{path} cannot be written: there is no folder {path.parent}; make it first.")
    beside = path.with_name(f"{WRITING}{secrets.token_hex(4)}-{path.name}")
    try:
        yield beside
        _sync(beside)
        os.replace(beside, path)
        sync_folder(path.parent)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be written: {error.strerror or error}.") from None
    finally:
        beside.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    with open(path, "rb+") as file:
        os.fsync(file.fileno())
