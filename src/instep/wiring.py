"""Wiring: what users pass to a Trainer, made into what the rooms work with; what does not fit is said here."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.data.source import Source, as_source, held_out
from instep.errors import DescriptionError
from instep.metrics import Metric
from instep.monitor import Monitor, mode_for
from instep.objective import LossFunction, Objective, from_loss, from_output

MakeOptimizer = Callable[[Any], Optimizer]


def sources(train: Any, valid: Any, seed: int) -> tuple[Source, dict[str, Source]]:
    source = as_source(train, "train")
    if valid is None:
        return source, {}
    if isinstance(valid, float):
        rest, kept = held_out(source, valid, seed)
        return rest, {"valid": kept}
    if isinstance(valid, Mapping) and not _is_one_set(valid, train):
        if not valid:
            raise DescriptionError('valid={} holds no data set; leave it out, or pass for example {"a": (x, y)}.')
        return source, {f"valid/{name}": as_source(data, f"valid[{name!r}]") for name, data in valid.items()}
    return source, {"valid": as_source(valid, "valid")}


def _is_one_set(valid: Mapping[Any, Any], train: Any) -> bool:
    """A mapping of columns, like the training data's own, or of several tensors; else it is one of data sets by name."""
    if isinstance(train, Mapping):
        return set(train) == set(valid)
    return len(valid) > 1 and all(isinstance(column, Tensor | np.ndarray) for column in valid.values())


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
    return optimizer


def monitor_for(
    name: str | None, mode: Any, metrics: Mapping[str, Metric], *, patience: int | None, restore_best: bool, sets: Sequence[str]
) -> Monitor | None:
    """The monitor of a run that evaluates on these sets; None for one that does not evaluate."""
    if mode not in ("auto", "min", "max"):
        raise DescriptionError(f'monitor_mode={mode!r} is not known; use "min", "max" or "auto".')
    if not sets:
        for asked, value in (("monitor", name), ("patience", patience), ("restore_best", restore_best or None)):
            if value is not None:
                raise DescriptionError(f"{asked}={value!r} needs evaluations; pass valid= and evaluate_every=.")
        return None
    name = name or f"{sets[0]}/loss"
    _require_number(name, metrics, sets)
    return Monitor(name, mode_for(name, mode, metrics), patience)


def _require_number(name: str, metrics: Mapping[str, Metric], sets: Sequence[str]) -> None:
    """That an evaluation will have this number: a set's loss, a metric, or a part of one ("valid/scores/f1")."""
    parts = ("loss", *metrics)
    if not any(name == f"{prefix}/{part}" or name.startswith(f"{prefix}/{part}/") for prefix in sets for part in parts):
        known = ", ".join(f"{prefix}/{part}" for prefix in sets for part in parts)
        raise DescriptionError(f"monitor={name!r} is no number of an evaluation; there will be {known}.")
