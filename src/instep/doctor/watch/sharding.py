"""Samplers that shard data over processes, and DistributedDataParallel: what epochs they are in, and what goes past them."""

import weakref
from typing import Any

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DistributedSampler

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Pass, sampler_of
from instep.doctor.watch.ranks import LIMIT, Bypass, Ranks, Sharded


class SamplerWatch:
    """Fills `Ranks.samplers`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(Ranks)
        self._known: dict[int, Sharded] = {}
        self._open: tuple[Pass, Sharded, int] | None = None
        self._noted = False

    def on_pass_begins(self, begun: Pass, dataloader: Any) -> None:
        self._open = None
        sampler = sampler_of(dataloader)
        if not isinstance(sampler, DistributedSampler) or not sampler.shuffle:
            return
        sharded = self._known.get(id(sampler))
        if sharded is None:
            sharded = self._known[id(sampler)] = Sharded(begun.site, self._trace.steps, sampler.num_replicas)
            weakref.finalize(sampler, self._known.pop, id(sampler), None).atexit = False
            if len(self._part.samplers) < LIMIT:
                self._part.samplers.append(sharded)
        self._open, self._noted = (begun, sharded, int(sampler.epoch)), False

    def on_batch(self, going_on: Pass, _: Any) -> None:
        if (
            self._open is not None
            and self._open[0] is going_on
            and going_on.batches >= 2
            and going_on.backwards >= 1
            and not self._noted
        ):
            self._note()

    def on_pass_ends(self, ended: Pass) -> None:
        if self._open is not None and self._open[0] is ended:
            if ended.backwards and ended.batches >= 2 and not self._noted:
                self._note()
            self._open = None

    def _note(self) -> None:
        assert self._open is not None
        begun, sharded, epoch = self._open
        self._noted = True
        sharded.epochs.append(epoch)
        sharded.site = begun.site  # where it trains, not where somebody peeked


_FORWARD = DistributedDataParallel.forward.__code__


class WrapperWatch:
    """Fills `Ranks.bypasses`: forwards of what DistributedDataParallel wraps, past it, that led to a backward."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part, self._locator = trace, trace.part(Ranks), hub.locator
        self._inside: dict[int, weakref.ref[nn.Module]] = {}  # modules inside a wrapper
        self._open: list[tuple[str | None, str, int]] = []

    def after_wrap(self, called: Called) -> None:
        wrapper = called.args[0]
        self._part.wrapped += 1
        for module in wrapper.module.modules():
            if len(self._inside) < 4096:
                self._inside[id(module)] = weakref.ref(module)

    def before_call(self, call: Call) -> None:
        if not self._inside or not call.grad:
            return
        if isinstance(call.module, DistributedDataParallel):
            self._part.forwards += 1
            return
        known = self._inside.get(id(call.module))
        if known is None or known() is not call.module:
            return
        if any(frame.f_code is _FORWARD for frame in self._locator.frames()):  # `wrapper.forward(x)`: no call of a module
            self._part.forwards += 1
        elif len(self._open) < 64:
            self._open.append((call.site, call.root.name, call.step))

    def on_backward(self, _: Backward, tensor: Tensor) -> None:
        for site, name, step in {entry[0]: entry for entry in self._open}.values():
            bypass = self._part.bypasses.get(site)
            if bypass is None:
                bypass = self._part.bypasses[site] = Bypass(site, name, step)
            bypass.trained += 1
        self._open.clear()


PATCHES = [Patch("wrap", ("torch.nn.parallel.distributed:DistributedDataParallel.__init__",), always=True)]
OBSERVERS = [SamplerWatch, WrapperWatch]
