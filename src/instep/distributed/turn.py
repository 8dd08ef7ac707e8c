"""A turn: how the gradients of one optimizer are exchanged with the same optimizer on the other processes, once an update.

DistributedDataParallel does it, while the last backward is still going on. It is put round a module that holds the parameters and
nothing else, and calls whatever it is given: so an objective gets the user's own model, with all its methods, and each of several
objectives has an exchange of its own. It knows nothing of the earlier micro-batches.

Counts, losses and flags travel as the gradient of one more parameter, in the same message as other gradients: processes wait for
each other once an update, not twice.

DistributedDataParallel waits for every parameter on every process. Those that one has no gradient for (its part of the batch is
empty, nothing in it counts, a branch was not taken) go backward with zeros there: nobody waits for ever, nothing is skipped.
"""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain
from typing import Any, Protocol, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from instep.distributed.dtensors import is_sharded
from instep.distributed.interrupt import Stopping
from instep.distributed.packed_numbers import dtype_for, pack, packed_length, unpack
from instep.distributed.stand_in import StandIn
from instep.distributed.world import World
from instep.errors import NonFiniteLoss

T = TypeVar("T")

FLAGS = 5  # a gradient is lacking; two signals; losses have parts; some of them are new


class Sums(Protocol):
    """What a process adds up over its micro-batches, and takes over from all of them."""

    bad_on_host: bool
    length: int  # of its numbers

    def add(self, loss: Any) -> Tensor | None: ...
    def numbers(self, device: torch.device) -> Tensor: ...
    def take(self, totals: Tensor, pieces_at_most: int) -> None: ...
    def nonfinite(self) -> float | None: ...

    @property
    def part_names(self) -> tuple[str, ...]: ...
    def part_numbers(self, names: Sequence[str], device: torch.device) -> Tensor: ...
    def take_parts(self, names: Sequence[str], told: Tensor) -> None: ...


