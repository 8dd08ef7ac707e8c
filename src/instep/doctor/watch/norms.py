"""Norms: BatchNorm in train and eval mode, what it sees and whose statistics it uses; spectral norm that was never trained."""

import weakref
from collections.abc import Iterator
from dataclasses import field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import SyncBatchNorm, _BatchNorm
from torch.nn.utils.spectral_norm import SpectralNorm

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Root
from instep.doctor.watch.gradients import Gradients

LIMIT = 512
SETTLED = 3.0  # batches, times the momentum: 5 % of the beginning are left
ENOUGH = 16  # numbers of a feature from which a variance is taken
REPLACED = 256  # calls with replaced weights that are looked at
COPIES, COPIED = 256, 4096  # BatchNorms whose values at the moment of their copy are kept, and are read in all


@record_class
class Average:
    """One AveragedModel of torch's."""

    equal: bool  # every model counts the same, as in SWA: then its buffers are those of the last model
    updates: int = 0
    refreshed: bool = False  # whether it was called in train mode since the last update, as update_bn does


@record_class
class Norm(Tally):
    """One BatchNorm."""

    name: str  # in its model
    root: Root | None
    features: int
    shared: bool  # its statistics go over all processes
    train_calls: int = 0
    graded: int = 0  # of those, with grad on
    ones: int = 0  # of those, with one sample
    frozen: int = 0  # calls in train mode that moved its statistics while its own weights were frozen, since they were last live
    thawed: int = 0  # the most such calls after which they were live again, as in a GAN
    live: int = 0  # … while they were trainable
    taught: int = 0  # of those, with gradients on where it was called
    moved: bool = False  # the frozen weights have changed all the same: an average, a target
    steps: list[int] = field(default_factory=list)  # the first few steps between which the frozen calls came
    frozen_site: str | None = None
    ones_site: str | None = None
    eval_calls: int = 0
    eval_site: str | None = None
    optimized: bool = False  # an optimizer holds its weights, or gradients have come to them
    stale: int = 0  # looks in eval mode at which its weights had changed and its statistics had not
    first_look: list[float] | None = None
    average: Average | None = None
    unrefreshed: int = 0  # calls in eval mode inside an average of equal models that was not refreshed
    misfits: list[float] = field(default_factory=list)  # of replaced weights: how far what comes in is from the statistics
    replaced: bool = False  # not the BatchNorm itself, but what it is called with: other weights, by functional_call


@record_class
class Early:
    """A layer with spectral norm whose first call was in eval mode, with vectors that had never been iterated."""

    root: str
    layer: str
    site: str | None
    step: int
    sigma: float  # what its weight is divided by
    norm: float  # what it should be, nearly


@part_class
class Norms:
    """The part of the trace about norms."""

    all: list[Norm] = field(default_factory=list)
    early: list[Early] = field(default_factory=list)


