"""The description of a run: everything that decides its result, for people (the plan) and for the run folder (JSON)."""

import functools
import hashlib
import math
import os
import platform
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, fields, is_dataclass, replace
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.data.device import Placed
from instep.data.sources.data_names import data_names
from instep.data.sources.recognize import Source
from instep.data.sources.stream import Stream
from instep.data.sources.underlying import frame_layout
from instep.distributed.dtensors import class_of
from instep.optim.fused import fused_advice
from instep.optim.groups import option_notes
from instep.optim.which_weights import AVERAGED, choose_weights
from instep.records import Plan, differences, record_class
from instep.run.built import Built, describe_built
from instep.run.fingerprint import Known, fingerprint
from instep.run.git_commit import git_commit
from instep.run.modules import HEAD, module_rows
from instep.run.plain import digest, without_addresses
from instep.run.random_modules import drawing_kinds, frozen_norms_that_move, has_own_statistics
from instep.schedules import Schedule, sparkline
from instep.schedules.drawing import turning_rates
from instep.schedules.schedule import starting_lr
from instep.text import listed, plural

FORMAT = 1
_HASHED = re.compile(r":([0-9a-f]{12}|[0-9a-f]{16})$")


@record_class
class Description:
    """What a Trainer was made of, and what follows from it."""

    model: nn.Module
    optimizers: Mapping[str, Optimizer]  # by the name of its objective; in a plain run one with the name ""
    settings: Mapping[str, Any]  # the other arguments of the Trainer, as given
    placed: Placed
    train: Source | Stream
    valid: Mapping[str, Source | Stream]
    test: Mapping[str, Source | Stream]
    steps_per_epoch: int
    total_steps: int
    pieces: tuple[int, ...]  # the sizes of the micro-batches of a full batch
    last_pieces: tuple[int, ...]  # and of an epoch's last batch
    monitor: str | None
    monitor_mode: str
    notes: tuple[str, ...]
    processes: int = 1
    made: Built | None = None  # see `built`; kept where the description is replaced
    hashed: Known = field(default_factory=dict)  # data that was hashed already
    frozen: tuple[str, ...] = field(init=False)  # the parameters that take no gradient when the run is described

    def __post_init__(self) -> None:
        object.__setattr__(self, "frozen", tuple(name for name, p in self.model.named_parameters() if not p.requires_grad))
        if self.made is None:
            object.__setattr__(self, "made", self.build())

    @property
    def built(self) -> Built:
        """The modules and the code as the script made them: taken before anything is called, since forwards may count."""
        assert self.made is not None
        return self.made

    def build(self) -> Built:
        """The modules and the code as they are now."""
        return describe_built(self.model, self.settings, self.optimizers, {"train": self.train, **self.valid})

    def moved(self) -> list[str]:
        """What training itself has changed of what the script made, such as a count of calls: where it stands in `run.json`."""
        return [where for where, _, _ in differences(self.built._asdict(), self.build()._asdict())]


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
        title=_title(description.model),
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


