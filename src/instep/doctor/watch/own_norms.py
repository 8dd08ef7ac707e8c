"""Norms of the user's own that call torch's function: a module that is no BatchNorm and normalises by `F.batch_norm`."""

import weakref
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import CallWatch
from instep.doctor.watch.norms import LIMIT, Norm, Norms


class OwnNormWatch:
    """Adds to `Norms` how many samples they see."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part = trace.part(Norms)
        self._calls: CallWatch | None = None
        self._norms: dict[int, Norm] = {}

    def install(self, observers: list[object]) -> None:
        self._calls = next(observer for observer in observers if isinstance(observer, CallWatch))

    def remove(self) -> None: ...

    def after_normalises(self, called: Called) -> None:
        assert self._calls is not None
        stack, call, input = self._calls._stack, self._calls._call, called.argument(0, "input")
        if call is None or not stack or isinstance(stack[-1], _BatchNorm) or not isinstance(input, Tensor) or input.dim() < 2:
            return
        mean, owner = called.argument(1, "running_mean"), stack[-1]
        if mean is None or not _keeps(owner, mean):
            return
        norm = self._norms.get(id(owner))
        if norm is None:
            norm = self._norms[id(owner)] = Norm(type(owner).__name__, call.root, input.shape[1], False)
            weakref.finalize(owner, self._norms.pop, id(owner), None).atexit = False
            if len(self._part.all) < LIMIT:
                self._part.all.append(norm)
        if not called.argument(5, "training", False):
            norm.eval_calls += 1
            return
        norm.train_calls += 1
        norm.live += 1
        if call.grad:
            norm.graded += 1
            norm.ones += input.shape[0] == 1
            norm.ones_site = call.site


def _keeps(owner: nn.Module, mean: Any) -> bool:
    """Whether statistics are kept, as far as is known: not those that a module repeats for each sample, to norm it by itself."""
    own = [each for each in owner.buffers(recurse=False) if each.dim() == 1]
    return not own or any(each is mean for each in own)


PATCHES = [Patch("normalises", ("torch.nn.functional:batch_norm",))]
OBSERVERS = [OwnNormWatch]
