"""Unfreezing: parts of a model that begin to train at some epoch. What is unfrozen is a function of the epoch, so that a run that
is resumed has it again; nothing of it is stored.

All is checked before the run. Parameters that no group holds join the optimizer in a group of their own when their epoch comes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.optim import LBFGS, Optimizer

from instep.errors import DescriptionError
from instep.optim.freeze import frozen, is_frozen, unfreeze
from instep.optim.parts import Slot, What, modules_of, part_of, slots_of
from instep.records import record_class
from instep.schedules.drive import Drive
from instep.schedules.scheduler import SchedulerDrive
from instep.text import plural

UnfreezeAt = Mapping[int, What | Sequence[What]]


@record_class
class Release:
    """What is unfrozen at the beginning of one epoch."""

    epoch: int
    what: tuple[What, ...]
    label: str
    joins: tuple[str, ...]  # the parameters that are in no group before


class Unfreezing:
    """The releases of a run, in order; `reach(epoch)` makes those that are due."""

    def __init__(self, model: nn.Module, at: UnfreezeAt | None, optimizers: Sequence[Optimizer]) -> None:
        self._model = model
        self._optimizers = optimizers
        self.releases = tuple(_planned(model, {} if at is None else at, self._optimizers))
        self._made = 0

    def check_schedule(self, drive: Drive) -> None:
        """Raises where torch's own scheduler would meet a group that joins later."""
        if isinstance(drive, SchedulerDrive):
            self._require_groups()

    def labels(self) -> dict[int, str] | None:
        """For the description: epochs and what they unfreeze."""
        return {release.epoch: release.label for release in self.releases} or None

    def frees_batch_norm(self) -> bool:
        """Whether a BatchNorm that is held now will take statistics of its own batches."""
        parts = [part_of(self._model, what) for release in self.releases for what in release.what]
        return any(
            isinstance(module, _BatchNorm) and is_frozen(module) and any(part.anchor(name) is not None for part in parts)
            for name, module in modules_of(self._model)
        )

    def reach(self, epoch: int) -> None:
        """Unfreeze what is due at the beginning of this epoch and was not before."""
        while self._made < len(self.releases) and self.releases[self._made].epoch <= epoch:
            release = self.releases[self._made]
            unfreeze(self._model, *release.what)
            if release.joins:
                self._join(release)
            self._made += 1

    def notes(self, epochs: int) -> list[str]:
        """What the plan of a run of so many epochs should say."""
        return [
            f"unfreeze_at has {release.label} at epoch {release.epoch}, which a run of {plural(epochs, 'epoch')} never comes to"
            for release in self.releases
            if release.epoch >= epochs
        ]

    def _require_groups(self) -> None:
        joining = next((release for release in self.releases if release.joins), None)
        if joining is not None:
            raise DescriptionError(
                f"unfreeze_at={{{joining.epoch}: …}}: {joining.joins[0]} is in no group of the optimizer, and torch's own "
                "schedulers cannot take in groups that join later; put it into a group from the start, where nothing moves it "
                "while it is frozen, or use a schedule of instep.schedules."
            )

    def _join(self, release: Release) -> None:
        optimizer = self._optimizers[0]
        slots = {slot.name: slot for slot in slots_of(self._model)}
        named = "param_names" in optimizer.param_groups[0]
        parameters: list[Any] = [(name, slots[name].parameter) if named else slots[name].parameter for name in release.joins]
        optimizer.add_param_group({"params": parameters, "name": f"unfrozen at epoch {release.epoch}"})


def _planned(model: nn.Module, at: UnfreezeAt, optimizers: Sequence[Optimizer]) -> list[Release]:
    if not isinstance(at, Mapping):
        raise DescriptionError(f"unfreeze_at={at!r} does not say when; use a mapping from epochs to parts: {{3: 'base'}}.")
    if at:
        _require_able(optimizers)
    held = {p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    still = set(frozen(model).parameters)
    releases = []
    for epoch in sorted(at, key=_epoch):
        asked = at[epoch]
        what: tuple[What, ...] = (asked,) if isinstance(asked, str | nn.Module) else tuple(asked)
        parts = [part_of(model, one) for one in what]
        label = ", ".join(part.label or "the model" for part in parts)
        slots = [slot for slot in slots_of(model) if any(part.anchor(slot.name) is not None for part in parts)]
        released = [slot for slot in slots if slot.name in still]
        if not released:
            raise DescriptionError(
                f"unfreeze_at={{{epoch}: …}}: nothing in {label} is frozen then; freeze it before the run, freeze(model, …)"
                f"{_by_hand(slots)}."
            )
        still -= {slot.name for slot in released}
        joins = tuple(slot.name for slot in released if slot.parameter not in held)
        held |= {slot.parameter for slot in released}
        if joins and len(optimizers) > 1:
            raise DescriptionError(
                f"unfreeze_at={{{epoch}: …}}: {joins[0]} is in the groups of no optimizer, and there are {len(optimizers)} that "
                "it could join; put it into one from the start, where nothing moves it while it is frozen."
            )
        releases.append(Release(epoch, what, label, joins))
    return releases


def _epoch(epoch: object) -> int:
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 1:
        raise DescriptionError(f"unfreeze_at={{{epoch!r}: …}}: epochs are whole numbers, 1 or more; epoch 0 is the first.")
    return epoch


def _require_able(optimizers: Sequence[Optimizer]) -> None:
    for optimizer in optimizers:
        if isinstance(optimizer, LBFGS):
            raise DescriptionError("unfreeze_at= cannot be used with LBFGS, which steps along directions of the past.")


def _by_hand(slots: Sequence[Slot]) -> str:
    if any(not slot.parameter.requires_grad for slot in slots):
        return " (requires_grad=False was set by hand there)"
    return ""
