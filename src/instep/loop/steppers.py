"""What is trained how: one optimizer with one objective, or several by name. What does not fit together is said here."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torch.optim import Optimizer

from instep import keys
from instep.data.batch_layout import BY_SAMPLE, BatchLayout
from instep.distributed.processes import Processes
from instep.errors import DescriptionError
from instep.loop.accumulation import OnNonFinite
from instep.loop.batch_plan import BatchPlan, require_whole
from instep.loop.error_place import ErrorPlace
from instep.loop.objective import LossFunction, Objective, counting, from_loss
from instep.loop.out_of_memory import Splitting
from instep.loop.precision import Precision
from instep.loop.signatures import require_call, second_parameter
from instep.loop.stepper import Stepper
from instep.loop.update import UpdateCycle
from instep.optim.average import Average
from instep.optim.averages import Averages
from instep.optim.fused import require_working_fused
from instep.optim.train_eval import Modes
from instep.optim.which_weights import AVERAGED
from instep.schedules import drive
from instep.text import listed

MakeOptimizer = Callable[[Any], Optimizer]
Optimizers = Optimizer | MakeOptimizer | Mapping[str, Optimizer | MakeOptimizer]
Objectives = Objective | Mapping[str, Objective] | None


def as_module(model: nn.Module | Mapping[str, nn.Module]) -> nn.Module:
    """What was passed as `model=`, as one module; several are held by name."""
    if isinstance(model, nn.Module):
        _require_weights(model)
        return model
    if not isinstance(model, Mapping):
        raise DescriptionError(f"model is a {type(model).__name__}; pass a torch.nn.Module, or several by name.")
    if not model:
        raise DescriptionError('model={} holds no model; pass for example {"g": G, "d": D}.')
    for name, part in model.items():
        if not isinstance(part, nn.Module):
            raise DescriptionError(f"model[{name!r}] is a {type(part).__name__}; pass a torch.nn.Module.")
        _require_weights(part)
    try:
        return nn.ModuleDict(model)
    except (KeyError, TypeError) as error:
        raise DescriptionError(f"model= has a name that cannot be used: {error.args[0]}; use another one.") from None


def _require_weights(model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        if is_lazy(parameter):
            raise DescriptionError(
                f"{name} is lazy: it has no shape before the model has seen data. Call the model once, like model(x[:2]), and "
                "make the optimizer after that."
            )
        if parameter.is_meta:
            raise DescriptionError(
                f"{name} is on the meta device and has no values; make the model without it, or give it weights: "
                'model.to_empty(device="cpu"), then load or initialise them, and make the optimizer after that.'
            )


def objectives_for(
    loss: LossFunction | None, objective: Objectives, layout: BatchLayout = BY_SAMPLE, *, added: str | None = None
) -> dict[str, Objective]:
    """The objectives in the order of their turns; that of a plain run has the name ""."""
    if not isinstance(objective, Mapping):
        return {"": objective_for(loss, objective, layout, added=added)}
    if loss is not None:
        raise DescriptionError("loss= and objective= both say what is minimised; leave one out.")
    if not objective:
        raise DescriptionError('objective={} holds no objective; pass for example {"d": f, "g": g}.')
    for name in objective:
        if not isinstance(name, str) or not name or "/" in name or name in AVERAGED:
            raise DescriptionError(f'objective= has the name {name!r}; use a word without "/", other than "ema" and "swa".')
    return {name: objective_for(None, one, layout) for name, one in objective.items()}


def objective_for(
    loss: LossFunction | None, objective: Objective | None, layout: BatchLayout = BY_SAMPLE, *, added: str | None = None
) -> Objective:
    count = None if layout.is_plain else layout.size
    if loss is not None and objective is not None:
        raise DescriptionError("loss= and objective= both say what is minimised; leave one out.")
    if objective is not None:
        if not callable(objective):
            raise DescriptionError(f"objective={objective!r} cannot be called; pass a function (model, batch) -> Loss.")
        _require_objective(objective)
        return objective if count is None else counting(objective, count)
    if loss is not None:
        return from_loss(loss, count, added=added)
    from instep.loop.model_loss import ModelLoss  # most runs say what they minimise

    return ModelLoss() if count is None else ModelLoss(count)


def _require_objective(objective: Any) -> None:
    if isinstance(objective, type):
        raise DescriptionError(f"objective={objective.__name__} is a class; call it: objective={objective.__name__}(…).")
    if second_parameter(objective) == "batch_idx":  # a method of a LightningModule
        raise DescriptionError(
            "objective= is called as objective(model, batch), and this one takes (batch, batch_idx); use "
            "objective=lambda model, batch: model.training_step(batch, 0)."
        )
    require_call("objective", objective, ("model", "batch"), "unpack the batch inside: x, y = batch")


def optimizers_for(optimizer: Optimizers, names: list[str], model: nn.Module) -> dict[str, Optimizer]:
    """The optimizer of each objective."""
    if names == [""]:
        if isinstance(optimizer, Mapping):
            raise DescriptionError(
                f"optimizer= has the names {listed(map(repr, optimizer))}, and objective= has none; pass an objective "
                "for each name, or one optimizer."
            )
        return {"": optimizer_for(optimizer, model)}
    if not isinstance(optimizer, Mapping):
        raise DescriptionError(
            f"objective= has the names {listed(map(repr, names))}; pass an optimizer for each: optimizer={{…}}."
        )
    if set(optimizer) != set(names):
        raise DescriptionError(
            f"objective= has the names {listed(map(repr, names))}, optimizer= has {listed(map(repr, optimizer))}; they must be "
            "the same ones."
        )
    return {name: _optimizer(name, optimizer[name], model) for name in names}


def optimizer_for(optimizer: Optimizer | MakeOptimizer, model: nn.Module) -> Optimizer:
    if not isinstance(optimizer, Optimizer):
        if not callable(optimizer):
            raise DescriptionError(
                f"optimizer is a {type(optimizer).__name__}; pass an optimizer, or a function of the parameters."
            )
        optimizer = _made(optimizer, model)
        if not isinstance(optimizer, Optimizer):
            raise DescriptionError(f"optimizer= returned a {type(optimizer).__name__}; it must return a torch.optim.Optimizer.")
    own = set(model.parameters())
    if not any(p in own for group in optimizer.param_groups for p in group["params"]):
        raise DescriptionError("the optimizer holds no parameter of this model; was it made from another one?")
    if not any(p.requires_grad for group in optimizer.param_groups for p in group["params"]):
        raise DescriptionError("every parameter of the optimizer is frozen (requires_grad=False), so nothing would train.")
    require_working_fused(optimizer)
    return optimizer


def _made(make: MakeOptimizer, model: nn.Module) -> Any:
    """What a function of the parameters makes; one of the model, or of nothing, is refused in words."""
    advice = "write optimizer=lambda parameters: torch.optim.AdamW(parameters, lr=1e-3), or pass the optimizer itself"
    require_call("optimizer", make, ("parameters",), advice)
    try:
        return make(model.parameters())
    except AttributeError as error:
        if "'generator' object" not in str(error):
            raise
        raise DescriptionError(
            f"optimizer= is called with the parameters of the model, and takes them for something else ({error}); {advice}."
        ) from error


def steppers_for(
    model: nn.Module,
    precision: Precision,
    optimizers: Mapping[str, Optimizer],
    objectives: Mapping[str, Objective],
    *,
    plan: BatchPlan,
    schedule: Any,
    every: Mapping[str, int] | None,
    options: Mapping[str, Any],
    on_nonfinite: OnNonFinite,
    seed: int,
    device: torch.device,
    processes: Processes,
    splitting: Splitting,
    error_place: ErrorPlace,
) -> tuple[Stepper, ...]:
    """The steppers, in the order of their turns. `options` are those of their update cycles: one for all, or by name."""
    names = list(objectives)
    turns = _turns(every, names)
    schedules = _by_name("schedule", schedule, names)
    of_cycles = {option: _by_name(option, value, names) for option, value in options.items()}
    seed_torch = keys.torch_seeder(device)
    steppers = []
    for index, name in enumerate(names):
        scaler = precision.scaler()
        own = {option: values[name] for option, values in of_cycles.items() if values[name] is not None}
        cycle = UpdateCycle(
            optimizers[name],
            model=precision.model,
            on_nonfinite=on_nonfinite,
            scaler=scaler,
            exchange=processes.turn(),
            beside=splitting.modules[1:],
            defer_checks=True,  # to the lines of the log, where the losses are read anyway
            **own,
        )
        steppers.append(
            Stepper(
                name,
                objective=precision.wrap(objectives[name]),
                cycle=cycle,
                drive=drive(
                    schedules[name],
                    optimizers[name],
                    total_steps=max(1, plan.total_steps // turns[name]),
                    epochs=plan.epochs_begun,
                ),
                scaler=scaler,
                every=turns[name],
                index=index,
                seed=seed,
                seed_torch=seed_torch,
                run=splitting.runner(cycle),
                pieces=splitting.micro_batches.pieces,
                is_cut=splitting.micro_batches.are_several,
                error_place=error_place,
                beside=model if len(names) > 1 else None,
                processes=processes.world.size,
            )
        )
    return tuple(steppers)


def averages_for(
    model: nn.Module, ema: float | None, swa: int | str | None, swa_every: int | str, modes: Modes, plan: BatchPlan
) -> Averages:
    """The averages that were asked for with `ema=` and `swa=`."""
    for name, asked in (("ema", ema), ("swa", swa)):
        if asked is not None and modes.any:
            raise DescriptionError(f"{name}={asked} averages weights that the optimizer averages by itself; leave {name} out.")
    try:
        moving = None if ema is None else Average(model, ema)
    except DescriptionError as error:
        raise DescriptionError(f"ema={ema!r}: {error}") from error
    if swa is None:
        return Averages(moving)
    averages = Averages(moving, Average(model, None), plan.swa_start(swa), plan.swa_interval(swa_every))
    averages.require_some(plan.total_steps)
    return averages


def _optimizer(name: str, optimizer: Optimizer | MakeOptimizer, model: nn.Module) -> Optimizer:
    """One that is a function of the parameters gets those of the model with its name."""
    if isinstance(optimizer, Optimizer) or not callable(optimizer):
        return optimizer_for(optimizer, model)
    if not isinstance(model, nn.ModuleDict) or name not in model:
        raise DescriptionError(
            f"optimizer[{name!r}] is a function of the parameters, and there is no model {name!r} whose parameters are meant; "
            "pass an optimizer."
        )
    return optimizer_for(optimizer, model[name])


def _turns(every: Mapping[str, int] | None, names: list[str]) -> dict[str, int]:
    if every is None:
        return dict.fromkeys(names, 1)
    if not isinstance(every, Mapping) or names == [""]:
        raise DescriptionError(
            f'update_every={every!r} is for several objectives by name, like update_every={{"g": 5}}; leave it out.'
        )
    _require_known("update_every", every, names)
    for name, count in every.items():
        require_whole(f"update_every[{name!r}]", count, least=1)
        if count is None:
            raise DescriptionError(f"update_every[{name!r}]=None must be a whole number, 1 or more.")
    turns = {name: every.get(name, 1) for name in names}
    if min(turns.values()) > 1:
        raise DescriptionError(
            f"update_every={dict(every)} leaves updates in which no objective is due; let one of them be due in each."
        )
    return turns


def _by_name(option: str, value: Any, names: list[str]) -> dict[str, Any]:
    """One value for all, or one by name, None where a name is left out. In a plain run a mapping is the value itself."""
    if names == [""] or not isinstance(value, Mapping):
        return dict.fromkeys(names, value)
    _require_known(option, value, names)
    return {name: value.get(name) for name in names}


def _require_known(option: str, value: Mapping[str, Any], names: list[str]) -> None:
    strange = [name for name in value if name not in names]
    if strange:
        raise DescriptionError(
            f"{option}= has the name {strange[0]!r}, which no objective has; there are {listed(map(repr, names))}."
        )
