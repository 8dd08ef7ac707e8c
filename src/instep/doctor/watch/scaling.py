"""Precision: autocast, float16 weights, and what a GradScaler does between a backward and its step."""

from dataclasses import field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import children, operation, saved
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.clipping import Clip
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.loaders import first_tensor
from instep.doctor.watch.optimizers import Optimizers, OptimizerWatch
from instep.doctor.watch.phases import Phases

SCALED_LIMIT = 256.0  # a clip with a larger limit was meant for scaled gradients
LIMIT = 128
LEAST = 8.0  # a smaller factor is no loss scale
LOOKS = 16  # backwards of a phase after which parameters are looked at; later one in so many


@record_class
class ScaledClip(Tally):
    """Clips of scaled gradients from one line."""

    site: str | None
    count: int = 0
    scaled: int = 0  # of gradients that were not unscaled, before a step of the scaler
    limit: float = 0.0
    scale: float | None = None
    norm: float | None = None  # of the scaled gradients
    first_step: int = 0


@record_class
class HalfBackward(Tally):
    """Backwards from one line whose graphs have float16 in them."""

    site: str | None
    count: int = 0
    half: int = 0  # with a forward in float16
    autocast: int = 0  # of those, by autocast
    scaled: int = 0  # of those, scaled by a GradScaler or a factor
    first_step: int = 0


@part_class
class Scaling:
    """The part of the trace about precision."""

    clips: dict[str | None, ScaledClip] = field(default_factory=dict)
    backwards: dict[str | None, HalfBackward] = field(default_factory=dict)
    steps: int = 0  # of scalers
    skipped: int = 0  # of those, without a step of the optimizer


