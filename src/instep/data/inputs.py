"""Inputs: which part of a batch the model gets, and as which arguments of its forward. One rule, to train and to predict.

    a mapping                   {"a": a, "b": b}   model(a=a, b=b)
    a tuple or list of inputs   (a, b)             model(a, b)
    anything else               x                  model(x)

A namedtuple or a dataclass is one thing that somebody made, like torch's PackedSequence, and so is a list of words.
"""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn

from instep.data.structure import is_column, is_namedtuple
from instep.errors import ObjectiveError


def call_model(model: nn.Module, inputs: Any) -> Any:
    """The output of the model for the inputs of a batch."""
    args, named = ((inputs,), {}) if isinstance(inputs, Tensor) else arguments(inputs)  # the usual one, without a call
    try:
        return model(*args, **named)
    except TypeError as error:
        if (problem := _unfitting(model, args, named)) is None:
            raise
        raise ObjectiveError(problem) from error


def arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of forward that the structure of the inputs says."""
    if isinstance(inputs, Mapping) and all(isinstance(name, str) for name in inputs):
        return (), dict(inputs)
    return (tuple(inputs), {}) if is_several(inputs) else ((inputs,), {})


def is_several(thing: Any) -> bool:
    """Whether it is a tuple or list of several inputs, or of inputs and target."""
    return isinstance(thing, tuple | list) and not is_namedtuple(thing) and not is_column(thing)


def inputs_of(batch: Any, several: int | None = None) -> Any:
    """What the model gets of a batch: the first entry of (inputs, target), else the batch itself.

    `several` is how many inputs the model was trained with: as many entries, none of them nested, are the inputs alone.
    """
    if not isinstance(batch, tuple | list) or is_column(batch) or not batch:
        return batch
    if several is not None and len(batch) == several and not (is_several(batch[0]) or isinstance(batch[0], Mapping)):
        return batch
    return batch[0]


def advise_on_rows(data: Any, inputs: Any) -> str:
    """What to pass in place of data that is no batch like `inputs`, those of the training data; "" where that is not clear."""
    if not isinstance(inputs, Tensor):
        return ""
    if _has_shape(data, inputs.shape[1:]):
        return "This has the shape of one sample; as a batch of one it is x[None]."
    if isinstance(data, tuple) and data and all(_has_shape(part, inputs.shape[1:]) for part in data):
        return "Each entry has the shape of one sample; as a batch they are torch.stack(data)."
    if isinstance(data, list) and data and all(isinstance(row, list) and _are_numbers(row) for row in data):
        return "A list is read as a sample of several entries; as rows of numbers they are torch.tensor(data)."
    return ""


def _has_shape(thing: Any, shape: Sequence[int]) -> bool:
    return isinstance(thing, Tensor | np.ndarray) and tuple(thing.shape) == tuple(shape)


def _are_numbers(row: list[Any]) -> bool:
    return all(isinstance(entry, int | float) for entry in row)


def _unfitting(model: nn.Module, args: tuple[Any, ...], named: Mapping[str, Any]) -> str | None:
    """Why forward cannot be called so; None where it can, and the error is from inside."""
    try:
        signature = inspect.signature(model.forward)
        signature.bind(*args, **named)
    except TypeError as error:
        given = ", ".join([*("…" for _ in args), *(f"{name}=…" for name in named)])
        what = "inputs by name" if named else f"{len(args)} inputs" if len(args) != 1 else "one input"
        return (
            f"{type(model).__name__}.forward({', '.join(signature.parameters)}) is called as model({given}), because the "
            f"batch has {what}: {error}. Give the samples the inputs that forward takes, or pass objective=f(model, batch)."
        )
    except ValueError:  # a forward without a signature
        return None
    return None
