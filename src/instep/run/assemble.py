"""Assemble: from the options of a run to the run, in six steps. Each gives what it made; nothing is set afterwards."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn
from torch.optim import Optimizer

from instep.checkpoint import steps
from instep.checkpoint.left_out import FrozenWeights, base_name
from instep.data.device import Placed, memory_bytes
from instep.data.feed import Feed, float_type
from instep.data.loading.loader import Loader
from instep.data.sources.hugging_face import arguments_of
from instep.distributed.processes import Processes, check_shard, choose_device
from instep.distributed.world import World, find_world
from instep.errors import DescriptionError
from instep.loop.batch_plan import BatchPlan, needs_two, require_whole
from instep.loop.error_place import ErrorPlace
from instep.loop.evaluator import Evaluator
from instep.loop.holders import Holders, find_holders
from instep.loop.metrics.metric import Metric
from instep.loop.micro_batches import MicroBatches
from instep.loop.monitor import Monitor, monitor_for, require_monitor
from instep.loop.objective import Objective
from instep.loop.out_of_memory import Splitting
from instep.loop.precision import Precision
from instep.loop.stepper import Stepper
from instep.loop.steppers import as_module, averages_for, objectives_for, optimizers_for, steppers_for
from instep.loop.torch_losses import known
from instep.loop.unfreezing import Unfreezing
from instep.optim.averages import Averages
from instep.optim.train_eval import Modes
from instep.run.attributes import Attributes
from instep.run.checkpoints import Saver
from instep.run.description import Description, description_notes
from instep.run.folder import CHECKPOINTS
from instep.run.history import History
from instep.run.logbook import Logbook, Notices
from instep.run.loggers import RunLoggers
from instep.run.options import Options, as_arranged
from instep.run.run import Run, Show
from instep.run.state import RunState
from instep.run.training_state import ModelState
from instep.text import listed, plural


def assemble(options: Options, show: Show) -> Run:
    """The run that these options describe. What does not fit together is an error here, before the first step."""
    options = as_arranged(options)
    notices = Notices()
    place = find_place(options)
    data = find_data(options, place)
    options = weigh_classes(options, place, data)
    model = prepare_model(options, place, data)
    stepping = make_steppers(options, place, data, model, notices)
    evaluation = make_evaluator(options, place, data, model, stepping)
    return keep_books(options, place, data, model, stepping, evaluation, notices, show)


class Place(NamedTuple):
    """Where the run computes."""

    world: World
    placed: Placed


class Data(NamedTuple):
    """What the run trains on, and how it is cut into batches."""

    feed: Feed
    plan: BatchPlan
    processes: Processes


class Prepared(NamedTuple):
    """The model as it will be trained, with what is minimised."""

    model: nn.Module
    precision: Precision
    objectives: Mapping[str, Objective]
    holders: Holders  # whatever has a state: model, losses, objectives
    metrics: Mapping[str, Metric]
    was_in_eval: bool
    notes: tuple[str, ...]


class Stepping(NamedTuple):
    """What makes the steps."""

    optimizers: Mapping[str, Optimizer]
    modes: Modes
    unfreezing: Unfreezing
    splitting: Splitting
    loader: Loader
    steppers: tuple[Stepper, ...]
    averages: Averages


class Evaluating(NamedTuple):
    """What looks at the model."""

    evaluator: Evaluator
    loaders: Mapping[str, Loader]
    monitor: Monitor | None
    every: int | None  # updates between two evaluations; None for never


def find_place(options: Options) -> Place:
    world = find_world(timeout_s=options.timeout_s)
    return Place(world, choose_device(world, options.device))


def find_data(options: Options, place: Place) -> Data:
    dtype = float_type(as_module(options.model)) if options.objective is None else None  # an objective gets them as they are
    by_name = options.loss is None and options.objective is None
    feed = Feed(
        options.train,
        options.valid,
        options.test,
        seed=options.seed,
        num_workers=options.num_workers,
        dtype=dtype,
        arguments=arguments_of(as_module(options.model)) if by_name else None,
    )
    batch_size = feed.batch_size(
        options.batch_size,
        update_cycle=options.update_cycle,
        micro_batch_size=options.micro_batch_size,
        processes=place.world.size,
    )
    plan = BatchPlan(
        feed.samples(batch_size, max_steps=options.max_steps),
        batch_size,
        options.update_cycle,
        options.micro_batch_size,
        feed.drop_last(options.drop_last),
        options.epochs,
        options.max_steps,
        place.world.rank,
        place.world.size,
    )
    return Data(feed, plan, Processes(place.world, place.placed.device, batch_size=batch_size))


def weigh_classes(options: Options, place: Place, data: Data) -> Options:
    """The options with the loss that `class_weights=` asks for."""
    if options.class_weights is None:
        return options
    from instep.loop import class_weights

    if data.feed.is_class_balanced and isinstance(options.class_weights, str):
        raise DescriptionError(
            'class_weights="balanced" and a balanced sampler are both given, and each alone makes the classes count alike; leave '
            "one out."
        )
    dtype, source = float_type(as_module(options.model)), data.feed.untransformed_train
    weighted = class_weights.weigh_classes(options.loss, options.class_weights, source, dtype=dtype, device=place.placed.device)
    return replace(options, loss=weighted)


def prepare_model(options: Options, place: Place, data: Data) -> Prepared:
    """The model on its device, in train mode, with the weights that it begins with; of several processes all with the same."""
    model, device = as_module(options.model), place.placed.device
    objectives = objectives_for(options.loss, options.objective, data.feed.layout, added=data.feed.added)
    metrics = _find_metrics(options.metrics)
    refused = {"ema": options.ema, "swa": options.swa, "compile": options.compile, "sync_batchnorm": options.sync_batchnorm}
    fp16 = {"precision": options.precision} if options.precision == "fp16" else {}
    check_shard(options.shard, options.optimizer, model, refused | fp16)
    processes = data.processes
    if not options.shard or not processes.are_several:
        model.to(device)  # what is sharded may not fit there as a whole
    was_in_eval = not model.training
    if was_in_eval:
        model.train()  # handed over in eval mode as a whole; a single module in eval mode stays there
    data.plan.require_no_lonely_sample(model)
    if options.init is not None:
        place.world.run_on_rank0(lambda: _load_init(model, options))
    model, notes = processes.prepare_model(model, sync_batchnorm=options.sync_batchnorm)
    precision = Precision(
        model, device, precision=options.precision, compile=options.compile, deterministic=options.deterministic
    )
    notes += [*processes.shard_model(model, options.shard), *_say_unmeasured(metrics, data.feed)]
    holders = find_holders(
        model, loss=options.loss, objective=options.objective, metrics=options.metrics, transform=data.feed.transforms[1]
    )
    for module in holders.given if not processes.are_sharded else ():
        module.to(device)
    own = {*model.parameters(), *model.buffers()}
    beside = [tensor for module in holders.beside for tensor in (*module.parameters(), *module.buffers())]
    processes.take_from_rank0(tensor for tensor in beside if tensor not in own)
    return Prepared(model, precision, objectives, holders, metrics, was_in_eval, tuple(notes))


def make_steppers(options: Options, place: Place, data: Data, prepared: Prepared, notices: Notices) -> Stepping:
    """The optimizers with their schedules, the batches that they get, and what becomes of those that do not fit in memory."""
    model, device, processes = prepared.model, place.placed.device, data.processes
    optimizers = optimizers_for(options.optimizer, list(prepared.objectives), model)
    if options.shard:
        from instep.distributed.shard import require_sharded

        require_sharded(optimizers[""], in_shares=processes.are_sharded)
    modes = Modes(optimizers.values())
    unfreezing = Unfreezing(model, options.unfreeze_at, list(optimizers.values()))
    frees_batch_norm = unfreezing.frees_batch_norm()
    if frees_batch_norm:
        data.plan.require_no_lonely_sample(nn.BatchNorm1d(1))
    plan = replace(data.plan, fewest=2 if needs_two(model) or frees_batch_norm else 1)
    is_fixed = options.on_out_of_memory != "split"
    micro_batches = MicroBatches(plan, processes, device, is_fixed=is_fixed, layout=data.feed.layout)
    splitting = Splitting(options.on_out_of_memory, micro_batches, prepared.holders, device, say=notices.say)
    if splitting.is_on and processes.are_several:
        raise DescriptionError(
            'on_out_of_memory="split" works in one process: others would wait for the one that splits; use a smaller '
            "micro_batch_size."
        )
    loader = _train_loader(options, place, data, splitting, notices.say)
    error_place = ErrorPlace(
        model,
        loader,
        splitting,
        steps_per_epoch=plan.steps_per_epoch,
        rank=place.world.rank if processes.are_several else None,
    )
    steppers = steppers_for(
        model,
        prepared.precision,
        optimizers,
        prepared.objectives,
        plan=plan,
        schedule=options.schedule,
        every=options.update_every,
        options={"clip_norm": options.clip_norm, "clip_value": options.clip_value, "l1": options.l1, "l2": options.l2},
        on_nonfinite=options.on_nonfinite,
        seed=options.seed,
        device=device,
        processes=processes,
        splitting=splitting,
        error_place=error_place,
    )
    unfreezing.check_schedule(steppers[0].drive)
    averages = averages_for(model, options.ema, options.swa, options.swa_every, modes, plan)
    return Stepping(optimizers, modes, unfreezing, splitting, loader, steppers, averages)


def make_evaluator(options: Options, place: Place, data: Data, prepared: Prepared, stepping: Stepping) -> Evaluating:
    """What evaluates, on which data, how often, and which number the run goes by."""
    evaluator = Evaluator(
        prepared.holders,
        prepared.precision,
        prepared.objectives,
        prepared.metrics,
        modes=stepping.modes,
        averages=stepping.averages,
        feed=data.feed,
        splitting=stepping.splitting,
        seed=options.seed,
        device=place.placed.device,
        processes=data.processes,
    )
    loaders = evaluator.valid_loaders()
    every = data.plan.evaluation_step(options.evaluate_every)
    monitor = monitor_for(
        options.monitor,
        options.monitor_mode,
        prepared.metrics,
        patience=options.patience,
        restore_best=options.restore_best,
        sets=list(loaders) if every is not None else [],
        parts=evaluator.parts,
        more_parts=options.loss is None or known(options.loss) is None,
    )
    for stepper in stepping.steppers:
        require_monitor(stepper.drive, monitor)
    return Evaluating(evaluator, loaders, monitor, every if loaders else None)


def keep_books(
    options: Options,
    place: Place,
    data: Data,
    prepared: Prepared,
    stepping: Stepping,
    evaluating: Evaluating,
    notices: Notices,
    show: Show,
) -> Run:
    """The state, the checkpoints, the history and the description of the run, and with them the run itself."""
    model, plan, monitor, loader = prepared.model, stepping.splitting.micro_batches.plan, evaluating.monitor, stepping.loader
    require_whole("keep_best", options.keep_best, least=1)
    if options.keep_best > 1 and monitor is None:
        raise DescriptionError(f"keep_best={options.keep_best} needs evaluations; pass valid= and evaluate_every=.")
    loggers = RunLoggers(options.loggers)
    logbook = Logbook(
        History(monitor=monitor.name, mode=monitor.mode) if monitor else History(),
        log_every=options.log_every,
        waited_s=lambda: loader.waited_s,
        show=lambda plan: show(options.progress if place.world.is_first else False, plan),
        notices=notices,
        loggers=loggers,
        momentum=lambda: next(one for one in stepping.steppers if one.every == 1).drive.momentum,
        memory_bytes=lambda: memory_bytes(place.placed.device),
    )
    saver = Saver(
        every=options.checkpoint_every,
        keep=options.keep,
        steps_per_epoch=plan.steps_per_epoch,
        sharing=place.world if data.processes.are_sharded else None,
        before=logbook.sync,  # the rows that a checkpoint knows of
    )
    state = RunState(
        total_steps=plan.total_steps,
        steps_per_epoch=plan.steps_per_epoch,
        evaluate_every=evaluating.every,
        monitor=monitor,
    )
    return Run(
        options,
        processes=data.processes,
        device=place.placed.device,
        feed=data.feed,
        loader=loader,
        valid_loaders=evaluating.loaders,
        model=model,
        precision=prepared.precision,
        modes=stepping.modes,
        unfreezing=stepping.unfreezing,
        averages=stepping.averages,
        splitting=stepping.splitting,
        steppers=stepping.steppers,
        evaluator=evaluating.evaluator,
        monitor=monitor,
        model_state=ModelState(
            prepared.holders,
            stepping.steppers,
            modes=stepping.modes,
            averages=stepping.averages,
            attributes=Attributes(prepared.holders, stepping.optimizers, place.placed.device),
            frozen=_find_frozen(options, model, data),
        ),
        state=state,
        notices=notices,
        saver=saver,
        logbook=logbook,
        loggers=loggers,
        description=_describe(options, place, data, prepared, stepping, monitor),
        show=show,
    )


def _find_frozen(options: Options, model: nn.Module, data: Data) -> FrozenWeights | None:
    """What checkpoints leave out, where that was asked for."""
    if not isinstance(options.save_frozen, bool):
        raise DescriptionError(f"save_frozen={options.save_frozen!r} is neither True nor False.")
    if options.save_frozen:
        return None
    if data.processes.are_sharded:
        raise DescriptionError("save_frozen=False does not go with shard=, whose checkpoints have all weights; leave one out.")
    frozen = FrozenWeights(model)
    if not frozen.names():
        raise DescriptionError(
            "save_frozen=False leaves frozen weights out of the checkpoints, and every parameter takes a gradient; leave it out, "
            "or freeze what shall not train: instep.freeze(…)."
        )
    return frozen


def _describe(
    options: Options, place: Place, data: Data, prepared: Prepared, stepping: Stepping, monitor: Monitor | None
) -> Description:
    plan, steppers = stepping.splitting.micro_batches.plan, stepping.steppers
    decided = {
        "batch_size": plan.batch_size,
        "drop_last": plan.drop_last,
        "unfreeze_at": stepping.unfreezing.labels(),
        "swa_every": options.swa_every if options.swa is not None else None,
        **data.feed.settings,
    }
    notes = (
        *(note for stepper in steppers for note in stepper.drive.notes),
        *stepping.averages.notes(plan.total_steps),
        *stepping.unfreezing.notes(plan.epochs_begun),
        *_frozen_notes(options, prepared.model),
        *description_notes(prepared.model, stepping.optimizers.values(), was_in_eval=prepared.was_in_eval),
        *prepared.notes,
        *data.feed.notes,
    )
    return Description(
        model=prepared.model,
        optimizers=stepping.optimizers,
        settings=options.settings() | decided | data.feed.settings,
        placed=place.placed,
        train=data.feed.train,
        valid=data.feed.valid,
        test=data.feed.test,
        steps_per_epoch=plan.steps_per_epoch,
        total_steps=plan.total_steps,
        pieces=plan.pieces(min(plan.batch_size, plan.samples)),
        last_pieces=plan.pieces(plan.last_batch),
        monitor=monitor.name if monitor else None,
        monitor_mode=monitor.mode if monitor else "min",
        notes=notes,
        processes=place.world.size,
    )


def _frozen_notes(options: Options, model: nn.Module) -> list[str]:
    if options.save_frozen:
        return []
    frozen = sum(p.numel() for p in model.parameters() if not p.requires_grad)
    base = f" of {name}" if (name := base_name(model)) else ""
    return [f"checkpoints leave out {plural(frozen, 'frozen number')}{base}: the script makes them again"]


def _train_loader(options: Options, place: Place, data: Data, splitting: Splitting, say: Callable[[str], object]) -> Loader:
    loader = data.feed.train_loader(
        batch_size=data.plan.batch_size,
        device=place.placed.device,
        drop_last=data.plan.drop_last,
        epochs=data.plan.epochs_begun,
        share=data.plan.part if data.processes.are_several else None,
        say=say,
    )
    loader.may_stay_on_host = splitting.is_on and data.feed.transforms[1] is None  # which takes a batch as a whole
    return loader


def _say_unmeasured(metrics: Mapping[str, Metric], feed: Feed) -> list[str]:
    """Metrics that no evaluation of the run measures."""
    if not metrics or feed.valid or feed.test:
        return []
    return [f"metrics are measured on valid= and test=, and there is neither: {listed(metrics)} only by evaluate(data)"]


def _find_metrics(given: Any) -> Mapping[str, Metric]:
    """What `metrics=` names; the metrics themselves are imported where some are asked for."""
    if given is None:
        return {}
    from instep.loop.metrics.names import as_metrics

    return as_metrics(given)


def _load_init(model: nn.Module, options: Options) -> None:
    """Give a model the weights that were asked for with `init=`, unless a run in the folder is resumed."""
    folder = None if options.folder is None else Path(options.folder)
    if options.init is not None and (folder is None or not steps(folder / CHECKPOINTS)):
        from instep.checkpoint.interchange import load_model

        load_model(model, options.init)
