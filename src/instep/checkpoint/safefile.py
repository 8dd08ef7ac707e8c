"""Safetensors files of the user's own: plain tensors by name, written and read like those of checkpoints, without a manifest."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor

from instep.checkpoint import header
from instep.checkpoint.durable import save_as, write_file
from instep.checkpoint.layout import plan_layout
from instep.checkpoint.tensorfile import chunks_of, read_tensors
from instep.errors import CheckpointError


def read_safetensors(path: Path) -> dict[str, Tensor]:
    """All tensors of a file; a name that shares its memory with another is that tensor, or a view of it."""
    try:
        with open(path, "rb") as file:
            return read_tensors(file, path.stat().st_size)[0]
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror}.") from None
    except CheckpointError as error:
        raise CheckpointError(f"{path} is no safetensors file, or a damaged one: {error}.") from None


def write_safetensors(path: Path, tensors: Mapping[str, Any]) -> None:
    """Write tensors by name; memory that several share is stored once. What is no tensor is refused by its name."""
    for name, value in tensors.items():
        if not isinstance(value, Tensor):
            raise CheckpointError(
                f"{path}: {name!r} is a {type(value).__name__}, and safetensors keeps tensors only; "
                f"save to {path.with_suffix('.pt').name} instead."
            )
    layout = plan_layout(tensors, str(path))
    head = header.render(layout, str(path))
    with save_as(path) as beside:
        write_file(beside, chunks_of(layout, tensors, head))
