"""Schedulers: their steps next to those of their optimizers, and the learning rates that came of it."""

import weakref
from collections import Counter, deque
from dataclasses import field
from typing import Any

from torch.optim import Optimizer

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.loaders import Loaders
from instep.doctor.watch.optimizers import Optimizers, OptimizerWatch

HORIZONS = (
    "total_steps", "T_max", "T_0", "T_mult", "step_size", "step_size_up", "milestones", "total_iters", "gamma", "mode",
    "patience", "factor", "threshold", "eta_min",
)  # fmt: skip
LIMIT = 128
LATE = 16  # steps that are not watched, after which those of schedulers are counted when a mode or a pass changes


@record_class
class SchedulerRecord:
    """One scheduler."""

    number: int
    name: str  # class
    site: str | None  # where it was made
    optimizer: int | None  # number in Optimizers
    base_lr: float  # the optimizer's lr before the scheduler touched it
    horizon: dict[str, Any]  # what it holds of `HORIZONS`: numbers, and lists of numbers
    first_lr: float = 0.0  # as made
    initial_lr: float = 0.0  # what the schedulers of the optimizer multiply: another may have changed its lr before
    made_step: int = 0  # steps of all optimizers before it was made
    made_done: int = 0  # of those, of its own
    made_backwards: int = 0  # backwards before it was made
    last_step: int = 0  # steps of all optimizers when it stepped last
    steps: int = 0
    sites: Counter[str | None] = field(default_factory=Counter)  # of its steps
    early: int = 0  # steps while its optimizer had not stepped yet, since it was made
    early_site: str | None = None
    early_again: int = 0  # steps from that same line after the optimizer had stepped
    optimizer_steps: int = 0  # when it stepped last
    full_passes: int = 0  # passes over training loaders that had ended when it stepped last
    lrs: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=512))  # (optimizer steps, lr) after each step
    highest: float = 0.0
    lowest: float = float("inf")
    metrics: deque[float] = field(default_factory=lambda: deque(maxlen=256))  # what ReduceLROnPlateau was given
    cuts: int = 0  # steps that lowered the lr
    settled: int = 0  # its own count at the last step that changed the lr
    still: int = 0  # steps since then, of those that were heard
    last_epoch: int | None = None  # its own count at the last look
    lost: bool = False  # it was gone before the last of its steps could be counted
    reference: Any = None  # weak; for the observer

    def steps_of(self, optimizer_steps: int) -> float:
        """Its steps until its optimizer has made so many; those that nobody could count go on as the others did."""
        if not self.lost or not self.made_done < self.optimizer_steps < optimizer_steps:
            return self.steps
        return self.steps * (optimizer_steps - self.made_done) / (self.optimizer_steps - self.made_done)


@part_class
class Schedulers:
    """The part of the trace about schedulers."""

    all: list[SchedulerRecord] = field(default_factory=list)


def unwrapped(optimizer: Any) -> Any:
    """The optimizer inside wrappers such as Accelerate's."""
    for _ in range(4):
        inner = getattr(optimizer, "optimizer", None)
        if not isinstance(inner, Optimizer):
            break
        optimizer = inner
    return optimizer


