"""BatchNorms whose weights are exchanged for an evaluation and put back after it, with the statistics left as they are.

Known by what they are at the next training call, with no step in between. An average lies behind: it is closer to what the model
was at the evaluation before than to what it is.
"""

import weakref
from typing import Any

import torch
from torch import Tensor
from torch.nn.modules.batchnorm import _BatchNorm

from instep.doctor.hub import Hub
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.norms import ENOUGH, LIMIT, REPLACED, Norm, Norms, has_settled, misfit

ELEMENTS = 32
FIRST = 4  # evaluations whose variances are looked at in any case


class _Swaps:
    """What is known of one BatchNorm."""

    __slots__ = ("evaluated", "evaluations", "live", "mean", "misfit", "norm", "site", "steps")

    def __init__(self) -> None:
        self.evaluations = 0
        self.steps = -1  # at the evaluation that waits for the next training call
        self.evaluated: Tensor | None = None  # its weights then
        self.mean: Tensor | None = None  # that of its statistics then
        self.misfit: float | None = None
        self.live: Tensor | None = None  # its weights after the evaluation before, at first those of the first call
        self.norm: Norm | None = None  # from the first exchange on
        self.site: str | None = None


class SwappedNormWatch:
    """Adds to `Norms`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(Norms)
        self._all: dict[int, _Swaps] = {}

    def wants_modules(self) -> dict[type, Any]:
        return {_BatchNorm: self._called}

    def _called(self, module: _BatchNorm, args: tuple[Any, ...], _: Any, call: Call) -> None:
        swaps = self._all.get(id(module))
        if swaps is not None and module.training:
            if call.grad and swaps.evaluated is not None:
                self._compare(module, args, swaps, call)
            return
        weight = module._parameters.get("weight")
        if weight is None or not weight.requires_grad or weight.device.type != "cpu" or module.running_var is None:
            return
        if swaps is None:
            swaps = self._all[id(module)] = _Swaps()
            swaps.live = weights_of(module)
            weakref.finalize(module, self._all.pop, id(module), None).atexit = False
        if not module.training and not call.grad and swaps.steps != self._trace.steps:
            swaps.steps, swaps.evaluated, swaps.site = self._trace.steps, weights_of(module), call.site
            swaps.mean = module.running_mean.detach().clone() if module.running_mean is not None else None
            swaps.evaluations += 1
            wanted = swaps.evaluations <= FIRST or (swaps.norm is not None and len(swaps.norm.misfits) < REPLACED)
            enough = bool(args) and isinstance(args[0], Tensor) and args[0].numel() >= ENOUGH * module.num_features
            swaps.misfit = float(misfit(module, args[0])) if wanted and enough and has_settled(module) else None

    def _compare(self, module: _BatchNorm, args: tuple[Any, ...], swaps: _Swaps, call: Call) -> None:
        evaluated, before, swaps.evaluated = swaps.evaluated, swaps.live, None
        if evaluated is None or swaps.steps != self._trace.steps:
            return
        now = swaps.live = weights_of(module)
        if before is None or torch.equal(evaluated, now) or float((evaluated - before).norm()) >= float((evaluated - now).norm()):
            return
        if not moved_as_a_whole(evaluated, now) or not _are_kept(module, args, swaps.mean):
            return
        if swaps.norm is None:
            name = next((name for name, part in call.module.named_modules() if part is module), "")
            swaps.norm = Norm(name or type(module).__name__, call.root, module.num_features, False, replaced=True)
            if len(self._part.all) < LIMIT:
                self._part.all.append(swaps.norm)
        swaps.norm.eval_calls += 1
        swaps.norm.eval_site = swaps.norm.eval_site or swaps.site
        if swaps.misfit is not None:
            swaps.norm.misfits.append(swaps.misfit)


def _are_kept(module: _BatchNorm, args: tuple[Any, ...], before: Tensor | None) -> bool:
    """Whether the statistics of an evaluation are what a training call has gone on from: nobody has exchanged them as well."""
    mean, momentum = module.running_mean, module.momentum
    if before is None or mean is None or not momentum or not args or not isinstance(args[0], Tensor):
        return False
    batch = args[0].detach().transpose(0, 1).flatten(1).mean(1).to(mean.dtype)
    return bool(((1 - momentum) * before + momentum * batch - mean).abs().max() <= 1e-3 * (batch - before).abs().max())


def moved_as_a_whole(weights: Tensor, before: Tensor) -> bool:
    """Whether most weights have changed, and none of them to zero: as by an average, not by cutting channels."""
    changed = weights != before
    held = int(((weights != 0) | (before != 0)).sum())
    return int(changed.sum()) >= 0.5 * held and not bool((changed & (weights == 0)).any())


def weights_of(module: _BatchNorm) -> Tensor:
    """Some of the scales and shifts; zeros where a norm has none of them, as after `norm.bias = None`."""
    nothing = torch.zeros(min(module.num_features, ELEMENTS))
    both: tuple[Tensor | None, ...] = (module.weight, module.bias)
    return torch.cat([nothing if each is None else each.detach()[:ELEMENTS] for each in both])


OBSERVERS = [SwappedNormWatch]