def description_notes(model: nn.Module, optimizers: Iterable[Optimizer], *, was_in_eval: bool) -> list[str]:
    """What somebody should know before the run begins."""
    notes = []
    if was_in_eval:
        notes.append("the model was in eval mode and was put into train mode")
    optimizers = list(optimizers)
    held = {p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
    missing = [name for name, p in model.named_parameters() if p.requires_grad and p not in held]
    if missing:
        more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
        notes.append(f"in no group of the optimizer: {', '.join(missing[:8])}{more}; these will not be trained")
    if moving := frozen_norms_that_move(model):
        way = f'instep.freeze(model, "{moving[0]}") keeps them in eval mode'
        notes.append(
            f"weights are frozen, and running statistics move in each forward in train mode: {listed(moving, most=3)}; {way}"
        )
    for optimizer in optimizers:
        notes += option_notes(optimizer)
        if (advice := fused_advice(optimizer)) is not None:
            notes.append(advice)
    return notes


def as_json(description: Description, hyper_parameters: Mapping[str, Any], *, content: bool = True) -> dict[str, Any]:
    """The run as `run.json` keeps it; nothing in it depends on the clock. Data in memory is read whole only with `content`."""
    return {
        "format": FORMAT,
        "title": _title(description.model),
        "hyper_parameters": {name: as_setting(value) for name, value in hyper_parameters.items()},
        "settings": {name: named(as_setting(value)) for name, value in description.settings.items()}
        | ({"frozen": list(description.frozen)} if description.frozen else {}),
        "model": {
            "class": _title(description.model),
            "parameters": {name: list(p.shape) for name, p in description.model.named_parameters()},
        },
        "optimizer": as_setting(description.optimizers.get("", description.optimizers)),
        **description.built._asdict(),
        "data": _data({"train": description.train, **description.valid}, description.hashed, content=content),
        **({"test": _data(description.test, description.hashed, content=content)} if description.test else {}),
        "device": str(description.placed.device),
        "processes": description.processes,
        "threads": torch.get_num_threads(),
        "machine": _machine(description.placed.device),
        "versions": {"python": sys.version.split()[0], "torch": torch.__version__, "numpy": np.__version__},
        "git": git_commit(Path.cwd()),
        "monitor": description.monitor,
        "monitor_mode": description.monitor_mode,
        "steps_per_epoch": description.steps_per_epoch,
        "total_steps": description.total_steps,
        "epochs": -(-description.total_steps // description.steps_per_epoch),
    }


def as_setting(value: Any) -> Any:
    """A setting in JSON: numbers and words as they are, things by their name and options."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}  # JSON has no word for it
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path | torch.device | torch.dtype):
        return str(value)
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value)) if value.dtype.kind in "biuf" else value.tolist()
    if isinstance(value, Tensor):
        return f"tensor{tuple(value.shape)}:{digest([value])}"
    if isinstance(value, Mapping):
        return {str(key): as_setting(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((as_setting(inner) for inner in value), key=str)
    if isinstance(value, list | tuple):
        return [as_setting(inner) for inner in value]
    if isinstance(value, Optimizer):
        groups = [{k: as_setting(v) for k, v in group.items() if k != "params"} for group in value.param_groups]
        return {"class": type(value).__name__, "groups": groups}
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, **{f.name: as_setting(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, functools.partial):
        return {"function": as_setting(value.func), "arguments": as_setting(value.args), "options": as_setting(value.keywords)}
    if isinstance(value, nn.Module):
        tensors = [tensor for tensor in value.state_dict().values() if isinstance(tensor, Tensor)]
        return f"{value!r}:{digest(tensors)}" if tensors else repr(value)
    if isinstance(value, FunctionType):
        return _function(value)
    return name_of(value) if callable(value) else type(value).__name__


def _function(function: FunctionType) -> str:
    """A function of the user's own by its name and what it does: another body is another function."""
    if function.__module__.split(".")[0] in ("torch", "instep"):
        return name_of(function)
    made = hashlib.blake2b(digest_size=6)
    _digest_code(made, function.__code__)
    bound = [cell.cell_contents for cell in function.__closure__ or () if isinstance(cell.cell_contents, int | float | str)]
    made.update(without_addresses(repr((function.__defaults__, bound))).encode())
    return f"{name_of(function)}:{made.hexdigest()}"


def _digest_code(made: "hashlib.blake2b", code: CodeType) -> None:
    made.update(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _digest_code(made, constant)
        else:
            made.update(repr(constant).encode())


def named(setting: Any) -> Any:
    """A setting without the hashes of functions and modules, which stand among the code."""
    if isinstance(setting, dict):
        return {name: named(inner) for name, inner in setting.items()}
    if isinstance(setting, list):
        return [named(inner) for inner in setting]
    return _HASHED.sub("", setting) if isinstance(setting, str) and not setting.startswith("tensor(") else setting


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)


def _data(sources: Mapping[str, Source | Stream], known: Known, *, content: bool) -> dict[str, Any]:
    """The fingerprints, with the names that a frame or a data set has."""
    return {name: {**fingerprint(source, known, content=content), **_names(source)} for name, source in sources.items()}


def _names(source: Source | Stream) -> dict[str, Any]:
    layout = None if isinstance(source, Stream) else frame_layout(source)
    if layout is None:
        classes = () if isinstance(source, Stream) else data_names(source).classes
        return {"classes": {"target": list(classes)}} if classes else {}
    return {"names": list(layout.names), **({"classes": as_setting(layout.classes)} if layout.classes else {})}


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


def _title(model: nn.Module) -> str:
    if type(model) is nn.ModuleDict:
        return ", ".join(f"{name}: {type(part).__name__}" for name, part in model.items())
    return class_of(model).__name__


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
    return f"{_title(model)}, {trainable:,} parameters" + (f", and {frozen:,} frozen" if frozen else "")


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


def _machine(device: torch.device) -> str:
    """The system, and what computes."""
    system = f"{platform.system()} {platform.release()}, {platform.machine()}, {plural(os.cpu_count() or 1, 'CPU')}"
    if device.type == "cpu":
        return system
    name = getattr(getattr(torch, device.type, None), "get_device_name", None)
    return system if name is None else f"{system}, {name(device)}"
