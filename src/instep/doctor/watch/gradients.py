"""The ledger of gradients: which backwards each parameter's gradient holds, which of those a step has used, what was dropped.

Judged by what a step consumes, not by which calls were made: a gradient counts as cleared when it is None or zero, whoever did
it. Values are looked at for a few parameters of each optimizer, at the first backwards and then at every eighth.
"""

import weakref
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


@dataclass
class Gradients:
    """The part of the trace about gradients."""

    parameters: dict[int, Parameter] = field(default_factory=dict)  # by id; those alive
    last_clear_site: str | None = None
    last_clear_step: int = -1


class GradientWatch:
    """Keeps the ledger. Tells `on_discard(discard)`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Gradients)
        self._backwards = trace.part(Backwards)
        self._parameters = self._part.parameters
        self._anonymous = Backward(0, None, 0, None, None, False, False, 0, 0, None)
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
        self._parameters.pop(key, None)

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
        for parameter in self._parameters.values():
            parameter.held.clear()
            parameter.used = 0

    # -- what happens to their gradients

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        self.settle()

    def settle(self) -> None:
        """Find out which gradients have been cleared since they came."""
        dropped: dict[int, Backward] = {}
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
                dropped[backward.number] = backward
            held.clear()
            parameter.used = 0
        for backward in dropped.values():
            self._discard(backward)

    def _is_zero(self, parameter: Parameter, grad: Tensor, look: bool) -> bool:
        """Whether a gradient was cleared in place; between two looks, as it was at the last."""
        if look and (parameter.device == "cpu" and parameter.numel <= 65536):
            parameter.zero = not bool(grad.detach().any())
        return parameter.zero

    def _discard(self, backward: Backward) -> None:
        part = self._part
        site = part.last_clear_site if part.last_clear_step == self._trace.steps else None
        self._hub.say("on_discard", Discard(backward, site, self._trace.steps))

    def after_clear(self, called: Called) -> None:
        self._part.last_clear_site, self._part.last_clear_step = called.site, self._trace.steps


PATCHES = [
    Patch("clear", ("torch.optim.optimizer:Optimizer.zero_grad", "torch.nn.modules.module:Module.zero_grad"), subclasses=True),
]
OBSERVERS = [GradientWatch]
