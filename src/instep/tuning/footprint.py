"""Footprint: the bytes that one update needs, counted tensor by tensor while it runs.

Counted are storages, each once, from the moment an operation gives them until nobody holds them: what is saved for backward, the
gradients on their way, the optimizer's temporaries. What a kernel takes and frees inside itself is not seen.
"""

import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.optim import Optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


@dataclass(frozen=True)
class Footprint:
    """What one update on a micro-batch of `samples` needs, in bytes."""

    samples: int
    parameters: int  # and buffers
    gradients: int
    optimizer_state: int
    saved: int  # for backward, parameters not counted
    peak: int  # of everything that comes and goes during an update: saved tensors, gradients, the batch, temporaries


def measure(update: Callable[[], object], samples: int, model: nn.Module, optimizer: Optimizer) -> Footprint:
    """The footprint of an update, which is made; whatever the optimizer creates at its first step should be there already."""
    held = {id_of(tensor) for tensor in [*model.parameters(), *model.buffers()]}
    with Live() as live, counting_saved(held) as saved:
        update()
    return Footprint(
        samples,
        parameters=total_bytes([*model.parameters(), *model.buffers()]),
        gradients=total_bytes([p.grad for p in model.parameters() if p.grad is not None]),
        optimizer_state=total_bytes([leaf for leaf in tree_leaves(list(optimizer.state.values())) if isinstance(leaf, Tensor)]),
        saved=sum(saved.values()),
        peak=live.peak,
    )


class Live(TorchDispatchMode):
    """Counts the bytes of the storages that operations give while it is entered, and the most that there were at once."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # torch's own
        self.now = self.peak = 0
        self._bytes: dict[int, int] = {}  # of each storage that is known; 0 for those that were there before
        self._watched: dict[int, weakref.ref[Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        for leaf in tree_leaves((args, kwargs)):
            if isinstance(leaf, Tensor):
                self._see(leaf, is_new=False)
        given = func(*args, **kwargs)
        for leaf in tree_leaves(given):
            if isinstance(leaf, Tensor):
                self._see(leaf, is_new=True)
        return given

    def _see(self, tensor: Tensor, *, is_new: bool) -> None:
        if tensor.layout != torch.strided:
            return
        storage, key = tensor.untyped_storage(), id_of(tensor)
        if key in self._bytes:
            return
        self._bytes[key] = storage.nbytes() if is_new else 0
        self.now += self._bytes[key]
        self.peak = max(self.peak, self.now)
        self._watched[key] = weakref.ref(storage, lambda _: self._gone(key))

    def _gone(self, key: int) -> None:
        self.now -= self._bytes.pop(key, 0)
        del self._watched[key]


@contextmanager
def counting_saved(held: set[int]) -> Iterator[dict[int, int]]:
    """The bytes of each storage that is saved for backward inside, but for those that are held anyway."""
    found: dict[int, int] = {}

    def pack(tensor: Tensor) -> Tensor:
        if tensor.layout == torch.strided and id_of(tensor) not in held:
            found[id_of(tensor)] = tensor.untyped_storage().nbytes()
        return tensor

    with saved_tensors_hooks(pack, lambda tensor: tensor):
        yield found


def id_of(tensor: Tensor) -> int:
    """The identity of a tensor's storage, the same for all views of it."""
    return int(tensor.untyped_storage()._cdata)


def total_bytes(tensors: list[Tensor]) -> int:
    """Each storage once."""
    return sum(
        {id_of(tensor): tensor.untyped_storage().nbytes() for tensor in tensors if tensor.layout == torch.strided}.values()
    )
