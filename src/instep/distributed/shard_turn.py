"""Gradients of a sharded model: FSDP2 reduces them in each backward, so that nobody ever holds those of the whole model."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.distributed.dtensors import is_sharded
from instep.distributed.interrupt import Stopping
from instep.distributed.stand_in import StandIn
from instep.distributed.turn import Sums, Turn
from instep.distributed.world import World


class ShardTurn(Turn):
    """The exchange of a sharded model.

    A micro-batch that adds nothing (a stand-in, nothing in it counts, its loss is not finite) goes back from the outputs of the
    model with zeros: the others wait for it in every unit.
    """

    def __init__(self, model: nn.Module, world: World, stopping: Stopping, *, batch_size: int, device: torch.device) -> None:
        super().__init__(world, stopping, batch_size=batch_size, device=device)
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

    def _begin(self, optimizer: Optimizer) -> None:
        held = {p for group in optimizer.param_groups for p in group["params"]}
        self._trained = {name: p for name, p in self._model.named_parameters() if p.requires_grad and p in held}
        self._parameters = list(self._trained.values())
        self._used.clear()
        self._outputs.clear()

    def _backward(
        self, sums: Sums, micro_batches: list[Any], forward: Callable[[Any], Any], go_back: Callable[[Tensor], None]
    ) -> set[Tensor]:
        """All micro-batches; every backward is one of all processes, so nobody waits afterwards. Says which none has reached."""
        for micro_batch in micro_batches:
            loss = forward(micro_batch)
            value = None if isinstance(micro_batch, StandIn) else sums.add(loss)
            outputs, self._outputs = self._outputs, []
            self._counts = value is not None
            if value is not None:
                go_back(value)
            elif outputs:
                torch.autograd.backward(outputs, [torch.zeros_like(output) for output in outputs])
        return {p for name, p in self._trained.items() if name not in self._used}

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


def _is_unit(module: nn.Module) -> bool:
    from torch.distributed.fsdp import FSDPModule

    return isinstance(module, FSDPModule)
