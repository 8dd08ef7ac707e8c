"""Wiring: what users pass to a Trainer, made into what the rooms work with; what does not fit is said here."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn
from torch.optim import Optimizer

from instep.checkpoint import steps
from instep.errors import DescriptionError
from instep.folder import CHECKPOINTS
from instep.metrics import Metric
from instep.monitor import Monitor, mode_for
from instep.objective import LossFunction, Objective, from_loss, from_output
from instep.schedules.drive import Drive
from instep.schedules.plateau import PlateauDrive

MakeOptimizer = Callable[[Any], Optimizer]


def objective_for(loss: LossFunction | None, objective: Objective | None) -> Objective:
    if loss is not None and objective is not None:
        raise DescriptionError("loss= and objective= both say what is minimised; leave one out.")
    if objective is not None:
        if not callable(objective):
            raise DescriptionError(f"objective={objective!r} cannot be called; pass a function (model, batch) -> Loss.")
        return objective
    return from_output() if loss is None else from_loss(loss)


def optimizer_for(optimizer: Optimizer | MakeOptimizer, model: nn.Module) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        if not callable(optimizer):
            raise DescriptionError(
                f"optimizer is a {type(optimizer).__name__}; pass an optimizer, or a function of the parameters."
            )
        optimizer = optimizer(model.parameters())
        if not isinstance(optimizer, Optimizer):
            raise DescriptionError(f"optimizer= returned a {type(optimizer).__name__}; it must return a torch.optim.Optimizer.")
    own = set(model.parameters())
    if not any(p in own for group in optimizer.param_groups for p in group["params"]):
        raise DescriptionError("the optimizer holds no parameter of this model; was it made from another one?")
    if not any(p.requires_grad for group in optimizer.param_groups for p in group["params"]):
        raise DescriptionError("every parameter of the optimizer is frozen (requires_grad=False), so nothing would train.")
    return optimizer


def monitor_for(
    name: str | None,
    mode: Any,
    metrics: Mapping[str, Metric],
    *,
    patience: int | None,
    restore_best: bool,
    sets: Sequence[str],
    parts: Sequence[str] = ("loss",),
) -> Monitor | None:
    """The monitor of a run that evaluates on these sets and says these parts of each; None for one that does not evaluate.

    Where there are several losses, none of them is what the run goes by unless it is named.
    """
    if mode not in ("auto", "min", "max"):
        raise DescriptionError(f'monitor_mode={mode!r} is not known; use "min", "max" or "auto".')
    if not sets:
        for asked, value in (("monitor", name), ("patience", patience), ("restore_best", restore_best or None)):
            if value is not None:
                raise DescriptionError(f"{asked}={value!r} needs evaluations; pass valid= and evaluate_every=.")
        return None
    known = [f"{prefix}/{part}" for prefix in sets for part in parts]
    if name is None and parts[0] != "loss":
        if patience is not None or restore_best:
            asked = "restore_best=True" if patience is None else f"patience={patience!r}"
            raise DescriptionError(f"{asked} needs one number to go by, and there are {', '.join(known)}; pass monitor=.")
        return None
    name = name or known[0]
    _require_number(name, known)
    return Monitor(name, mode_for(name, mode, metrics), patience)


def require_monitor(drive: Drive, monitor: Monitor | None) -> None:
    """That a schedule which goes by the monitored value gets one, and takes it the way the run does."""
    if isinstance(drive, PlateauDrive) and monitor is not None:
        drive.follow(monitor.mode)
    if drive.needs_monitor and monitor is None:
        raise DescriptionError(
            "this schedule goes by the monitored value, so it needs evaluations; pass valid= and evaluate_every=."
        )
    if drive.monitor_mode is not None and monitor is not None and drive.monitor_mode != monitor.mode:
        raise DescriptionError(
            f"the schedule takes {monitor.name} for a number to {drive.monitor_mode}imise, the monitor for one "
            f'to {monitor.mode}imise; give it mode="{monitor.mode}".'
        )


def _require_number(name: str, known: Sequence[str]) -> None:
    """That an evaluation will have this number: a set's loss, a metric, or a part of one ("valid/scores/f1")."""
    if not any(name == number or name.startswith(f"{number}/") for number in known):
        raise DescriptionError(f"monitor={name!r} is no number of an evaluation; there will be {', '.join(known)}.")


def load_init(model: nn.Module, init: str | Path, folder: Path | None) -> None:
    """Give a model the weights that were asked for with `init=`, unless a run in the folder is gone on with."""
    if folder is None or not steps(folder / CHECKPOINTS):
        from instep.checkpoint.interchange import load_model

        load_model(model, init)


def loss_modules(loss: Any, objective: Any) -> list[nn.Module]:
    """What of the losses and objectives is a module, and may have a state that a checkpoint has to keep."""
    given = [loss, *(objective.values() if isinstance(objective, Mapping) else [objective])]
    return [part for part in given if isinstance(part, nn.Module)]
