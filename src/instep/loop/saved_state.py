"""SavedState: what a model, an optimizer and the like hold, to be put back in place.

Owns how each kind of thing is kept. The things themselves stay: a tensor gets its values back where it lies, a list its entries,
so whoever else holds one of them (tied weights, a captured graph, an average of the weights) holds the same one afterwards.
"""

import copy
from collections import deque
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch has it, its stubs do not
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from instep.errors import DescriptionError
from instep.loop.generators import GENERATORS, read_generator, same_place, write_generator
from instep.loop.holders import Names, has_attributes

# Known through and through: their attributes are kept, and what those hold.
OPEN = (nn.Module, Optimizer, LRScheduler, torch.amp.GradScaler)
WITHIN = (dict, Names)  # what of a module or a function can be given by itself
MOVABLE = (Tensor, nn.Parameter)  # others, such as a DTensor, cannot be asked where they lie
_NOTHING: Mapping[int, Any] = MappingProxyType({})
PLAIN = (str, bytes, int, float, complex, bool, type(None), type, torch.dtype, torch.device)


class SavedState:
    """One copy of everything that the given things hold.

    Modules, optimizers, torch's schedulers, GradScaler and objects of a user's classes are kept with all their attributes, a
    function with what its closure and its globals hold; anything else that is given has to have `state_dict()` and
    `load_state_dict()`. What is held twice is kept once; what is in `leave`, by its id, is not kept. `on_host` keeps an
    accelerator's tensors in the host's memory, so that nothing of the device's is taken.
    """

    def __init__(self, *things: Any, on_host: bool = False, leave: Mapping[int, Any] = _NOTHING) -> None:
        self.size_bytes = 0  # of the copies of tensors
        self._on_host = on_host
        self._leave = leave
        self._seen: dict[int, Any] = {}  # the things themselves too, so that no new one gets the id of an old one
        self._ways_back: list[Callable[[], bool]] = []  # each says whether there was something to put back
        self._pending: list[Any] = []
        for thing in things:
            if isinstance(thing, (*OPEN, *WITHIN)) or has_attributes(thing):
                self._pending.append(thing)
            else:
                self._ways_back.append(_save_state(thing))
        while self._pending:
            self._save(self._pending.pop())

    def put_back(self) -> bool:
        """Everything is as it was; False where it had not changed.

        A Ctrl-C meanwhile waits until it is done: half of the old state would be a new one.
        """
        interrupted: KeyboardInterrupt | None = None
        changed = False
        while True:
            try:
                with torch.no_grad():
                    for way_back in self._ways_back:
                        changed |= way_back()
                break
            except KeyboardInterrupt as stop:
                interrupted = stop
        if interrupted is not None:
            raise interrupted
        return changed

    def _save(self, thing: Any) -> None:
        if isinstance(thing, PLAIN) or id(thing) in self._seen or id(thing) in self._leave:
            return
        self._seen[id(thing)] = thing
        if isinstance(thing, Tensor):
            self._ways_back.append(self._save_tensor(thing))
            if thing.is_leaf:
                self._pending.append(thing.grad)
        elif isinstance(thing, OPEN) or has_attributes(thing):
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
        elif isinstance(thing, Names):
            self._ways_back.append(_save_names(thing))
            self._pending += thing.items().values()
        elif (way_back := _save_leaf(thing)) is not None:
            self._ways_back.append(way_back)

    def _save_tensor(self, tensor: Tensor) -> Callable[[], bool]:
        """Its values, where they lie, its gradient and whether it wants one."""
        if isinstance(tensor, UninitializedTensorMixin):
            raise DescriptionError(
                "the model has lazy parameters without a shape yet, which cannot be put back; send one batch through it first: "
                "model(x)."
            )
        place, needs_grad = tensor.detach(), tensor.requires_grad  # `place` stays there, also where the tensor is sent elsewhere
        values = _once(place).to("cpu", copy=True) if self._on_host else _once(place).clone()
        self.size_bytes += values.numel() * values.element_size()
        gradient, version = tensor.grad if tensor.is_leaf else None, _version(tensor)
        is_comparable = type(tensor) in MOVABLE and place.layout == torch.strided and not (place.is_quantized or place.is_meta)

        def put_back() -> bool:
            comparable = is_comparable and place.device == values.device
            changed = not torch.equal(_once(place), values) if comparable else _version(tensor) != version
            if changed or not comparable:
                _once(place).copy_(values)
            if type(tensor) in MOVABLE and place.layout == torch.strided and not tensor.is_set_to(place):
                tensor.data = place
            if tensor.is_leaf:
                if tensor.requires_grad != needs_grad:
                    tensor.requires_grad_(needs_grad)
                if tensor.grad is not gradient:
                    tensor.grad = gradient
            return changed

        return put_back


def _once(tensor: Tensor) -> Tensor:
    """Each element of an expanded tensor once: it cannot be written where several lie at one address."""
    if tensor.layout != torch.strided or 0 not in tensor.stride():
        return tensor
    return tensor[tuple(slice(0, 1) if stride == 0 else slice(None) for stride in tensor.stride())]


def _version(tensor: Tensor) -> int:
    """How often it was written to in place; torch does not count that for tensors made in inference mode."""
    return -1 if tensor.is_inference() else tensor._version


def _save_mode(module: nn.Module) -> Callable[[], bool]:
    mode = module.training

    def put_back() -> bool:
        changed = module.training != mode
        if changed:
            module.training = mode
        return changed

    return put_back


def _save_dict(held: dict[Any, Any]) -> Callable[[], bool]:
    items = list(held.items())

    def put_back() -> bool:
        changed = not _same([part for item in held.items() for part in item], [part for item in items for part in item])
        if changed:
            held.clear()
            for key, value in items:  # a Counter's update() would add them up
                held[key] = value
        return changed

    return put_back


def _save_entries(held: Any) -> Callable[[], bool]:
    entries = list(held)

    def put_back() -> bool:
        changed = not _same(held, entries)
        if changed:
            held.clear()
            (held.update if isinstance(held, set) else held.extend)(entries)
        return changed

    return put_back


def _save_names(held: Names) -> Callable[[], bool]:
    before = held.items()

    def put_back() -> bool:
        now = held.items()
        new = [name for name in now if name not in before]
        changed = [name for name, value in before.items() if name not in now or now[name] is not value]
        for name in new:
            held.remove(name)
        for name in changed:
            held.put(name, before[name])
        return bool(new or changed)

    return put_back


def _same(now: Any, before: list[Any]) -> bool:
    """Whether these are the very same things: what has not changed is not written, so nobody who watches it is disturbed."""
    return len(now) == len(before) and all(one is other for one, other in zip(now, before, strict=True))


def _save_leaf(thing: Any) -> Callable[[], bool] | None:
    """Arrays and generators of a user's own; nothing is known of other things."""
    if isinstance(thing, np.ndarray):
        values = thing.copy()

        def put_back() -> bool:
            changed = not np.array_equal(thing, values)
            if changed:
                np.copyto(thing, values)
            return changed

        return put_back
    if isinstance(thing, GENERATORS):
        place = read_generator(thing)

        def go_back() -> bool:
            changed = not same_place(read_generator(thing), place)
            if changed:
                write_generator(thing, place)
            return changed

        return go_back
    return None


def _save_state(thing: Any) -> Callable[[], bool]:
    """By what the thing says itself."""
    state: Mapping[str, Any] = copy.deepcopy(thing.state_dict())

    def put_back() -> bool:
        thing.load_state_dict(copy.deepcopy(state))
        return True  # nobody knows

    return put_back
