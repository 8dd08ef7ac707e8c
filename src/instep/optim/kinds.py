"""Kinds of parameters and gradients that an option cannot take, by the names that the parameters have."""

from collections.abc import Callable, Iterator

from torch import Tensor, nn
from torch.optim import Optimizer

from instep.errors import DescriptionError
from instep.optim.parts import slots_of
from instep.text import listed

Meant = Callable[[Tensor], bool]  # whether an option acts on a parameter


def named_in_groups(optimizer: Optimizer, model: nn.Module | None = None) -> Iterator[tuple[str, Tensor]]:
    """The parameters of an optimizer; with `model` under their names in it, else under those that the groups have for them."""
    names = {id(slot.parameter): slot.name for slot in reversed(slots_of(model))} if model is not None else {}
    for index, group in enumerate(optimizer.param_groups):
        own_names = group.get("param_names") or [
            f"parameter {i} of group {group.get('name', index)!r}" for i in range(len(group["params"]))
        ]
        for own_name, parameter in zip(own_names, group["params"], strict=True):
            yield names.get(id(parameter), own_name), parameter


def require_dense(option: str, verb: str, optimizer: Optimizer, model: nn.Module | None, *, is_meant: Meant) -> None:
    """Raises where an option cannot be used since a gradient is sparse: one that is there, or that a layer is going to make."""
    of_layers = set() if model is None else {module.weight for module in model.modules() if _is_sparse(module)}
    names = [
        name
        for name, p in named_in_groups(optimizer, model)
        if p.requires_grad and is_meant(p) and (p in of_layers or (p.grad is not None and p.grad.is_sparse))
    ]
    if names:
        raise DescriptionError(
            f"{option} cannot {verb} the sparse gradient of {listed(names, most=8)}; make its layer with sparse=False, or leave "
            f"{option.partition('=')[0]}= out."
        )


def _is_sparse(module: nn.Module) -> bool:
    return isinstance(module, nn.Embedding | nn.EmbeddingBag) and module.sparse
