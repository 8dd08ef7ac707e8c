"""Operators: what torch's profiler says about a few updates: the heaviest operators by module, what is kept, and a trace."""

import os
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile, record_function

from instep.tuning.phases import FORWARD, MARK

MODULE = "module: "  # how modules are called in a trace
OF_PROFILER = re.compile(rb"USDT:|CPUAllocator\.cpp|ActivityProfiler")
BACKWARD = "autograd::engine::evaluate_function: "


@dataclass(frozen=True)
class Operator:
    """What one operator takes of an update in one module; `self_s` is without the operators that it calls."""

    name: str
    module: str  # "" outside of all modules
    is_backward: bool
    self_s: float
    calls: float


@dataclass(frozen=True)
class Memory:
    """What an update holds, in bytes. `activations` is what a forward leaves for its backward."""

    weights: int
    gradients: int
    optimizer: int
    activations: int
    peak: int | None = None  # of the accelerator; None on a CPU


@dataclass(frozen=True)
class Recording:
    """What the profiler saw."""

    operators: tuple[Operator, ...]  # the heaviest first
    activations: int
    operators_s: float  # of all operators of an update


def record(updates: Iterator[object], count: int, model: nn.Module, device: torch.device, trace: Path | None) -> Recording:
    """Make so many updates under the profiler, and write what it saw to `trace`."""
    activities = [ProfilerActivity.CPU]
    kinds = {"cuda": ProfilerActivity.CUDA, "xpu": ProfilerActivity.XPU}
    if device.type in kinds:
        activities.append(kinds[device.type])
    with (
        without_lines_of_profiler(),
        named_modules(model),
        profile(activities=activities, profile_memory=True, acc_events=True) as profiler,
    ):
        for _ in range(count):
            next(updates)
        if device.type != "cpu":
            torch.accelerator.synchronize(device)
    if trace is not None:
        profiler.export_chrome_trace(str(trace))
    events: list[Any] = list(profiler.events() or [])
    found = _operators(events, count, is_on_device=device.type != "cpu")
    kept = [_memory(event, device) for event in events if event.name == f"{MARK}{FORWARD}" and event.device_type.name == "CPU"]
    return Recording(tuple(found), max(kept, default=0), sum(one.self_s for one in found))


@contextmanager
def without_lines_of_profiler() -> Iterator[None]:
    """Inside, what is written to stderr is held back, and then given out without the lines of torch's profiler about itself."""
    try:
        kept = os.dup(2)
    except OSError:  # there is no stderr
        yield
        return
    with tempfile.TemporaryFile() as held:
        sys.stderr.flush()
        os.dup2(held.fileno(), 2)
        try:
            yield
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            held.seek(0)
            for line in held:
                if not OF_PROFILER.search(line):
                    os.write(2, line)


def _operators(events: list[Any], count: int, *, is_on_device: bool) -> list[Operator]:
    """The operators of one update, by their names and modules."""
    module_of_forward = {
        event.sequence_nr: module
        for event in events
        if event.sequence_nr >= 0 and not _is_backward(event) and (module := _module(event)) is not None
    }
    seconds: defaultdict[tuple[str, str, bool], float] = defaultdict(float)
    calls: defaultdict[tuple[str, str, bool], int] = defaultdict(int)
    for event in events:
        if event.device_type.name != "CPU" or event.name.startswith((MARK, MODULE, BACKWARD)) or "::" not in event.name:
            continue
        is_backward = _is_backward(event)
        module = _module(event)
        if module is None and is_backward:
            module = module_of_forward.get(_sequence(event))
        key = (event.name, module or "", is_backward)
        micros = event.self_device_time_total if is_on_device else event.self_cpu_time_total
        seconds[key] += micros / 1e6 / count
        calls[key] += 1
    found = [Operator(*key, taken, calls[key] / count) for key, taken in seconds.items()]
    return sorted(found, key=lambda one: -one.self_s)


def _above(event: Any) -> Iterator[Any]:
    while event is not None:
        yield event
        event = event.cpu_parent


def _module(event: Any) -> str | None:
    """The innermost module that it was called in."""
    return next((one.name.removeprefix(MODULE).strip() for one in _above(event) if one.name.startswith(MODULE)), None)


def _is_backward(event: Any) -> bool:
    return any(one.name.startswith(BACKWARD) for one in _above(event))


def _sequence(event: Any) -> int:
    """The number that a function of the backward shares with the operator whose gradient it computes."""
    return next((one.sequence_nr for one in _above(event) if one.name.startswith(BACKWARD)), -1)


def _memory(event: Any, device: torch.device) -> int:
    return int(event.cpu_memory_usage if device.type == "cpu" else event.device_memory_usage)


@contextmanager
def named_modules(model: nn.Module) -> Iterator[None]:
    """Inside, the profiler sees which module is called. The hooks are taken away again."""
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            before, after = _marks(f"{MODULE}{name} {type(module).__name__}")
            hooks.callback(module.register_forward_pre_hook(before).remove)
            hooks.callback(module.register_forward_hook(after, always_call=True).remove)
        yield


def _marks(name: str) -> tuple[Callable[..., None], Callable[..., None]]:
    opened: list[Any] = []

    def before(module: nn.Module, given: Any) -> None:
        opened.append(record_function(name))
        opened[-1].__enter__()

    def after(module: nn.Module, given: Any, output: Any) -> None:
        if opened:
            opened.pop().__exit__(None, None, None)

    return before, after


def memory_of(model: nn.Module, optimizers: list[torch.optim.Optimizer], activations: int, device: torch.device) -> Memory:
    """What the tensors of a run take, after an update."""
    parameters = list(model.parameters())
    kept = [*parameters, *model.buffers()]
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    state = [value for one in optimizers for entry in one.state.values() for value in entry.values() if isinstance(value, Tensor)]
    peak = torch.accelerator.max_memory_allocated(device) if device.type != "cpu" else None
    return Memory(_bytes(kept), _bytes(gradients), _bytes(state), activations, peak)


def _bytes(tensors: list[Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)
