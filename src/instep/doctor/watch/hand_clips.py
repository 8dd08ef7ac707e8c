"""Clipping that is written by hand, after the step: gradients that a step has used become smaller, and are cleared then."""

import weakref
from dataclasses import field

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.optimizers import Step

PROBES = 2
SMALL = 1 << 16


@record_class
class LateClip:
    """Steps from one line, and what became of the gradients that they had used."""

    site: str | None
    first_step: int = 0
    looks: int = 0  # clearings before which a used gradient was looked at
    shrunk: int = 0  # of those: it had been made smaller as a whole, or cut off at some value
    by: float = 1.0  # the smallest factor


@part_class
class LateClips:
    """The part of the trace about clipping by hand."""

    sites: dict[str | None, LateClip] = field(default_factory=dict)


class HandClipWatch:
    """Fills `LateClips`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace = trace
        self._part = trace.part(LateClips)
        self._used: list[tuple[weakref.ref[Tensor], int, Tensor]] = []  # gradients after a step: versions, values
        self._step: tuple[str | None, int] = (None, 0)

    def on_wake(self) -> None:
        self._used = []

    def on_backward(self, _: Backward, __: Tensor) -> None:
        self._used = []

    def after_step(self, step: Step) -> None:
        self._used = []
        if step.inside or step.closure or not (self._trace.steps < 32 or self._trace.steps % 16 == 0):
            return
        for group in step.optimizer.param_groups:
            for tensor in group["params"]:
                grad = tensor.grad
                if grad is None or grad.layout is not torch.strided or grad.device.type != "cpu" or grad.numel() > SMALL:
                    continue
                self._used.append((weakref.ref(grad), grad._version, grad.detach().clone()))
                if len(self._used) >= PROBES:
                    self._step = (step.site, self._trace.steps - 1)
                    return
        self._step = (step.site, self._trace.steps - 1)

    def before_clear(self, _: Called) -> None:
        used, self._used = self._used, []
        if not used:
            return
        site, number = self._step
        fact = self._part.sites.get(site)
        if fact is None:
            if len(self._part.sites) >= 64:
                return
            fact = self._part.sites[site] = LateClip(site, number)
        fact.looks += 1
        factors = [
            _shrunk(grad.detach(), before)
            for reference, version, before in used
            if (grad := reference()) is not None and grad._version != version
        ]
        found = [factor for factor in factors if factor is not None]
        if found:
            fact.shrunk += 1
            fact.by = min(fact.by, *found)


def _shrunk(now: Tensor, before: Tensor) -> float | None:
    """By which factor a gradient was made smaller, evenly or where it was beyond some value; None where it was not."""
    if now.shape != before.shape or now.dtype != before.dtype or not now.is_floating_point() or not bool(now.any()):
        return None
    largest, limit = float(before.abs().max()), float(now.abs().max())
    if not 0.0 < limit < 0.999 * largest:
        return None
    factor = limit / largest
    even = torch.allclose(now, before * factor, rtol=1e-3, atol=1e-6 * largest)
    cut = torch.allclose(now, before.clamp(-limit, limit), rtol=1e-5, atol=0.0)
    return factor if even or cut else None


OBSERVERS = [HandClipWatch]
