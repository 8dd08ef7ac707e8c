"""Options: every argument of a Trainer, once: its type, its default, and whether it decides the result.

Inside `arranged`, Trainers are made with some of their arguments changed: so a function that builds one need not know of it.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from instep import keys
from instep.data.loading.loader import WorkerCount
from instep.distributed.dtensors import Shard
from instep.loop.accumulation import OnNonFinite
from instep.loop.objective import ClassWeights, LossFunction
from instep.loop.out_of_memory import OnOutOfMemory
from instep.loop.precision import PrecisionName
from instep.loop.steppers import Objectives, Optimizers
from instep.loop.unfreezing import UnfreezeAt
from instep.optim.clip import Limit
from instep.run.loggers import Logger

# The description has these in a part of their own, or they change how a run is done and shown, but not what comes of it.
_NO_SETTING = {"setting": False}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Options:
    """The arguments of a Trainer as they were given."""

    model: nn.Module | Mapping[str, nn.Module] = field(metadata=_NO_SETTING)
    optimizer: Optimizers = field(metadata=_NO_SETTING)
    train: Any = field(metadata=_NO_SETTING)
    valid: Any = field(default=None, metadata=_NO_SETTING)
    test: Any = field(default=None, metadata=_NO_SETTING)
    loss: LossFunction | None = None
    class_weights: ClassWeights = None
    objective: Objectives = None
    epochs: int | None = None
    max_steps: int | None = None
    batch_size: int | None = None
    update_cycle: int = 1
    micro_batch_size: int | None = None
    drop_last: bool = False
    num_workers: WorkerCount | None = field(default=None, metadata=_NO_SETTING)
    schedule: Any = None
    update_every: Mapping[str, int] | None = None
    clip_norm: Limit | Mapping[str, Limit] = None
    clip_value: Limit | Mapping[str, Limit] = None
    l1: float | Mapping[str, float] = 0.0
    l2: float | Mapping[str, float] = 0.0
    ema: float | None = None
    swa: int | str | None = None
    swa_every: int | str = "epoch"
    unfreeze_at: UnfreezeAt | None = None
    metrics: Any = None
    evaluate_every: int | str | None = "epoch"
    monitor: str | None = None
    monitor_mode: Literal["auto", "min", "max"] = "auto"
    patience: int | None = None
    restore_best: bool = False
    seed: int = 0
    folder: str | Path | None = field(default=None, metadata=_NO_SETTING)
    checkpoint_every: int | str | None = field(default="auto", metadata=_NO_SETTING)
    keep: int | None = field(default=3, metadata=_NO_SETTING)
    keep_best: int = field(default=1, metadata=_NO_SETTING)
    save_frozen: bool = field(default=True, metadata=_NO_SETTING)
    allow_changes: Collection[str] = field(default=(), metadata=_NO_SETTING)
    init: str | Path | None = None
    device: str | torch.device = "auto"
    precision: PrecisionName = "fp32"
    compile: bool = False
    deterministic: bool = False
    shard: Shard = field(default=False, metadata=_NO_SETTING)
    sync_batchnorm: bool = False
    timeout_s: float | None = field(default=None, metadata=_NO_SETTING)
    on_nonfinite: OnNonFinite = "stop"
    on_out_of_memory: OnOutOfMemory = field(default="raise", metadata=_NO_SETTING)
    log_every: int = field(default=50, metadata=_NO_SETTING)
    loggers: tuple[Logger, ...] = field(default=(), metadata=_NO_SETTING)
    progress: bool | None = field(default=None, metadata=_NO_SETTING)
    doctor: bool = field(default=False, metadata=_NO_SETTING)

    def __post_init__(self) -> None:
        keys.check_seed(self.seed)

    def settings(self) -> dict[str, Any]:
        """The arguments that decide the result and that the description has in no part of its own."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("setting", True)}


NAMES = tuple(f.name for f in fields(Options))


class Arranged:
    """The options of the Trainers that were made inside of `arranged`, in their order."""

    def __init__(self, changes: "Changes", at: int | None) -> None:
        self.made: list[Options] = []
        self._changes = changes
        self._at = at

    def take(self, options: Options) -> Options:
        is_meant = self._at is None or len(self.made) == self._at
        changes = self._changes(options) if callable(self._changes) else self._changes
        self.made.append(replace(options, **changes) if is_meant else options)
        return self.made[-1]


Changes = Mapping[str, Any] | Callable[[Options], Mapping[str, Any]]
_arranged: ContextVar[Arranged | None] = ContextVar("arranged", default=None)


@contextmanager
def arranged(changes: "Changes", *, at: int | None = None) -> Iterator[Arranged]:
    """Inside, Trainers are made with these arguments in place of their own; with `at` only that one of them, from 0.

    `changes` may be a function of the options as they were given.
    """
    mine = Arranged(changes, at)
    token = _arranged.set(mine)
    try:
        yield mine
    finally:
        _arranged.reset(token)


def as_arranged(options: Options) -> Options:
    """The options as `arranged` wants them; outside of it as they are."""
    arranged = _arranged.get()
    return options if arranged is None else arranged.take(options)
