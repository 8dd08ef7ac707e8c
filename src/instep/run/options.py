"""Options: every argument of a Trainer, once: its type, its default, and whether it decides the result."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from instep import keys
from instep.data.data_source import MOVED_FROM_TRAINER
from instep.data.loading.loader import WorkerCount
from instep.distributed.shard import Shard
from instep.errors import DescriptionError
from instep.loop.accumulation import OnNonFinite
from instep.loop.objective import LossFunction
from instep.loop.out_of_memory import OnOutOfMemory
from instep.loop.precision import PrecisionName
from instep.loop.steppers import Objectives, Optimizers
from instep.loop.unfreezing import UnfreezeAt
from instep.optim.clip import Limit
from instep.text import nearest

# The description has these in a part of their own, or they change how a run is done and shown, but not what comes of it.
_NO_SETTING = {"setting": False}


@dataclass(frozen=True, kw_only=True)
class Options:
    """The arguments of a Trainer as they were given."""

    model: nn.Module | Mapping[str, nn.Module] = field(metadata=_NO_SETTING)
    optimizer: Optimizers = field(metadata=_NO_SETTING)
    train: Any = field(metadata=_NO_SETTING)
    valid: Any = field(default=None, metadata=_NO_SETTING)
    test: Any = field(default=None, metadata=_NO_SETTING)
    loss: LossFunction | None = None
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
    unfreeze_at: UnfreezeAt | None = None
    metrics: Any = None
    evaluate_every: int | str | None = "epoch"
    monitor: str | None = None
    monitor_mode: Literal["auto", "min", "max"] = "auto"
    patience: int | None = None
    restore_best: bool = False
    seed: int = 0
    folder: str | Path | None = field(default=None, metadata=_NO_SETTING)
    checkpoint_every: int | str | None = field(default="epoch", metadata=_NO_SETTING)
    keep: int | None = field(default=3, metadata=_NO_SETTING)
    keep_best: int = field(default=1, metadata=_NO_SETTING)
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
    progress: bool | None = field(default=None, metadata=_NO_SETTING)
    doctor: bool = field(default=False, metadata=_NO_SETTING)

    def __post_init__(self) -> None:
        keys.check_seed(self.seed)

    def settings(self) -> dict[str, Any]:
        """The arguments that decide the result and that the description has in no part of its own."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.metadata.get("setting", True)}


# Names that people know from earlier versions and from other libraries, and what they are called here.
CALLED_HERE = {
    **MOVED_FROM_TRAINER,
    "workers": "num_workers=",
    "every": "update_every=",
    "on_overflow": "on_out_of_memory=",
    "channels_last": "model.to(memory_format=torch.channels_last) before the Trainer is made",
    "average": "ema=",
    "lr": "optimizer=torch.optim.AdamW(model.parameters(), lr=…)",
    "learning_rate": "optimizer=torch.optim.AdamW(model.parameters(), lr=…)",
    "callbacks": "a loop of your own: for update in trainer.updates(): …",
    "max_epochs": "epochs=",
    "num_epochs": "epochs=",
    "num_train_epochs": "epochs=",
    "n_epochs": "epochs=",
    "num_steps": "max_steps=",
    "accumulate_grad_batches": "update_cycle= (batch_size counts the whole update)",
    "gradient_accumulation_steps": "update_cycle= (batch_size counts the whole update)",
    "accumulation_steps": "update_cycle= (batch_size counts the whole update)",
    "grad_accum_steps": "update_cycle= (batch_size counts the whole update)",
    "gradient_clip_val": "clip_norm= (or clip_value=)",
    "max_grad_norm": "clip_norm=",
    "grad_clip": "clip_norm=",
    "train_dataloader": "train=",
    "train_dataloaders": "train=",
    "train_loader": "train=",
    "train_dataset": "train=",
    "train_data": "train=",
    "val": "valid=",
    "val_dataloader": "valid=",
    "val_dataloaders": "valid=",
    "val_loader": "valid=",
    "val_data": "valid=",
    "valid_loader": "valid=",
    "validation_data": "valid=",
    "validation_split": "valid=, a share like 0.1",
    "eval_dataset": "valid=",
    "eval_every": "evaluate_every=",
    "val_check_interval": "evaluate_every=",
    "check_val_every_n_epoch": 'evaluate_every="2 epochs"',
    "test_loader": "test=",
    "test_dataloader": "test=",
    "test_dataset": "test=",
    "test_data": "test=",
    "criterion": "loss=",
    "loss_fn": "loss=",
    "loss_function": "loss=",
    "scheduler": "schedule=",
    "lr_scheduler": "schedule=",
    "optimizers": "optimizer=",
    "early_stopping": "patience=",
    "early_stopping_patience": "patience=",
    "checkpoint_dir": "folder=",
    "default_root_dir": "folder=",
    "output_dir": "folder=",
    "save_every": "checkpoint_every=",
    "save_steps": "checkpoint_every=",
    "save_total_limit": "keep=",
    "save_top_k": "keep_best=",
    "logging_steps": "log_every=",
    "log_every_n_steps": "log_every=",
    "accelerator": "device=",
    "devices": "torchrun, or instep train --processes",
    "fp16": 'precision="fp16"',
    "bf16": 'precision="bf16"',
    "mixed_precision": 'precision="bf16"',
    "use_amp": 'precision="bf16"',
    "random_state": "seed=",
    "manual_seed": "seed=",
    "weight_decay": "optimizer=torch.optim.AdamW(model.parameters(), weight_decay=…)",
}

NOT_HERE = {
    "batched_fetch": "a data set that has __getitems__ is read by it",
    "on_checkpoint_error": "a checkpoint that cannot be written stops the run, and the one before it is kept",
    "processes": "torchrun, or instep train --processes, says how many there are",
    "shuffle": "training data is shuffled each epoch; data.source(…, sampler=) says otherwise",
}


def refuse_unknown(names: Collection[str]) -> None:
    """Raises for arguments that a Trainer does not have, with the name that each has here."""
    if not names:
        return
    known = [f.name for f in fields(Options)]
    name = next(iter(names))
    here = CALLED_HERE.get(name)
    guess = nearest(name, known)
    if name in NOT_HERE:
        advice = f"{NOT_HERE[name]}."
    elif here is not None:
        advice = f"use {here}."
    else:
        advice = f"did you mean {guess}=?" if guess else f"there are {', '.join(known)}."
    raise DescriptionError(f"Trainer has no argument {name}=; {advice}")
