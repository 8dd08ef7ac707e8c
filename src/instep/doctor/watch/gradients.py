"""The ledger of gradients: which backwards each parameter's gradient holds, which of those a step has used, what was dropped.

Judged by what a step consumes, not by which calls were made: a gradient counts as cleared when it is None or zero, whoever did
it. Values are looked at for a few parameters of each optimizer, at the first backwards and then at every eighth.
"""

import weakref
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Backwards

PROBES = 3  # parameters of an optimizer whose gradients are looked at by value
ALWAYS = 24  # backwards at which they are looked at every time
OFTEN = 8
HELD = 64  # backwards that one gradient is known to hold


class Parameter:
    """One parameter, and what its gradient holds now."""

    __slots__ = (
        "arrivals",
        "device",
        "dtype",
        "grad",
        "held",
        "hooked",
        "key",
        "name",
        "numel",
        "optimizers",
        "reference",
        "shape",
        "used",
        "uses",
        "zero",
    )  # fmt: skip

    def __init__(self, tensor: Tensor, name: str) -> None:
        self.key = id(tensor)
        self.name = name
        self.shape = tuple(tensor.shape)
        self.numel = tensor.numel()
        self.dtype = str(tensor.dtype).removeprefix("torch.")
        self.device = tensor.device.type
        self.reference = weakref.ref(tensor)
        self.hooked = False
        self.arrivals = 0  # gradients that came
        self.uses = 0  # steps that used one
        self.held: list[Backward] = []  # the backwards that the gradient is the sum of, oldest first
        self.used = 0  # how many of those, from the oldest, a step has used
        self.zero = False  # whether it was last cleared by writing zeros
        self.grad: weakref.ref[Tensor] | None = None  # the gradient at the last use, of probes only
        self.optimizers: set[int] = set()


@dataclass(slots=True)
class Discard:
    """Gradients of one backward that were cleared before any step used them."""

    backward: Backward
    site: str | None  # of the call that cleared them; None where it was done by hand
    step: int
    parameters: int


@dataclass(slots=True)
class Clip:
    """One call of a clip function."""

    site: str | None
    function: str
    limit: float  # max_norm or clip_value
    step: int
    parameters: int
    with_grad: int  # whose gradient is not None
    fresh: int  # whose gradient holds something that no step has used
    used: int  # whose gradient holds only what a step has used already
    backwards: int  # backwards begun before it
    generator: bool
    norm: float | None = None  # what it returned, where reading it is free
    arrived: int = 0  # parameters of the call that have ever had a gradient


@dataclass(slots=True)
class ClipSite:
    """All clips from one line."""

    site: str | None
    count: int = 0
    after_use: int = 0  # every gradient was already used
    of_nothing: int = 0  # no parameter, or none with a gradient
    followed_by_backward: int = 0  # a backward into the same cycle came after it, before the step
    first_step: int = 0
    infinite: int = 0  # with an infinite limit: measures only


@dataclass
class Gradients:
    """The part of the trace about gradients."""

    parameters: dict[int, Parameter] = field(default_factory=dict)  # by id; those alive
    gone: int = 0  # parameters that have died
    discards: deque[Discard] = field(default_factory=lambda: deque(maxlen=128))
    discarded: int = 0  # backwards of which nothing was used and everything was dropped
    clips: dict[str | None, ClipSite] = field(default_factory=dict)
    recent_clips: deque[Clip] = field(default_factory=lambda: deque(maxlen=64))
    clears: dict[str | None, int] = field(default_factory=dict)  # calls of zero_grad by site
    last_clear_site: str | None = None
    last_clear_step: int = -1


