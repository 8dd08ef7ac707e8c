"""The plan: a run's description as `print(trainer)` shows it before the first step, a line a subject."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from torch import nn
from torch.optim import Optimizer

from instep.data.sources.recognize import Source
from instep.data.sources.stream import Stream
from instep.optim.which_weights import AVERAGED, choose_weights
from instep.records import Plan
from instep.run.description import Description, title_of
from instep.run.modules import HEAD, module_rows
from instep.run.random_modules import drawing_kinds, has_own_statistics
from instep.run.setting import as_setting, name_of
from instep.schedules import Schedule, sparkline
from instep.schedules.drawing import turning_rates
from instep.schedules.schedule import starting_lr
from instep.text import listed, plural


def plan_of(description: Description) -> Plan:
    """The run as `print(trainer)` shows it before the first step."""
    rows = [
        ("model", _model_line(description.model)),
        ("memory", _memory_line(description.model, description.optimizers.values())),
        ("device", f"{description.placed.device} ({description.placed.reason})"),
        *([("processes", _processes_line(description))] if description.processes > 1 else []),
        ("train", _samples_line(description.train)),
        *((name, f"{_samples_line(source)}{_untransformed(description, name)}") for name, source in description.valid.items()),
        *((name, f"{_samples_line(source)}, evaluated once at the end") for name, source in description.test.items()),
        ("batch", _batch_line(description)),
        ("updates", _updates_line(description)),
        *_optimizer_rows(description),
        *_feature_rows(description.settings),
        *_weights_rows(description),
    ]
    if description.monitor is not None:
        rows.append(("monitor", _monitor_line(description)))
    rows.append(("seed", str(description.settings["seed"])))
    return replace(brief_plan_of(description), rows=tuple(rows), modules=(HEAD, *module_rows(description.model)))


def brief_plan_of(description: Description) -> Plan:
    """What progress shows of the plan. The whole one takes 1 to 2 ms, as much as two updates of a small model."""
    return Plan(
        title=title_of(description.model),
        rows=(("model", _model_line(description.model)), ("train", _samples_line(description.train))),
        notes=description.notes,
        total_steps=description.total_steps,
        steps_per_epoch=description.steps_per_epoch,
        epochs=_epochs(description),
        metrics=() if description.monitor is None else (description.monitor,),
    )


def _epochs(description: Description) -> int:
    return -(-description.total_steps // description.steps_per_epoch)


def _updates_line(description: Description) -> str:
    in_all = f"{description.total_steps:,} in all ({plural(_epochs(description), 'epoch')})"
    return f"{description.steps_per_epoch:,} an epoch, {in_all}"


def _untransformed(description: Description, name: str) -> str:
    """That the transforms of the training data are not those of this set; its own are no news."""
    said = description.settings
    names = [
        one for one in ("transform", "batch_transform") if one in (said.get("train") or {}) and one not in (said.get(name) or {})
    ]
    return f", without the {' and the '.join(names)} of train" if names else ""


def _samples_line(source: Source | Stream) -> str:
    if not isinstance(source, Stream):
        return plural(len(source), "sample")
    return "an iterable" if source.length is None else f"an iterable of {plural(source.length, 'sample')}"


def optimizer_line(optimizer: Optimizer) -> str:
    lrs = sorted({group["lr"] for group in optimizer.param_groups if "lr" in group})
    groups = len(optimizer.param_groups)
    return f"{type(optimizer).__name__}, lr {', '.join(f'{lr:g}' for lr in lrs)}" + (f", {groups} groups" if groups > 1 else "")


def _optimizer_rows(description: Description) -> list[tuple[str, str]]:
    """The optimizer, its groups where they have names, and its schedule; for each objective where there are several."""
    schedule, every = description.settings["schedule"], description.settings["update_every"] or {}
    several = len(description.optimizers) > 1
    rows = []
    for name, optimizer in description.optimizers.items():
        of_name, turns = f" {name}" if name else "", every.get(name, 1)
        own = schedule.get(name) if several and isinstance(schedule, Mapping) else schedule
        rows.append((f"optimizer{of_name}", optimizer_line(optimizer) + (f", every {turns} updates" if turns > 1 else "")))
        rows += [(f"group{of_name}", _group_line(group)) for group in optimizer.param_groups if "name" in group]
        rows.append((f"schedule{of_name}", _schedule_line(own, optimizer, description.total_steps // turns)))
    return rows


def _group_line(group: Mapping[str, Any]) -> str:
    """`base: 32 numbers in 1 parameter, lr 0.01, decay 0`, and how many of them are frozen."""
    count = sum(p.numel() for p in group["params"])
    frozen = sum(p.numel() for p in group["params"] if not p.requires_grad)
    options = [f"{word} {float(group[key]):.4g}" for key, word in (("lr", "lr"), ("weight_decay", "decay")) if key in group]
    options += [f"{key} {group[key]:g}" for key in ("clip_norm", "clip_value") if group.get(key) is not None]
    line = f"{group['name']}: {plural(count, 'number')} in {plural(len(group['params']), 'parameter')}"
    return ", ".join([line, *options, *([f"{frozen:,} frozen"] if frozen else [])])


def _feature_rows(settings: Mapping[str, Any]) -> list[tuple[str, str]]:
    """What was asked for beyond the plain loop."""
    limits = [f"{name} {as_setting(settings[name])}" for name in ("clip_norm", "clip_value") if settings[name] is not None]
    penalties = [f"{name} {as_setting(settings[name])}" for name in ("l1", "l2") if settings[name]]
    computing = ["" if settings["precision"] == "fp32" else f"{settings['precision']} by autocast"]
    computing += [name.replace("_", " ") for name in ("compile", "deterministic") if settings[name]]
    unfreezing = [f"{label} at epoch {epoch}" for epoch, label in (settings["unfreeze_at"] or {}).items()]
    rows = [
        ("clipping", ", ".join(limits)),
        ("penalty", ", ".join(penalties)),
        ("average", f"of the weights, decay {settings['ema']:g}; evaluated as …/ema/…" if settings["ema"] is not None else ""),
        ("average", _swa_line(settings["swa"], settings["swa_every"]) if settings["swa"] is not None else ""),
        ("classes", _classes_line(settings["class_weights"]) if settings["class_weights"] is not None else ""),
        ("computing", ", ".join(filter(None, computing))),
        ("unfreezes", "; ".join(unfreezing)),
    ]
    return [row for row in rows if row[1]]


def _classes_line(weights: Any) -> str:
    if isinstance(weights, str):
        return "weighted so that each counts as much in the loss as every other"
    given = weights.items() if isinstance(weights, Mapping) else enumerate(weights)
    return f"weighted in the loss: {listed(f'{label}: {float(weight):g}' for label, weight in given)}"


def _swa_line(start: int | str, every: int | str) -> str:
    begins = f"epoch {start}" if isinstance(start, int) else start
    how_often = every if isinstance(every, str) else f"{every} updates"
    return f"of the weights after each {how_often}, from {begins} on; evaluated as …/swa/…"


def _weights_rows(description: Description) -> list[tuple[str, str]]:
    """Which weights are used, where there are several kinds of them."""
    averages = [name for name in AVERAGED if description.settings[name] is not None]
    if not averages:
        return []
    monitor = description.monitor
    used = choose_weights(None, monitor=monitor, sets=description.valid, averages=averages)
    which = "the model's own" if used == "model" else "the averaged ones" if len(averages) == 1 else f'those of "{used}"'
    others = " or ".join(f'weights="{name}"' for name in ("model", *averages) if name != used)
    judged = "" if monitor is None else f", which {monitor} judges"
    return [("weights", f"predict(), load() and exports use {which}{judged}; {others} takes the others")]


def bytes_text(size: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} TB"


def _model_line(model: nn.Module) -> str:
    parameters = list(model.parameters())
    trainable = sum([p.numel() for p in parameters if p.requires_grad])
    frozen = sum([p.numel() for p in parameters]) - trainable
    return f"{title_of(model)}, {trainable:,} parameters" + (f", and {frozen:,} frozen" if frozen else "")


def _memory_line(model: nn.Module, optimizers: Iterable[Optimizer]) -> str:
    """Adam keeps two numbers a parameter, momentum one; activations are not counted."""
    weights = sum(p.numel() * p.element_size() for p in model.parameters())
    gradients = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    kept = 0
    for optimizer in optimizers:
        options = optimizer.param_groups[0]
        copies = 2 if "betas" in options else 1 if options.get("momentum") else 0
        held = {p for group in optimizer.param_groups for p in group["params"] if p.requires_grad}
        kept += copies * sum(p.numel() * p.element_size() for p in held)
    return (
        f"{bytes_text(weights)} weights + {bytes_text(gradients)} gradients + {bytes_text(kept)} optimizer state"
        " (activations come on top)"
    )


def _batch_line(description: Description) -> str:
    batch, last = sum(description.pieces), sum(description.last_pieces)
    line = plural(batch, "sample")
    if len(description.pieces) > 1:
        line += f" in {len(description.pieces)} micro-batches of {_sizes(description.pieces)}"
    return line + (f"; the last of an epoch has {last}" if last != batch else "")


def _processes_line(description: Description) -> str:
    """What training on several processes leaves as it is on one, and what it does not."""
    drawing = listed(drawing_kinds(description.model), most=3)
    other = [
        f"what {drawing} draws, which each process does for its own part of a batch" if drawing else "",
        "the statistics of BatchNorm, which each process takes of its own part" if has_own_statistics(description.model) else "",
    ]
    but = ", and for ".join(filter(None, other))
    return f"{description.processes}, the same training as on one{f' but for {but}' if but else ''}"


def _schedule_line(schedule: Any, optimizer: Optimizer, total_steps: int) -> str:
    if schedule is None:
        return "constant"
    if isinstance(schedule, Schedule) and total_steps:
        return (
            f"{type(schedule).__name__}  {sparkline(schedule, total_steps, width=24)}  {_rates(schedule, optimizer, total_steps)}"
        )
    return name_of(schedule)


def _rates(schedule: Schedule, optimizer: Optimizer, total_steps: int) -> str:
    """The rates of the group that has the highest: the first, the highest where it lies between, and the last."""
    base = max(schedule.bases([starting_lr(group) for group in optimizer.param_groups]))
    shown = turning_rates(schedule.curve(total_steps, base), total_steps)
    words = [f"{value:.3g}" for value in shown]
    return words[0] if len(set(words)) == 1 else " → ".join(words)


def _sizes(pieces: tuple[int, ...]) -> str:
    return str(pieces[0]) if pieces[0] == pieces[-1] else f"{pieces[-1]} to {pieces[0]}"


def _monitor_line(description: Description) -> str:
    line = f"{description.monitor}, {'less' if description.monitor_mode == 'min' else 'more'} is better"
    if (patience := description.settings["patience"]) is not None:
        line += f"; stops after {plural(patience, 'evaluation')} without a better one"
    return line + ("; ends on the best weights" if description.settings["restore_best"] else "")
