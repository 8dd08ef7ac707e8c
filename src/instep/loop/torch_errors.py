"""Errors of torch in words: which layer got what, and the line to change.

Only what is known is put into words. What a user's code, or a library other than torch, raises on purpose passes unchanged, and
so does whatever cannot be explained better than it explains itself.
"""

import inspect
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import torch
from torch import Tensor, nn

from instep.data.device import is_out_of_memory
from instep.data.loading.failure import user_line
from instep.data.structure import named_columns
from instep.errors import InstepError, ObjectiveError, is_user_file

EXPLAINED = (RuntimeError, TypeError, IndexError, ValueError)  # what torch raises
_TORCH = str(Path(torch.__file__).parent)
_LAYERS = str(Path(torch.__file__).parent / "nn" / "modules")
_NO_LAYERS = ("module.py", "container.py")
_DEVICES = re.compile(r"on the same device|not on the expected device")
_CALLED = re.compile(r"\.forward\(\) (missing|takes|got an unexpected|got multiple)")


def explain(error: BaseException, model: nn.Module, data: Any) -> ObjectiveError | None:
    """What the model raised for a batch, in words, with the error as its cause; None where there is nothing to add."""
    if not isinstance(error, EXPLAINED) or isinstance(error, InstepError) or is_out_of_memory(error):
        return None
    frames = list(_frames(error.__traceback__))
    if not frames or is_raised_by_user(error):
        return None
    text = _of_call(error, model, frames) or _of_layer(error, model, frames) or _of_devices(error, model) or _of_graph(error)
    if text is None:
        return None
    explained = ObjectiveError(f"{text} The batch has {describe(data)}.{user_line(error)}")
    explained.__cause__ = error
    return explained


def is_raised_by_user(error: BaseException) -> bool:
    """Whether a line of the user's own raised it on purpose."""
    last = traceback.extract_tb(error.__traceback__)[-1:]
    return any(is_user_file(frame.filename) and (frame.line or "").startswith(("raise", "assert")) for frame in last)


def describe(data: Any) -> str:
    """The columns of a batch: `0: float32 (16, 4), 1: int64 (16,)`"""
    return ", ".join(f"{name}: {_kind(column)}" if name else _kind(column) for name, column in named_columns(data))


def message(error: BaseException) -> str:
    """What an error says, in one line; with its class where torch does not raise it: a KeyError says no more than a key."""
    text = " ".join(str(error).split())
    if text and isinstance(error, EXPLAINED):
        return text
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {tuple(value.shape)}"
    if isinstance(value, list | tuple) and value:
        return f"a {type(value).__name__} of {len(value)} x {type(value[0]).__name__}"
    return type(value).__name__


def _frames(trace: TracebackType | None) -> Iterator[FrameType]:
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next


# --- Calling the model


def _of_call(error: BaseException, model: nn.Module, frames: list[FrameType]) -> str | None:
    """`forward` was not called with the arguments that it takes."""
    called: Any = frames[-1].f_locals.get("self")
    own = [model, *model.values()] if isinstance(model, nn.ModuleDict) else [model]
    if not isinstance(error, TypeError) or not _CALLED.search(str(error)) or not any(called is module for module in own):
        return None
    problem = str(error).split(".forward() ")[-1]
    args, kwargs = frames[-1].f_locals.get("args", ()), frames[-1].f_locals.get("kwargs", {})
    given = [*("a mapping" if isinstance(arg, Mapping) else _kind(arg) for arg in args), *(f"{name}=" for name in kwargs)]
    return (
        f"{type(called).__name__}.forward{inspect.signature(called.forward)} {problem}; it was called with "
        f"({', '.join(given)}). Pass objective=f(model, batch), which calls the model with what it needs and returns a Loss, or "
        "give the argument a default."
    )


# --- Layers


def _of_layer(error: BaseException, model: nn.Module, frames: list[FrameType]) -> str | None:
    """A layer of torch's got what it cannot take."""
    found = _layer_frame(frames)
    if found is None:
        return None
    layer, given = found.f_locals["self"], found.f_locals.get("input")
    name = next((name for name, module in model.named_modules() if module is layer), None)
    who = f"layer {name!r}, {layer}," if name else f"the model, {layer}," if name == "" else f"{layer}"
    if isinstance(given, Tensor):
        said = _of_types(layer, given) or _of_shapes(layer, given, str(error))
    elif given is not None:
        said = f"takes a tensor and got {_kind(given)}; {_how_to_make_a_tensor(given)}"
    else:
        said = None
    if said is None:
        first = str(error).strip().splitlines()[0].rstrip(".")
        said = f"cannot take an input of {_kind(given)}: {first}." if isinstance(given, Tensor) else f"failed: {first}."
    return f"{who} {said}"


