"""Clipping: which gradients each call of a clip function was given, and whether a backward added to them afterwards."""

from collections.abc import Iterator
from dataclasses import field
from types import CodeType
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.scopes import local_names
from instep.doctor.sites import Locator
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.gradients import Gradients, Parameter, beginning

MEASURING = 1e4  # a clip with a larger limit only measures
LIMIT = 256


@record_class
class Clip:
    """One call of a clip function. Numbers of parameters, unless said."""

    site: str | None
    function: str
    limit: float  # max_norm or clip_value
    step: int
    parameters: int
    generator: bool  # whether they came from one
    with_grad: int = 0  # whose gradient is not None
    fresh: int = 0  # whose gradient holds something that no step has used
    used: int = 0  # whose gradient holds only what a step, or an update by hand, has used already
    arrived: int = 0  # that have ever had a gradient
    norm: float | None = None  # what it returned, where reading it is free


@record_class
class ClipPlace(Tally):
    """All clips from one line."""

    site: str | None
    function: str
    count: int = 0
    measuring: int = 0  # with a limit that never bites, or by an optimizer that clips by itself inside its step
    empty: int = 0  # without any parameter
    generator: bool = False
    nothing: int = 0  # of parameters that have had gradients before, and have none now
    never: int = 0  # of tensors that have never had a gradient
    after_use: int = 0  # of gradients that a step had used
    fresh: int = 0  # of gradients that no step had used
    partial: int = 0  # followed by a backward of the same line that added to what had been clipped
    limit: float = 0.0
    first_step: int = 0


@part_class
class Clipping:
    """The part of the trace about clipping."""

    places: dict[str | None, ClipPlace] = field(default_factory=dict)