class NormWatch:
    """Fills `Norms`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._gradients = trace.part(Norms), trace.part(Gradients)
        self._norms: dict[int, Norm] = {}
        self._weights: dict[int, list[float]] = {}
        self._averages: dict[int, Average] = {}
        self._lives: dict[int, tuple[weakref.ref[Tensor], ...]] = {}  # the weight, bias and mean of a module that is trained
        self._looked: dict[int, int] = {}  # steps at the last look at statistics under replaced weights
        self._fitted: dict[int, int] = {}  # steps at the last look at how replaced weights fit the statistics
        self._copies: dict[int, list[float]] = {}  # modules that were copied or loaded and not called since: what they held
        self._parts: dict[int, weakref.ref[nn.Module]] = {}  # what norms without weights stand in
        self._copied = 0
        self._series: dict[int, tuple[Tensor, list[int]]] = {}  # replaced weights at the last look, and models in their mean

    def wants_modules(self) -> dict[type, Any]:
        return {_BatchNorm: self.norm_called}

    def norm_called(self, module: _BatchNorm, args: tuple[Any, ...], _: Any, call: Call) -> None:
        norm = self._norms.get(id(module)) or self._new(module, call)
        norm.root = norm.root or call.root
        if not module.training and (replaced := self._replaced(module, norm)) is not None:
            norm = replaced
        if not module.training:
            norm.eval_calls += 1
            norm.eval_site = norm.eval_site or call.site
            if norm.average is not None and norm.average.equal and norm.average.updates >= 2 and not norm.average.refreshed:
                norm.unrefreshed += 1
            if norm.replaced:
                self._look_at_replaced(module, norm, args)
            elif norm.train_calls == 0 and module.affine and module.track_running_stats and _is_due(norm.eval_calls):
                self._look(module, norm)
            return
        norm.train_calls += 1
        if norm.average is not None:
            norm.average.refreshed = True
        if call.kind is not None and call.kind.inside:
            return
        if call.grad:
            norm.graded += 1
            if args and isinstance(args[0], Tensor) and args[0].shape[0] == 1:
                norm.ones += 1
                norm.ones_site = call.site
        weight = module._parameters.get("weight")  # not one that is computed when asked for
        around = self._around(module, call) if weight is None and not module.affine else ()
        if (weight is None and not around) or not module.track_running_stats or module.momentum == 0.0:
            return
        held = around or tuple(each for each in (weight, module.bias) if each is not None)
        trainable = any(each.requires_grad for each in held)
        if trainable and (torch.is_grad_enabled() or not norm.taught):  # else it has been trained, and is passed by now
            norm.live += 1
            norm.taught += torch.is_grad_enabled()
            known = self._lives.get(id(module))
            bias, mean = module._parameters.get("bias"), module.running_mean
            if weight is not None and mean is not None and (known is None or known[0]() is not weight):
                second = bias if bias is not None else weight  # `norm.bias = None`: a scale alone
                self._lives[id(module)] = (weakref.ref(weight), weakref.ref(second), weakref.ref(mean))
            if norm.frozen:
                norm.thawed = max(norm.thawed, norm.frozen)
                norm.frozen, norm.moved = 0, False
                norm.steps.clear()
                self._weights.pop(id(module), None)
            return
        norm.frozen += 1
        norm.frozen_site = call.site
        if len(norm.steps) < 8 and (not norm.steps or norm.steps[-1] != call.step):
            norm.steps.append(call.step)
        if not norm.moved and (norm.frozen <= 4 or norm.frozen % 32 == 0):
            values = torch.cat([each.detach().flatten()[:8] for each in held[:2]])
            self._hub.read(values, partial(self._compare, id(module), norm))

    def _around(self, module: _BatchNorm, call: Call) -> tuple[Tensor, ...]:
        """The weights of what a norm without weights of its own stands in: the smallest part of the model that has any."""
        known = self._parts.get(id(module))
        if known is None:
            chain = sorted((part for part in call.module.modules() if any(each is module for each in part.modules())), key=_size)
            part = next((part for part in chain if _size(part)), None)
            if part is None:
                return ()
            known = self._parts[id(module)] = weakref.ref(part)
        found = known()
        return tuple(found.parameters()) if found is not None else ()

    def _compare(self, key: int, norm: Norm, values: list[float]) -> None:
        norm.moved = norm.moved or self._weights.setdefault(key, values) != values

    def _new(self, module: _BatchNorm, call: Call | None) -> Norm:
        name = next((name for name, part in call.module.named_modules() if part is module), "") if call is not None else ""
        norm = Norm(
            name or type(module).__name__, call.root if call else None, module.num_features, isinstance(module, SyncBatchNorm)
        )
        self._norms[id(module)] = norm
        norm.first_look = self._copies.pop(id(module), None)
        weakref.finalize(module, self._forget, id(module)).atexit = False
        if len(self._part.all) < LIMIT:
            self._part.all.append(norm)
        return norm

    def _forget(self, key: int) -> None:
        self._norms.pop(key, None)
        self._norms.pop(-key, None)
        self._weights.pop(key, None)
        self._lives.pop(key, None)
        self._looked.pop(key, None)
        self._series.pop(key, None)
        self._fitted.pop(key, None)
        self._parts.pop(key, None)

    # -- other weights for the same module

    def _replaced(self, module: _BatchNorm, own: Norm) -> Norm | None:
        """The record of the weights that functional_call has put in the place of a module's own; None where they are its own."""
        weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
        if weight is None or bias is None:
            return None
        lives = self._lives.get(id(module))
        if isinstance(weight, nn.Parameter) and weight.requires_grad:
            return None
        if lives is None or lives[0]() is None or lives[0]() is weight or weight.requires_grad or not own.live:
            return None
        norm = self._norms.get(-id(module))
        if norm is None:
            norm = self._norms[-id(module)] = Norm(own.name, own.root, own.features, own.shared, replaced=True)
            if len(self._part.all) < LIMIT:
                self._part.all.append(norm)
        return norm

    def _look_at_replaced(self, module: _BatchNorm, norm: Norm, args: tuple[Any, ...]) -> None:
        if norm.eval_calls > REPLACED or module.running_mean is None:
            return
        self._look_at_average(module, norm)
        is_own = self._lives[id(module)][2]() is module.running_mean
        enough = bool(args) and isinstance(args[0], Tensor) and args[0].numel() >= ENOUGH * module.num_features
        if is_own and enough and has_settled(module) and self._fitted.get(id(module)) != self._trace.steps:
            self._fitted[id(module)] = self._trace.steps
            self._hub.read(misfit(module, args[0]), partial(_note_misfit, norm))
        if not is_own and self._looked.get(id(module)) != self._trace.steps:  # it has been trained since the last look
            self._looked[id(module)] = self._trace.steps
            self._look(module, norm)

    def _look_at_average(self, module: _BatchNorm, norm: Norm) -> None:
        """Whether the weights are the mean of all models so far, each of which counts the same: 1/2 of the way to the model,
        then 1/3, 1/4 and so on. Then they are far from the last one, whose statistics are used."""
        weight, bias, _ = (reference() for reference in self._lives[id(module)])
        if weight is None or bias is None or weight.device.type != "cpu":
            return
        average = torch.cat([module.weight.detach(), module.bias.detach()]).double()
        model = torch.cat([weight.detach(), bias.detach()]).double()
        before, counts = self._series.get(id(module), (None, []))
        if before is not None and torch.equal(before, average):
            return
        if before is not None:
            way, moved = model - before, average - before
            share = float(moved.dot(way) / way.dot(way).clamp(min=1e-30))
            straight = float((moved - share * way).norm()) <= 0.01 * float(moved.norm())
            count = round(1 / share) if share > 0.01 else 0
            follows = straight and count >= 2 and abs(1 / share - count) < 0.05 and (not counts or count == counts[-1] + 1)
            counts = [*counts, count] if follows else []
            norm.unrefreshed += len(counts) >= 3
        self._series[id(module)] = (average, counts)

    def after_averaged_init(self, called: Called) -> None:
        """As it was when the average began."""
        averaged = called.args[0]
        average = self._averages[id(averaged)] = Average(_is_equal(averaged))
        weakref.finalize(averaged, self._averages.pop, id(averaged), None).atexit = False
        for module in averaged.modules():
            if isinstance(module, _BatchNorm) and module.track_running_stats:
                norm = self._norms.get(id(module)) or self._new(module, None)
                norm.average = average
                if module.affine:
                    self._look(module, norm)

    def after_averaged_update(self, called: Called) -> None:
        average = self._averages.get(id(called.args[0]))
        if average is not None:
            average.updates += 1
            average.refreshed = False

    def _look(self, module: _BatchNorm, norm: Norm) -> None:
        mean, var = module.running_mean, module.running_var
        if mean is None or var is None or module.weight is None:
            return
        known = self._gradients.parameters.get(id(module.weight))
        norm.optimized = norm.optimized or bool(known is not None and (known.optimizers or known.arrivals))
        weight = module.weight.detach()
        bias = module.bias.detach() if module.bias is not None else torch.zeros_like(weight)
        if norm.first_look is not None and any(torch.equal(mean, other) for other in self._live_means(mean)):
            return  # the model that is trained has the same: it was trained on with its statistics held
        self._hub.read(_values(mean, var, weight, bias), partial(_judge, norm))

    def _live_means(self, mean: Tensor) -> Iterator[Tensor]:
        lives = [reference[2]() for reference in list(self._lives.values())[:64]]
        return (other for other in lives if other is not None and other.shape == mean.shape and other.device == mean.device)

    def after_module_copied(self, called: Called) -> None:
        """A BatchNorm as it was when it was copied: an average may be evaluated once, at the very end."""
        if isinstance(called.args[0], _BatchNorm):
            self._keep(called.args[0])

    def after_state_loaded(self, called: Called) -> None:
        """The same of one that was made anew and was given the values of another."""
        for module in called.args[0].modules():
            if isinstance(module, _BatchNorm) and id(module) not in self._norms:
                self._keep(module)

    def _keep(self, module: _BatchNorm) -> None:
        if self._copied >= COPIED or len(self._copies) >= COPIES:
            return
        weight, bias = module._parameters.get("weight"), module._parameters.get("bias")
        mean, var = module.running_mean, module.running_var
        if weight is None or bias is None or mean is None or var is None or mean.device.type == "meta":
            return
        self._copied += 1
        weakref.finalize(module, self._copies.pop, id(module), None).atexit = False
        self._hub.read(_values(mean, var, weight.detach(), bias.detach()), partial(self._copies.__setitem__, id(module)))

    def on_module_seen(self, module: nn.Module, root: Root | None) -> None:
        if module.training or not module._forward_pre_hooks:
            return
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, SpectralNorm) and len(self._part.early) < LIMIT:
                early = Early(root.name if root else "", type(module).__name__, self._hub.site(), self._trace.steps, 0.0, 0.0)
                self._hub.read(torch.stack(list(_sigmas(hook, module))), partial(self._note_early, early))

    def _note_early(self, early: Early, values: list[float]) -> None:
        early.sigma, early.norm = values
        if abs(early.sigma) < 0.7 * early.norm:
            self._part.early.append(early)


