"""Torch files: `.pt`, `.pth`, `.bin`, as `torch.save` writes them. Read with `weights_only=True` and in no other way.

Such a file is a pickle, which can name any Python object and so run any code. What needs that is refused here, with the reason.
"""

import io
import pickle
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from instep.checkpoint.durable import save_as
from instep.errors import CheckpointError

ENDINGS = (".pt", ".pth", ".bin")


def read_torch(path: Path) -> Any:
    """What a torch file holds, on the host: tensors, numbers, strings and containers of them."""
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read: {error.strerror or error}.") from None
    except Exception as error:  # a damaged pickle raises whatever it happens to run into
        raise CheckpointError(f"{path} {_why_not(path, error)}") from None


def write_torch(path: Path, content: Mapping[str, Any]) -> None:
    """Write a torch file that `weights_only=True` reads back; an entry that would need more is refused by its name."""
    with save_as(path) as beside:
        try:
            torch.save(content, beside)
        except (pickle.PicklingError, TypeError, AttributeError):  # functions, locks, open files
            raise CheckpointError(f"{path} is not written: {_first_unkeepable(content)}") from None
        except RuntimeError as error:  # the writer of archives has no OSError for a full disk
            raise CheckpointError(f"{path} cannot be written: {error}") from None
        try:
            torch.load(beside, map_location="cpu", weights_only=True, mmap=True)
        except pickle.UnpicklingError:
            raise CheckpointError(f"{path} is not written: {_first_unkeepable(content)}") from None


def _why_not(path: Path, error: Exception) -> str:
    said = str(error)
    if isinstance(error, pickle.UnpicklingError) and "Weights only load failed" in said:
        needed = re.search(r"GLOBAL ([\w.]+)", said)
        return (
            f"is refused: it holds {needed[1] if needed else 'a Python object'}, which only comes back by running code that the "
            "file names. torch.save(model) writes such files, torch.save(model.state_dict()) does not. Where you trust it and "
            f"have its classes: torch.save(torch.load({str(path)!r}, weights_only=False).state_dict(), 'weights.pt')."
        )
    if "TorchScript" in said:
        return f"is a TorchScript archive; torch.jit.load({str(path)!r}).state_dict() has its weights."
    return f"is no file that torch.save wrote, or a damaged one ({type(error).__name__})."


def _first_unkeepable(content: Mapping[str, Any]) -> str:
    for name, value in content.items():
        written = io.BytesIO()
        try:
            torch.save(value, written)
            written.seek(0)
            torch.load(written, map_location="cpu", weights_only=True)
        except Exception:
            kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
            return f"{name!r} ({kind}) could not be read back without running code; use numbers, strings, tensors."
    return "it could not be read back without running code."
