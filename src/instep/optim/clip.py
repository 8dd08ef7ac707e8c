"""Clipping: gradients made smaller before a step, all together or by groups, and the names of those that are not finite.

The norms are torch's own; this file decides which parameters are measured together. Nothing is read back from the device while
training: the norm and whether it was clipped stay tensors.
"""

import math
from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_value_, clip_grads_with_norm_, get_total_norm
from torch.optim import Optimizer

from instep.distributed.dtensors import is_sharded, local, norm_of_all, summed, whole
from instep.errors import DescriptionError
from instep.optim.parts import named_in_groups, require_dense
from instep.text import listed

Limit = float | Mapping[str, float] | None
_Kind = Literal["clip_norm", "clip_value"]


class Clipped(NamedTuple):
    """What clipping did in one update; both are unread."""

    norm: Tensor | None  # of all gradients, before clipping; None where no norm is asked for
    clipped: Tensor  # a 0-dim bool: was anything above its limit?


class Clipping:
    """Clips the gradients of an optimizer's parameters, first by norm, then by value.

    A number holds for all parameters together. A mapping gives limits to groups by name: `{"base": 0.5, "*": 1.0}`; a
    name also stands for the groups that `param_groups` split it into (`base/no decay`), the first entry that fits counts,
    and groups under one entry are measured together. A group's own option (`group["clip_norm"] = 0.5`) goes before all that.
    `math.inf` measures and leaves the gradients as they are.

    >>> model = nn.Linear(1, 1, bias=False)
    >>> clipping = Clipping(torch.optim.SGD(model.parameters()), norm=1.0)
    >>> model.weight.grad = torch.tensor([[3.0]])
    >>> clipping.apply()
    Clipped(norm=tensor(3.), clipped=tensor(True))
    """

    def __init__(self, optimizer: Optimizer, *, norm: Limit = None, value: Limit = None, model: nn.Module | None = None) -> None:
        self._optimizer = optimizer
        self._model = model
        self._limits: dict[_Kind, Limit] = {"clip_norm": norm, "clip_value": value}
        self._is_limited = norm is not None or value is not None
        for kind, limit in self._limits.items():
            _check(kind, limit, optimizer)
        self._require_dense()
        self._require_real()

    @property
    def active(self) -> bool:
        """Whether there is anything to clip or to measure."""
        if self._is_limited:
            return True
        for group in self._optimizer.param_groups:  # which may get another one, or another option, at any time
            if group.get("clip_norm") is not None or group.get("clip_value") is not None:
                return True
        return False

    def apply(self) -> Clipped:
        """Clip the gradients as they are now."""
        flags: list[Tensor] = []
        try:
            norm = self._by_norm(flags) if self._asks("clip_norm") else None
            if self._asks("clip_value"):
                self._by_value(flags)
        except RuntimeError:
            self._require_dense()  # says what torch's words mean, where it is that
            raise
        return Clipped(norm, _any(flags))

    def _require_dense(self) -> None:
        """A norm is measured over all groups; values are clipped in the groups that have a limit."""
        if self._asks("clip_norm"):
            require_dense(self._said("clip_norm"), "measure", self._optimizer, self._model, is_meant=lambda _: True)
        limited = self._limited_by_value()
        if limited:
            require_dense(self._said("clip_value"), "clip", self._optimizer, self._model, is_meant=lambda p: p in limited)

    def _require_real(self) -> None:
        limited = self._limited_by_value()
        names = [name for name, p in named_in_groups(self._optimizer, self._model) if p.is_complex() and p in limited]
        if names:
            raise DescriptionError(
                f"{self._said('clip_value')} cannot clip the complex gradient of {listed(names, most=8)}: complex numbers have "
                "no order; use clip_norm=, or a parameter of two real numbers (torch.view_as_complex in forward)."
            )

    def _limited_by_value(self) -> set[Tensor]:
        groups = self._optimizer.param_groups
        limits = [_limit(group, "clip_value", self._limits["clip_value"])[1] for group in groups]
        return {p for group, limit in zip(groups, limits, strict=True) if limit < math.inf for p in group["params"]}

    def _said(self, kind: _Kind) -> str:
        """The option as it was given, or as the first group that has it says it."""
        own = next((group[kind] for group in self._optimizer.param_groups if group.get(kind) is not None), None)
        return f"{kind}={self._limits[kind] if self._limits[kind] is not None else own}"

    def _by_norm(self, flags: list[Tensor]) -> Tensor:
        norms = []
        for limit, parameters in self._bundles("clip_norm"):
            gradients = [p.grad for p in parameters if p.grad is not None]
            norm = norm_of_all(get_total_norm(local(gradients)), gradients)
            norms.append(norm)
            if limit < math.inf:  # torch's way of leaving them alone, times inf/norm, makes nan of an infinite norm
                clip_grads_with_norm_(parameters, limit, norm)
                flags.append(norm > limit)
        if len(norms) == 1:
            return norms[0]
        return torch.linalg.vector_norm(torch.stack([norm.to(norms[0].device) for norm in norms])) if norms else torch.tensor(0.0)

    def _by_value(self, flags: list[Tensor]) -> None:
        for limit, parameters in self._bundles("clip_value"):
            if limit < math.inf:
                flags.append(_is_above([p.grad for p in parameters if p.grad is not None], limit))
                clip_grad_value_(parameters, limit)

    def _asks(self, kind: _Kind) -> bool:
        return self._limits[kind] is not None or any(group.get(kind) is not None for group in self._optimizer.param_groups)

    def _bundles(self, kind: _Kind) -> list[tuple[float, list[Tensor]]]:
        """The parameters with a gradient that are measured together, and their limit: inf where there is none."""
        bundles: dict[Any, tuple[float, list[Tensor]]] = {}
        for group in self._optimizer.param_groups:
            with_gradient = [p for p in group["params"] if p.grad is not None]
            if with_gradient:
                key, limit = _limit(group, kind, self._limits[kind])
                bundles.setdefault(key, (limit, []))[1].extend(with_gradient)
        return list(bundles.values())


