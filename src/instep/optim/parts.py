"""Parts of a model, as people name them: by a name, a pattern, or the module itself.

A name (`base`, `base.0.weight`) stands for a module and all that is in it, or for one parameter. A pattern (`*.bias`, `layers.?`)
stands for everything whose name it matches, and all that is in that; `*` crosses dots, and alone it is the whole model.
Names are those of `named_parameters()`, without what torch.compile and data-parallel wrappers put into them.
"""

import difflib
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from typing import NamedTuple

from torch import Tensor, nn
from torch.nn.parallel import DataParallel, DistributedDataParallel
from torch.optim import Optimizer

from instep.errors import DescriptionError
from instep.records import record_class
from instep.text import listed

What = str | nn.Module
Meant = Callable[[Tensor], bool]  # whether an option acts on a parameter

_NORMS = (nn.LayerNorm, nn.RMSNorm)  # those whose weights can have two dimensions; one dimension is enough for all others


class Slot(NamedTuple):
    """One name of a parameter; a tied parameter has several."""

    name: str
    parameter: nn.Parameter
    owner: nn.Module
    attribute: str  # its name in the owner

    @property
    def is_bias_or_norm(self) -> bool:
        """Whether it has fewer than two dimensions, is called a bias, or belongs to a norm layer."""
        called_bias = self.attribute == "bias" or self.attribute.startswith("bias_") or self.attribute.endswith("_bias")
        return self.parameter.ndim < 2 or called_bias or isinstance(self.owner, _NORMS)


@record_class
class Part:
    """What a name, a pattern or a module stands for in one model."""

    label: str
    names: tuple[str, ...]  # one pattern, or exact names: a module that is used twice has two
    is_pattern: bool

    def anchor(self, name: str) -> str | None:
        """The outermost name on the way to `name` that this part stands for; None where `name` is no part of it."""
        return next((outer for outer in _way_to(name) if self._says(outer)), None)

    def _says(self, name: str) -> bool:
        return fnmatchcase(name, self.names[0]) if self.is_pattern else name in self.names


def modules_of(model: nn.Module) -> list[tuple[str, nn.Module]]:
    """Every module under every name that it has, in the order of definition; the model itself is ""."""
    return [(_plain(name, model), module) for name, module in model.named_modules(remove_duplicate=False)]


def slots_of(model: nn.Module) -> list[Slot]:
    """Every parameter under every name that it has, in the order of definition."""
    return [
        Slot(f"{name}.{attribute}" if name else attribute, parameter, module, attribute)
        for name, module in modules_of(model)
        for attribute, parameter in module.named_parameters(recurse=False, remove_duplicate=False)
    ]


def part_of(model: nn.Module, what: What) -> Part:
    """The part that `what` stands for; raises where the model has no such thing."""
    modules = modules_of(model)
    if isinstance(what, nn.Module):
        names = tuple(name for name, module in modules if module is what)
        if not names:
            raise DescriptionError(
                f"the {type(what).__name__} is no part of this {type(model).__name__}; "
                "pass a module of this model, or its name as text."
            )
        return Part(names[0], names, is_pattern=False)
    if not isinstance(what, str):
        raise DescriptionError(f"{what!r} names no part of a model; use text such as 'base' or '*.bias', or a module.")
    part = Part(what, (what,), is_pattern=any(sign in what for sign in "*?["))
    names = (*(name for name, _ in modules), *(slot.name for slot in slots_of(model)))
    if not what or all(part.anchor(name) is None for name in names):
        raise DescriptionError(f"{what!r} matches no module and no parameter of {type(model).__name__}; {_advice(what, names)}")
    return part


def depth(name: str) -> int:
    """How far inside the model a name is: 0 for the model itself."""
    return name.count(".") + 1 if name else 0


def _way_to(name: str) -> Iterator[str]:
    """`a.b.c` is reached through the model itself (""), `a` and `a.b`."""
    yield ""
    for position, sign in enumerate(name):
        if sign == ".":
            yield name[:position]
    if name:
        yield name


def _plain(name: str, model: nn.Module) -> str:
    if isinstance(model, DistributedDataParallel | DataParallel):
        name = name.removeprefix("module").removeprefix(".")
    return ".".join(piece for piece in name.split(".") if piece != "_orig_mod") if "_orig_mod" in name else name


def _advice(what: str, names: tuple[str, ...]) -> str:
    near = difflib.get_close_matches(what, [name for name in names if name], n=1, cutoff=0.75)
    if near:
        return f"did you mean {near[0]!r}?"
    top = list(dict.fromkeys(name.split(".")[0] for name in names if name))
    return f"it is made of {', '.join(top[:12])}{', …' if len(top) > 12 else ''}."


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
