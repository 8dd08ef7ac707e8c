"""A setting as `run.json` keeps it: numbers and words as they are, functions and modules by name, options and a hash."""

import functools
import hashlib
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from instep.run.plain import digest, without_addresses

_HASHED = re.compile(r":([0-9a-f]{12}|[0-9a-f]{16})$")


def as_setting(value: Any) -> Any:
    """A setting in JSON: numbers and words as they are, things by their name and options."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$float": str(value)}  # JSON has no word for it
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum):
        return value.name
    if isinstance(value, Path | torch.device | torch.dtype):
        return str(value)
    if isinstance(value, np.ndarray):
        value = torch.from_numpy(np.ascontiguousarray(value)) if value.dtype.kind in "biuf" else value.tolist()
    if isinstance(value, Tensor):
        return f"tensor{tuple(value.shape)}:{digest([value])}"
    if isinstance(value, Mapping):
        return {str(key): as_setting(inner) for key, inner in value.items()}
    if isinstance(value, set | frozenset):
        return sorted((as_setting(inner) for inner in value), key=str)
    if isinstance(value, list | tuple):
        return [as_setting(inner) for inner in value]
    if isinstance(value, Optimizer):
        groups = [{k: as_setting(v) for k, v in group.items() if k != "params"} for group in value.param_groups]
        return {"class": type(value).__name__, "groups": groups}
    if is_dataclass(value) and not isinstance(value, type):
        return {"class": type(value).__name__, **{f.name: as_setting(getattr(value, f.name)) for f in fields(value)}}
    if isinstance(value, functools.partial):
        return {"function": as_setting(value.func), "arguments": as_setting(value.args), "options": as_setting(value.keywords)}
    if isinstance(value, nn.Module):
        tensors = [tensor for tensor in value.state_dict().values() if isinstance(tensor, Tensor)]
        return f"{value!r}:{digest(tensors)}" if tensors else repr(value)
    if isinstance(value, FunctionType):
        return _function(value)
    return name_of(value) if callable(value) else type(value).__name__


def _function(function: FunctionType) -> str:
    """A function of the user's own by its name and what it does: another body is another function."""
    if function.__module__.split(".")[0] in ("torch", "instep"):
        return name_of(function)
    made = hashlib.blake2b(digest_size=6)
    _digest_code(made, function.__code__)
    bound = [cell.cell_contents for cell in function.__closure__ or () if isinstance(cell.cell_contents, int | float | str)]
    made.update(without_addresses(repr((function.__defaults__, bound))).encode())
    return f"{name_of(function)}:{made.hexdigest()}"


def _digest_code(made: "hashlib.blake2b", code: CodeType) -> None:
    made.update(code.co_code + repr(code.co_names).encode())
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            _digest_code(made, constant)
        else:
            made.update(repr(constant).encode())


def named(setting: Any) -> Any:
    """A setting without the hashes of functions and modules, which stand among the code."""
    if isinstance(setting, dict):
        return {name: named(inner) for name, inner in setting.items()}
    if isinstance(setting, list):
        return [named(inner) for inner in setting]
    return _HASHED.sub("", setting) if isinstance(setting, str) and not setting.startswith("tensor(") else setting


def name_of(function: Callable[..., Any]) -> str:
    return getattr(function, "__qualname__", type(function).__name__)
