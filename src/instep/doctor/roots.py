"""Roots: modules that are called from outside any other."""

import weakref
from collections.abc import Iterable

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd
from torch.nn.parameter import is_lazy

from instep.doctor.shards import is_sharded


class Root:
    """A module that was called from outside any other: a model, part of one, or a loss."""

    def __init__(self, number: int, module: nn.Module) -> None:
        self.number = number
        self.name = type(module).__name__
        self.reference = weakref.ref(module)  # for observers; rules leave it alone
        shapes = [() if is_lazy(parameter) else tuple(parameter.shape) for parameter in module.parameters()]
        self.parameters, self.shapes = len(shapes), hash(tuple(shapes))
        self.is_loss = type(module).__module__ == "torch.nn.modules.loss"
        self.sharded = any(map(is_sharded, module.parameters()))
        self.dropouts = 0  # modules that drop, with p > 0
        self.batchnorms = 0
        self.trained = 0  # root calls with grad on that were followed by a backward
        self.in_train = 0  # root calls in train mode
        self.within: list[Root] = []  # other roots that it is a part of
        for part in module.modules():
            self.dropouts += isinstance(part, _DropoutNd) and part.p > 0
            self.dropouts += isinstance(part, (nn.RNNBase, nn.MultiheadAttention)) and float(part.dropout) > 0
            self.batchnorms += isinstance(part, _BatchNorm)


def nest(module: nn.Module, root: Root, others: Iterable[Root]) -> None:
    """Note which roots are parts of which: a method may call the parts of a model one by one."""
    for other in others:
        known = other.reference()
        if known is None:
            continue
        if any(part is module for part in known.modules()):
            root.within.append(other)
        elif any(part is known for part in module.modules()):
            other.within.append(root)
