"""Advice: what would make the updates of a run faster, each idea measured beside the run as it is, in turns.

Two of the ways that take turns are the same run: how far these two are apart is the noise, and a gain that is not clearly above
it is not advised.
"""

import copy
import inspect
import os
import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from instep.optim.fused import FUSED
from instep.run.run import Run
from instep.tuning.comparison import Timing, Way, quartiles

LEAST_GAIN = 0.03  # for less nobody changes a setting
SURE = 2.0  # times the noise, before a gain is believed
FEW_CORES = 4
WORTH_LOADING = 0.05  # of an update that waits for data: then loader workers are tried


@dataclass(frozen=True)
class Idea:
    """Something to try: what to type, and what changes of the Trainer's arguments make it."""

    name: str
    to_type: str
    changes: Callable[[], Mapping[str, Any]]
    remark: str = ""
    ahead: int = 0  # batches that are loaded ahead, and would be timed as if they came for nothing


@dataclass(frozen=True)
class Advice:
    """An idea and what was measured: how many times as fast, with the quartiles over the turns."""

    name: str
    to_type: str
    ratio: float
    low: float
    high: float
    first_s: float  # its first update, in which it may have compiled
    noise: float
    remark: str = ""

    @property
    def is_advised(self) -> bool:
        return self.low > 1 and self.ratio - 1 > max(LEAST_GAIN, SURE * self.noise)


@dataclass(frozen=True)
class NotMeasured:
    """An idea that could not be tried, and why."""

    name: str
    why: str


def ideas_for(run: Run, waits_for_data: float, *, compile: bool) -> list[Idea]:
    """What may help this run and is not done yet; `waits_for_data` is the share of an update that data takes."""
    options, found = run.options, []
    optimizer: Any = run.optimizer
    is_plain = isinstance(options.model, nn.Module) and isinstance(optimizer, Optimizer)
    if is_plain and can_fuse(optimizer):
        kind = type(optimizer).__name__
        found.append(Idea("fused", f"{kind}(…, fused=True)", lambda: copied(run, fused=True), "rounds differently"))
    if waits_for_data >= WORTH_LOADING and not options.num_workers and not (run.loader.is_in_memory or run.loader.is_stream):
        count = 2 if (os.cpu_count() or 1) <= FEW_CORES else 4
        found.append(Idea("num_workers", f"num_workers={count}", lambda: {"num_workers": count}, ahead=2 * count))
    if options.precision == "fp32" and torch.amp.is_autocast_available(run.device.type):
        found.append(Idea("bf16", 'precision="bf16"', lambda: {"precision": "bf16"}, "half precision: watch the metrics"))
    if is_plain and _would_be_channels_last(run.model):
        to_type = "model.to(memory_format=torch.channels_last)"
        found.append(Idea("channels_last", to_type, lambda: copied(run, channels_last=True), "rounds differently"))
    if compile and not options.compile:
        found.append(Idea("compile", "compile=True", lambda: {"compile": True}))
    return found


def can_fuse(optimizer: Optimizer) -> bool:
    """Whether torch has a fused implementation that this optimizer does not use."""
    chosen = any(group.get(name) for group in optimizer.param_groups for name in ("fused", "differentiable"))
    return type(optimizer) in FUSED and not chosen


def copied(run: Run, *, fused: bool = False, channels_last: bool = False) -> dict[str, Any]:
    """A copy of the model, and an optimizer like the run's on its parameters; as arguments of a Trainer."""
    model = copy.deepcopy(run.model)
    if channels_last:
        model = model.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer: Optimizer = run.optimizer
    changed = {"fused": True, "foreach": False} if fused else {}
    twins = dict(zip(run.model.parameters(), model.parameters(), strict=True))
    groups = [{**group, **changed, "params": [twins[p] for p in group["params"]]} for group in optimizer.param_groups]
    names = inspect.signature(type(optimizer)).parameters
    defaults = {name: value for name, value in {**optimizer.defaults, **changed}.items() if name in names}
    return {"model": model, "optimizer": type(optimizer)(groups, **defaults)}


def _would_be_channels_last(model: nn.Module) -> bool:
    """Whether there are convolutions over pictures, and none has its channels last."""
    weights = [module.weight for module in model.modules() if isinstance(module, nn.Conv2d)]
    return bool(weights) and all(weight.is_contiguous() for weight in weights)


class Entrant(Way):
    """A way whose batches may be loaded ahead, by workers that bring them in bursts.

    Those that are there are used up before the clock starts, and a block is as long as what is loaded ahead, at least.
    """

    def __init__(self, updates: Iterator[object], device: torch.device, ahead: int = 0) -> None:
        super().__init__(updates, device)
        self._ahead = ahead

    def time(self, updates: int) -> None:
        for _ in range(self._ahead):
            next(self._updates)
        super().time(max(updates, self._ahead))


def judge(base: Timing, again: Timing, tried: Mapping[Idea, Timing]) -> list[Advice]:
    """What the ideas gain over the run as it is; the best first."""
    noise = noise_of(base, again)
    found = []
    for idea, timing in tried.items():
        ratios = [(one + other) / 2 / own for one, other, own in zip(base.blocks_s, again.blocks_s, timing.blocks_s, strict=True)]
        low, high = quartiles(ratios)
        middle = statistics.median(ratios)
        found.append(Advice(idea.name, idea.to_type, middle, low, high, timing.first_s, noise, idea.remark))
    return sorted(found, key=lambda one: -one.ratio)


def noise_of(base: Timing, again: Timing) -> float:
    """How far two ways that are the same seem apart: the wider of the quartiles of their ratio."""
    ratios = [one / other for one, other in zip(base.blocks_s, again.blocks_s, strict=True)]
    return max(abs(edge - 1) for edge in (*quartiles(ratios), statistics.median(ratios)))


def pays_after(advice: Advice, update_s: float) -> int | None:
    """After how many updates an idea that begins slowly has paid for it; None where it does not begin slowly."""
    gain_s = update_s * (1 - 1 / advice.ratio)
    return None if advice.first_s < 20 * update_s or gain_s <= 0 else int(advice.first_s / gain_s) + 1
