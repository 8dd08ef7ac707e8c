"""Targets of losses that want 1 and -1, one for either side: a margin, a ranking, pairs that are alike or not."""

from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.losses import LossKind

PLACES = {"soft_margin_loss": 1, "hinge_embedding_loss": 1, "margin_ranking_loss": 2, "cosine_embedding_loss": 2}  # of the target
MASKS = ("margin_ranking_loss", "cosine_embedding_loss")  # where a target of 0 gives no gradient: it may stand for padding
LIMIT = 64
LOOKS = 16  # calls of a line that are looked at one by one, then every 16th


@record_class
class Side(Tally):
    """The targets of one loss from one line."""

    function: str
    site: str | None
    first_step: int
    calls: int = 0  # with a graph
    looked: int = 0
    zeros: int = 0  # of those: all targets are 0 or 1, some of either
    negative: int = 0  # of those: some target was below 0
    share: float = 0.0  # of zeros, the largest
    mask: bool = False  # the loss is not the mean over all: zeros leave out pairs, and somebody else divides
    meant: bool = False  # zeros cannot stand for padding: a margin is given that only targets of -1 have to do with


@part_class
class Sides:
    """The part of the trace about targets of 1 and -1."""

    all: dict[tuple[str, str | None], Side] = field(default_factory=dict)


class SideWatch:
    """Fills `Sides`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub, self._part = trace, hub, trace.part(Sides)

    def on_loss(self, kind: LossKind, called: Called, input: Tensor, _: Any) -> None:
        if kind.function not in PLACES or not input.requires_grad:
            return
        target = called.argument(PLACES[kind.function], "target")
        if not isinstance(target, Tensor) or target.numel() < 2 or target.device.type == "meta":
            return
        side = self._part.all.get((kind.function, kind.site))
        if side is None:
            side = Side(kind.function, kind.site, self._trace.steps)
            if len(self._part.all) < LIMIT:
                self._part.all[(kind.function, kind.site)] = side
        side.calls += 1
        if kind.function in MASKS:
            side.mask = side.mask or called.argument(6, "reduction", "mean") != "mean"
            side.meant = kind.function == "cosine_embedding_loss" and bool(called.argument(3, "margin", 0.0))
        else:
            side.meant = True
        if side.calls <= LOOKS or side.calls % 16 == 0:
            given = target.detach().float()
            zeros, ones = given == 0, given == 1
            facts = [zeros.float().mean(), ones.float().mean(), (zeros | ones).all().float(), (given < 0).any().float()]
            self._hub.read(torch.stack(facts), partial(_note, side))


def _note(side: Side, values: list[float]) -> None:
    zeros, ones, all_of_them, negative = values
    side.looked += 1
    side.negative += bool(negative)
    if zeros and ones and all_of_them:
        side.zeros += 1
        side.share = max(side.share, zeros)


OBSERVERS = [SideWatch]
