"""Exported models: a model as a graph of operations with its weights, `.pt2`, which needs no class of the user's to run.

What is written was run first, on other batches than the one it was traced with, and gave what the model gives.
"""

import copy
import inspect
import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from instep.checkpoint.durable import save_as
from instep.data.batch_layout import BY_SAMPLE
from instep.data.inputs import arguments, inputs_of
from instep.data.structure import columns, map_columns, size
from instep.errors import CheckpointError


def export_model(model: nn.Module, batch: Any) -> Any:
    """The model in eval mode on the CPU, as an ExportedProgram for batches of any size; `batch` is an example."""
    model = copy.deepcopy(_bare(model)).cpu().eval()
    batch = map_columns(lambda column: column.cpu() if isinstance(column, Tensor) else column, batch)
    if (size(batch) or 0) < 2:
        raise CheckpointError("an export needs an example of 2 samples or more: with one, torch takes the 1 for a constant.")
    args, kwargs = _arguments(model, batch)
    dynamic: Any = {name: _dimensions(value) for name, value in kwargs.items()} or tuple(_dimensions(value) for value in args)
    try:
        with _quietly(), torch.no_grad():
            program = torch.export.export(model, args, kwargs, dynamic_shapes=dynamic)
    except Exception as error:
        raise CheckpointError(f"torch.export cannot take {type(model).__name__}: {_reason(error)}") from error
    for samples in (1, size(batch) or 2):
        _require_same(model, program, BY_SAMPLE.piece(batch, 0, samples), samples)
    return program


def write_exported(path: Path, program: Any, said: Mapping[str, str]) -> None:
    """Write a program with some texts beside it, which `torch.export.load` gives back as extra files."""
    with save_as(path) as beside, _quietly():
        torch.export.save(program, beside, extra_files=dict(said))


def _bare(model: nn.Module) -> nn.Module:
    """Without what DistributedDataParallel and torch.compile put round it."""
    if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
        return _bare(model.module)
    inner = model._modules.get("_orig_mod")
    return model if inner is None else _bare(inner)


def _arguments(model: nn.Module, batch: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What predictions call the model with; labels that it can do without are for the loss."""
    args, named = arguments(inputs_of(batch))
    known = inspect.signature(model.forward).parameters
    if "labels" in named and "labels" in known and known["labels"].default is None:
        del named["labels"]
    return args, named


def _dimensions(value: Any) -> Any:
    """The batch dimension of every column is free."""
    if isinstance(value, Tensor):
        return {0: torch.export.Dim.DYNAMIC} if value.ndim else None
    if isinstance(value, Mapping):
        return {name: _dimensions(part) for name, part in value.items()}
    return type(value)(_dimensions(part) for part in value) if isinstance(value, tuple | list) else None


def _require_same(model: nn.Module, program: Any, batch: Any, samples: int) -> None:
    args, kwargs = _arguments(model, batch)
    with torch.no_grad(), _quietly():
        expected, found = model(*args, **kwargs), program.module()(*args, **kwargs)
    for ours, theirs in zip(columns(expected), columns(found), strict=True):
        if isinstance(ours, Tensor) and not torch.allclose(ours, theirs, rtol=1e-4, atol=1e-6, equal_nan=True):
            raise CheckpointError(
                f"the exported {type(model).__name__} gives other outputs than the model for a batch of {samples}; "
                "does it draw random numbers in eval mode, or choose its way by its values?"
            )


def _reason(error: Exception) -> str:
    lines = [line.strip(" -") for line in str(error).splitlines() if line.strip()]
    fixed = next((line for line in lines if "specialized it to be a constant" in line), None)
    if fixed is not None:
        return "it fixes the size of the batch somewhere in forward; use -1 or x.shape[0] where the number stands."
    return lines[0] if lines else type(error).__name__


@contextmanager
def _quietly() -> Iterator[None]:
    """Without what torch says to those who develop it."""
    level = logging.getLogger("torch").level
    logging.getLogger("torch").setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.getLogger("torch").setLevel(level)
