"""Clipping of scaled gradients, where one of the two is written by hand.

A clip by hand shows between a scaled backward and the scaler's step: whenever the gradients were larger, their norm, or their
largest element, comes down to one and the same number. A scale by hand shows in the loss, a product with a constant, and in
gradients that are divided by that constant after they were clipped.
"""

import math
import weakref
from collections import deque
from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.clipping import Clip
from instep.doctor.watch.gradients import Gradients, Parameter
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

LOOKS = 24  # in a phase
TENSORS, ELEMENTS = 512, 1 << 22  # more are not looked at
SMALL = 1 << 16
LEAST = 8.0  # a smaller factor is no loss scale


@record_class
class Cuts:
    """What gradients were after a scaled backward and at the scaler's step, from one line."""

    site: str | None
    first_step: int
    scale: float = 0.0
    looks: deque[tuple[tuple[float, ...], tuple[float, ...]]] = field(default_factory=lambda: deque(maxlen=64))


@record_class
class DividedClip(Tally):
    """Clips from one line of gradients of a loss that was multiplied by hand."""

    site: str | None
    first_step: int
    count: int = 0
    divided: int = 0  # of those: divided by the loss scale after the clip
    limit: float = 0.0
    scale: float = 0.0


@part_class
class HandScaling:
    """The part of the trace about clipping or scaling by hand."""

    cuts: dict[str | None, Cuts] = field(default_factory=dict)
    clips: dict[str | None, DividedClip] = field(default_factory=dict)


class HandScalingWatch:
    """Fills `HandScaling`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._phases = trace, trace.part(HandScaling), trace.part(Phases)
        self._parameters = trace.part(Gradients).parameters
        self._phase, self._looks = 0, 0
        self._scale: float | None = None  # of a GradScaler
        self._before: tuple[list[Parameter], tuple[float, ...]] | None = None  # what has gradients, and how large they were
        self._factor = 0.0  # that the loss of the last backward was multiplied by
        self._clipped: tuple[DividedClip, weakref.ref[Tensor], Tensor | None] | None = None  # its gradient after the clip

    def on_wake(self) -> None:
        self._scale = self._before = self._clipped = None
        self._factor = 0.0

    # -- a scaler, and a clip by hand

    def after_scale(self, called: Called) -> None:
        scale = getattr(called.args[0], "_scale", None)
        known = isinstance(scale, Tensor) and scale.device.type == "cpu" and getattr(called.args[0], "_enabled", False)
        self._scale = float(scale) if known and isinstance(scale, Tensor) else None

    def after_backward(self, _: Called) -> None:
        self._before = None
        if self._phase != self._phases.number:
            self._phase, self._looks = self._phases.number, 0
        if self._scale is None or self._scale < LEAST or self._looks >= LOOKS:
            return
        held = [known for known in self._parameters.values() if known.held]
        self._before = (held, sizes) if (sizes := _sizes(held)) else None

    def before_unscale(self, called: Called) -> None:
        self._compare(called)

    def before_scaler_step(self, called: Called) -> None:
        self._compare(called)

    def _compare(self, called: Called) -> None:
        before, self._before = self._before, None
        sizes = _sizes(before[0]) if before is not None else ()
        if before is None or not sizes or self._scale is None:
            return
        self._looks += 1
        if called.site not in self._part.cuts and len(self._part.cuts) < LOOKS:
            self._part.cuts[called.site] = Cuts(called.site, self._trace.steps)
        cuts = self._part.cuts.get(called.site)
        if cuts is not None:
            cuts.scale = self._scale
            cuts.looks.append((before[1], sizes))

    def after_scaler_update(self, _: Called) -> None:
        self._scale = self._before = None

    # -- a loss scale by hand, and a clip of torch's

    def on_backward(self, _: Backward, tensor: Tensor) -> None:
        self._factor, self._clipped = _factor(tensor.grad_fn) if self._scale is None else 0.0, None

    def on_clip(self, clip: Clip, tensors: list[Tensor]) -> None:
        self._before = self._clipped = None
        if not self._factor or (clip.used and not clip.fresh) or clip.limit >= self._factor:
            return
        if clip.site not in self._part.clips and len(self._part.clips) < LOOKS:
            self._part.clips[clip.site] = DividedClip(clip.site, clip.step)
        place = self._part.clips.get(clip.site)
        small = next((each for each in tensors if _is_small(each)), None)
        if place is not None and small is not None and place.count < 64:
            place.count += 1
            place.limit, place.scale = clip.limit, self._factor
            self._clipped = (place, weakref.ref(small), None)

    def after_clip(self, _: Called) -> None:
        grad = _grad(self._clipped[1]()) if self._clipped is not None else None
        self._clipped = (*self._clipped[:2], grad.clone()) if self._clipped is not None and grad is not None else None

    def before_step(self, _: Step) -> None:
        clipped, self._clipped = self._clipped, None
        now = _grad(clipped[1]()) if clipped is not None else None
        if clipped is None or now is None or (grad := clipped[2]) is None or not bool(now.any()):
            return
        clipped[0].divided += torch.allclose(now.double() * clipped[0].scale, grad.double(), rtol=1e-3, atol=0.0)


def _grad(tensor: Tensor | None) -> Tensor | None:
    return tensor.grad.detach() if tensor is not None and tensor.grad is not None else None


def _is_small(tensor: Tensor) -> bool:
    grad = tensor.grad
    return grad is not None and grad.layout is torch.strided and grad.device.type == "cpu" and 0 < grad.numel() <= SMALL


def _sizes(parameters: list[Parameter]) -> tuple[float, ...]:
    """The norm of all gradients, and their largest element; nothing where they are too many, elsewhere or not finite."""
    grads = [grad for known in parameters if (grad := _grad(known.reference())) is not None]
    if not grads or len(grads) > TENSORS or sum(grad.numel() for grad in grads) > ELEMENTS:
        return ()
    if any(grad.device.type != "cpu" or grad.layout is not torch.strided for grad in grads):
        return ()
    norm = math.sqrt(sum(float(each) ** 2 for each in torch._foreach_norm(grads)))
    largest = max(float(grad.abs().max()) for grad in grads)
    return (norm, largest) if math.isfinite(norm) and norm else ()


def _factor(node: Any) -> float:
    """The constant that a loss was multiplied by as the last thing; 0 where it was not, or by little."""
    if node is None or node.name() != "MulBackward0":
        return 0.0
    other = getattr(node, "_saved_other", None)
    if not isinstance(other, Tensor) or other.dim() or other.requires_grad or other.device.type != "cpu":
        return 0.0
    return float(other) if float(other) >= LEAST else 0.0


OBSERVERS = [HandScalingWatch]
