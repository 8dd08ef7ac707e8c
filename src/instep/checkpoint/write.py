"""Writing a checkpoint: beside its place, synced, then renamed. Whatever goes wrong, those before it stay whole."""

import errno
import os
import secrets
import shutil
from pathlib import Path

from instep.checkpoint import checkpoint_folder
from instep.checkpoint.durable import WRITING, discard, make_folder, put_in_place, sync_folder, write_file
from instep.checkpoint.encoded import EncodedCheckpoint, encode_checkpoint
from instep.checkpoint.manifest import ENDING, MANIFEST, STATE_FILE, Manifest
from instep.checkpoint.record import Checkpoint
from instep.checkpoint.tensorfile import chunks_of
from instep.errors import CheckpointError
from instep.text import size


def write(folder: Path, checkpoint: Checkpoint | EncodedCheckpoint, *, keep: int | None = None) -> Path:
    """Write a checkpoint to a folder that exists, label it, and delete those that need not be kept. Waits for the disk.

    `keep` is how many of the last to keep; the best ones they know of stay as well. Returns where the checkpoint is.
    """
    encoded = encode_checkpoint(checkpoint) if isinstance(checkpoint, Checkpoint) else checkpoint
    name = checkpoint_folder.step_name(encoded.step)
    beside = folder / f"{WRITING}{name}-{os.getpid()}-{secrets.token_hex(4)}"
    try:
        os.mkdir(beside)
        manifest = _write_files(beside, encoded)
        replaced = put_in_place(beside, folder / name)
        sync_folder(folder)
    except OSError as error:
        reason = explain(error, folder, encoded.size_bytes)
        raise CheckpointError(f"checkpoint {name} could not be written: {reason} The checkpoints before it are whole.") from None
    finally:
        shutil.rmtree(beside, ignore_errors=True)  # there only if something went wrong
    try:
        if replaced is not None:
            discard(replaced)
        checkpoint_folder.set_aside_later(folder, encoded.step)
        checkpoint_folder.delete_old(folder, keep, also=encoded.kept, dropped=encoded.dropped)
        checkpoint_folder.write_labels(folder, manifest)
    except OSError as error:
        raise CheckpointError(f"checkpoint {name} is whole, but not what is beside it: {explain(error, folder, 0)}") from None
    return folder / name


def prepare_folder(folder: Path) -> None:
    """Make the folder ready for writing, or say why it cannot be: by trying, before the first step."""
    probe = folder / f"{WRITING}probe-{secrets.token_hex(4)}"
    try:
        make_folder(folder)
        os.mkdir(probe)
        os.rmdir(probe)
        checkpoint_folder.clean_up(folder)
        checkpoint_folder.write_labels(folder)
    except OSError as error:
        raise CheckpointError(f"checkpoints cannot be written: {explain(error, folder, 0)}") from None


def explain(error: OSError, folder: Path, needed_bytes: int) -> str:
    """What a failed write means for the person who has to do something about it."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        free = shutil.disk_usage(folder).free if folder.exists() else 0
        return (
            f"the disk of {folder} is full ({size(needed_bytes)} are needed, {size(free)} are free). Free some "
            "space, or keep fewer with keep=, and start again: the run goes on from its newest checkpoint."
        )
    if error.errno == errno.EROFS:
        return f"{folder} is on a read-only file system. Use another folder=."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"this user may not write to {folder}. Change its permissions, or use another folder=."
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"{folder} is not a folder. Move away what has its name, or use another folder=."
    if error.errno == errno.ENOENT:
        return f"{folder} is gone; was it deleted or unmounted while the run went on?"
    return f"{error.strerror or error} ({folder})."


def _write_files(beside: Path, encoded: EncodedCheckpoint) -> Manifest:
    files = {
        f"{name}{ENDING}": write_file(beside / f"{name}{ENDING}", chunks_of(part.layout, part.tensors, part.head))
        for name, part in encoded.parts.items()
    }
    files[STATE_FILE] = write_file(beside / STATE_FILE, [encoded.state])
    manifest = Manifest(encoded.step, encoded.best, files)
    write_file(beside / MANIFEST, [manifest.render()])
    sync_folder(beside)
    return manifest