def nonfinite_gradients(optimizer: Optimizer, model: nn.Module | None = None) -> tuple[str, ...]:
    """The parameters whose gradients are not finite, and how much of them; with `model` under their names in it.

    For when trouble is known: it reads every gradient, and waits for the device.
    """
    found = []
    for name, parameter in named_in_groups(optimizer, model):
        if parameter.grad is not None and (said := _nonfinite(parameter.grad)):
            found.append(f"{name} ({said})")
    return tuple(found)


def _nonfinite(gradient: Tensor) -> str:
    values = gradient.coalesce().values() if gradient.is_sparse else whole(gradient)
    nans, finite, size = int(values.isnan().sum()), int(values.isfinite().sum()), values.numel()
    if finite == size:
        return ""
    kinds = [f"{count} {kind}" for kind, count in (("nan", nans), ("inf", size - finite - nans)) if count]
    return f"{' and '.join(kinds)} of {size}"


def _limit(group: dict[str, Any], kind: _Kind, limit: Limit) -> tuple[Any, float]:
    """What a group is measured together with (groups with the same key), and its limit."""
    own, name = group.get(kind), str(group.get("name", ""))
    if own is not None:
        return ("own", name.split("/")[0] or id(group), own), own
    if isinstance(limit, Mapping):
        entry = next((entry for entry in limit if _fits(entry, name)), None)
        return ("entry", entry), math.inf if entry is None else limit[entry]
    return ("all",), math.inf if limit is None else limit


def _fits(entry: str, name: str) -> bool:
    return name == entry or name.startswith(f"{entry}/") or fnmatchcase(name, entry)


def _is_above(gradients: list[Tensor], limit: float) -> Tensor:
    """Whether some number is above the limit, as an unread flag."""
    if any(map(is_sharded, gradients)):
        above = [(part.abs() > limit).any() for part in local(gradients)]
        return summed(torch.stack(above).sum(), gradients) > 0
    if not all(gradient.is_cpu and gradient.numel() for gradient in gradients):
        return get_total_norm(gradients, math.inf) > limit
    # On the CPU the infinity norm takes twelve times as long as these two.
    highest = torch.stack([gradient.amax() for gradient in gradients]).amax()
    lowest = torch.stack([gradient.amin() for gradient in gradients]).amin()
    return (highest > limit) | (lowest < -limit)


def _any(flags: list[Tensor]) -> Tensor:
    if len(flags) == 1:
        return flags[0]
    return torch.stack([flag.to(flags[0].device) for flag in flags]).any() if flags else torch.tensor(False)


def _check(kind: _Kind, limit: Limit, optimizer: Optimizer) -> None:
    groups = optimizer.param_groups
    names = [str(group.get("name", "")) for group in groups]
    for where, value in [
        (kind, None if isinstance(limit, Mapping) else limit),
        *((f"{kind}[{entry!r}]", value) for entry, value in (limit.items() if isinstance(limit, Mapping) else ())),
        *((f"{kind} of group {name or index!r}", groups[index].get(kind)) for index, name in enumerate(names)),
    ]:
        if value is None:
            continue
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise DescriptionError(f"{where}={value!r} is no limit; use a number, or a mapping of numbers by the groups' names.")
        if not value > 0:
            raise DescriptionError(f"{where}={value} leaves no gradient; use a number above 0, or None for no clipping.")
    for entry in limit if isinstance(limit, Mapping) else ():
        if not any(_fits(entry, name) for name in names):
            known = ", ".join(name for name in names if name) or "none: make them with param_groups"
            raise DescriptionError(
                f"{kind} names the group {entry!r}, which the optimizer does not have; its groups are {known}."
            )
