"""Several processes: whether their weights stay the same.

Nothing here waits for another process and nothing is sent between them by collectives: each leaves a short fingerprint of its
weights in the store that the process group began with, and looks at those that are there already.
"""

import json
from collections import deque
from dataclasses import field
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import Step

CLOSELY, EVERY = 32, 8  # steps of an optimizer that are compared one by one, then every eighth
ELEMENTS = 1 << 20  # weights that a fingerprint reads at most
TENSORS = 48
LIMIT = 64
LARGE = 32  # elements below which what ranks exchange is a metric
TOLERANCE = 1e-5  # of the norm: sums over ranks come out the same on each, but need not to the last bit


@record_class
class Sharded:
    """One DistributedSampler that shuffles, and the epochs of the passes that trained with it."""

    site: str | None
    first_step: int
    replicas: int
    epochs: deque[int] = field(default_factory=lambda: deque(maxlen=64))  # of passes with two batches and a backward or more
    seeds: set[int] = field(default_factory=set)


@record_class
class Bypass:
    """Forwards from one line that reached a wrapped module without its wrapper."""

    site: str | None
    module: str
    first_step: int
    trained: int = 0  # that a backward followed


@record_class
class Divergence:
    """The weights of one optimizer here, next to those of other ranks."""

    site: str | None  # of its steps
    compared: int = 0
    apart: int = 0
    met_again: int = 0  # times they were the same after they had been apart
    since: int | None = None  # step
    largest: float = 0.0  # relative difference
    parameter: str = ""  # shape of the tensor that differs most
    other: int = 0  # rank


@part_class
class Ranks:
    """The part of the trace about processes."""

    rank: int = 0
    world: int = 1
    samplers: list[Sharded] = field(default_factory=list)
    wrapped: int = 0  # DistributedDataParallel made
    forwards: int = 0  # through the wrapper, with gradient
    bypasses: dict[str | None, Bypass] = field(default_factory=dict)
    reduced: int = 0  # all_reduce of gradients, by the script
    averaged: int = 0  # all_reduce or broadcast of weights after the first step, by the script
    divergences: dict[int, Divergence] = field(default_factory=dict)  # by number of the optimizer
    separate: bool = False  # weights are sharded or differ in shape: ranks are meant to differ


