"""Whether torch's fused implementation of an optimizer would be faster here: measured on copies, never assumed."""

import time
from collections.abc import Callable
from typing import Any

import torch
from torch.optim import SGD, Adagrad, Adam, AdamW, Optimizer

FUSED = (Adam, AdamW, SGD, Adagrad)
LARGEST = 20_000_000  # parameters; beyond that the copies would take too long and too much memory
ROUNDS = 5


def fused_advice(optimizer: Optimizer) -> str | None:
    """One line for the plan where `fused=True` would save at least a tenth of the optimizer's time, else None."""
    kind = type(optimizer)
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    size = sum(p.numel() for p in parameters)
    if kind not in FUSED or not 0 < size <= LARGEST or any(group.get("fused") for group in optimizer.param_groups):
        return None
    if {p.device.type for p in parameters} != {"cpu"} or not all(p.is_floating_point() for p in parameters):
        return None  # on an accelerator torch's default is fast already, and timing it would wait for the device
    try:
        plain, fused = _times(kind, optimizer.param_groups, parameters)
    except (RuntimeError, TypeError):
        return None  # this torch has no fused implementation of these options
    if fused > 0.9 * plain:
        return None
    return f"{kind.__name__}(…, fused=True) would take {_text(fused)} a step here instead of {_text(plain)} (measured on copies)"


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
