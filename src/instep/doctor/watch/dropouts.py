"""Dropouts: those that drop in eval mode, and how much is dropped in train mode."""

from dataclasses import field
from itertools import pairwise
from typing import Any

import torch
from torch import nn
from torch.nn.modules.dropout import _DropoutNd

from instep.doctor.dropout_sources import drops_by_hand, has_training_flag
from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.scopes import method_owner
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, CallKind, Calls, CallWatch, Root

FUNCTIONS = ("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout")
EXTREME = 0.8
RISES = 4  # rates in a row, each larger than the last, that are a schedule
LIMIT = 256
UNREACHED = "unreached"


@record_class
class Leak:
    """Dropout that was active while the module that called it was in eval mode."""

    how: str  # "F.dropout", "nn.Dropout", …
    owner: str  # class of the module that called it
    site: str | None
    p: float
    count: int = 0
    repeated: int = 0  # in root calls on the same input as the one before: MC dropout
    calls: int = 0  # root calls in which it happened
    last_call: int = -1
    first_step: int = 0


@record_class
class Drop(Tally):
    """One place that drops in train mode."""

    name: str
    root: Root
    site: str | None
    calls: int = 0
    extreme: int = 0  # of those, with p of at least EXTREME
    all: int = 0  # of those, with p = 1
    p: float = 0.0  # the last
    latest: int = 0  # calls with p = 1 since the last with another
    rates: tuple[float, ...] = ()  # the last different ones, in order

    @property
    def has_grown(self) -> bool:
        """Whether the rate has come to what it is by several steps upwards: a schedule."""
        return len(self.rates) >= RISES and all(one < other for one, other in pairwise(self.rates))


@part_class
class Dropouts:
    """The part of the trace about dropout."""

    leaks: dict[tuple[Any, ...], Leak] = field(default_factory=dict)
    drops: dict[tuple[Any, ...], Drop] = field(default_factory=dict)


