"""Rates: what schedulers do to learning rates, next to steps, backwards, metrics and losses."""

import inspect
import linecache
import re
import weakref
from collections import deque
from dataclasses import field
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.schedulers import SchedulerRecord, unwrapped

FADED = (1e-3, 1e-4)  # of the highest rate so far
SWINGING = frozenset({"CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR", "OneCycleLR"})
UNSEEN = 32  # optimizer steps between two looks, over which a rate that swings may have been anywhere
LIMIT = 128


@record_class
class Rate:
    """What the steps of one scheduler did."""

    number: int  # of the scheduler
    early_backwards: int = 0  # backwards before its first step, if that came before the optimizer's, since that one was made
    early_position: int = 1  # where in the schedule that step led
    early_lr: float | None = None  # the rate after it
    loaded: bool = False  # whether the optimizer had been loaded from a checkpoint by then
    seen: int = 0  # steps of it while the doctor was awake
    pending: int = 0  # of those, with a backward waiting for the optimizer's step
    rises: int = 0
    falls: int = 0
    faded: list[int] = field(
        default_factory=lambda: [0, 0]
    )  # optimizer steps at a rate below FADED of the highest, in all groups
    fading: list[bool] = field(default_factory=lambda: [False, False])  # whether it is so low now
    highest: list[float] = field(default_factory=list)  # of each group
    last_done: int = 0  # optimizer steps when it stepped last
    idle: int = 0  # optimizer steps before its first, if all rates were 0 from the beginning
    metric_text: str = ""  # what ReduceLROnPlateau was given, as it is written
    metrics: deque[tuple[float, float | None, float | None]] = field(
        default_factory=lambda: deque(maxlen=256)
    )  # given, mean loss of the evaluation before, training loss then


@record_class
class Cycle:
    """One OneCycleLR as it was made."""

    site: str | None
    lrs: tuple[float, ...]  # the optimizer's before
    max_lrs: tuple[float, ...]
    written: bool  # whether somebody wrote that lr, or it is the optimizer's default


@part_class
class Rates:
    """The part of the trace about rates."""

    all: dict[int, Rate] = field(default_factory=dict)
    cycles: list[Cycle] = field(default_factory=list)
    written: dict[int, bool] = field(default_factory=dict)  # optimizer -> whether its lr was written where it was made
    loaded: set[int] = field(default_factory=set)  # optimizers that were loaded from a checkpoint


