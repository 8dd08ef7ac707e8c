"""A snapshot: try something with a model and its optimizer, then find everything as it was.

Owns what "everything" is: parameters, buffers, gradients, modes, the optimizer's state and options, the global generators.
It costs one copy of that state.
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep import keys


@contextmanager
def untouched(model: nn.Module, optimizer: Optimizer) -> Iterator[None]:
    """Whatever happens inside, also an exception, leaves no trace in the model, the optimizer and the generators."""
    tensors = [*model.parameters(), *model.buffers()]
    values = [tensor.detach().clone() for tensor in tensors]
    gradients = [None if p.grad is None else p.grad.detach().clone() for p in model.parameters()]
    modes = [(module, module.training) for module in model.modules()]
    state = {parameter: copy.deepcopy(entry) for parameter, entry in optimizer.state.items()}
    options = [
        {name: copy.deepcopy(option) for name, option in group.items() if name != "params"} for group in optimizer.param_groups
    ]
    device = tensors[0].device if tensors else None
    with keys.borrowed(device):
        try:
            yield
        finally:
            with torch.no_grad():
                for tensor, value in zip(tensors, values, strict=True):
                    tensor.copy_(value)
            _put_back_gradients(model, gradients)
            for module, mode in modes:
                module.training = mode
            _put_back_optimizer(optimizer, state, options)


def _put_back_gradients(model: nn.Module, gradients: list[Tensor | None]) -> None:
    for parameter, gradient in zip(model.parameters(), gradients, strict=True):
        parameter.grad = gradient


def _put_back_optimizer(optimizer: Optimizer, state: dict[Any, Any], options: list[dict[str, Any]]) -> None:
    optimizer.state.clear()
    optimizer.state.update(state)
    for group, kept in zip(optimizer.param_groups, options, strict=True):
        for name in [name for name in group if name != "params" and name not in kept]:
            del group[name]
        group.update(kept)
