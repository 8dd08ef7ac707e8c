"""Files of arrays, in and out, by their ending: .npy, .npz, .safetensors, and .pt read with weights_only. None can run code."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep.checkpoint.durable import save_as
from instep.checkpoint.safefile import read_safetensors, write_safetensors
from instep.checkpoint.torchfile import read_torch, write_torch
from instep.cli.border import WrongUse

ENDINGS = (".npy", ".npz", ".safetensors", ".pt", ".pth")


def read(path: Path) -> Any:
    """What a file holds, as tensors: one, or several by name."""
    _require_known(path)
    if not path.is_file():
        raise WrongUse(f"{path} {'is a folder' if path.is_dir() else 'does not exist'}; name a file of inputs: {_endings()}.")
    if path.suffix in (".pt", ".pth"):
        return read_torch(path)
    if path.suffix == ".safetensors":
        found: Any = read_safetensors(path)
    else:
        found = _read_numpy(path)
    return next(iter(found.values())) if isinstance(found, Mapping) and len(found) == 1 else found


def require_writable(path: Path) -> None:
    """Refuse what could not be written before anything is computed."""
    if path.suffix != ".csv":
        _require_known(path)
    if not path.parent.is_dir():
        raise WrongUse(f"{path} cannot be written: there is no folder {path.parent}.")


def write(path: Path, named: Mapping[str, Any], classes: Sequence[str] = ()) -> None:
    """Write tensors by name; a .npy file has room for one. In a table, scores of `classes` have their names."""
    odd = next((name for name, value in named.items() if not isinstance(value, Tensor)), None)
    if odd is not None:
        raise WrongUse(f"the model's output {odd} is a {type(named[odd]).__name__}, no tensor; it cannot be written.")
    if path.suffix == ".csv":
        _write_csv(path, named, classes)
    elif path.suffix == ".safetensors":
        write_safetensors(path, {name: value.contiguous() for name, value in named.items()})
    elif path.suffix in (".pt", ".pth"):
        only = next(iter(named.values())) if len(named) == 1 else None
        write_torch(path, dict(named) if only is None else only)
    else:
        _write_numpy(path, named)


def _read_numpy(path: Path) -> Any:
    try:
        found = np.load(path, allow_pickle=False)
        if isinstance(found, np.ndarray):
            return _as_tensor(found, path)
        with found:
            return {name: _as_tensor(found[name], path) for name in found}
    except (OSError, ValueError, EOFError) as error:
        raise WrongUse(f"{path} cannot be read: {str(error).splitlines()[0]}") from None


def _as_tensor(array: Any, path: Path) -> Tensor:
    try:
        return torch.from_numpy(np.ascontiguousarray(array))
    except TypeError:
        raise WrongUse(f"{path} holds an array of {array.dtype}; a model takes numbers.") from None


def _write_numpy(path: Path, named: Mapping[str, Tensor]) -> None:
    if path.suffix == ".npy" and len(named) > 1:
        raise WrongUse(f"the model has {len(named)} outputs, {', '.join(named)}, and {path.name} has room for one; use .npz.")
    try:
        arrays = {name: value.numpy() for name, value in named.items()}
    except TypeError as error:  # bfloat16 and the like
        raise WrongUse(f"{path} cannot hold the predictions: {error}; use .safetensors.") from None
    with save_as(path) as beside, open(beside, "xb") as file:
        if path.suffix == ".npy":
            np.save(file, next(iter(arrays.values())), allow_pickle=False)
        else:
            np.savez(file, **arrays)  # type: ignore[arg-type]  # names of ours, not its options


def _write_csv(path: Path, named: Mapping[str, Tensor], classes: Sequence[str]) -> None:
    """A column for each number of an output; one that has a score for each class names them, and the class with the highest."""
    table: dict[str, list[Any]] = {}
    for name, value in named.items():
        rows = value.reshape(len(value), -1)
        columns = [f"{name}_{place}" for place in range(rows.shape[1])] if rows.shape[1] > 1 else [name]
        of_classes = value.ndim == 2 and value.shape[1] == len(classes) > 1
        columns = [label if len(named) == 1 else f"{name}_{label}" for label in classes] if of_classes else columns
        table |= dict(zip(columns, rows.T.tolist(), strict=True))
        if of_classes:
            table["predicted" if len(named) == 1 else f"{name}_predicted"] = [classes[place] for place in rows.argmax(1).tolist()]
    with save_as(path) as beside, open(beside, "x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(table)
        writer.writerows(zip(*table.values(), strict=True))


def _require_known(path: Path) -> None:
    if path.suffix not in ENDINGS:
        raise WrongUse(f"{path} is no file of arrays by its name; use {_endings()}.")


def _endings() -> str:
    return f"{', '.join(ENDINGS[:-1])} or .csv"