class RankWatch:
    """Fills the rest of `Ranks`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Ranks)
        self._pending: dict[int, deque[tuple[int, list[Any]]]] = {}
        self._collectives = 0
        self._own: dict[tuple[int, int], int] = {}  # place and size of weights -> 1, of gradients -> 2
        self._sizes: set[int] = set()  # of single weights, and of all together
        self._group: tuple[Any, int] | None = None

    def on_optimizer(self, record: Any, optimizer: torch.optim.Optimizer) -> None:
        self._place(optimizer)

    def _place(self, optimizer: torch.optim.Optimizer) -> None:
        tensors = [tensor for group in optimizer.param_groups for tensor in group["params"]]
        self._sizes |= {tensor.numel() for tensor in tensors} | {sum(tensor.numel() for tensor in tensors)}
        for tensor in tensors:
            if type(tensor) in (Tensor, nn.Parameter) and len(self._own) < 4096:
                self._own[tensor.data_ptr(), tensor.numel()] = 1
                if tensor.grad is not None:
                    self._own[tensor.grad.data_ptr(), tensor.numel()] = 2

    def before_collective(self, called: Called) -> None:
        """Whether the script itself keeps the ranks together: gradients are told by where they lie, weights by place or size."""
        self._collectives += 1
        if self._collectives > 1024 or not self._sizes:
            return
        for tensor in called.args[:2]:
            if type(tensor) not in (Tensor, nn.Parameter):
                continue
            kind = self._own.get((tensor.data_ptr(), tensor.numel()))  # a place alone may be another tensor's by now
            if called.function == "all_reduce" and kind != 1 and (kind == 2 or _is_gradient(tensor, self._trace)):
                self._part.reduced += 1
            elif self._trace.steps and (kind == 1 or (tensor.numel() >= LARGE and tensor.numel() in self._sizes)):
                self._part.averaged += 1

    def before_step(self, step: Step) -> None:
        """Before a step, not after it: whoever averages weights does so between two steps."""
        record, done = step.record, step.record.steps
        if step.inside or not (done < CLOSELY or done % EVERY == 0):
            return
        store = self._store()
        if store is None or self._part.separate:
            return
        if done <= 2:
            self._place(step.optimizer)
        prints = fingerprints(step.optimizer)
        if prints is None:
            self._part.separate = True
            return
        kept = self._part.divergences.setdefault(record.number, Divergence(step.site))
        kept.site = step.site
        try:
            store.set(_key(record.number, done, self._part.rank), json.dumps(prints))
        except RuntimeError:  # it ends with rank 0, which may be through with the script already
            return
        pending = self._pending.setdefault(record.number, deque(maxlen=64))
        pending.append((done, prints))
        self._compare(store, record.number, kept, pending)

    def on_end(self) -> None:
        store = self._store()
        for number, pending in self._pending.items():
            if store is not None:
                self._compare(store, number, self._part.divergences[number], pending)

    def _store(self) -> Any:
        """The store of the process group, where there are several ranks."""
        distributed = torch.distributed
        if not distributed.is_available() or not distributed.is_initialized():
            self._group = None
            return None
        group = distributed.group.WORLD
        if self._group is None or self._group[1] != id(group):
            self._group = (distributed.distributed_c10d._get_default_store(), id(group))
            self._part.rank, self._part.world = distributed.get_rank(), distributed.get_world_size()
        return self._group[0] if self._part.world > 1 else None

    def _compare(self, store: Any, number: int, kept: Divergence, pending: deque[tuple[int, list[Any]]]) -> None:
        """With one other rank, as far as it has come."""
        other = (self._part.rank + 1) % self._part.world
        while pending:
            steps, mine = pending[0]
            key = _key(number, steps, other)
            try:
                if not store.check([key]):
                    return
                theirs = json.loads(store.get(key))
            except Exception:  # the store may be gone when the script ends
                return
            pending.popleft()
            self._judge(kept, steps, mine, theirs, other)

    def _judge(self, kept: Divergence, steps: int, mine: list[Any], theirs: list[Any], other: int) -> None:
        if [each[0] for each in mine] != [each[0] for each in theirs]:
            self._part.separate = True
            return
        worst, shape = 0.0, ""
        for (size, total, norm), (_, their_total, their_norm) in zip(mine, theirs, strict=True):
            scale = max(norm, their_norm, 1e-12)
            difference = max(abs(total - their_total) / (scale * max(_count(size), 1) ** 0.5), abs(norm - their_norm) / scale)
            if difference > worst:
                worst, shape = difference, size
        kept.compared += 1
        if worst > TOLERANCE:
            kept.apart += 1
            kept.since = steps if kept.since is None else kept.since
            kept.other = other
            if worst > kept.largest:
                kept.largest, kept.parameter = worst, shape
        elif kept.apart:
            kept.met_again += 1


def fingerprints(optimizer: torch.optim.Optimizer) -> list[Any] | None:
    """Shape, sum and norm of the weights, of some where there are many; None for weights that are sharded by design."""
    chosen: list[Tensor] = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    if any(type(tensor) not in (Tensor, nn.Parameter) or getattr(tensor, "_is_flat_param", False) for tensor in chosen):
        return None
    chosen = chosen[:: max(len(chosen) // TENSORS, 1)][:TENSORS]
    read, facts, shapes = 0, [], []
    for tensor in chosen:
        if (read and read + tensor.numel() > ELEMENTS) or not tensor.is_floating_point() or tensor.device.type == "meta":
            continue
        read += tensor.numel()
        flat = tensor.detach().reshape(-1)[:ELEMENTS].double()
        facts.append(torch.stack([flat.sum(), flat.norm()]))
        shapes.append("x".join(map(str, tensor.shape)))
    values = torch.stack(facts).tolist() if facts else []
    return [[shape, *pair] for shape, pair in zip(shapes, values, strict=True)]


def _count(shape: str) -> int:
    count = 1
    for size in shape.split("x"):
        count *= int(size) if size else 1
    return count


def _key(number: int, steps: int, rank: int) -> str:
    return f"instep-doctor/{number}/{steps}/{rank}"


def _is_gradient(tensor: Tensor, trace: Trace) -> bool:
    """Whether a tensor lies where the gradient of a parameter does."""
    place = tensor.data_ptr()
    for parameter in trace.part(Gradients).parameters.values():
        owner = parameter.reference()
        if owner is not None and owner.grad is not None and owner.grad.data_ptr() == place:
            return owner.numel() == tensor.numel()
    return False


COLLECTIVES = (
    "all_reduce", "broadcast", "reduce", "all_gather", "all_gather_into_tensor", "gather", "scatter",
    "send", "recv", "isend", "irecv",
)  # fmt: skip
_MODULES = ("torch.distributed", "torch.distributed.distributed_c10d")
PATCHES = [
    Patch("collective", tuple(f"{module}:{name}" for module in _MODULES for name in COLLECTIVES)),
]
OBSERVERS = [RankWatch]
