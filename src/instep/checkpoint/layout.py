"""The layout of a tensor file: what is stored, what is a view of what is stored, and how it lay in memory.

All refusing happens here, by name and before anything is copied or written: a layout is a plan that can be made at any time.
"""

from collections.abc import Mapping
from dataclasses import field

import torch
from torch import Tensor
from torch.nn import Buffer, Parameter
from torch.nn.parameter import is_lazy

from instep.checkpoint.dtypes import NAMES, STORED_AS, name_of
from instep.checkpoint.strides import is_dense, row_by_row
from instep.checkpoint.ties import TensorView, find_views
from instep.distributed.dtensors import is_sharded
from instep.errors import CheckpointError
from instep.records import record_class


@record_class
class StoredTensor:
    """How one tensor is kept. `strides` is None where it lies row by row, or where there is no order to restore."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None

    @property
    def size_bytes(self) -> int:
        return self.dtype.itemsize * torch.Size(self.shape).numel()


@record_class
class Layout:
    """What a file holds, in its order. Names that share memory are `views` of one that is stored."""

    stored: tuple[StoredTensor, ...]
    views: Mapping[str, TensorView] = field(default_factory=dict)

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.stored)


def plan_layout(tensors: Mapping[str, Tensor], what: str) -> Layout:
    """Plan a file for these tensors, or refuse by name what cannot be kept. Looks at no values and copies nothing."""
    for name, tensor in tensors.items():
        _require_keepable(name, tensor, what)
    views = find_views(tensors, what)
    stored = [_stored(name, tensor) for name, tensor in tensors.items() if name not in views]
    # The largest elements first: then each tensor stands at a multiple of its element's size, which those who map a file into
    # memory rely on.
    stored.sort(key=lambda one: -one.dtype.itemsize)
    return Layout(tuple(stored), views)


def _stored(name: str, tensor: Tensor) -> StoredTensor:
    shape, strides = tuple(tensor.shape), tensor.stride()
    odd = strides != row_by_row(shape) and is_dense(shape, strides)
    return StoredTensor(name, tensor.dtype, shape, strides if odd else None)


def _require_keepable(name: str, tensor: Tensor, what: str) -> None:
    reason = _why_not(tensor)
    if reason is not None:
        raise CheckpointError(f"{what}: {name!r} {reason}.")


def _why_not(tensor: Tensor) -> str | None:
    if is_lazy(tensor):
        return "is a lazy parameter without a shape; run the model once before training, so that it gets one"
    if tensor.device.type == "meta":
        return "is on the meta device and has no values to keep; give the model real memory first (to_empty, then its weights)"
    if tensor.is_quantized or name_of(tensor.dtype).startswith(("quint", "qint")):
        return "is quantized, which a checkpoint cannot keep; train the float model and quantize it afterwards"
    if tensor.is_nested or tensor.layout is not torch.strided:
        return f"has the layout {tensor.layout}, and a checkpoint keeps dense tensors only; use to_dense()"
    if is_sharded(tensor):
        return (
            "is sharded over processes, and this file keeps whole tensors; save the run (folder=), then use "
            "load_model(model, folder) and save_model in one process"
        )
    if type(tensor) not in (Tensor, Parameter, Buffer):
        kind = type(tensor)
        return f"is a {kind.__module__}.{kind.__qualname__}, and a checkpoint keeps plain tensors only; use its plain parts"
    if tensor.dtype not in NAMES and tensor.dtype not in STORED_AS:
        return f"has the dtype {tensor.dtype}, which a checkpoint cannot keep"
    return None
