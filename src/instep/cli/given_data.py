"""A file of samples that a command is given, as the model of a run takes them: by the names and types of its training data."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from instep.cli import arrays, rebuild, tables
from instep.cli.border import YELLOW, WrongUse, say
from instep.data.inputs import inputs_of
from instep.data.sources.underlying import frame_layout
from instep.data.structure import columns, map_columns
from instep.errors import InstepError
from instep.run.run_files import section
from instep.text import listed

INPUTS = ("x", "input", "inputs")
TARGETS = ("y", "target", "targets", "label", "labels")
TRANSFORMS = ("transform", "batch_transform")


def read(path: Path) -> Any:
    """What is in the file: a frame, a tensor, or several by name."""
    return tables.read(path) if tables.is_table(path) else arrays.read(path)


def read_inputs(data: Any, found: rebuild.RebuiltRun, path: Path, example: Any) -> Any:
    """The inputs alone, of what was read; `example` is a sample of the training data."""
    inputs = inputs_of(example)
    if tables.is_table(path):
        data = tables.inputs_of(data, found.run.description, path, _float_type(example))
    elif isinstance(data, Mapping) and not isinstance(inputs, Mapping):
        data = _only(data, path)
    return _as_trained(data, inputs if isinstance(data, Mapping | Tensor) else example, path)


def read_samples(data: Any, found: rebuild.RebuiltRun, path: Path, example: Any) -> Any:
    """Inputs and targets, of what was read."""
    if tables.is_table(path):
        layout = frame_layout(found.trainer.run.feed.train)
        target = None if layout is None else layout.target
        samples: Any = tables.samples_of(data, found.run.description, path, _float_type(example), target)
    else:
        samples = _samples(data, found.run.description, path, example)
    _note_transforms(found, path)
    return _as_trained(samples, example, path)


@contextmanager
def explain_misfit(path: Path, data: Any, example: Any) -> Iterator[None]:
    """An error of the model about data that is not like that of its training says so."""
    try:
        yield
    except Exception as error:
        has, wants = _forms(data), _forms(example)
        if has != wants:
            said = f"{path} does not go through the model: {has}; it was trained on {wants}."
            raise WrongUse(said) from (None if isinstance(error, InstepError) else error)
        if isinstance(error, InstepError):
            raise WrongUse(str(error)) from None
        raise


# --- What a file of arrays holds


def _samples(data: Any, description: Mapping[str, Any], path: Path, example: Any) -> Any:
    """The arrays in the structure of a sample."""
    if isinstance(example, tuple | list):
        if isinstance(data, tuple | list) and len(data) == len(example):
            return tuple(data)
        if isinstance(data, Mapping):
            return _by_name(data, description, path, example)
    elif isinstance(example, Mapping) == isinstance(data, Mapping):
        return data
    raise WrongUse(f"{path} holds {_kind(data)}, and a sample of the training data is {_kind(example)}; {_way(example)}.")


def _by_name(data: Mapping[str, Any], description: Mapping[str, Any], path: Path, example: Any) -> Any:
    own = section(section(description, "settings"), "train").get("target")
    target = _first([own, *TARGETS] if isinstance(own, str) else TARGETS, data)
    given = inputs_of(example)
    used = [*given] if isinstance(given, Mapping) else [_first(INPUTS, data)]
    missing = [*(name for name in used if name not in data), *([] if target in data else [target])]
    if len(example) != 2 or missing:
        raise WrongUse(f"{path} has {', '.join(data)}, and an evaluation needs inputs and targets; {_way(example)}.")
    if left := [name for name in data if name not in (*used, target)]:
        say(f"{path} has arrays that are not used: {listed(left)}", YELLOW, who="note")
    return {name: data[name] for name in used} if isinstance(given, Mapping) else data[used[0]], data[target]


def _way(example: Any) -> str:
    """How a file can hold what the model was trained on."""
    given = inputs_of(example)
    if isinstance(example, tuple | list) and (len(example) != 2 or isinstance(given, tuple | list)):
        return "save it with torch.save as a .pt file of the same structure"
    names = f"{', '.join(given)} and the target" if isinstance(given, Mapping) else "x and y"
    return f"call them {names} in an .npz or .safetensors"


def _kind(data: Any) -> str:
    if isinstance(data, Tensor):
        return "one array"
    return f"{len(data)} arrays{' by name' if isinstance(data, Mapping) else ''}" if hasattr(data, "__len__") else "no array"


def _first(names: Sequence[str], data: Mapping[str, Any]) -> str:
    return next((name for name in names if name in data), names[0])


def _only(data: Mapping[str, Any], path: Path) -> Any:
    """Of several arrays the one that is the input."""
    if len(data) == 1:
        return next(iter(data.values()))
    likely = [name for name in INPUTS if name in data]
    if not likely:
        raise WrongUse(f"{path} has {', '.join(data)}, and the model takes one input; call it x, or leave the others out.")
    return data[likely[0]]


# --- Types


def _float_type(example: Any) -> torch.dtype:
    return next((c.dtype for c in columns(example) if isinstance(c, Tensor) and c.is_floating_point()), torch.float32)


def _as_trained(data: Any, example: Any, path: Path) -> Any:
    """Each column in the type that the training data has at its place, where that changes no value but by rounding."""
    given, wanted = ([column.dtype for column in columns(each) if isinstance(column, Tensor)] for each in (data, example))
    if len(given) != len(wanted):  # nobody knows which belongs to which: only the precision is that of the training
        wanted = [_float_type(example) if dtype.is_floating_point else dtype for dtype in given]
    types = iter(wanted)
    return map_columns(lambda column: _cast(column, next(types), path) if isinstance(column, Tensor) else column, data)


def _cast(column: Tensor, dtype: torch.dtype, path: Path) -> Tensor:
    cast = column.to(dtype)
    if column.is_floating_point() and not cast.is_floating_point() and not torch.equal(cast.to(column.dtype), column):
        has, wants = (str(each).removeprefix("torch.") for each in (column.dtype, dtype))
        raise WrongUse(f"{path} has {has} where the run was trained on {wants}, and they are no whole numbers.")
    return cast


def _forms(batch: Any) -> str:
    shown = [f"{str(c.dtype).removeprefix('torch.')} {tuple(c.shape[1:])}" for c in columns(batch) if isinstance(c, Tensor)]
    return f"samples of {', '.join(shown)}" if shown else type(batch).__name__


def _note_transforms(found: rebuild.RebuiltRun, path: Path) -> None:
    """Without validation data nothing says whether new samples go through the transforms of the training data."""
    feed, train = found.trainer.run.feed, section(section(found.run.description, "settings"), "train")
    if names := " and the ".join(name for name in TRANSFORMS if train.get(name) is not None and not feed.valid):
        say(f"{path} does not go through the {names} of the training data; it must hold what comes out", YELLOW, who="note")
