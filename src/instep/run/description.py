"""The description of a run: everything that decides its result, and its JSON for the run folder."""

import os
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.optim import Optimizer

from instep.data.device import Placed
from instep.data.sources.data_names import data_names
from instep.data.sources.recognize import Source
from instep.data.sources.stream import Stream
from instep.data.sources.underlying import frame_layout
from instep.distributed.dtensors import class_of
from instep.optim.fused import fused_advice
from instep.optim.groups import option_notes
from instep.records import differences, record_class
from instep.run.built import Built, describe_built
from instep.run.fingerprint import Known, fingerprint
from instep.run.git_commit import git_commit
from instep.run.random_modules import frozen_norms_that_move
from instep.run.setting import as_setting, named
from instep.text import listed, plural

FORMAT = 1


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
        "title": title_of(description.model),
        "hyper_parameters": {name: as_setting(value) for name, value in hyper_parameters.items()},
        "settings": {name: named(as_setting(value)) for name, value in description.settings.items()}
        | ({"frozen": list(description.frozen)} if description.frozen else {}),
        "model": {
            "class": title_of(description.model),
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


def _data(sources: Mapping[str, Source | Stream], known: Known, *, content: bool) -> dict[str, Any]:
    """The fingerprints, with the names that a frame or a data set has."""
    return {name: {**fingerprint(source, known, content=content), **_names(source)} for name, source in sources.items()}


def _names(source: Source | Stream) -> dict[str, Any]:
    layout = None if isinstance(source, Stream) else frame_layout(source)
    if layout is None:
        classes = () if isinstance(source, Stream) else data_names(source).classes
        return {"classes": {"target": list(classes)}} if classes else {}
    return {"names": list(layout.names), **({"classes": as_setting(layout.classes)} if layout.classes else {})}


def title_of(model: nn.Module) -> str:
    if type(model) is nn.ModuleDict:
        return ", ".join(f"{name}: {type(part).__name__}" for name, part in model.items())
    return class_of(model).__name__


def _machine(device: torch.device) -> str:
    """The system, and what computes."""
    system = f"{platform.system()} {platform.release()}, {platform.machine()}, {plural(os.cpu_count() or 1, 'CPU')}"
    if device.type == "cpu":
        return system
    name = getattr(getattr(torch, device.type, None), "get_device_name", None)
    return system if name is None else f"{system}, {name(device)}"
