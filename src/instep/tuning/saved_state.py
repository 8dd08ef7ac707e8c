"""SavedState: what a model, an optimizer and the like hold, to be put back in place.

Owns how each kind of thing is kept. The things themselves stay: a tensor gets its values back where it lies, a list its entries,
so whoever else holds one of them (tied weights, a captured graph, an average of the weights) holds the same one afterwards.
"""

import copy
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch has it, its stubs do not
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from instep.errors import DescriptionError

# Known through and through: their attributes are kept, and what those hold.
OPEN = (nn.Module, Optimizer, LRScheduler, torch.amp.GradScaler)
MOVABLE = (Tensor, nn.Parameter)  # others, such as a DTensor, cannot be asked where they lie
PLAIN = (str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device)


class SavedState:
    """One copy of everything that the given things hold.

    Modules, optimizers, torch's schedulers and GradScaler are kept with all their attributes; anything else that is given has to
    have `state_dict()` and `load_state_dict()`. What is held twice is kept once. `on_host` keeps an accelerator's tensors in the
    host's memory, so that nothing of the device's is taken.
    """

    def __init__(self, *things: Any, on_host: bool = False) -> None:
        self.size_bytes = 0  # of the copies of tensors
        self._on_host = on_host
        self._seen: dict[int, Any] = {}  # the things themselves too, so that no new one gets the id of an old one
        self._ways_back: list[Callable[[], None]] = []
        self._pending: list[Any] = []
        for thing in things:
            if isinstance(thing, OPEN):
                self._pending.append(thing)
            else:
                self._ways_back.append(_save_state(thing))
        while self._pending:
            self._save(self._pending.pop())

    def put_back(self) -> None:
        """Everything is as it was. A Ctrl-C meanwhile waits until it is done: half of the old state would be a new one."""
        interrupted: KeyboardInterrupt | None = None
        while True:
            try:
                with torch.no_grad():
                    for way_back in self._ways_back:
                        way_back()
                break
            except KeyboardInterrupt as stop:
                interrupted = stop
        if interrupted is not None:
            raise interrupted

    def _save(self, thing: Any) -> None:
        if isinstance(thing, PLAIN) or id(thing) in self._seen:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, Tensor):
            self._ways_back.append(self._save_tensor(thing))
            if thing.is_leaf:
                self._pending.append(thing.grad)
        elif isinstance(thing, OPEN):
            self._pending.append(vars(thing))
            if isinstance(thing, nn.Module):  # a scripted module has no such attributes
                self._ways_back.append(_save_mode(thing))
                self._pending += [*thing.parameters(), *thing.buffers()]
        elif isinstance(thing, dict):
            self._ways_back.append(_save_dict(thing))
            self._pending += [*thing.keys(), *thing.values()]
        elif isinstance(thing, list | deque | set):
            self._ways_back.append(_save_entries(thing))
            self._pending += thing
        elif isinstance(thing, tuple | frozenset):
            self._pending += thing
        elif (way_back := _save_leaf(thing)) is not None:
            self._ways_back.append(way_back)

    def _save_tensor(self, tensor: Tensor) -> Callable[[], None]:
        """Its values, where they lie, its gradient and whether it wants one."""
        if isinstance(tensor, UninitializedTensorMixin):
            raise DescriptionError(
                "the model has lazy parameters without a shape yet, which cannot be put back; send one batch through it first: "
                "model(x)."
            )
        place, needs_grad = tensor.detach(), tensor.requires_grad  # `place` stays there, also where the tensor is sent elsewhere
        values = _once(place).to("cpu", copy=True) if self._on_host else _once(place).clone()
        self.size_bytes += values.numel() * values.element_size()
        gradient = tensor.grad if tensor.is_leaf else None

        def put_back() -> None:
            _once(place).copy_(values)
            if type(tensor) in MOVABLE and place.layout == torch.strided and not tensor.is_set_to(place):
                tensor.data = place
            if tensor.is_leaf:
                if tensor.requires_grad != needs_grad:
                    tensor.requires_grad_(needs_grad)
                if tensor.grad is not gradient:
                    tensor.grad = gradient

        return put_back


def _once(tensor: Tensor) -> Tensor:
    """Each element of an expanded tensor once: it cannot be written where several lie at one address."""
    if tensor.layout != torch.strided or 0 not in tensor.stride():
        return tensor
    return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]


def _save_mode(module: nn.Module) -> Callable[[], None]:
    mode = module.training

    def put_back() -> None:
        if module.training != mode:
            module.training = mode

    return put_back


def _save_dict(held: dict[Any, Any]) -> Callable[[], None]:
    items = list(held.items())

    def put_back() -> None:
        if not _same([part for item in held.items() for part in item], [part for item in items for part in item]):
            held.clear()
            for key, value in items:  # a Counter's update() would add them up
                held[key] = value

    return put_back


def _save_entries(held: Any) -> Callable[[], None]:
    entries = list(held)

    def put_back() -> None:
        if not _same(held, entries):
            held.clear()
            (held.update if isinstance(held, set) else held.extend)(entries)

    return put_back


def _same(now: Any, before: list[Any]) -> bool:
    """Whether these are the very same things: what has not changed is not written, so nobody who watches it is disturbed."""
    return len(now) == len(before) and all(one is other for one, other in zip(now, before, strict=True))


def _save_leaf(thing: Any) -> Callable[[], None] | None:
    """Arrays and generators of the module's own; nothing is known of other things."""
    if isinstance(thing, np.ndarray):
        values = thing.copy()
        return lambda: np.copyto(thing, values)
    if isinstance(thing, torch.Generator):
        state = thing.get_state()
        return lambda: void(thing.set_state(state))
    if isinstance(thing, random.Random):
        place = thing.getstate()
        return lambda: thing.setstate(place)
    if isinstance(thing, np.random.RandomState):
        legacy = thing.get_state()
        return lambda: thing.set_state(legacy)
    if isinstance(thing, np.random.Generator):
        position = copy.deepcopy(thing.bit_generator.state)
        return lambda: setattr(thing.bit_generator, "state", position)
    return None


def void(_: object) -> None:
    """Nothing of it."""


def _save_state(thing: Any) -> Callable[[], None]:
    """By what the thing says itself."""
    state: Mapping[str, Any] = copy.deepcopy(thing.state_dict())
    return lambda: void(thing.load_state_dict(copy.deepcopy(state)))
