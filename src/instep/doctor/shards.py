"""Sharded tensors while the doctor works: each is what of it this process holds, so that no other has to answer.

An operation on one of torch's DTensors may be a collective, for which all processes have to come; the doctor looks at different
times in each. FSDP2 frees the whole weights between forwards, and reading what is not there would end the process.
"""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map_only


class Unseen(Exception):
    """Values that cannot be looked at here and now."""


def is_sharded(tensor: object) -> bool:
    """Whether it is a DTensor, of which a process holds a part."""
    return hasattr(tensor, "placements") and hasattr(tensor, "_local_tensor")


class HeldHere(TorchDispatchMode):
    """`with HeldHere():` every operation on a sharded tensor is done on the part that is held here."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = tree_map_only(Tensor, _held_here, (args, kwargs or {}))
        return func(*args, **kwargs)


def _held_here(tensor: Any) -> Tensor:
    if is_sharded(tensor):
        if any(placement.is_partial() for placement in tensor.placements):
            raise Unseen("a sum that is spread over processes")
        tensor = tensor._local_tensor
    if tensor.device.type != "meta" and tensor.numel() and not tensor.untyped_storage().size():
        raise Unseen("a weight that FSDP has freed until it is needed again")
    held: Tensor = tensor
    return held
