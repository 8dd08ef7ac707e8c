"""Wiring: what users pass to a Trainer, made into what the rooms work with; what does not fit is said here."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from instep.checkpoint import steps
from instep.run.folder import CHECKPOINTS


def load_init(model: nn.Module, init: str | Path, folder: Path | None) -> None:
    """Give a model the weights that were asked for with `init=`, unless a run in the folder is gone on with."""
    if folder is None or not steps(folder / CHECKPOINTS):
        from instep.checkpoint.interchange import load_model

        load_model(model, init)


def loss_modules(loss: Any, objective: Any) -> list[nn.Module]:
    """What of the losses and objectives is a module, and may have a state that a checkpoint has to keep."""
    given = [loss, *(objective.values() if isinstance(objective, Mapping) else [objective])]
    return [part for part in given if isinstance(part, nn.Module)]
