"""Whether torch's fused implementation of an optimizer would be faster here: measured on copies, never assumed."""

import itertools
import time
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

from instep.distributed.dtensors import is_sharded

FUSED = (Adam, AdamW, SGD, Adagrad)
MEASURED = 200_000  # parameters that are copied for the measurement: a fraction of a millisecond a step
ROUNDS = 7


def fused_advice(optimizer: Optimizer) -> str | None:
    """One line for the plan where `fused=True` would save at least a fifth of the optimizer's time, else None."""
    kind = type(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    if kind not in FUSED or not parameters or any(group.get("fused") for group in optimizer.param_groups):
        return None
    if {p.device.type for p in parameters} != {"cpu"} or not all(p.is_floating_point() for p in parameters):
        return None  # on an accelerator torch's default is fast already, and timing it would wait for the device
    if any(map(is_sharded, parameters)):
        return None  # what a step of shares costs is not their arithmetic
    try:
        sample = _sample(parameters)
        plain, fused = _times(kind, optimizer.param_groups, sample)
    except (RuntimeError, TypeError):
        return None  # this torch has no fused implementation of these options
    if fused > 0.8 * plain:
        return None
    share = f" of {len(sample)} of the {len(parameters)} tensors" if len(sample) < len(parameters) else ""
    return f"{kind.__name__}(…, fused=True) would step in {_text(fused)} instead of {_text(plain)} (measured on copies{share})"


def _sample(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    """The first parameters, up to a size that is measured in no time."""
    sizes = itertools.accumulate(p.numel() for p in parameters)
    return [p for p, size in zip(parameters, sizes, strict=True) if size <= MEASURED] or [parameters[0].flatten()[:MEASURED]]


def _times(kind: Callable[..., Optimizer], groups: list[dict[str, Any]], parameters: list[torch.Tensor]) -> tuple[float, float]:
    options = {
        k: v for k, v in groups[0].items() if k in ("lr", "betas", "eps", "weight_decay", "momentum", "nesterov", "amsgrad")
    }
    steps = []
    for fused in (False, True):
        copies = [torch.nn.Parameter(torch.zeros_like(p)) for p in parameters]
        for copy in copies:
            copy.grad = torch.zeros_like(copy)
        steps.append(kind(copies, **options, fused=True).step if fused else kind(copies, **options).step)
    seconds: list[list[float]] = [[], []]
    for _ in range(ROUNDS + 1):  # the first round warms up
        for step, taken in zip(steps, seconds, strict=True):
            begun = time.perf_counter()
            step()
            taken.append(time.perf_counter() - begun)
    medians = [sorted(taken[1:])[ROUNDS // 2] for taken in seconds]
    return medians[0], medians[1]


def _text(seconds: float) -> str:
    return f"{seconds * 1e3:.2g} ms" if seconds >= 1e-3 else f"{seconds * 1e6:.0f} µs"