class Turn:
    """The exchange of one optimizer."""

    def __init__(self, world: World, stopping: Stopping, *, reference: float, device: torch.device) -> None:
        self._world = world
        self._stopping = stopping
        self.reference = reference  # the samples of a batch that are one process's
        self.processes = world.size
        self._device = device
        self._parameters: list[Tensor] = []
        self._wrapped: DistributedDataParallel | None = None
        self._told = nn.Parameter(torch.zeros(0))  # its gradient is what the processes tell each other
        self._part_names: tuple[str, ...] = ()  # of the losses, as all processes know them
        self._flags_apart = device.type != "cpu" and world.reaches_hosts

    def backward(
        self,
        optimizer: Optimizer,
        sums: Sums,
        micro_batches: list[Any],
        forward: Callable[[Any], Any],
        *,
        scale: Callable[[Tensor], Tensor],
        stop_on_bad: bool,
    ) -> None:
        """Forward and backward where other processes have the rest of the batch, and the exchange with them.

        A process that has nothing to go back through goes through with zeros: the others wait for it.
        """
        self._begin(optimizer, sums)
        missing, lacking = self._backward(sums, micro_batches, forward, scale)
        self._exchange(sums, missing, lacking, stop_on_bad=stop_on_bad)

    def _begin(self, optimizer: Optimizer, sums: Sums) -> None:
        """Before the first forward of a cycle; what is trained may have changed since the last one."""
        trained = [p for group in optimizer.param_groups for p in group["params"] if p.requires_grad]
        if self._wrapped is None or len(trained) != len(self._parameters) or any(map(_is_other, trained, self._parameters)):
            self._wrapped = None  # the old one lets go of its hooks first
            self._parameters = trained
            dtype = dtype_for(trained)
            length = packed_length(sums.length + (0 if self._flags_apart else FLAGS), dtype)
            self._told = nn.Parameter(torch.zeros(length, dtype=dtype, device=self._device))
            self._wrapped = DistributedDataParallel(_Parameters([self._told, *trained]), init_sync=False)
            self._settle_groups(self._wrapped)

    def _settle_groups(self, wrapped: DistributedDataParallel) -> None:
        """A backward of zeros, after which DistributedDataParallel groups the gradients once and for all.

        How they are grouped decides the order in which three or more are added. After an update of the run it would be another
        one than in the first update, and a run that is resumed begins with a first update.
        """
        gradients = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None  # what is there already is not for the others
        wrapped(lambda: None)
        last_first = [*self._parameters[::-1], self._told]
        torch.autograd.backward(last_first, [torch.zeros_like(parameter) for parameter in last_first])
        self._told.grad = None
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient

    def _backward(
        self, sums: Sums, micro_batches: list[Any], forward: Callable[[Any], Any], scale: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], set[Tensor]]:
        """All micro-batches; the gradients are exchanged from the last backward on.

        Returns the parameters that this one did not reach, and those of them that have no gradient here at all.
        """
        assert self._wrapped is not None
        for micro_batch in micro_batches[:-1]:
            value = sums.add(forward(micro_batch))
            if value is not None:
                scale(value).backward()
        versions = [None if p.grad is None else p.grad._version for p in self._parameters]
        loss = self._wrapped(lambda: forward(micro_batches[-1]) if micro_batches else None)
        value = None if loss is None else sums.add(loss)
        if value is not None:
            scale(value).backward()
        missing = [
            p for p, version in zip(self._parameters, versions, strict=True) if p.grad is None or p.grad._version == version
        ]
        return missing, {parameter for parameter in missing if parameter.grad is None}

    def _exchange(self, sums: Sums, missing: list[Tensor], lacking: set[Tensor], *, stop_on_bad: bool) -> None:
        """Counts, losses and flags of all processes, once an update. `missing` are the parameters that the others wait for.

        On an accelerator the flags, which the host knows and has to know, go between the hosts: nobody waits for the device.
        """
        numbers, own = sums.numbers(self._device), [*self._stopping.flags(bool(lacking)), *self._part_flags(sums)]
        flags = torch.tensor(own, dtype=torch.float64)
        if self._flags_apart:
            numbers = self._sum(numbers, missing)
            self._world.sum(flags)
        else:
            totals = self._sum(torch.cat([numbers, flags.to(self._device)]), missing)
            numbers, flags = totals[: sums.length], totals[sums.length :]
        sums.take(numbers, self._world.size)
        *stopping, with_parts, with_new_parts = flags.tolist()
        if self._stopping.take(stopping):
            self._leave_unused(lacking)
        if with_parts:
            self._exchange_parts(sums, are_new=bool(with_new_parts))
        if stop_on_bad and sums.bad_on_host:
            raise self._not_finite(sums)

    def _sum(self, numbers: Tensor, missing: list[Tensor]) -> Tensor:
        """The sums over all processes; ends the exchange of the gradients."""
        zeros = [torch.zeros_like(parameter) for parameter in missing]
        own = pack(numbers, self._told.dtype) * self.processes  # their mean is the sum
        torch.autograd.backward([*missing, self._told], [*zeros, own])
        told, self._told.grad = self._told.grad, None
        assert told is not None
        return unpack(told, self.processes)

    def _part_flags(self, sums: Sums) -> tuple[float, float]:
        """Whether losses of this process have parts, and ones that not all processes know of."""
        names = sums.part_names
        return float(bool(names)), float(not set(names) <= set(self._part_names))

    def _exchange_parts(self, sums: Sums, *, are_new: bool) -> None:
        """The parts of the losses of all processes; only runs that have some come here."""
        if are_new:
            self._part_names = tuple(sorted({*self._part_names, *chain(*self._world.gather_objects(sums.part_names))}))
        sums.take_parts(self._part_names, self._world.sum(sums.part_numbers(self._part_names, self._device)))

    def _leave_unused(self, lacking: set[Tensor]) -> None:
        """A parameter that no process has a gradient for keeps none: an optimizer leaves it alone, as on one process."""
        used = torch.tensor([p not in lacking for p in self._parameters], dtype=torch.int32, device=self._device)
        dist.all_reduce(used, dist.ReduceOp.MAX)
        for parameter, is_used in zip(self._parameters, used.tolist(), strict=True):
            if not is_used:
                parameter.grad = None

    def _not_finite(self, sums: Sums) -> NonFiniteLoss:
        here = sums.nonfinite()
        by_rank = self._world.gather_objects(here)
        if here is not None:
            return NonFiniteLoss(f"the loss of a micro-batch of rank {self._world.rank} is {here}; no step was made.")
        where = ", ".join(f"{value} on rank {rank}" for rank, value in enumerate(by_rank) if value is not None)
        return NonFiniteLoss(f"the loss is {where}, where its samples are named; no step was made.", elsewhere=True)