class SchedulerWatch:
    """Fills `Schedulers`. Tells `on_schedule(record, scheduler)` after each step."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._optimizers, self._loaders = trace.part(Schedulers), trace.part(Optimizers), trace.part(Loaders)
        self._enclosing = trace.part(Calls).enclosing
        self._records: dict[int, SchedulerRecord] = {}
        self._owners: OptimizerWatch | None = None
        self._counted = 0  # the step at which the unheard ones were counted last

    def install(self, observers: list[object]) -> None:
        self._owners = next(observer for observer in observers if isinstance(observer, OptimizerWatch))

    def remove(self) -> None: ...

    def before_scheduler_init(self, called: Called) -> None:
        """The optimizer's lr is what the user gave; the constructor may overwrite it."""
        optimizer = unwrapped(called.argument(1, "optimizer"))
        if isinstance(optimizer, Optimizer):
            self._record(called.args[0], optimizer, called.site)

    def after_scheduler_init(self, called: Called) -> None:
        record = self._records.get(id(called.args[0]))
        if record is not None:
            record.horizon = _horizon(called.args[0])
            record.first_lr = _lr(called.args[0])
            record.initial_lr = _lr(called.args[0], "initial_lr")

    def _record(self, scheduler: Any, optimizer: Any, site: str | None) -> SchedulerRecord:
        record = self._records.get(id(scheduler))
        if record is None:
            assert self._owners is not None
            owner = self._owners.record(optimizer) if isinstance(optimizer, Optimizer) else None
            lr = float(optimizer.param_groups[0]["lr"]) if owner is not None else 0.0
            number = len(self._part.all)
            record = SchedulerRecord(
                number, type(scheduler).__name__, site, owner.number if owner else None, lr, _horizon(scheduler)
            )
            self._records[id(scheduler)] = record
            record.reference = weakref.ref(scheduler)
            record.made_step = record.last_step = self._trace.steps
            record.made_backwards = self._trace.backwards
            record.made_done = record.optimizer_steps = owner.all_steps if owner is not None else 0
            weakref.finalize(scheduler, self._forget, id(scheduler)).atexit = False
            if number < LIMIT:
                self._part.all.append(record)
        return record

    def _forget(self, key: int) -> None:
        record = self._records.pop(key, None)
        if record is not None and record.optimizer is not None and self._hub.resting:
            record.lost = self._optimizers.all[record.optimizer].all_steps > record.optimizer_steps

    def after_schedule(self, called: Called) -> None:
        scheduler = called.args[0]
        if getattr(scheduler, "_is_initial", False):
            return  # the constructor steps once itself
        optimizer = unwrapped(getattr(scheduler, "optimizer", None))
        record = self._record(scheduler, optimizer, called.site)
        owner = self._optimizers.all[record.optimizer] if record.optimizer is not None else None
        done = owner.all_steps if owner is not None else self._trace.steps
        record.steps += 1
        # Where a framework steps it, the user's line is that where it was made.
        record.sites[record.site if called.site in self._enclosing and record.site else called.site] += 1
        if done == record.made_done:
            record.early += 1
            record.early_site = called.site
        elif record.early and called.site == record.early_site:
            record.early_again += 1
        record.optimizer_steps, record.last_step = done, self._trace.steps
        record.full_passes = sum(loader.full_passes for loader in self._loaders.all if loader.trained)
        self._note_lr(record, scheduler, done)
        record.last_epoch = getattr(scheduler, "last_epoch", None)
        metric = called.argument(1, "metrics")
        if record.name == "ReduceLROnPlateau" and metric is not None:
            record.metrics.append(float(metric))
        self._hub.say("on_schedule", record, scheduler)

    def after_plateau(self, called: Called) -> None:
        self.after_schedule(called)

    def on_wake(self) -> None:
        self.on_judge()

    def after_mode(self, _: Called) -> None:
        """Told also while the doctor rests: a script that ends in `main()` leaves no scheduler to be asked at the end."""
        if self._hub.resting and self._trace.steps >= self._counted + LATE:
            self.on_judge()

    def on_pass_ends(self, _: Any) -> None:
        if self._hub.resting and self._trace.steps >= self._counted + LATE:
            self.on_judge()

    def on_judge(self) -> None:
        """Count the steps that were not heard of, by the scheduler's own count."""
        self._counted = self._trace.steps
        for record in self._records.values():
            scheduler = record.reference() if record.reference is not None else None
            epoch = getattr(scheduler, "last_epoch", None)
            if isinstance(epoch, int) and record.last_epoch is not None and epoch - record.last_epoch > 0:
                record.steps += epoch - record.last_epoch
                record.last_epoch, record.last_step = epoch, self._trace.steps
                owner = self._optimizers.all[record.optimizer] if record.optimizer is not None else None
                record.optimizer_steps = owner.all_steps if owner is not None else self._trace.steps
                self._note_lr(record, scheduler, record.optimizer_steps)

    def _note_lr(self, record: SchedulerRecord, scheduler: Any, done: int) -> None:
        lr = _lr(scheduler)
        before = record.lrs[-1][1] if record.lrs else record.first_lr
        record.cuts += lr < before
        record.still = record.still + 1 if lr == before else 0
        if lr != before:
            record.settled = int(getattr(scheduler, "last_epoch", 0) or 0)
        record.lrs.append((done, lr))
        record.highest, record.lowest = max(record.highest, lr), min(record.lowest, lr)


def _lr(scheduler: Any, name: str = "lr") -> float:
    groups = getattr(getattr(scheduler, "optimizer", None), "param_groups", None)
    return float(groups[0].get(name, 0.0)) if groups else 0.0


def _horizon(scheduler: Any) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in HORIZONS:
        value = vars(scheduler).get(name)
        if isinstance(value, dict):  # MultiStepLR's milestones are a Counter
            value = sorted(value)[:64]
        if isinstance(value, (int, float, str)) or (isinstance(value, list) and len(value) <= 64):
            found[name] = value
    total = _total(scheduler)
    return {**found, "total_steps": total} if total is not None else found


def _total(scheduler: Any) -> int | None:
    """The steps that a SequentialLR is made for: until its last part begins, and those of that part."""
    parts, milestones = vars(scheduler).get("_schedulers"), vars(scheduler).get("_milestones")
    if not isinstance(parts, list) or not isinstance(milestones, list) or not parts or not milestones:
        return None
    horizon = _horizon(parts[-1])
    last = next((horizon[name] for name in ("total_steps", "T_max", "total_iters") if name in horizon), None)
    return milestones[-1] + last if isinstance(last, int) and isinstance(milestones[-1], int) else None


PATCHES = [
    Patch("plateau", ("torch.optim.lr_scheduler:ReduceLROnPlateau.step",), always=True),
    Patch("schedule", ("torch.optim.lr_scheduler:LRScheduler.step",), subclasses=True),
    Patch("scheduler_init", ("torch.optim.lr_scheduler:LRScheduler.__init__",), subclasses=True, always=True),
]
OBSERVERS = [SchedulerWatch]
