"""The ledger of gradients: which backwards each parameter's gradient holds, which of those a step has used, what was dropped.

Judged by what a step consumes, not by which calls were made: a gradient counts as cleared when it is None or zero, whoever did
it. Values are looked at at the first backwards of a parameter, at every eighth, and whenever a step has used what is still there;
of gradients that are known to be cleared in place, the smallest of each optimizer speaks for the others in between. Where values
cannot be looked at, a call that clears is believed.
"""

import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Backwards

ALWAYS = 24  # gradients of a parameter that are all looked at
OFTEN = 8
HELD = 64  # backwards that one gradient is known to hold
BEGINNING = 64  # elements of a gradient that are looked at first: most that were not cleared show it there
SOME = 64  # elements by which it is known whether somebody has written to a tensor
SLICE = 2048  # elements spread over it that are looked at then
WHOLE = 1 << 20  # elements beyond which a slice is all that is looked at
ROOTS = 64  # that are searched for new parameters
WAITS = 24  # looks at values on an accelerator, for which the program waits


class Parameter:
    """One parameter, and what its gradient holds now."""

    __slots__ = (
        "arrivals",
        "device",
        "dropped",
        "dtype",
        "fed",
        "held",
        "hooked",
        "in_place",
        "key",
        "name",
        "numel",
        "optimizers",
        "reference",
        "shape",
        "used",
        "version",
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
        self.in_place = False  # whether it has been cleared by writing zeros
        self.version = -1  # of the gradient when a step used it last
        self.optimizers: set[int] = set()
        self.dropped = 0  # times that its gradient was cleared unused, before another backward
        self.fed = 0  # steps that found a gradient in it


@record_class
class Discard:
    """Gradients of one backward that were cleared before any step used them."""

    backward: Backward
    site: str | None  # of the call that cleared them; None where it was done by hand
    step: int


@part_class
class Gradients:
    """The part of the trace about gradients."""

    parameters: dict[int, Parameter] = field(default_factory=dict)  # by id; those alive
    last_clear_site: str | None = None
    last_clear_step: int = -1
    clock: int = 0  # counts steps and calls that clear
    clears: deque[tuple[int, Any]] = field(
        default_factory=lambda: deque(maxlen=16)
    )  # (clock, weak reference to what was cleared)

    def cleared_since(self, time: int) -> set[int]:
        """The parameters that a call has cleared since then, by id."""
        found: set[int] = set()
        for when, reference in self.clears:
            owner = reference() if when > time else None
            if owner is not None:
                found.update(id(tensor) for tensor in _tensors_of(owner))
        return found


class GradientWatch:
    """Keeps the ledger. Tells `on_discard(discard)`, and `on_grown(parameters)` where a model has got some while it trained."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Gradients)
        self._backwards = trace.part(Backwards)
        self._parameters = self._part.parameters
        self._anonymous = Backward(0, None, 0, None, None, False, False, 0, 0, None)
        self._hooks: dict[int, Callable[[Tensor], None]] = {}  # of all parameters that were ever hooked
        self._handles: dict[int, Any] = {}  # of those that are now
        self._waits = 0
        self._elsewhere: dict[int, bool] = {}  # what the last look at an accelerator has shown, by optimizer
        self._speakers: dict[int, Parameter] = {}  # optimizer -> its smallest parameter whose gradient is cleared in place
        self._registered = False  # whether a module has got a parameter since the last backward
        self._roots: deque[Any] = deque(maxlen=ROOTS)

    def remove(self) -> None:
        for handle in self._handles.values():
            handle.remove()
        self._handles.clear()

    # -- which parameters there are

    def on_module_seen(self, module: nn.Module, root: Any) -> None:
        if root is not None and root.sharded:
            return  # inside a call, FSDP has put whole weights in the place of its own
        self._grow(root, [(f"{type(module).__name__}.{name}", tensor) for name, tensor in own_parameters(module)])

    def on_root_seen(self, module: nn.Module, root: Any) -> None:
        self._roots.append(root)
        for name, tensor in module.named_parameters():
            if not is_lazy(tensor):  # has no shape yet: known when its module has been called
                self.know(tensor, name).name = name

    def after_registered(self, _: Called) -> None:
        self._registered = self._registered or self._trace.steps > 0

    def _look_at_registered(self) -> None:
        """A weight that is replaced in a layer which was called before: nobody sees that layer for the first time."""
        self._registered = False
        for root in self._roots:
            module = root.reference()
            if module is not None and root.trained and not root.sharded:
                self._grow(root, [(name, tensor) for name, tensor in module.named_parameters() if not is_lazy(tensor)])

    def _grow(self, root: Any, found: list[tuple[str, Tensor]]) -> None:
        before = set(self._parameters)
        new = [known for name, tensor in found if (known := self.know(tensor, name)).key not in before]
        if new and root is not None and root.trained and self._trace.steps:
            self._hub.say("on_grown", new)

    def know(self, tensor: Tensor, name: str = "") -> Parameter:
        """The record of a parameter, made and hooked where it is new."""
        parameter = self._parameters.get(id(tensor))
        if parameter is None:
            parameter = self._parameters[id(tensor)] = Parameter(tensor, name or f"tensor{tuple(tensor.shape)}")
            weakref.finalize(tensor, self._forget, id(tensor)).atexit = False
        if not parameter.hooked and tensor.requires_grad and tensor.is_leaf:
            self._hooks.setdefault(parameter.key, self._arrived(parameter))
            self._hook(parameter, tensor)
        return parameter

    def _hook(self, parameter: Parameter, tensor: Tensor) -> None:
        parameter.hooked = True
        handle = self._handles[parameter.key] = tensor.register_post_accumulate_grad_hook(self._hooks[parameter.key])
        hooks: Any = tensor._post_accumulate_grad_hooks
        for other in [each for each in hooks if each != handle.id]:
            hooks[other] = hooks.pop(other)  # after ours: one of the user's may step, and that uses what has arrived

    def _forget(self, key: int) -> None:
        self._hooks.pop(key, None)
        self._handles.pop(key, None)
        self._parameters.pop(key, None)

    def _arrived(self, parameter: Parameter) -> Callable[[Tensor], None]:
        held, backwards, anonymous, hub = parameter.held, self._backwards, self._anonymous, self._hub

        def arrived(tensor: Tensor) -> None:
            if hub.quiet or tensor.grad is None:  # a function of the user's own gave None
                return
            backward = backwards.current or anonymous
            parameter.arrivals += 1
            backward.accumulated += 1
            held.append(backward)

        return arrived

    def on_rest(self) -> None:
        """Hooks are taken off: a step of few microseconds would feel each of them."""
        if not self._hub.compiled:
            self.remove()

    def on_wake(self) -> None:
        """What the gradients hold is not known after a rest; it is again after the next clearing and backward."""
        for parameter in self._parameters.values():
            parameter.held.clear()
            parameter.used = 0
        self._hook_again()

    def _hook_again(self) -> None:
        """Put hooks back on; one that is frozen takes none until it is free again."""
        for key, parameter in self._parameters.items():
            if key in self._hooks and key not in self._handles:
                tensor = parameter.reference()
                parameter.hooked = tensor is not None and tensor.requires_grad
                if tensor is not None and tensor.requires_grad:
                    self._hook(parameter, tensor)

    # -- what happens to their gradients

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        if len(self._handles) < len(self._hooks):
            self._hook_again()
        if self._registered:
            self._look_at_registered()
        self.settle()

    def settle(self) -> None:
        """Find out which gradients have been cleared since they came."""
        dropped: dict[int, Backward] = {}
        look = self._trace.backwards % OFTEN == 0
        answers: dict[int, bool] = {}
        for parameter in self._parameters.values():
            held = parameter.held
            if not held:
                continue
            tensor = parameter.reference()
            if tensor is None:
                continue
            grad = tensor.grad
            if grad is not None and not self._is_cleared(parameter, grad, look, answers):
                if len(held) > HELD:
                    parameter.used = max(parameter.used - len(held) + HELD, 0)
                    del held[:-HELD]
                continue
            parameter.dropped += len(held) > parameter.used
            for backward in held[parameter.used :]:
                backward.dropped += 1
                dropped[backward.number] = backward
            held.clear()
            parameter.used = 0
        for backward in dropped.values():
            self._discard(backward)

    def _is_cleared(self, parameter: Parameter, grad: Tensor, look: bool, answers: dict[int, bool]) -> bool:
        """Whether a gradient was cleared in place; between two looks, one parameter of an optimizer speaks for the others."""
        owner = min(parameter.optimizers, default=-1)
        if parameter.device != "cpu":
            if owner not in answers:
                answers[owner] = self._is_cleared_elsewhere(parameter, grad, owner)
            return answers[owner]
        if parameter.in_place and not look:
            if owner not in answers:
                answers[owner] = self._is_speaker_cleared(owner, grad)
            return answers[owner]
        if not (look or parameter.used or parameter.arrivals <= ALWAYS):
            return False
        zero = is_zero(grad, slice_only=parameter.in_place)
        if zero and not parameter.in_place:
            parameter.in_place = True
            speaker = self._speakers.get(owner)
            if speaker is None or parameter.numel < speaker.numel or speaker.reference() is None:
                self._speakers[owner] = parameter
        return zero

    def _is_speaker_cleared(self, owner: int, grad: Tensor) -> bool:
        """What the speaker's gradient shows; one that the last backward did not reach tells nothing, then `grad` is looked at."""
        speaker = self._speakers.get(owner)
        tensor = speaker.reference() if speaker is not None and speaker.held else None
        if tensor is None:
            return is_zero(grad)
        return tensor.grad is None or is_zero(tensor.grad)

    def _is_cleared_elsewhere(self, parameter: Parameter, grad: Tensor, owner: int) -> bool:
        """On an accelerator: looked at only where a used gradient is still there, a few times a run."""
        if parameter.used and self._waits < WAITS:
            self._waits += 1
            self._elsewhere[owner] = is_zero(grad)
        return self._elsewhere.get(owner, False)

    def _discard(self, backward: Backward) -> None:
        part = self._part
        site = part.last_clear_site if part.last_clear_step == self._trace.steps else None
        self._hub.say("on_discard", Discard(backward, site, self._trace.steps))

    def after_clear(self, called: Called) -> None:
        part = self._part
        part.last_clear_site, part.last_clear_step = called.site, self._trace.steps
        part.clock += 1
        part.clears.append((part.clock, weakref.ref(called.args[0])))


def own_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters of a module itself: its own, and those in lists and dictionaries of parameters, which nobody calls."""
    for part in (module, *(each for each in module._modules.values() if isinstance(each, (nn.ParameterDict, nn.ParameterList)))):
        yield from ((name, tensor) for name, tensor in part._parameters.items() if tensor is not None)
    for variable in vars(module).get("_trainable_variables", ()):  # of a layer of Keras'
        if isinstance(tensor := getattr(variable, "_value", None), Tensor):
            yield str(getattr(variable, "name", "")), tensor


def is_zero(grad: Tensor, *, slice_only: bool = False) -> bool:
    """Whether all of a gradient is zero, as far as is looked: a part of it first, then the whole unless that is very large."""
    values = grad.detach() if grad.requires_grad else grad
    if values.layout is torch.strided and values.numel() > 2 * SLICE:
        flat = values.view(-1) if values.is_contiguous() else values[:1].reshape(-1)
        if bool(flat[:BEGINNING].any()) or bool(flat[:: max(len(flat) // SLICE, 1)].any()):
            return False
        if slice_only or values.numel() > WHOLE:
            return True
    return not bool(values.any())


def some_values(tensor: Tensor | None) -> Tensor | None:
    """Some elements of a tensor, spread over it, as they are now; None where there is nothing to read."""
    if tensor is None or tensor.layout is not torch.strided or not tensor.is_floating_point():
        return None
    flat = tensor.detach().reshape(-1)
    return flat[:: max(len(flat) // SOME, 1)][:SOME].to(torch.float64, copy=True)


def is_as_left(grad: Tensor | None, left: Tensor | None) -> bool:
    """Whether nobody has written to a gradient: whoever keeps the momentum there scales it after each update."""
    return grad is left if grad is None or left is None else torch.equal(grad, left)


def beginning(parameter: Parameter) -> list[float]:
    """A few values of a parameter, to see whether it has moved."""
    tensor = parameter.reference()
    if tensor is None:
        return []
    flat = tensor.detach().reshape(-1)
    return flat[:: max(len(flat) // 8, 1)][:8].tolist()


def _tensors_of(owner: Any) -> Any:
    if isinstance(owner, nn.Module):
        return owner.parameters()
    return (tensor for group in owner.param_groups for tensor in group["params"])


PATCHES = [
    Patch("clear", ("torch.optim.optimizer:Optimizer.zero_grad", "torch.nn.modules.module:Module.zero_grad"), subclasses=True),
    Patch("registered", ("torch.nn.modules.module:Module.register_parameter",), always=True),
]
OBSERVERS = [GradientWatch]
