"""A file of samples that a command is given, as the model of a run takes them: by the names and types of its training data."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor

from instep.cli import arrays, rebuild, tables
from instep.cli.border import WrongUse
from instep.data.inputs import inputs_of
from instep.data.sources.underlying import frame_layout
from instep.data.structure import columns, map_columns
from instep.errors import InstepError

INPUTS = ("x", "input", "inputs")
TARGETS = ("y", "target", "targets", "label", "labels")


def read(path: Path) -> Any:
    """What is in the file: a frame, a tensor, or several by name."""
    return tables.read(path) if tables.is_table(path) else arrays.read(path)


def as_inputs(data: Any, found: rebuild.RebuiltRun, path: Path, example: Any) -> Any:
    """The inputs alone."""
    if tables.is_table(path):
        data = tables.inputs_of(data, found.run.description, path)
    elif isinstance(data, Mapping) and not isinstance(inputs_of(example), Mapping):
        data = _only(data, path)
    return _typed(data, example)


def as_samples(data: Any, found: rebuild.RebuiltRun, path: Path, example: Any) -> Any:
    """Inputs and targets."""
    if tables.is_table(path):
        data = tables.samples_of(data, frame_layout(found.trainer.run.feed.train), path)
    elif not isinstance(example, Mapping):
        data = _pair(data, path)
    return _typed(data, example)


@contextmanager
def explained(path: Path, data: Any, example: Any) -> Iterator[None]:
    """What the model makes of data that is not like that of its training is an error about the file."""
    try:
        yield
    except Exception as error:
        said = f"{path} does not go through the model: {_forms(data)}; it was trained on {_forms(example)}."
        raise WrongUse(said) from (None if isinstance(error, InstepError) else error)


def _pair(data: Any, path: Path) -> Any:
    if isinstance(data, tuple | list) and len(data) == 2:
        return tuple(data)
    names = list(data) if isinstance(data, Mapping) else []
    found = [next((name for name in likely if name in names), None) for likely in (INPUTS, TARGETS)]
    if None in found:
        has = f"has {', '.join(names)}" if names else "has one array"
        raise WrongUse(f"{path} {has}, and an evaluation needs inputs and targets; call them x and y in an .npz or .safetensors.")
    return tuple(data[name] for name in found)


def _only(data: Mapping[str, Any], path: Path) -> Any:
    """Of several arrays the one that is the input."""
    if len(data) == 1:
        return next(iter(data.values()))
    likely = [name for name in INPUTS if name in data]
    if not likely:
        raise WrongUse(f"{path} has {', '.join(data)}, and the model takes one input; call it x, or leave the others out.")
    return data[likely[0]]


def _typed(data: Any, example: Any) -> Any:
    """In the precision of the training."""
    wanted = [column.dtype for column in columns(example) if _is_float(column)]
    return map_columns(lambda column: column.to(wanted[0]) if wanted and _is_float(column) else column, data)


def _is_float(column: Any) -> bool:
    return isinstance(column, Tensor) and column.is_floating_point()


def _forms(batch: Any) -> str:
    told = [f"{str(c.dtype).removeprefix('torch.')} {tuple(c.shape[1:])}" for c in columns(batch) if isinstance(c, Tensor)]
    return f"samples of {', '.join(told)}" if told else type(batch).__name__
