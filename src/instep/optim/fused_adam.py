"""The step of torch's Adam and AdamW with `fused=True` on the CPU, without collecting again what has stayed.

In every step torch goes through the parameters, their moments and counters, checks them and groups them by device and type: for
four parameters 45 µs beside 60 µs of arithmetic. Here the lists of the step before are used again, after a look that they still
are what the optimizer holds; where anything is another, torch makes the step itself. The numbers are the same to the last bit.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter
from torch.optim import Adam, AdamW, Optimizer

_MOST_MISSES = 8


class _Group(NamedTuple):
    parameters: list[Tensor]
    states: list[dict[str, Any]]
    moments: list[Tensor]
    squares: list[Tensor]
    counters: list[Tensor]
    dtype: torch.dtype


class FusedAdam:
    """Makes the step where it can: `step()` is False where torch has to, and `look()` then takes in what there is."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._groups: list[_Group] | None = None
        self._states: list[dict[str, Any]] = []  # those of the optimizer, in its order
        self._misses = 0  # in a row: an optimizer that is never what it was is left to torch

    @classmethod
    def of(cls, optimizer: Optimizer) -> "FusedAdam | None":
        """None for another optimizer, which is left to torch."""
        return cls(optimizer) if type(optimizer) in (Adam, AdamW) else None

    def look(self) -> None:
        """Collect what the optimizer holds, after a step of torch's own."""
        self._misses += 1
        self._groups = None
        if self._misses <= _MOST_MISSES:
            groups = [_collect(self._optimizer, group) for group in self._optimizer.param_groups]
            self._groups = [group for group in groups if group is not None] if all(groups) else None
            self._states = list(self._optimizer.state.values())

    def step(self) -> bool:
        """Make the step; False where nothing was done."""
        gradients = self._gradients()
        if gradients is None or self._groups is None:
            return False
        was_enabled = torch.is_grad_enabled()
        torch._C._set_grad_enabled(False)
        try:
            for group, kept, own in zip(self._optimizer.param_groups, self._groups, gradients, strict=True):
                beta1, beta2 = group["betas"]
                torch._foreach_add_(kept.counters, 1)
                function: Any = torch._fused_adamw_ if group["decoupled_weight_decay"] else torch._fused_adam_
                function(
                    kept.parameters,
                    own,
                    kept.moments,
                    kept.squares,
                    [],
                    kept.counters,
                    amsgrad=False,
                    lr=group["lr"],
                    beta1=beta1,
                    beta2=beta2,
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    maximize=group["maximize"],
                )
        finally:
            torch._C._set_grad_enabled(was_enabled)
        self._misses = 0
        return True

    def _gradients(self) -> list[list[Tensor]] | None:
        """The gradients of each group; None where one is missing, or where something is not what was collected."""
        optimizer, groups = self._optimizer, self._groups
        if groups is None or len(optimizer.param_groups) != len(groups) or not self._has_same_states():
            return None
        found = []
        for group, kept in zip(optimizer.param_groups, groups, strict=True):
            if not _is_plain(group) or len(group["params"]) != len(kept.parameters):
                return None
            gradients = []
            for parameter, before, state, moment, square, counter in zip(group["params"], *kept[:5], strict=True):
                gradient = parameter.grad
                if (
                    parameter is not before
                    or gradient is None
                    or gradient.dtype is not kept.dtype
                    or gradient.is_sparse
                    or not gradient.is_cpu
                    or state["exp_avg"] is not moment
                    or state["exp_avg_sq"] is not square
                    or state["step"] is not counter
                ):
                    return None
                gradients.append(gradient)
            found.append(gradients)
        return found

    def _has_same_states(self) -> bool:
        """Whether each parameter has the state that was collected; a GradScaler leaves two more things in the optimizer."""
        own = vars(self._optimizer)
        states = self._optimizer.state
        if len(states) != len(self._states) or "grad_scale" in own or "found_inf" in own:
            return False
        for state, before in zip(states.values(), self._states, strict=True):  # noqa: SIM110  # a generator takes longer
            if state is not before:
                return False
        return True


def _collect(optimizer: Optimizer, group: dict[str, Any]) -> _Group | None:
    parameters = list(group["params"])
    states = [optimizer.state.get(parameter, {}) for parameter in parameters]
    is_simple = all(type(one) in (Parameter, Tensor) and one.is_cpu and one.is_floating_point() for one in parameters)
    if not parameters or not is_simple or not _is_plain(group) or len({one.dtype for one in parameters}) > 1:
        return None
    names = ("exp_avg", "exp_avg_sq", "step")
    if not all(type(state.get(name)) is Tensor for state in states for name in names):
        return None  # a parameter that has had no gradient yet
    moments, squares, counters = ([state[name] for state in states] for name in names)
    return _Group(parameters, states, moments, squares, counters, parameters[0].dtype)


def _is_plain(group: dict[str, Any]) -> bool:
    """Whether its numbers are numbers, and it asks for nothing but `fused`."""
    beta1, beta2 = group["betas"]
    return (
        group["fused"] is True
        and type(group["lr"]) is float
        and type(beta1) is float
        and type(beta2) is float
        and not (group["amsgrad"] or group["capturable"] or group["differentiable"])
    )
