"""LeftAsFound: whoever looks at a run's modules and objectives leaves buffers, attributes and generators as they were.

A forward in eval mode may still change a buffer, count its calls or draw from a generator of its own. The first look of a kind
keeps a copy of everything, and sees what changes; later ones keep that alone, which is nothing for most models.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch has it, its stubs do not

from instep.errors import give_notice
from instep.loop.holders import ModuleNames, Names
from instep.loop.saved_state import SavedState
from instep.text import listed


class LeftAsFound:
    """Around every evaluation and prediction of a run; parameters are not written to by a forward, and not kept."""

    def __init__(self, modules: Sequence[nn.Module], objects: Iterable[Any] = ()) -> None:
        self._modules = list(modules)
        self._objects = list(objects)
        self._changing: dict[Hashable, list[Any]] = {}  # what looks of a kind have changed
        self._said: set[str] = set()

    @contextmanager
    def looking(self, kind: Hashable) -> Iterator[None]:
        """Looks of one kind call the same code, so that they change the same things."""
        watched = self._changing.get(kind)
        kept = self._keep(watched) if watched is None or watched else []
        lengths = {} if watched is not None else _lengths(part for part, _ in kept)
        try:
            yield
        finally:
            now = _lengths(part for part, _ in kept)
            grown = [name for name, length in lengths.items() if now.get(name, 0) > length and name not in self._said]
            self._said.update(grown)
            changed = [part for part, state in kept if state.put_back()]
        self._changing.setdefault(kind, changed)  # a look that failed has not shown everything
        if grown:
            give_notice(
                f"{listed(grown)} grew while the model was looked at, and was put back: evaluating and predicting change nothing "
                "that a model or an objective holds. To collect something meanwhile, use a metric or a hook."
            )

    def _keep(self, watched: list[Any] | None) -> list[tuple[Any, SavedState]]:
        parts = [part for module in self._modules for part in module.modules()]
        tensors = [tensor for module in self._modules for tensor in _left(module)]
        leave = {id(thing): thing for thing in (*parts, *tensors)}
        return [(part, _save(part, leave)) for part in (watched if watched is not None else [*parts, *self._objects])]


def _lengths(parts: Iterable[Any]) -> dict[str, int]:
    """Of the lists and sets that these hold by name: what somebody collects looks like that."""
    found: dict[str, int] = {}
    for part in parts:
        owner = "" if isinstance(part, Names) else f"{type(part).__name__}."
        held = part if isinstance(part, Names) else Names(vars(part))
        found |= {f"{owner}{name}": len(value) for name, value in held.items().items() if isinstance(value, list | deque | set)}
    return found


def _save(part: Any, leave: Mapping[int, Any]) -> SavedState:
    """A module with its own buffers and attributes, but not with the modules inside; or another object as a whole."""
    if not isinstance(part, nn.Module):
        return SavedState(part, leave=leave)
    buffers = part._buffers if isinstance(part._buffers, dict) else dict(part.named_buffers(recurse=False))  # of a script
    return SavedState(ModuleNames(part), buffers, leave=leave)


def _left(module: nn.Module) -> Iterator[Tensor]:
    yield from module.parameters()
    yield from (buffer for buffer in module.buffers() if isinstance(buffer, UninitializedTensorMixin))
