"""What a checkpoint holds, in memory, and what was passed over while looking for one."""

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from instep.records import record_class


@record_class
class Checkpoint:
    """A run after `step` update cycles were begun; the next one is `step`.

    Each of `parts` is what a `state_dict()` gives, or anything built of tensors, numbers and containers: its tensors go to
    `<part>.safetensors`, the rest to `state.json`. Usual parts are model, optimizer and ema; with several models one each.
    `state` is for the counters. `best` is the step of the best checkpoint so far, perhaps this one, or None. `kept` are steps
    whose checkpoints shall stay when this one is written, `dropped` those that shall go; neither is written itself.
    """

    step: int
    parts: Mapping[str, Any]
    state: Mapping[str, Any] = field(default_factory=dict)
    best: int | None = None
    kept: tuple[int, ...] = ()
    dropped: tuple[int, ...] = ()


@record_class
class Skipped:
    """A checkpoint that could not be used, and why."""

    path: Path
    reason: str
