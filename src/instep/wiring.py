"""Wiring: what users pass to a Trainer, made into what the rooms work with; what does not fit is said here."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn
from torch.optim import Optimizer

from instep.data.source import Source, as_source, held_out
from instep.errors import DescriptionError
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
    if isinstance(valid, Mapping) and not (isinstance(train, Mapping) and set(train) == set(valid)):
        return source, {f"valid/{name}": as_source(data, f"valid[{name!r}]") for name, data in valid.items()}
    return source, {"valid": as_source(valid, "valid")}


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


def monitor_for(name: str | None, mode: Any, metrics: Any, patience: int | None, sets: list[str]) -> Monitor | None:
    if not sets:
        for asked, value in (("monitor", name), ("patience", patience)):
            if value is not None:
                raise DescriptionError(f"{asked}={value!r} needs evaluations; pass valid=.")
        return None
    name = name or f"{sets[0]}/loss"
    if not any(name.startswith(f"{prefix}/") for prefix in sets):
        raise DescriptionError(
            f"monitor={name!r} is no number of an evaluation; they begin with {', '.join(s + '/' for s in sets)}."
        )
    return Monitor(name, mode_for(name, mode, metrics), patience)