class ShardTurn(Turn):
    """The gradients of a sharded model: each backward reduces them, so that nobody ever holds those of the whole model.

    A micro-batch that adds nothing (a stand-in, nothing in it counts, its loss is not finite) goes back from the outputs of the
    model with zeros: the others wait for it in every unit.
    """

    def __init__(self, model: nn.Module, world: World, stopping: Stopping, *, reference: float, device: torch.device) -> None:
        super().__init__(world, stopping, reference=reference, device=device)
        self._model = model
        self._trained: dict[str, Tensor] = {}
        self._outputs: list[Tensor] = []  # that take a gradient
        self._used: set[str] = set()
        self._watched: dict[Tensor, Any] = {}
        self._counts = True  # whether the backward that is going on adds something
        for name, unit in model.named_modules():
            if _is_unit(unit):
                unit.register_forward_pre_hook(partial(self._watch, f"{name}." if name else ""))
        model.register_forward_hook(self._keep)

    def _begin(self, optimizer: Optimizer, sums: Sums) -> None:
        held = {p for group in optimizer.param_groups for p in group["params"]}
        self._trained = {name: p for name, p in self._model.named_parameters() if p.requires_grad and p in held}
        self._parameters = list(self._trained.values())
        self._used.clear()
        self._outputs.clear()

    def _backward(
        self, sums: Sums, micro_batches: list[Any], forward: Callable[[Any], Any], scale: Callable[[Tensor], Tensor]
    ) -> tuple[list[Tensor], set[Tensor]]:
        """All micro-batches; every backward is one of all processes, so nobody waits afterwards. Says which none has reached."""
        for micro_batch in micro_batches:
            loss = forward(micro_batch)
            value = None if isinstance(micro_batch, StandIn) else sums.add(loss)
            outputs, self._outputs = self._outputs, []
            self._counts = value is not None
            if value is not None:
                scale(value).backward()
            elif outputs:
                torch.autograd.backward(outputs, [torch.zeros_like(output) for output in outputs])
        return [], {p for name, p in self._trained.items() if name not in self._used}

    def _sum(self, numbers: Tensor, missing: list[Tensor]) -> Tensor:
        return self._world.sum(numbers)

    def _watch(self, prefix: str, unit: nn.Module, inputs: Any) -> None:
        """Note which parameters a backward reaches; here the unit's are whole, those of units inside it are not."""
        if torch.is_grad_enabled():
            for name, p in unit.named_parameters():
                if p.requires_grad and p not in self._watched and not is_sharded(p):
                    self._watched[p] = p.register_post_accumulate_grad_hook(partial(self._note, prefix + name))

    def _note(self, name: str, parameter: Tensor) -> None:
        if self._counts:
            self._used.add(name)

    def _keep(self, model: nn.Module, inputs: Any, output: Any) -> None:
        from torch.utils._pytree import tree_leaves  # what FSDP2 itself finds outputs with

        if torch.is_grad_enabled():
            self._outputs += [leaf for leaf in tree_leaves(output) if isinstance(leaf, Tensor) and leaf.requires_grad]


class _Parameters(nn.Module):
    """Parameters, and whatever is called while they train."""

    def __init__(self, parameters: list[Tensor]) -> None:
        super().__init__()
        for i, parameter in enumerate(parameters):
            self.register_parameter(str(i), parameter)  # type: ignore[arg-type]

    def forward(self, call: Callable[[], T]) -> T:
        return call()


def _is_other(one: Tensor, other: Tensor) -> bool:
    return one is not other


def _is_unit(module: nn.Module) -> bool:
    from torch.distributed.fsdp import FSDPModule

    return isinstance(module, FSDPModule)
