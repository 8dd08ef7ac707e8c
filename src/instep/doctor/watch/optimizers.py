"""Optimizers and their steps: what each step used."""

import weakref
from collections import deque
from collections.abc import Iterator
from dataclasses import field
from threading import get_ident
from typing import Any

import torch
from torch import Tensor
from torch.compiler import is_compiling
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

from instep.doctor.beside import Beside
from instep.doctor.hub import Hub
from instep.doctor.nested_steps import is_within_own_step
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.shards import is_sharded
from instep.doctor.step_use import GradientUsers, StepUse
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.gradients import Gradients, GradientWatch, Parameter

LIMIT = 128
MUCH_HIGHER = 3.0  # times any rate that was watched


@record_class
class StepFact:
    """What one step of an optimizer used. Numbers of parameters, unless said."""

    number: int  # steps of all optimizers before it
    site: str | None
    lr: float
    closure: bool
    parameters: int = 0  # that require a gradient
    missing: int = 0  # gradient is None
    fresh: int = 0  # gradient holds what no step has used
    stale: int = 0  # gradient holds what a step has used, below something fresh
    reused: int = 0  # gradient holds only what a step has used
    names: tuple[str, ...] = ()  # of those that are stale or reused, the first few
    arrived: int = 0  # got a gradient since the last step of this optimizer, whatever became of it
    held: int = 0  # the most backwards that one gradient holds
    used_held: int = 0  # the most already used backwards that one gradient holds below something fresh
    foreign: int = 0  # gradient holds a backward that another optimizer's step used before a later backward came
    apart: int = 0  # of those: that later backward reaches no parameter of the other optimizer


@record_class
class OptimizerRecord(Tally):
    """One optimizer."""

    number: int
    name: str  # class
    site: str | None  # where it was made, or where it stepped first
    made_step: int  # steps of all optimizers before it was made
    lrs: tuple[float, ...]  # as made
    parameters: tuple[int, ...] = ()  # keys in Gradients.parameters
    steps: int = 0  # that were watched; a long run of short steps is watched in bursts
    all_steps: int = 0
    last_lr: float = 0.0
    recent: deque[StepFact] = field(default_factory=lambda: deque(maxlen=256))
    totals: dict[str, int] = field(default_factory=dict)  # steps with missing, stale, reused, empty, … > 0; see `_count`
    first: dict[str, int] = field(default_factory=dict)  # the step at which each of those happened first
    begun: dict[str, int] = field(default_factory=dict)  # of `steps`, how many came before that
    alive: bool = True
    backwards: int = 0  # of all, until its last step
    arrivals: int = 0  # of gradients, until then
    awake: bool = True  # whether it has stepped since the last rest: only then is it known what came before a step
    time: int = 0  # of its last step, on the clock of the gradients
    highest_lr: float = 0.0  # that was watched, or told of


@part_class
class Optimizers:
    """The part of the trace about optimizers."""

    all: list[OptimizerRecord] = field(default_factory=list)

    def __iter__(self) -> Iterator[OptimizerRecord]:
        return iter(self.all)


class Step:
    """One step while it goes on."""

    __slots__ = ("backwards", "closure", "fact", "inside", "optimizer", "record", "site", "within")

    def __init__(
        self, optimizer: torch.optim.Optimizer, record: OptimizerRecord, closure: bool, inside: bool, site: str | None
    ) -> None:
        self.optimizer = optimizer
        self.record = record
        self.closure = closure
        self.inside = inside
        self.site = site
        self.fact: StepFact | None = None
        self.backwards = 0  # of all, before it
        self.within = 0  # steps of the same optimizer that go on in it, as that of a base class

    @property
    def is_torchs(self) -> bool:
        """Whether its code is torch's own: another may take gradients from elsewhere, or use no more than their sign."""
        return getattr(getattr(type(self.optimizer), "step", None), "__module__", "").startswith("torch.optim")


