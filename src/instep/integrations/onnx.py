"""ONNX: the model of a run for other runtimes, by torch's exporter, checked with onnxruntime."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from instep.checkpoint.durable import save_as
from instep.checkpoint.exported import Program, copy_for_export, export_model, quietly, require_same_on_random
from instep.data.structure import columns
from instep.errors import CheckpointError
from instep.integrations.packages import require_package

MOST_BYTES = 2_000_000_000  # of a file in ONNX's format
TOLERANCE = 1e-4  # of the largest output: onnxruntime sums in another order


def require_onnx() -> None:
    for package in ("onnx", "onnxscript", "onnxruntime"):
        require_package("an export to ONNX", package, extra="onnx")


def write_onnx(path: Path, model: nn.Module, batches: Sequence[Any], say: Callable[[Program], Mapping[str, str]]) -> Program:
    """Write a model for batches of any size, with some texts as its metadata; the first batch is an example, the others show
    which other sizes are free.

    The file is run by onnxruntime on random inputs, and has to give what the model gives.
    """
    model, batches = copy_for_export(model, batches)
    weights = sum(tensor.numel() * tensor.element_size() for tensor in model.state_dict().values() if isinstance(tensor, Tensor))
    if weights > MOST_BYTES:
        raise CheckpointError(f"the weights take {weights / 1e9:.1f} GB, and a file of ONNX holds 2 GB at most; use --to pt2.")
    exported = export_model(model, batches)
    try:
        with quietly():
            made: Any = torch.onnx.export(exported.program, dynamo=True, verbose=False)
    except Exception as error:
        raise CheckpointError(f"torch.onnx cannot take {type(model).__name__}: {_reason(error)}") from error
    made.model.metadata_props.update(say(exported))
    with save_as(path) as beside:
        made.save(beside, external_data=False)
        require_same_on_random(model, _Session(beside), batches[0], tolerance=TOLERANCE)
    return exported


class _Session:
    """A file in onnxruntime, called as the model is."""

    def __init__(self, path: Path) -> None:
        import onnxruntime

        self._session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
        self._names = [one.name for one in self._session.get_inputs()]

    def __call__(self, *args: Any, **kwargs: Any) -> list[Tensor]:
        given = [(name, value) for name, part in kwargs.items() for value in columns(part)]
        given = [("", value) for part in args for value in columns(part)] + given
        tensors = [(name, value.numpy()) for name, value in given if isinstance(value, Tensor)]
        by_name = {name: value for name, value in tensors if name in self._names}
        if len(by_name) < len(self._names):  # inside a structure they have names of torch's own, in the same order
            by_name = dict(zip(self._names, (value for _, value in tensors), strict=True))
        return [torch.from_numpy(np.asarray(one)) for one in self._session.run(None, by_name)]


def _reason(error: Exception) -> str:
    """The innermost reason: torch wraps it in advice for those who develop it."""
    while error.__cause__ is not None and isinstance(error.__cause__, Exception):
        error = error.__cause__
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
