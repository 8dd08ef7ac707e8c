"""Leaves of a graph to which its backward brings no gradient: a function of the user's own gives None for them."""

import weakref
from collections.abc import Iterable, Iterator

from torch import Tensor

from instep.doctor.watch.gradients import Parameter


class UnfedLeaves:
    """What the backwards of the graphs that were walked have left."""

    def __init__(self, parameters: dict[int, Parameter]) -> None:
        self._parameters = parameters
        # leaves, in how many walks they had no gradient afterwards (-1: they had one), and what is known of them
        self._all: dict[int, tuple[weakref.ref[Tensor], int, str, Parameter | None]] = {}

    def note(self, walked: Iterable["weakref.ref[Tensor]"]) -> None:
        """Look at the leaves of a graph after its backward."""
        for reference in walked:
            leaf = reference()
            if leaf is None:
                continue
            known = self._parameters.get(id(leaf))
            fed = leaf.grad is not None or bool(known.arrivals if known is not None else leaf._post_accumulate_grad_hooks)
            before = self._all.get(id(leaf))
            count = before[1] if before is not None and before[0]() is leaf else 0
            self._all[id(leaf)] = (reference, -1 if fed or count < 0 else count + 1, f"tensor{tuple(leaf.shape)}", known)

    def has(self, tensor: Tensor) -> bool:
        """Whether it is one of them."""
        found = self._all.get(id(tensor))
        return found is not None and found[0]() is tensor and found[1] >= 2

    def names(self) -> Iterator[str]:
        """Those that are in no optimizer."""
        for _, count, name, known in self._all.values():
            if count >= 2 and (known is None or not (known.optimizers or known.arrivals)):
                yield name