class DropoutWatch:
    """Fills `Dropouts`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub, self._part = trace, hub, trace.part(Dropouts)
        self._calls: CallWatch | None = None
        self._repeats: dict[int, int] = {}
        self._recent = trace.part(Calls).recent
        self._flags: dict[str, bool] = {}  # lines that give `training=`, and whether it is a flag of the model's own
        self._by_hand: dict[str, bool] = {}  # lines that draw random numbers, and whether they drop by them

    def install(self, observers: list[object]) -> None:
        self._calls = next(observer for observer in observers if isinstance(observer, CallWatch))

    def remove(self) -> None: ...

    def wants_modules(self) -> dict[type, Any]:
        return {_DropoutNd: self.module_called, nn.RNNBase: self.layers_called, nn.MultiheadAttention: self.layers_called}

    def module_called(self, module: _DropoutNd, _: Any, __: Any, call: Call) -> None:
        if not module.training or not module.p:
            return
        if call.training:
            self._note_drop((call.root.number, id(module)), module.p, call, None, module)
            return
        self._look_at_owner(module, module.p, call)

    def layers_called(self, module: Any, _: Any, __: Any, call: Call) -> None:
        """Layers that drop inside: an LSTM between its layers, attention."""
        inside = float(module.dropout) > 0 and getattr(module, "num_layers", 2) > 1  # an RNN of one layer drops nothing
        if module.training and inside and not call.training:
            self._look_at_owner(module, float(module.dropout), call)

    def _look_at_owner(self, module: nn.Module, p: float, call: Call) -> None:
        """A registered one in train mode was put there on purpose; one that eval() cannot reach was not."""
        assert self._calls is not None
        caller = next((each for each in reversed(self._calls._stack) if not each.training), None)
        if caller is None:
            return
        if not any(part is module for part in call.module.modules()):
            self._note_leak(f"nn.{type(module).__name__}", caller, p, self._hub.site(), call)
        elif is_unreached(call.module):
            self._note_leak(f"{UNREACHED} nn.{type(module).__name__}", call.module, p, call.site, call)

    def before_drops(self, called: Called) -> None:
        assert self._calls is not None
        stack, call = self._calls._stack, self._calls._call
        p, given = called.argument(1, "p", 0.5), called.argument(2, "training")
        if not p or given is False or (stack and isinstance(stack[-1], _DropoutNd)):
            return
        if not stack or call is None:
            if given is None and not torch.is_grad_enabled():
                self._look_at_method(called, p)
            return
        if call.training:
            self._note_drop((call.root.number, called.site), p, call, called.site, None)
        elif not stack[-1].training and (given is None or self._is_flag(called.site)):  # training=True in so many words is meant
            self._note_leak(f"F.{called.function}", stack[-1], p, called.site, call)

    def _look_at_method(self, called: Called, p: float) -> None:
        """Dropout in a method of a model that is no forward, or in a forward that is called by its name."""
        owner, recent = method_owner(self._hub.locator), self._recent
        if owner is not None and not owner.training and recent:
            self._note_leak(f"F.{called.function}", owner, p, called.site, None, recent[-1])

    def _is_flag(self, site: str | None) -> bool:
        """Whether the line gives a flag of the model's own that is named after training, and is on."""
        if site is None:
            return False
        if site not in self._flags:
            self._flags[site] = len(self._flags) < LIMIT and has_training_flag(site)
        return self._flags[site]

    def before_attends(self, called: Called) -> None:
        assert self._calls is not None
        stack, call = self._calls._stack, self._calls._call
        p = called.argument(4, "dropout_p", 0.0)
        if p and call is not None and stack and not call.training and not stack[-1].training:
            self._note_leak(f"F.{called.function}", stack[-1], p, called.site, call)

    def after_mask(self, called: Called) -> None:
        """Random numbers that a module of the user's draws while it is in eval mode."""
        assert self._calls is not None
        stack, call, site = self._calls._stack, self._calls._call, called.site
        if call is None or not stack or site is None or call.training or stack[-1].training or call.grad:
            return
        if site not in self._by_hand:
            self._by_hand[site] = len(self._by_hand) < LIMIT and drops_by_hand(site)
        if self._by_hand[site]:
            self._note_leak("a mask by hand", stack[-1], 0.0, site, call)

    def _note_leak(
        self, how: str, owner: nn.Module, p: float, site: str | None, call: Call | None, kind: CallKind | None = None
    ) -> None:
        key = (how, type(owner).__name__, site)
        leak = self._part.leaks.get(key)
        if leak is None:
            if len(self._part.leaks) >= LIMIT:
                return
            leak = self._part.leaks[key] = Leak(how, type(owner).__name__, site, float(p), first_step=self._trace.steps)
        leak.count += 1
        number = call.number if call is not None else self._trace.calls
        if leak.last_call != number:
            leak.last_call = number
            leak.calls += 1
            leak.repeated += self._is_repeat(call.kind if call is not None else kind)

    def _is_repeat(self, kind: CallKind | None) -> bool:
        """Whether this root call had the input of the one before."""
        if kind is None:
            return False
        before = self._repeats.get(id(kind), 0)
        if len(self._repeats) > LIMIT:
            self._repeats.clear()
        self._repeats[id(kind)] = kind.repeated
        return kind.repeated > before

    def _note_drop(self, key: tuple[Any, ...], p: float, call: Call, site: str | None, module: nn.Module | None) -> None:
        drop = self._part.drops.get(key)
        if drop is None:
            if len(self._part.drops) >= LIMIT:
                return
            name = (
                next((name for name, part in call.module.named_modules() if part is module), "")
                if module is not None
                else "F.dropout"
            )
            drop = self._part.drops[key] = Drop(name, call.root, site or call.site)
        drop.calls += 1
        drop.extreme += p >= EXTREME
        drop.all += p >= 1
        drop.latest = drop.latest + 1 if p >= 1 else 0
        if not drop.rates or drop.rates[-1] != p:
            drop.rates = (*drop.rates[1 - RISES :], float(p))
        drop.p = float(p)


def is_unreached(module: nn.Module) -> bool:
    """Whether a model says eval mode and all of its layers say train mode, since its own `train` does not pass it on."""
    if module.training or type(module).train is nn.Module.train:
        return False
    layers = [part for part in module.modules() if not part._modules and part is not module]
    return bool(layers) and all(layer.training for layer in layers)


PATCHES = [
    Patch(
        "mask",
        ("torch:rand", "torch:rand_like", "torch:bernoulli", "torch:Tensor.bernoulli", "torch:Tensor.bernoulli_"),
    ),
    Patch("drops", tuple(f"torch.nn.functional:{name}" for name in FUNCTIONS)),
    Patch("attends", ("torch.nn.functional:scaled_dot_product_attention",)),
]
OBSERVERS = [DropoutWatch]
