"""Sharding: each process holds a share of every parameter, its gradient and its optimizer state; torch's FSDP2 does the work.

A model is cut into units. A unit's parameters are put together from all processes right before it computes, and let go
right after; its gradients are reduced to the shares in backward. A unit is therefore what has to fit in memory at once.
"""

import inspect
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.distributed.agreement import require_same
from instep.distributed.dtensors import Shard, is_sharded
from instep.distributed.world import World
from instep.errors import DescriptionError
from instep.text import listed


def require_shardable(shard: Shard, optimizer: Any, model: nn.Module, refused: Mapping[str, Any]) -> None:
    """That what was asked for goes together with shard=; `refused` are other arguments, each of which must not be set."""
    if not isinstance(shard, bool) and not (
        isinstance(shard, str) or (isinstance(shard, Sequence) and shard and all(isinstance(one, str) for one in shard))
    ):
        raise DescriptionError(f'shard={shard!r} is not known; use True, a pattern of module names like "blocks.*", or several.')
    if isinstance(optimizer, Optimizer):
        raise DescriptionError(
            f"shard={shard!r} needs optimizer= as a function of the parameters, like optimizer=lambda parameters: "
            f"{type(optimizer).__name__}(parameters, lr=…): an optimizer that exists holds the unsharded ones."
        )
    if isinstance(optimizer, Mapping) or isinstance(model, nn.ModuleDict):
        raise DescriptionError(f"shard={shard!r} works with one model and one optimizer so far; leave shard out.")
    for name, value in refused.items():
        if value:
            raise DescriptionError(f"shard={shard!r} cannot be used together with {name}={value!r} so far; leave one out.")
    units_of(model, shard)


def units_of(model: nn.Module, shard: Shard) -> dict[str, nn.Module]:
    """The modules that are put together one at a time, inner ones first; the rest of the model is one more."""
    if shard is True:
        found = dict(_repeated(model))
    else:
        patterns = [shard] if isinstance(shard, str) else list(shard) if shard else []
        modules = {name: module for name, module in model.named_modules() if name and _has_parameters(module)}
        found = {name: module for name, module in modules.items() if any(_fits(name, pattern) for pattern in patterns)}
        for pattern in patterns:
            if not any(_fits(name, pattern) for name in found):
                some = ", ".join(list(modules)[:8])
                raise DescriptionError(f"shard={pattern!r} fits no module of the model that has parameters; there are {some}.")
    lists = [name for name, module in found.items() if isinstance(module, nn.ModuleList | nn.ModuleDict)]
    if lists:
        raise DescriptionError(f"shard= names {lists[0]}, a list of modules, which is never called itself; use {lists[0]}.*")
    _require_fit(model, found)
    return dict(sorted(found.items(), key=lambda item: -item[0].count(".")))


def shard_model(world: World, model: nn.Module, shard: Shard, device: torch.device) -> list[str]:
    """Shard a model in place, and say how. All processes begin with the same whole model, on the host or on the device."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import FSDPModule, fully_shard

    if not callable(getattr(FSDPModule, "set_reduce_scatter_unused_params", None)):
        raise DescriptionError(f"shard={shard!r} needs torch 2.13 or newer; this is {torch.__version__}.")
    units = units_of(model, shard)
    require_same(world, {"shard": list(units)})
    mesh = init_device_mesh(device.type, (world.size,))
    for unit in (*units.values(), model):
        fully_shard(unit, mesh=mesh, reshard_after_forward=True)
    assert isinstance(model, FSDPModule)
    model.set_reduce_scatter_unused_params(True)  # a branch that one process did not take would let the others wait
    named = f"{listed(units, 4)}, and the rest" if units else "the model as one unit"
    return [f"sharded over {world.size} processes: {named}"]


class Shares:
    """Which rows of a checkpoint's tensors this process holds: those of parameters, and of optimizer state in their shape."""

    def __init__(self, world: World, model: nn.Module) -> None:
        self._world = world
        self._parameters = dict(model.named_parameters(remove_duplicate=False))

    def rows(self, part: str, name: str, shape: Sequence[int]) -> tuple[int, int] | None:
        """From where to where; None for all of a tensor that everybody holds."""
        if self._parameter(part, name, shape) is None:
            return None
        each = -(-shape[0] // self._world.size)
        begin = min(each * self._world.rank, shape[0])
        return begin, min(begin + each, shape[0])

    def made(self, part: str, name: str, shape: Sequence[int], rows: Tensor) -> Tensor:
        """The sharded tensor of which these rows are held here."""
        from torch.distributed.tensor import DTensor

        parameter: Any = self._parameter(part, name, shape)
        return DTensor.from_local(
            rows.to(parameter.device),
            parameter.device_mesh,
            parameter.placements,
            run_check=False,
            shape=torch.Size(shape),
            stride=torch.empty(tuple(shape), device="meta").stride(),
        )

    def _parameter(self, part: str, name: str, shape: Sequence[int]) -> Tensor | None:
        """The parameter whose form a tensor has: "model" keeps it under its name, "optimizer" as state/name/what."""
        if part == "optimizer" and name.startswith("state/"):
            name = name.removeprefix("state/").rpartition("/")[0]
        elif part != "model":
            return None
        found = self._parameters.get(name)
        return found if found is not None and list(found.shape) == list(shape) else None


def require_sharded(optimizer: Optimizer, *, in_shares: bool) -> None:
    """That an optimizer can work on shares, and where there are any, does."""
    kind = type(optimizer)
    closure = inspect.signature(kind.step).parameters.get("closure")
    if closure is not None and closure.default is inspect.Parameter.empty:
        raise DescriptionError(
            f"{kind.__name__} evaluates the loss several times a step, which shard= cannot do; use another one."
        )
    if kind.state_dict is not Optimizer.state_dict or callable(getattr(optimizer, "train", None)):
        raise DescriptionError(
            f"{kind.__name__} keeps its state in a way of its own, which shard= cannot share; use another one."
        )
    if in_shares and not all(is_sharded(p) for group in optimizer.param_groups for p in group["params"]):
        raise DescriptionError("shard=: the optimizer holds parameters that are not the model's; put them into the model.")


def _repeated(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """The blocks in the outermost lists of modules, as transformers have them."""
    found: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.ModuleList) and not any(name.startswith(f"{outer}.") for outer, _ in found):
            prefix = f"{name}." if name else ""
            found += [(f"{prefix}{key}", child) for key, child in module.named_children() if _is_block(child)]
    return found


def _is_block(module: nn.Module) -> bool:
    return _has_parameters(module) and not isinstance(module, nn.ModuleList | nn.ModuleDict)


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


def _fits(name: str, pattern: str) -> bool:
    """`blocks.*` is every child of `blocks`, and nothing inside of them."""
    names, patterns = name.split("."), pattern.split(".")
    return len(names) == len(patterns) and all(map(fnmatchcase, names, patterns))


def _require_fit(model: nn.Module, units: Mapping[str, nn.Module]) -> None:
    """What torch would refuse later, or in words of its own."""
    for name, p in model.named_parameters():
        if p.ndim == 0:
            raise DescriptionError(f"shard=: {name} is a single number, which has no rows to share; give it the shape (1,).")
    owner: dict[Tensor, str] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        unit = max((one for one in units if name.startswith(f"{one}.")), key=len, default="the rest of the model")
        if owner.setdefault(p, unit) != unit:
            raise DescriptionError(f"shard=: {name} belongs to {owner[p]} and to {unit}; tied parameters must be in one unit.")