def misfit(module: _BatchNorm, input: Tensor) -> Tensor:
    """By which factor, as a logarithm, the variance of what comes in differs from what the statistics say, in the middle."""
    assert module.running_var is not None
    spread = input.detach().transpose(0, 1).flatten(1).var(1)
    return (spread.clamp(min=1e-12) / module.running_var.clamp(min=1e-12)).log().abs().median()


def has_settled(module: _BatchNorm) -> bool:
    """Whether its statistics have forgotten the ones that they began with: with a momentum of 0.001 that takes 3,000 batches."""
    count = module.num_batches_tracked
    return count is None or module.momentum is None or float(count) * module.momentum >= SETTLED


def _note_misfit(norm: Norm, value: float) -> None:
    if len(norm.misfits) < REPLACED:
        norm.misfits.append(value)


def _is_equal(averaged: Any) -> bool:
    given = averaged.avg_fn or averaged.multi_avg_fn
    return not averaged.use_buffers and (given is None or "get_swa" in getattr(given, "__qualname__", ""))


def _size(module: nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def _is_due(count: int) -> bool:
    return count <= 4 or count & (count - 1) == 0


def _values(mean: Tensor, var: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """Whether statistics and weights are those of a new BatchNorm, and the first few of them."""
    untouched = torch.stack([mean.abs().amax() + (var - 1).abs().amax(), (weight - 1).abs().amax() + bias.abs().amax()])
    return torch.cat([untouched, mean[:8], var[:8], weight[:8], bias[:8]]).detach()


def _judge(norm: Norm, values: list[float]) -> None:
    """Compare with the first look: the weights have changed and the statistics have not, or these are those of a new norm."""
    size = (len(values) - 2) // 2
    statistics, weights = values[2 : 2 + size], values[2 + size :]
    if values[0] == 0.0 and values[1] > 0.0:
        norm.stale += 1
    elif norm.first_look is not None:
        norm.stale += norm.first_look[2 : 2 + size] == statistics and norm.first_look[2 + size :] != weights
    if norm.first_look is None:
        norm.first_look = values


def _sigmas(hook: SpectralNorm, module: nn.Module) -> Iterator[Tensor]:
    """The estimate that the hook divides by, and a better one."""
    matrix = hook.reshape_weight_to_matrix(getattr(module, hook.name + "_orig").detach())
    u, v = getattr(module, hook.name + "_u"), getattr(module, hook.name + "_v")
    yield torch.dot(u, torch.mv(matrix, v)).detach()
    with torch.no_grad():
        for _ in range(6):
            u = nn.functional.normalize(torch.mv(matrix, v), dim=0)
            v = nn.functional.normalize(torch.mv(matrix.t(), u), dim=0)
        yield torch.mv(matrix, v).norm()


PATCHES = [
    Patch("module_copied", ("torch.nn.modules.module:Module.__setstate__",), always=True),
    Patch("averaged_init", ("torch.optim.swa_utils:AveragedModel.__init__",), always=True),
    Patch("averaged_update", ("torch.optim.swa_utils:AveragedModel.update_parameters",), always=True),
]
OBSERVERS = [NormWatch]