def _how_to_make_a_tensor(given: Any) -> str:
    while isinstance(given, list | tuple) and given:
        given = given[0]
    if isinstance(given, str):
        return "words have to become numbers before they reach the model."
    return "make tensors of the samples, in the data set or with data.source(…, collate_fn=…)."


def _layer_frame(frames: list[FrameType]) -> FrameType | None:
    """The innermost frame of a layer, where nothing but torch lies further inside."""
    for frame in reversed(frames):
        path = frame.f_code.co_filename
        if path.startswith(_LAYERS) and Path(path).name not in _NO_LAYERS and isinstance(frame.f_locals.get("self"), nn.Module):
            return frame
        if not path.startswith(_TORCH):
            return None
    return None


def _of_types(layer: nn.Module, given: Tensor) -> str | None:
    weight = next(layer.parameters(), None)
    if weight is None:
        return None
    if given.device != weight.device:
        return (
            f"has its weights on {weight.device} and got an input on {given.device}; a tensor that forward() makes needs "
            "device=x.device, one that the module keeps is sent along after register_buffer()."
        )
    if isinstance(layer, nn.Embedding | nn.EmbeddingBag):
        if not given.is_floating_point():
            return None
        return f"takes indices, whole numbers, and got {given.dtype}; use x.long()."
    if given.dtype == weight.dtype:
        return None
    type_name = str(weight.dtype).removeprefix("torch.")
    advice = "use x.float()" if weight.dtype == torch.float32 else f"use x.to({weight.dtype})"
    if given.dtype is torch.uint8:
        advice = f"{advice} / 255 (pixels), or transform= in data.source()"
    elif given.is_floating_point():
        advice += f", or a model of that type: model.to({given.dtype})"
    return f"has {type_name} weights and got an input of {_kind(given)}; {advice}."


def _of_shapes(layer: nn.Module, given: Tensor, said: str) -> str | None:
    shape = tuple(given.shape)
    if isinstance(layer, nn.Linear) and shape and shape[-1] != layer.in_features:
        if given.ndim > 2 and given[0].numel() == layer.in_features:
            return f"takes {layer.in_features} features and got an input of shape {shape}; put an nn.Flatten() before it."
        return (
            f"takes {layer.in_features} features and got an input of shape {shape}; use nn.Linear({shape[-1]}, "
            f"{layer.out_features}), or data with {layer.in_features} features."
        )
    if isinstance(layer, nn.modules.conv._ConvNd):
        return _of_channels(layer, shape)
    if isinstance(layer, nn.Embedding) and given.numel() and not given.is_floating_point():
        least, most = (int(edge) for edge in torch.aminmax(given))
        if least < 0 or most >= layer.num_embeddings:
            wrong = least if least < 0 else most
            return (
                f"has rows for the indices 0 to {layer.num_embeddings - 1} and got {wrong}; use nn.Embedding({most + 1}, "
                f"{layer.embedding_dim}), or smaller indices."
            )
    return None


def _of_channels(layer: Any, shape: tuple[int, ...]) -> str | None:
    dims, channels = len(layer.kernel_size), layer.in_channels
    kind = type(layer).__name__
    if len(shape) == dims + 1 and channels == 1:
        return f"takes inputs (samples, 1, …) and got {shape}; use x.unsqueeze(1)."
    if len(shape) != dims + 2:
        return f"takes inputs of {dims + 2} dimensions, (samples, channels, …), and got {shape}."
    if shape[1] == channels:
        return None
    if shape[-1] == channels:
        return f"takes the channels in dimension 1 and got {shape}, where they stand last; use x.movedim(-1, 1)."
    return f"takes {channels} channels and got an input of shape {shape}; use nn.{kind}({shape[1]}, {layer.out_channels}, …)."


def _of_devices(error: BaseException, model: nn.Module) -> str | None:
    if not isinstance(error, RuntimeError) or not _DEVICES.search(str(error)):
        return None
    first = str(error).strip().splitlines()[0].rstrip(".!")
    where = sorted({str(tensor.device) for tensor in (*model.parameters(), *model.buffers())})
    return (
        f"tensors on different devices met ({first}); the model is on {', '.join(where)}. A tensor that forward() makes needs "
        "device=x.device, one that the module keeps is sent along after register_buffer()."
    )


def _of_graph(error: BaseException) -> str | None:
    if "backward through the graph a second time" not in str(error):
        return None
    return (
        "the graph of the loss was gone back through already. Leave backward() to the Trainer, and return the loss; or, where a "
        "tensor of an update before is part of it (a hidden state), detach() what is kept."
    )