class OptimizerWatch:
    """Fills `Optimizers`; tells `before_step(step)`, `after_step(step)`, and `on_optimizer(record, optimizer)` once each."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._gradients = trace.part(Optimizers), trace.part(Gradients)
        self._users = GradientUsers(trace, self._part)
        self._records: dict[int, OptimizerRecord] = {}
        self._stack: list[Step] = []
        self._ledger: GradientWatch | None = None
        self._handles: list[Any] = []
        self._depth = 0
        self._ended: set[int] = set()  # optimizers, by id, whose step has ended for us while hooks of theirs go on

    def install(self, observers: list[object]) -> None:
        self._ledger = next(observer for observer in observers if isinstance(observer, GradientWatch))
        self._handles = [register_optimizer_step_pre_hook(self._begins), register_optimizer_step_post_hook(self._ends)]

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def record(self, optimizer: torch.optim.Optimizer, site: str | None = None) -> OptimizerRecord:
        """The record of an optimizer, made where it is new."""
        record = self._records.get(id(optimizer))
        if record is None:
            lrs = tuple(float(group.get("lr", 0.0)) for group in optimizer.param_groups)
            record = OptimizerRecord(len(self._part.all), type(optimizer).__name__, site, self._trace.steps, lrs)
            self._records[id(optimizer)] = record
            weakref.finalize(optimizer, self._forget, id(optimizer), record).atexit = False
            if len(self._part.all) < LIMIT:
                self._part.all.append(record)
            self._hub.sharded = self._hub.sharded or any(map(is_sharded, _tensors(optimizer)))
            self._hub.say("on_optimizer", record, optimizer)
        return record

    def _forget(self, key: int, record: OptimizerRecord) -> None:
        record.alive = False
        if self._records.get(key) is record:
            del self._records[key]

    def after_optimizer_init(self, called: Called) -> None:
        optimizer = called.args[0]
        record = self.record(optimizer, called.site)
        assert self._ledger is not None
        for tensor in _tensors(optimizer):
            self._ledger.know(tensor).optimizers.add(record.number)

    def _begins(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_compiling():
            return
        before, after = optimizer._optimizer_step_pre_hooks, optimizer._optimizer_step_post_hooks
        self._ended.discard(id(optimizer))
        if self._hub.quiet or not (before or after):
            self._begins_now(optimizer, args, kwargs)
            return
        # Hooks of its own clear, divide or clip before the update, and clear after it. Torch calls those for all optimizers, as
        # ours are, first before an update and last after it; for this step ours stand next to the update.
        if after:
            Beside(after, next(iter(after)), self._ends_first, first=True)
        if before:
            Beside(before, next(reversed(before)), self._begins_now, first=False)
        else:
            self._begins_now(optimizer, args, kwargs)

    def _ends_first(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._ended.add(id(optimizer))
        self._ends_now(optimizer, args, kwargs)

    def _ends(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_compiling():
            return
        if id(optimizer) in self._ended:
            self._ended.discard(id(optimizer))
        else:
            self._ends_now(optimizer, args, kwargs)

    def _begins_now(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hub = self._hub
        if is_busy(hub):
            return
        if hub.resting:
            self._depth += 1
            return
        closure = (len(args) > 1 and args[1] is not None) or kwargs.get("closure") is not None
        hub.tell((self.step_begins,), optimizer, closure, hub.locator.site(2))

    def step_begins(self, optimizer: Any, closure: bool, site: str | None) -> None:
        if self._stack and self._stack[-1].optimizer is optimizer:
            if is_within_own_step(optimizer):
                self._stack[-1].within += 1  # `super().step()`: the same step
                return
            self._stack.pop()  # it has raised
        step = Step(optimizer, self.record(optimizer, site), closure, bool(self._stack), site)
        self._stack.append(step)
        step.backwards = self._trace.backwards
        if not closure:  # with a closure the gradients come inside the step
            step.fact = self._used(step)
        self._hub.say("before_step", step)

    def _ends_now(self, optimizer: torch.optim.Optimizer, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        hub = self._hub
        if is_busy(hub):
            return
        if not hub.resting or self._stack:
            hub.tell((self.step_ends,), optimizer)
            return
        self.count_unwatched(optimizer)
        if self._trace.steps >= hub.alarm:
            hub.ring()

    def count_unwatched(self, optimizer: Any) -> None:
        """A step while the doctor rests."""
        record = self._records.get(id(optimizer))
        if record is not None and not (self._depth > 1 and is_within_own_step(optimizer)):
            record.all_steps += 1
            rate = optimizer.param_groups[0].get("lr")
            if type(rate) is float and rate > MUCH_HIGHER * record.highest_lr > 0:  # one that is a tensor is not read
                record.highest_lr = rate
                self._hub.tell(self._hub.listeners("on_higher_rate"))
        self._depth -= 1
        if self._depth <= 0:
            self._depth = 0
            self._trace.steps += 1

    def on_wake(self) -> None:
        self._stack.clear()
        for record in self._records.values():
            record.awake = False

    def step_ends(self, optimizer: Any) -> None:
        if self._stack and self._stack[-1].optimizer is optimizer and self._stack[-1].within:
            self._stack[-1].within -= 1
            return
        while self._stack:
            step = self._stack.pop()
            if step.optimizer is optimizer:
                break
        else:
            return
        if step.fact is None:
            step.closure = self._trace.backwards > step.backwards  # else it did nothing: Lightning always passes one
            step.fact = self._used(step)
        record = step.record
        record.all_steps += 1
        if record.awake:
            self._count(record, step.fact)
        record.awake = True
        if not self._stack:
            self._trace.steps += 1
            self._trace.watched += 1
        self._hub.say("after_step", step)

    def _used(self, step: Step) -> StepFact:
        """What the step uses, noted in the ledger."""
        record, known = step.record, self._gradients.parameters
        rate = float(step.optimizer.param_groups[0].get("lr", 0.0))
        use = StepUse(StepFact(self._trace.steps, step.site, rate, step.closure), record)
        record.backwards = self._trace.backwards
        arrivals, keys = 0, []
        for tensor in _tensors(step.optimizer):
            parameter = known.get(id(tensor))
            if parameter is None or not parameter.hooked or record.number not in parameter.optimizers:
                parameter = self._know(tensor, record)
            keys.append(parameter.key)
            arrivals += parameter.arrivals
            if tensor.requires_grad:
                self._users.note(use, tensor, parameter)
        record.parameters = tuple(keys)
        use.fact.arrived, record.arrivals = arrivals - record.arrivals, arrivals
        use.fact.names = tuple(use.names[:8])
        self._gradients.clock += 1
        record.time = self._gradients.clock
        self._users.forget()
        return use.fact

    def _know(self, tensor: Tensor, record: OptimizerRecord) -> Parameter:
        assert self._ledger is not None
        parameter = self._ledger.know(tensor)
        parameter.optimizers.add(record.number)
        return parameter

    def _count(self, record: OptimizerRecord, fact: StepFact) -> None:
        record.steps += 1
        record.last_lr = fact.lr
        record.highest_lr = max(record.highest_lr, fact.lr)
        record.recent.append(fact)
        totals, first = record.totals, record.first
        nothing = not fact.fresh and not fact.reused
        for name, value in (
            ("fresh", fact.fresh), ("stale", fact.stale), ("reused", fact.reused and not fact.fresh), ("foreign", fact.foreign),
            ("apart", fact.apart),
            ("empty", fact.missing == fact.parameters), ("nothing", nothing), ("lost", fact.arrived and nothing),
            ("again", fact.reused and not fact.fresh and not fact.arrived), ("accumulated", fact.held - fact.used_held > 1),
        ):  # fmt: skip
            if value:
                totals[name] = totals.get(name, 0) + 1
                first.setdefault(name, fact.number)
                record.begun.setdefault(name, record.steps - 1)


def is_busy(hub: Hub) -> bool:
    """Whether hooks must keep still."""
    return is_compiling() or hub.busy or get_ident() != hub.thread


def _tensors(optimizer: torch.optim.Optimizer) -> Iterator[Tensor]:
    for group in optimizer.param_groups:
        yield from group["params"]


PATCHES = [Patch("optimizer_init", ("torch.optim.optimizer:Optimizer.__init__",), always=True)]
OBSERVERS = [OptimizerWatch]
