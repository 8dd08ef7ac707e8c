"""The order of numbers that are predicted: whether every batch lies above, or below, the one before, in pass after pass."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.trace import Trace
from instep.doctor.watch.losses import LossKind

FUNCTIONS = ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
LOOKS = 400  # losses of one line
LIMIT = 16


@dataclass(slots=True)
class TargetOrder:
    """The targets of one line, batch after batch."""

    site: str | None
    batches: int = 0
    above: int = 0  # batches that lie above the one before
    below: int = 0
    restarts: int = 0  # batches that are the first one again
    first: tuple[float, float] = (0.0, 0.0)  # its lowest and its highest target
    last: tuple[float, float] = (0.0, 0.0)


@dataclass
class TargetOrders:
    """The part of the trace about the order of targets."""

    all: dict[str | None, TargetOrder] = field(default_factory=dict)


class TargetOrderWatch:
    """Fills `TargetOrders`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._hub, self._orders = hub, trace.part(TargetOrders).all

    def on_loss(self, kind: LossKind, _: Called, input: Tensor, target: Any) -> None:
        if kind.function not in FUNCTIONS or not input.requires_grad or not isinstance(target, Tensor):
            return
        single = target.dim() == 1 or (target.dim() == 2 and target.shape[1] == 1)
        if not single or len(target) < 4 or not target.is_floating_point() or target.requires_grad:
            return
        order = self._orders.get(kind.site)
        if order is None:
            if len(self._orders) >= LIMIT:
                return
            order = self._orders[kind.site] = TargetOrder(kind.site)
        if order.batches < LOOKS:
            self._hub.read(torch.stack(torch.aminmax(target.detach())), partial(_note, order))


def _note(order: TargetOrder, values: list[float]) -> None:
    low, high = values
    order.batches += 1
    if order.batches == 1:
        order.first = (low, high)
    elif (low, high) == order.first:
        order.restarts += 1
    else:
        order.above += low >= order.last[1]
        order.below += high <= order.last[0]
    order.last = (low, high)


OBSERVERS = [TargetOrderWatch]
