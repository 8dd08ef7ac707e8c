"""The modules of a model as text, by name: its class and what it prints of itself; and the plain values that they hold.

What a checkpoint restores is left out: parameters and buffers. So is what depends on where and how a run is run.
"""

from typing import Any, NamedTuple

from torch import Tensor, nn

from instep.distributed.dtensors import class_of
from instep.run.plain import UNKNOWN, plain, without_addresses
from instep.run.written import is_own_class

TORCHS = frozenset({*vars(nn.Module()), "_compiled_call_impl"})  # what torch keeps in every module
_BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm)  # the last stands for the others in processes


class Modules(NamedTuple):
    """The modules of a model, by their names in it."""

    texts: dict[str, str]  # {"": "Net()", "act": "Tanh()", …}
    values: dict[str, Any]  # {"scale": 2.0, "act.slope": 0.1, …}: what they hold and do not print


def describe_modules(model: nn.Module) -> Modules:
    """Of the user's own classes all plain values, of others the public ones, where they print nothing of themselves."""
    found = Modules({}, {})
    for name, module in model.named_modules():
        kind = class_of(module)
        own, said = is_own_class(kind), _extra_repr(module)
        found.texts[name] = f"{'BatchNorm' if kind in _BATCH_NORM else kind.__name__}({said})"
        if own or not said:
            values = {key: value for key, value in _attributes(module, own=own).items() if f"{key}=" not in said}
            found.values.update({f"{name}.{key}" if name else key: value for key, value in values.items()})
    return found


def buffer_values(module: nn.Module) -> dict[str, Any]:
    """The buffers of a loss: a checkpoint would restore the old class weights over new ones."""
    return {name: value for name, buffer in module.named_buffers() if (value := plain(buffer)) is not UNKNOWN}


def _extra_repr(module: nn.Module) -> str:
    try:
        return " ".join(without_addresses(module.extra_repr()).split())
    except Exception:  # of a user's own, which nobody else may have called
        return ""


def _attributes(module: nn.Module, *, own: bool) -> dict[str, Any]:
    """The plain values that a module holds: of other people's classes the public ones."""
    found = {}
    for name, value in vars(module).items():
        if (
            name in TORCHS
            or "_fsdp_" in name
            or (name.startswith("_") and not own)
            or (isinstance(value, Tensor) and value.requires_grad)
        ):
            continue
        kept = plain(value, name)
        if kept is not UNKNOWN:
            found[name] = kept
        elif callable(value) and hasattr(value, "__qualname__"):
            found[name] = value.__qualname__
    return found
