"""Checkpoints for the tests: small ones, whole round trips, and what it is for two of them to be the same."""

import math
import os
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from instep.checkpoint import Checkpoint, capture_optimizer, read, write


def small(step: int, *, best: int | None = None) -> Checkpoint:
    """A checkpoint whose every number follows from its step: what is read back can be told to be the right one."""
    parts = {
        "model": {"weight": torch.full((3, 2), float(step)), "count": torch.tensor(step)},
        "optimizer": {"state": {"weight": {"exp_avg": torch.full((3, 2), step / 2), "step": torch.tensor(float(step))}}},
    }
    return Checkpoint(step, parts, {"skipped": step % 7, "best": (0.5, None)}, best)


def trained(steps: int = 3) -> tuple[nn.Module, torch.optim.Optimizer]:
    """A model with tied weights, a BatchNorm and an AdamW that has made some steps."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 4))
    model[2].weight = model[0].weight
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1, amsgrad=True)
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def realistic(step: int = 3) -> Checkpoint:
    model, optimizer = trained(step)
    parts = {"model": model.state_dict(), "optimizer": capture_optimizer(optimizer, model.named_parameters())}
    return Checkpoint(step, parts, {"skipped": 0, "worst": -math.inf, "seen": {3: (1, 2)}})


def shelf_of(folder: Path, *numbers: int, best: int | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for step in numbers:
        write(folder, small(step, best=best))
    return folder


def round_trip(value: Any, folder: Path) -> Any:
    """What comes back from the disk."""
    folder.mkdir(parents=True, exist_ok=True)
    return read(write(folder, Checkpoint(0, {"part": value}))).parts["part"]


def same(one: Any, other: Any) -> bool:
    """Equal in type, structure and every bit; not a number is the same as itself."""
    if type(one) is not type(other) and not (isinstance(one, Tensor) and isinstance(other, Tensor)):
        return False
    if isinstance(one, Tensor):
        alike: bool = form(one) == form(other) and bits(one) == bits(other)
        return alike
    if isinstance(one, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return bool(one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes())
    if isinstance(one, float):
        return (one == other and math.copysign(1, one) == math.copysign(1, other)) or (one != one and other != other)
    if isinstance(one, complex):
        return same(one.real, other.real) and same(one.imag, other.imag)
    if isinstance(one, set | frozenset):
        return bool(one == other)
    if isinstance(one, list | tuple) or type(one).__name__ == "deque":
        return len(one) == len(other) and all(same(a, b) for a, b in zip(one, other, strict=True))
    return bool(one == other)


def form(tensor: Tensor) -> tuple[Any, ...]:
    return tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.device


def bits(tensor: Tensor) -> bytes:
    return tensor.detach().resolve_conj().contiguous().view(-1).view(torch.uint8).numpy().tobytes()


def in_a_child(do: Callable[[], None]) -> int:
    """Run something in a forked process that shares nothing with this one afterwards; its exit code, 0 where it went well.

    For what would harm the tests' own process: being killed, or giving up root.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            do()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