class ClipWatch:
    """Fills `Clipping`. Tells `on_clip(clip, tensors)` before each call."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._backwards = trace.part(Clipping), trace.part(Backwards)
        self._parameters = trace.part(Gradients).parameters
        self._open: Clip | None = None  # that which is going on
        self._clipped: tuple[ClipPlace, Parameter, int] | None = None  # a gradient, and how many backwards it held
        self._running = False  # a backward, in which hooks may clip
        self._stepping = 0  # steps that are going on
        self._weights: tuple[Parameter, list[float]] | None = None  # of one that no optimizer holds, after the last backward

    def on_wake(self) -> None:
        self._open = self._clipped = self._weights = None
        self._running = False
        self._stepping = 0

    def before_clip(self, called: Called) -> None:
        given = called.argument(0, "parameters")
        generator, tensors = isinstance(given, Iterator), called.listed(0, "parameters")
        limit = called.argument(1, "max_norm", called.kwargs.get("clip_value", 0.0))
        clip = Clip(called.site, called.function, float(limit), self._trace.steps, len(tensors), generator)
        known = [self._parameters.get(id(tensor)) for tensor in tensors]
        # What no optimizer holds is never used by a step; it tells something only where weights are updated by hand.
        owned = any(parameter is not None and parameter.optimizers for parameter in known)
        by_hand = not owned and self._has_moved()
        for tensor, parameter in zip(tensors, known, strict=True):
            clip.with_grad += tensor.grad is not None
            if parameter is not None and (not owned or parameter.optimizers):
                self._look(clip, tensor, parameter, by_hand)
        self._open = clip
        self._count(clip, tensors)
        self._hub.say("on_clip", clip, tensors)

    def _look(self, clip: Clip, tensor: Tensor, parameter: Parameter, by_hand: bool) -> None:
        clip.arrived += parameter.arrivals > 0
        if parameter.held and tensor.grad is not None:
            fresh = len(parameter.held) > parameter.used and not by_hand
            clip.fresh += fresh
            clip.used += not fresh

    def _has_moved(self) -> bool:
        """Whether weights that no optimizer holds have changed since the last backward."""
        if self._weights is None:
            return False
        parameter, values = self._weights
        return beginning(parameter) != values

    def _count(self, clip: Clip, tensors: list[Tensor]) -> None:
        place = self._place(clip)
        place.count += 1
        place.limit = clip.limit
        self._clipped = None
        if clip.limit >= MEASURING:
            place.measuring += 1
        elif not clip.parameters:
            place.empty += 1
            place.generator = place.generator or clip.generator
        elif not clip.with_grad:
            place.nothing += clip.arrived > 0
            place.never += not clip.arrived
        elif self._stepping:
            self._count_inside(place, clip)
        elif clip.fresh:
            place.fresh += 1
            self._clipped = self._first_fresh(place, tensors) if not self._running else None
            place.partial += self._running and self._adds_up(tensors)
        elif clip.used:
            place.after_use += 1

    def _count_inside(self, place: ClipPlace, clip: Clip) -> None:
        """Inside a step the ledger holds all gradients for used: what counts is whether a hook clips, and which."""
        hook = _step_hook(self._hub.locator)
        place.fresh += hook == "before"
        if hook == "after" and clip.used:
            place.after_use += 1
        elif hook != "before":
            place.measuring += 1

    def _place(self, clip: Clip) -> ClipPlace:
        places = self._part.places
        place = places.get(clip.site)
        if place is None:
            late = clip.used > 0 and not clip.fresh and not self._stepping and clip.step > 0  # it comes after its step
            place = ClipPlace(clip.site, clip.function, first_step=clip.step - late)
            if len(places) < LIMIT:
                places[clip.site] = place
        return place

    def _first_fresh(self, place: ClipPlace, tensors: list[Tensor]) -> tuple[ClipPlace, Parameter, int] | None:
        for tensor in tensors:
            parameter = self._parameters.get(id(tensor))
            if parameter is not None and parameter.optimizers and len(parameter.held) > parameter.used:
                return place, parameter, len(parameter.held)
        return None

    def _adds_up(self, tensors: list[Tensor]) -> bool:
        """In a hook that clips as soon as a gradient has come: whether it holds a backward that has been clipped before."""
        known = [parameter for tensor in tensors if (parameter := self._parameters.get(id(tensor))) is not None]
        fresh = [parameter.held[parameter.used :] for parameter in known if parameter.optimizers]
        return any(len(held) > 1 and held[-2].lines == held[-1].lines for held in fresh)

    def after_clip(self, called: Called) -> None:
        clip, norm, place = self._open, called.result, self._part.places.get(called.site)
        self._open = None
        if not isinstance(norm, Tensor) or norm.device.type != "cpu":
            return
        if clip is not None:
            clip.norm = float(norm)
        if place is not None and place.after_use and not norm.any():  # gradients that were cleared by writing zeros
            place.after_use -= 1
            place.nothing += 1

    def on_backward(self, *_: Any) -> None:
        self._running = True

    def after_backward(self, _: Called) -> None:
        """A backward may add to what was clipped and not cleared since."""
        self._running = False
        backward = self._backwards.current
        self._note_weights()
        if self._clipped is None or backward is None:
            return
        place, parameter, length = self._clipped
        held = parameter.held
        place.partial += len(held) > length and held[length - 1].site == backward.site
        self._clipped = None

    def _note_weights(self) -> None:
        """Of the first parameter on the CPU that no optimizer holds, in the scripts that clip without one."""
        self._weights = None
        if self._trace.steps or not self._part.places:
            return
        for parameter in self._parameters.values():
            if parameter.held and not parameter.optimizers and parameter.device == "cpu":
                self._weights = (parameter, beginning(parameter))
                return

    def before_step(self, step: Any) -> None:
        self._clipped = None
        self._stepping += not step.closure  # with a closure the gradients come inside the step

    def after_step(self, step: Any) -> None:
        self._stepping = max(self._stepping - (not step.closure), 0)


def _step_hook(locator: Locator) -> str | None:
    """The hook of an optimizer's step that is going on: "before" or "after" its update, None where it is the update itself."""
    callee = None
    for frame in locator.frames():
        if frame.f_code in _STEPS:
            names = local_names(frame)
            is_update = callee is getattr(names.get("func"), "__code__", None)
            return None if is_update else "after" if "out" in names else "before"  # `out` is what the update gave
        callee = frame.f_code
    return None


_STEPS = {  # what torch puts around the step of every optimizer
    code for code in Optimizer.profile_hook_step.__code__.co_consts if isinstance(code, CodeType)
}
PATCHES = [
    Patch(
        "clip",
        (
            *(
                f"{module}:{name}"
                for module in ("torch.nn.utils.clip_grad", "torch.nn.utils")
                for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
            ),
            "torch.nn.utils:clip_grads_with_norm_",  # in its own module it is what clip_grad_norm_ calls
        ),
    ),
]
OBSERVERS = [ClipWatch]
