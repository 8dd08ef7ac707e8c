"""Hidden units that begin with the same weights, where these are not one number: one row was drawn and written to all of them.

Random weights behind such a layer set its units apart again in the first steps, slowly; that is why the start is looked at.
Constant weights are left to `structure`, which looks whether they stay equal: a last layer may well begin at one number.
"""

from dataclasses import field

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import OptimizerRecord

LARGE = 4_000_000  # elements beyond which nothing is compared
LIMIT = 64
DRAWN = 0.9  # share of different numbers in one row
OTHERS = (nn.Embedding, nn.EmbeddingBag, nn.MultiheadAttention, _NormBase, nn.LayerNorm, nn.GroupNorm, _ConvTransposeNd)


@record_class
class EqualUnits:
    """A layer that is not the last, all of whose units began with the same weights."""

    name: str
    optimizer: int
    units: int
    shape: tuple[int, ...]


@part_class
class EqualStarts:
    """The part of the trace about units that begin alike."""

    all: dict[int, EqualUnits] = field(default_factory=dict)


class EqualUnitWatch:
    """Fills `EqualStarts`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part, self._calls = trace.part(EqualStarts), trace.part(Calls)
        self._parameters = trace.part(Gradients).parameters

    def on_equal_rows(self, record: OptimizerRecord, tensor: Tensor) -> None:
        """Told of a weight whose beginning is the same in all rows, or in all columns, before its first step."""
        weight = tensor.detach()
        if weight.device.type != "cpu" or weight.numel() > LARGE or len(self._part.all) >= LIMIT:
            return
        weight = weight.flatten(1)
        rows, columns = bool((weight == weight[:1]).all()), bool((weight == weight[:, :1]).all())
        if rows == columns:
            return  # constant, or not equal at all
        axis = 0 if rows else 1
        units, row = weight.shape[axis], weight[0] if rows else weight[:, 0]
        if row.unique().numel() < DRAWN * len(row):
            return  # a pattern that was written down: the last value of a series, a blur
        if units > 1 and self._is_layer(tensor, axis) and self._is_hidden(tensor, axis, units):
            known = self._parameters.get(id(tensor))
            name = known.name if known is not None else f"tensor{tuple(tensor.shape)}"
            self._part.all[id(tensor)] = EqualUnits(name, record.number, units, tuple(tensor.shape))

    def _is_layer(self, tensor: Tensor, axis: int) -> bool:
        """Whether units lie along that axis: in a layer of torch's along the first. Elsewhere a bias of that length tells."""
        module = self._module_of(tensor)
        if isinstance(module, OTHERS):
            return False
        if isinstance(module, _ConvNd):
            return axis == 0 and module.groups == 1  # one filter for each channel may be meant to blur
        if isinstance(module, nn.Linear | nn.RNNBase):
            return axis == 0
        if tensor.dim() != 2:
            return False
        if module is not None:
            siblings = [tuple(each.shape) for each in module._parameters.values() if each is not None]
        else:
            siblings = [known.shape for known in self._parameters.values()]
        return (tensor.shape[axis],) in siblings

    def _module_of(self, tensor: Tensor) -> nn.Module | None:
        tops = [top for root in self._calls.roots[:LIMIT] if (top := root.reference()) is not None]
        parts = (part for top in tops for part in top.modules())
        return next((part for part in parts if any(each is tensor for each in part._parameters.values())), None)

    def _is_hidden(self, tensor: Tensor, axis: int, units: int) -> bool:
        """Whether another weight takes as many numbers as this one gives; behind filters they may be spread over places."""
        other = 1 - axis
        shapes = [known.shape for known in self._parameters.values() if known.key != id(tensor) and len(known.shape) > 1]
        spread = tensor.dim() > 2
        return any(shape[other] == units or (spread and shape[other] % units == 0) for shape in shapes)


OBSERVERS = [EqualUnitWatch]
