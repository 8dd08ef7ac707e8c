"""Precision: how a forward is computed: in which precision, compiled or not, by which algorithms.

All is decided once, before the loop: `wrap` puts it round a function `(model, batch) -> …`, and where nothing is asked for it
gives that very function back.
"""

import functools
import importlib.util
import inspect
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, cast, get_args

import torch
from torch import nn
from torch.amp import GradScaler

from instep.errors import DescriptionError

PrecisionName = Literal["fp32", "bf16", "fp16"]
Forward = Callable[[Any, Any], Any]  # of a model and a batch

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}
_COMPILERS = ("g++", "clang++", "c++", "cl")
_MOST_VARIANTS = 64  # of compiled code: sizes of micro-batches, modes, what is frozen; torch gives up after 8


class Precision:
    """How a run computes; `model` is what objectives are called with: the run's own, or its compiled form."""

    def __init__(
        self,
        model: nn.Module,
        device: torch.device,
        *,
        precision: PrecisionName = "fp32",
        compile: bool = False,
        deterministic: bool = False,
    ) -> None:
        if precision not in get_args(PrecisionName):
            raise DescriptionError(f'precision={precision!r} is not known; use "fp32", "bf16" or "fp16".')
        for name, value in (("compile", compile), ("deterministic", deterministic)):
            if not isinstance(value, bool):
                raise DescriptionError(f"{name}={value!r} is neither True nor False.")
        self._device = device
        self._dtype = _DTYPES.get(precision)
        if self._dtype is not None and not torch.amp.is_autocast_available(device.type):
            raise DescriptionError(f'precision="{precision}" cannot be used: torch has no autocast on {device}; use "fp32".')
        self._compiled = compile
        self._deterministic = deterministic
        self.model = _compiled(model, device) if compile else model

    def wrap(self, function: Forward) -> Forward:
        """The function as this run computes it."""
        if self._compiled:
            function = functools.partial(_saying_what_failed, function)
        if self._dtype is not None:
            function = functools.partial(_in_autocast, function, self._device.type, self._dtype)
        return function

    def scaler(self) -> GradScaler | None:
        """A scaler for half precision, whose small gradients would be 0 without one."""
        return GradScaler(self._device.type) if self._dtype is torch.float16 else None

    @contextmanager
    def algorithms(self) -> Iterator[None]:
        """Deterministic algorithms alone, where that is asked for; afterwards torch's switches stand as they stood."""
        if not self._deterministic:
            yield
            return
        enabled, warns = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        benchmark = torch.backends.cudnn.benchmark
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False  # it takes the algorithm that was the fastest just now
        try:
            yield
        finally:
            torch.use_deterministic_algorithms(enabled, warn_only=warns)
            torch.backends.cudnn.benchmark = benchmark


def _in_autocast(function: Forward, device_type: str, dtype: torch.dtype, model: nn.Module, batch: Any) -> Any:
    with torch.autocast(device_type, dtype=dtype):
        return function(model, batch)


def _compiled(model: nn.Module, device: torch.device) -> nn.Module:
    """The compiled form of a model, or of each of several; the model itself stays as it is, and shares everything with it.

    Code is made for each shape by itself: so it is the same code whichever shape came first, also after a resume.
    """
    _require_compiler(device)
    options: dict[str, Any] = {"dynamic": False}
    if "recompile_limit" in inspect.signature(torch.compile).parameters:
        options["recompile_limit"] = _MOST_VARIANTS
    if type(model) is nn.ModuleDict:
        return nn.ModuleDict({name: cast(nn.Module, torch.compile(part, **options)) for name, part in model.items()})
    return cast(nn.Module, torch.compile(model, **options))


def _require_compiler(device: torch.device) -> None:
    if device.type == "cpu":
        asked = os.environ.get("CXX")
        looked_for = (asked,) if asked else _COMPILERS
        if not any(shutil.which(name) for name in looked_for):
            raise DescriptionError(
                f"compile=True needs a C++ compiler on the CPU, and there is none (looked for {', '.join(looked_for)}); "
                "install one, or use compile=False."
            )
    elif device.type == "cuda" and importlib.util.find_spec("triton") is None:
        raise DescriptionError(f"compile=True needs triton on {device}, and there is none; install it, or use compile=False.")


def _saying_what_failed(function: Forward, model: nn.Module, batch: Any) -> Any:
    """A compiler that breaks down says so in one line."""
    try:
        return function(model, batch)
    except Exception as error:
        exceptions = sys.modules.get("torch._dynamo.exc")
        if exceptions is None or not isinstance(error, exceptions.TorchDynamoException):
            raise
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise DescriptionError(f"compile=True failed: {first.strip()} Use compile=False.") from error