class ScalingWatch:
    """Fills `Scaling`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace = trace
        self._part, self._gradients, self._optimizers = trace.part(Scaling), trace.part(Gradients), trace.part(Optimizers)
        self._phases = trace.part(Phases)
        self._owners: OptimizerWatch | None = None
        self._begun: tuple[Backward, bool, bool, bool] | None = None  # the backward that goes on: in half, by autocast, scaled
        self._scale: float | None = None  # of gradients that are scaled now; None where none are
        self._was_scaled = False
        self._unscaled: set[int] = set()  # optimizers whose gradients were unscaled
        self._clips: list[tuple[ScaledClip, Clip, set[int]]] = []  # since the last step of the scaler
        self._stepping: int | None = None
        self._autocasts: list[bool] = []  # float16 or not, of those entered
        self._half = self._by_autocast = self._inside = False

    def install(self, observers: list[object]) -> None:
        self._owners = next(observer for observer in observers if isinstance(observer, OptimizerWatch))

    def remove(self) -> None: ...

    def on_wake(self) -> None:
        """Scaling and autocast that began during the rest are not known."""
        self._scale = self._stepping = self._begun = None
        self._unscaled.clear()
        self._clips.clear()
        self._autocasts.clear()
        self._half = self._by_autocast = self._inside = self._was_scaled = False

    # -- what is computed in float16

    def after_autocast(self, called: Called) -> None:
        context = called.args[0]
        half = bool(getattr(context, "_enabled", False)) and getattr(context, "fast_dtype", None) is torch.float16
        self._autocasts.append(half)
        self._inside = self._inside or half

    def before_autocast_end(self, _: Called) -> None:
        if self._autocasts:
            self._autocasts.pop()

    def before_call(self, _: Any) -> None:
        self._inside = bool(self._autocasts) and self._autocasts[-1]

    def after_call(self, call: Any) -> None:
        output = first_tensor(call.output)
        if not call.grad or not call.root.parameters or output is None or not output.requires_grad:
            return
        if self._inside or output.dtype is torch.float16:
            self._half = True
            self._by_autocast = self._by_autocast or self._inside

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        scaled = self._was_scaled or backward.create or _is_scaled(tensor.grad_fn)
        self._begun = (backward, self._half, self._by_autocast, scaled)
        self._half = self._by_autocast = self._was_scaled = False

    def after_backward(self, called: Called) -> None:
        """What a model gives may be float32 where a part of it is not: parameters tell, in the first backwards of a phase."""
        begun, self._begun = self._begun, None
        if begun is None:
            return
        backward, half, autocast, scaled = begun
        if not half:
            if backward.number - self._phases.backwards > LOOKS and backward.number % LOOKS:
                return
            half = self._reaches_half(backward)
        place = self._part.backwards.get(backward.site)
        if place is None:
            if not half or len(self._part.backwards) >= LIMIT:
                return
            place = self._part.backwards[backward.site] = HalfBackward(backward.site, first_step=backward.step)
        place.count += 1
        if half:
            place.half += 1
            place.autocast += autocast
            place.scaled += scaled or called.argument(1, "gradient", called.kwargs.get("grad_tensors")) is not None

    def _reaches_half(self, backward: Backward) -> bool:
        held = [known for known in self._gradients.parameters.values() if known.held and known.held[-1] is backward]
        return any((tensor := known.reference()) is not None and tensor.dtype is torch.float16 for known in held)

    # -- scaling

    def after_scale(self, called: Called) -> None:
        scaler = called.args[0]
        if not getattr(scaler, "_enabled", False):
            return
        scale = getattr(scaler, "_scale", None)
        self._scale = float(scale) if isinstance(scale, Tensor) and scale.device.type == "cpu" else float("inf")
        self._was_scaled = True

    def after_unscale(self, called: Called) -> None:
        optimizer = called.argument(1, "optimizer")
        if self._stepping is None and self._owners is not None:
            self._unscaled.add(self._owners.record(optimizer).number)

    def on_clip(self, clip: Clip, tensors: list[Tensor]) -> None:
        if self._scale is None or not clip.fresh or not clip.limit < SCALED_LIMIT or self._scale <= 1:
            return
        known = (self._gradients.parameters.get(id(tensor)) for tensor in tensors)
        owners = {
            number
            for parameter in known
            if parameter is not None and parameter.held and not parameter.optimizers & self._unscaled
            for number in parameter.optimizers
        }
        place = self._part.clips.get(clip.site)
        if place is None:
            if len(self._part.clips) >= LIMIT:
                return
            place = self._part.clips[clip.site] = ScaledClip(clip.site, first_step=clip.step)
        place.count += 1
        if owners:  # one optimizer may have been unscaled, and another not
            self._clips.append((place, clip, owners))

    def before_scaler_step(self, called: Called) -> None:
        optimizer = called.argument(1, "optimizer")
        if (
            self._owners is None
            or not getattr(called.args[0], "_enabled", False)
            or not isinstance(optimizer, torch.optim.Optimizer)
        ):
            return
        record = self._owners.record(optimizer)
        self._stepping = self._trace.steps
        self._part.steps += 1
        for place, clip, owners in self._clips:
            if record.number in owners:
                place.scaled += 1
                place.limit, place.scale, place.norm = clip.limit, self._scale, clip.norm
        self._clips = [entry for entry in self._clips if record.number not in entry[2]]

    def after_scaler_step(self, called: Called) -> None:
        optimizer = called.argument(1, "optimizer")
        if self._stepping is None or self._owners is None:
            return
        record = self._owners.record(optimizer)
        self._part.skipped += self._trace.steps == self._stepping
        self._unscaled.discard(record.number)
        self._stepping = None

    def after_scaler_update(self, _: Called) -> None:
        self._scale = None
        self._unscaled.clear()
        self._clips.clear()


def _is_scaled(node: Any) -> bool:
    """Whether a loss was multiplied by something large, or by something that is not known, as the last things done to it."""
    scale = 1.0
    for _ in range(4):
        if node is None or operation(node) not in ("Mul", "Div"):
            break
        inner = [child for child in children(node) if child is not None]
        factor = saved(node, "other") if children(node)[0] is not None else saved(node, "self")
        if operation(node) == "Mul" and (len(inner) != 1 or factor is None or factor.numel() != 1):
            return True
        if len(inner) != 1 or factor is None or factor.numel() != 1 or not float(factor):
            break
        scale = scale * float(factor) if operation(node) == "Mul" else scale / float(factor)
        node = inner[0]
    return abs(scale) >= LEAST


PATCHES = [
    Patch("autocast", ("torch.amp.autocast_mode:autocast.__enter__",)),
    Patch("autocast_end", ("torch.amp.autocast_mode:autocast.__exit__",)),
    Patch("scale", ("torch.amp.grad_scaler:GradScaler.scale",)),
    Patch("unscale", ("torch.amp.grad_scaler:GradScaler.unscale_",)),
    Patch("scaler_step", ("torch.amp.grad_scaler:GradScaler.step",)),
    Patch("scaler_update", ("torch.amp.grad_scaler:GradScaler.update",)),
]
OBSERVERS = [ScalingWatch]
