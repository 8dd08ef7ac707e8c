"""A snapshot: try something with a model and its optimizer, then find everything as it was.

Used by every finder. `saved_state` says what is put back; the global generators are forked. It costs one copy of the state.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from torch import nn
from torch.optim import Optimizer

from instep import keys
from instep.loop.saved_state import SavedState


@contextmanager
def untouched(model: nn.Module, optimizer: Optimizer, *others: Any, on_host: bool = False) -> Iterator[SavedState]:
    """Whatever happens inside, also an exception or a Ctrl-C, leaves no trace. Gives what is kept meanwhile.

    Put back are parameters, buffers, gradients, modes and other attributes of the modules, the optimizer's state and options, and
    the global generators. `others` are whatever else is touched: more models and optimizers, a GradScaler, a schedule's drive, or
    anything with `state_dict()` and `load_state_dict()`. `on_host` keeps the copy in the host's memory, not in the device's.

    >>> import torch
    >>> model = nn.Linear(2, 1)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> before = model.weight.clone()
    >>> with untouched(model, optimizer) as kept:
    ...     model.weight.sum().backward()
    ...     optimizer.step()
    >>> torch.equal(model.weight, before), model.weight.grad
    (True, None)
    """
    kept = SavedState(model, optimizer, *others, on_host=on_host)
    numpy_state = np.random.get_state()
    first = next(model.parameters(), None)
    try:
        with keys.fork_rng(None if first is None else first.device):
            try:
                yield kept
            finally:
                kept.put_back()
    finally:
        np.random.set_state(numpy_state)  # with the second half of a pair of normal draws, which a forked generator loses