class RateWatch:
    """Fills `Rates`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._optimizers, self._backwards = trace.part(Rates), trace.part(Optimizers), trace.part(Backwards)
        self._numbers: dict[int, int] = {}  # id of an optimizer -> its number
        self._made: dict[int, int] = {}  # optimizer -> backwards before it was made
        self._before: tuple[float, ...] = ()
        self._plateau = False
        self._graded: list[float] = []
        self._silent: weakref.WeakSet[Any] = weakref.WeakSet()  # schedulers that have set all rates to 0

    def on_optimizer(self, record: OptimizerRecord, optimizer: Optimizer) -> None:
        if len(self._part.written) < LIMIT:
            self._part.written[record.number] = _lr_written(record, optimizer)
            self._made[record.number] = self._trace.backwards
        self._numbers[id(optimizer)] = record.number

    def after_optimizer_load(self, called: Called) -> None:
        number = self._numbers.get(id(called.args[0]))
        if number is not None:
            self._part.loaded.add(number)

    def before_scheduler_init(self, called: Called) -> None:
        self._before = _rates(unwrapped(called.argument(1, "optimizer")), "lr")

    def after_scheduler_init(self, called: Called) -> None:
        kind, optimizer = type(called.args[0]).__name__, unwrapped(called.argument(1, "optimizer"))
        self._plateau = self._plateau or kind == "ReduceLROnPlateau"
        if any(self._before) and not any(_rates(optimizer, "lr")):
            self._silent.add(called.args[0])
        if kind == "OneCycleLR" and len(self._part.cycles) < LIMIT:
            written = self._part.written.get(self._numbers.get(id(optimizer), -1), True)
            self._part.cycles.append(Cycle(called.site, self._before, _rates(optimizer, "max_lr"), written))

    def before_schedule(self, called: Called) -> None:
        if called.args[0] in self._silent and any(_rates(unwrapped(called.args[0].optimizer), "lr")):
            self._silent.discard(called.args[0])  # somebody else has raised them

    def on_schedule(self, record: SchedulerRecord, scheduler: Any) -> None:
        if record.optimizer is None or len(self._part.all) > LIMIT:
            return
        rate = self._part.all.get(record.number)
        if rate is None:
            rate = self._part.all[record.number] = Rate(record.number)
        owner = self._optimizers.all[record.optimizer]
        if scheduler in self._silent:
            self._silent.discard(scheduler)
            rate.idle = record.optimizer_steps - record.made_done
        if record.early and record.steps == 1:
            before = record.made_backwards if record.made_done else self._made.get(record.optimizer, 0)
            rate.early_backwards = self._trace.backwards - before
            rate.early_position = int(getattr(scheduler, "last_epoch", 1))
            rate.early_lr = record.lrs[-1][1] if record.lrs else None
            rate.loaded = owner.number in self._part.loaded
        if not self._hub.resting:
            rate.seen += 1
            rate.pending += self._trace.backwards > owner.backwards
        self._note_change(rate, record)
        self._note_fading(rate, record, _rates(unwrapped(scheduler.optimizer), "lr"))
        if record.name == "ReduceLROnPlateau" and record.metrics:
            self._note_metric(rate, record)

    def _note_change(self, rate: Rate, record: SchedulerRecord) -> None:
        now = record.lrs[-1][1]
        before = record.lrs[-2][1] if len(record.lrs) > 1 else record.first_lr
        rate.rises += now > before
        rate.falls += now < before

    def _note_fading(self, rate: Rate, record: SchedulerRecord, lrs: tuple[float, ...]) -> None:
        done = record.optimizer_steps
        if len(rate.highest) != len(lrs):
            rate.highest = [record.first_lr or record.base_lr, *lrs[1:]]
        unseen = record.name in SWINGING and done - rate.last_done > UNSEEN
        for level, share in enumerate(FADED):
            if rate.fading[level] and not unseen:
                rate.faded[level] += done - rate.last_done
            rate.fading[level] = all(lr <= share * top for lr, top in zip(lrs, rate.highest, strict=True)) and any(rate.highest)
        rate.highest = [max(pair) for pair in zip(lrs, rate.highest, strict=True)]
        rate.last_done = done

    def _note_metric(self, rate: Rate, record: SchedulerRecord) -> None:
        if not rate.metric_text:
            rate.metric_text = _argument(self._hub.site())
        losses = [value for site in self._backwards.sites.values() for _, value in list(site.values)[-16:]]
        rate.metrics.append((record.metrics[-1], _mean(self._graded), _mean(losses)))
        self._graded.clear()

    def on_loss(self, _: Any, called: Called, input: Tensor, __: Any) -> None:
        """Losses of evaluations, while somebody waits for a plateau."""
        if self._plateau and not input.requires_grad and len(self._graded) < 4096:
            result = called.result
            if isinstance(result, Tensor) and result.numel() == 1:
                self._hub.read(result.detach().reshape(()), self._graded.append)


def _rates(optimizer: Any, name: str) -> tuple[float, ...]:
    return tuple(float(group.get(name, 0.0)) for group in getattr(optimizer, "param_groups", ()))


def _mean(values: list[float]) -> float | None:
    return sum(values) / len(values) if values else None


def source(site: str | None, lines: int = 1) -> str:
    """What is written there."""
    file, _, number = (site or "").rpartition(":")
    return "".join(linecache.getline(file, int(number) + i) for i in range(lines)) if file else ""


def _argument(site: str | None) -> str:
    found = re.search(r"\.step\((.*)\)", source(site))
    return found.group(1)[:80] if found else ""


def _lr_written(record: OptimizerRecord, optimizer: Optimizer) -> bool:
    """Whether the lr was given, as far as can be seen: it is not the default, or "lr" stands where the optimizer is made."""
    default = inspect.signature(type(optimizer).__init__).parameters.get("lr")
    if default is None or not record.lrs or any(lr != default.default for lr in record.lrs):
        return True
    return "lr" in source(record.site, 6)


OBSERVERS = [RateWatch]
