"""What a call of a model is given, with its tensors changed, and the tensors of what it gives."""

from collections.abc import Iterator
from typing import Any

from torch import Tensor, nn

from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import tensors


def replaced(call: Call, change: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a call with every tensor changed."""
    args: tuple[Any, ...] = _mapped(call.args, change)
    kwargs: dict[str, Any] = _mapped(call.kwargs, change)
    return args, kwargs


def reads_once(call: Call) -> bool:
    """Whether a generator is among the arguments: another forward would take from it."""
    return any(isinstance(value, Iterator) for value in (*call.args, *call.kwargs.values()))


def _mapped(value: Any, change: Any) -> Any:
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, tuple) and type(value) is tuple:
        return tuple(_mapped(each, change) for each in value)
    if isinstance(value, list):
        return [_mapped(each, change) for each in value]
    if isinstance(value, dict):
        return {key: _mapped(each, change) for key, each in value.items()}
    return value


def pick(output: Any, accept: Any) -> Tensor | None:
    """The first tensor of an output that is acceptable."""
    return next((tensor for tensor in outputs_of(output) if tensor.is_floating_point() and accept(tensor)), None)


def outputs_of(output: Any) -> list[Tensor]:
    """The tensors of an output; of an object, as a distribution is, those of its attributes."""
    found = tensors(output)
    kept = getattr(output, "__dict__", None)
    if found or not isinstance(kept, dict) or isinstance(output, nn.Module):
        return found
    inner = getattr(output, "base_dist", None)
    return outputs_of(inner) if inner is not None else tensors(list(kept.values()))