class GradientWatch:
    """Keeps the ledger. Tells `on_discard(discard)` and `on_clip(clip, tensors)`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Gradients)
        self._backwards = trace.part(Backwards)
        self._parameters = self._part.parameters
        self._anonymous = Backward(0, None, 0, None, None, False, False, 0, 0, None)
        self._open_clip: Clip | None = None
        self._handles: dict[int, Any] = {}

    def remove(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()

    # -- which parameters there are

    def on_module_seen(self, module: nn.Module, _: Any) -> None:
        for name, tensor in module._parameters.items():
            if tensor is not None:
                self.know(tensor, f"{type(module).__name__}.{name}")

    def on_root_seen(self, module: nn.Module, _: Any) -> None:
        for name, tensor in module.named_parameters():
            if not is_lazy(tensor):  # has no shape yet: known when its module has been called
                self.know(tensor, name).name = name

    def know(self, tensor: Tensor, name: str = "") -> Parameter:
        """The record of a parameter, made and hooked where it is new."""
        parameter = self._parameters.get(id(tensor))
        if parameter is None:
            parameter = self._parameters[id(tensor)] = Parameter(tensor, name or f"tensor{tuple(tensor.shape)}")
            weakref.finalize(tensor, self._forget, id(tensor)).atexit = False
        if not parameter.hooked and tensor.requires_grad and tensor.is_leaf:
            parameter.hooked = True
            self._handles[parameter.key] = tensor.register_post_accumulate_grad_hook(self._arrived(parameter))
        return parameter

    def _forget(self, key: int) -> None:
        self._handles.pop(key, None)
        if self._parameters.pop(key, None) is not None:
            self._part.gone += 1

    def _arrived(self, parameter: Parameter) -> Any:
        held, backwards, anonymous, hub = parameter.held, self._backwards, self._anonymous, self._hub

        def arrived(_: Tensor) -> None:
            if hub.quiet:
                return
            backward = backwards.current or anonymous
            parameter.arrivals += 1
            backward.accumulated += 1
            held.append(backward)

        return arrived

    def on_wake(self) -> None:
        """What the gradients hold is not known after a rest; it is again after the next clearing and backward."""
        self._open_clip = None
        for parameter in self._parameters.values():
            parameter.held.clear()
            parameter.used = 0

    # -- what happens to their gradients

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        self.settle()
        clip = self._open_clip
        if clip is not None and not backward.inside_step:
            self._part.clips[clip.site].followed_by_backward += clip.backwards > 0 and clip.fresh > 0
            self._open_clip = None

    def settle(self) -> None:
        """Find out which gradients have been cleared since they came."""
        dropped: dict[int, tuple[Backward, int]] = {}
        look = self._trace.backwards <= ALWAYS or self._trace.backwards % OFTEN == 0
        for parameter in self._parameters.values():
            held = parameter.held
            if not held:
                continue
            tensor = parameter.reference()
            if tensor is None:
                continue
            grad = tensor.grad
            if grad is not None and not self._is_zero(parameter, grad, look):
                if len(held) > HELD:
                    parameter.used = max(parameter.used - len(held) + HELD, 0)
                    del held[:-HELD]
                continue
            for backward in held[parameter.used :]:
                backward.dropped += 1
                known = dropped.get(backward.number)
                dropped[backward.number] = (backward, 1 if known is None else known[1] + 1)
            held.clear()
            parameter.used = 0
        for backward, count in dropped.values():
            self._discard(backward, count)

    def _is_zero(self, parameter: Parameter, grad: Tensor, look: bool) -> bool:
        """Whether a gradient was cleared in place; between two looks, as it was at the last."""
        if look and (parameter.device == "cpu" and parameter.numel <= 65536):
            parameter.zero = not bool(grad.detach().any())
        return parameter.zero

    def _discard(self, backward: Backward, count: int) -> None:
        part = self._part
        site = part.last_clear_site if part.last_clear_step == self._trace.steps else None
        if backward.used == 0 and backward.dropped >= backward.accumulated:
            part.discarded += 1
        discard = Discard(backward, site, self._trace.steps, count)
        part.discards.append(discard)
        self._hub.say("on_discard", discard)

    def after_clear(self, called: Called) -> None:
        part, site = self._part, called.site
        part.last_clear_site, part.last_clear_step = site, self._trace.steps
        if site in part.clears or len(part.clears) < 256:
            part.clears[site] = part.clears.get(site, 0) + 1

    # -- clipping

    def before_clip(self, called: Called) -> None:
        given = called.argument(0, "parameters")
        if isinstance(given, Tensor):
            tensors = [given]
        else:
            tensors = list(given)
            if iter(given) is given:  # a generator is read once: hand on one that has everything still
                called.args = ((tensor for tensor in tensors), *called.args[1:])
                called.kwargs = {name: value for name, value in called.kwargs.items() if name != "parameters"}
        limit = called.argument(1, "max_norm", called.kwargs.get("clip_value", 0.0))
        clip = Clip(
            called.site, called.function, float(limit), self._trace.steps, len(tensors), 0, 0, 0, self._trace.backwards,
            iter(given) is given if not isinstance(given, Tensor) else False,
        )  # fmt: skip
        for tensor in tensors:
            parameter = self._parameters.get(id(tensor))
            clip.with_grad += tensor.grad is not None
            if parameter is not None:
                clip.arrived += parameter.arrivals > 0
                if parameter.held and tensor.grad is not None:
                    fresh = len(parameter.held) > parameter.used
                    clip.fresh += fresh
                    clip.used += not fresh
        self._count_clip(clip)
        self._open_clip = clip
        self._hub.say("on_clip", clip, tensors)

    def after_clip(self, called: Called) -> None:
        clip, norm = self._open_clip, called.result
        if clip is not None and isinstance(norm, Tensor) and norm.device.type == "cpu":
            clip.norm = float(norm)

    def _count_clip(self, clip: Clip) -> None:
        part = self._part
        part.recent_clips.append(clip)
        site = part.clips.get(clip.site)
        if site is None:
            site = part.clips[clip.site] = ClipSite(clip.site, first_step=clip.step)
        site.count += 1
        site.infinite += clip.limit == float("inf")
        site.of_nothing += clip.with_grad == 0
        site.after_use += clip.used > 0 and clip.fresh == 0

    def before_step(self, _: Any) -> None:
        self._open_clip = None


PATCHES = [
    Patch(
        "clip",
        tuple(
            f"{module}:{name}"
            for module in ("torch.nn.utils.clip_grad", "torch.nn.utils")
            for name in ("clip_grad_norm_", "clip_grad_value_", "clip_grad_norm")
        ),
    ),
    Patch("clear", ("torch.optim.optimizer:Optimizer.zero_grad", "torch.nn.modules.module:Module.zero_grad"), subclasses=True),
]
OBSERVERS = [GradientWatch]
