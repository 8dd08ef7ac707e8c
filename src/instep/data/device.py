"""Where a run computes and why there; what can be read without waiting; how a device says that something does not fit."""

import gc
import mmap
from typing import NamedTuple

import torch
from torch import Tensor

from instep.errors import DescriptionError

# What devices say instead of raising torch.OutOfMemoryError: MPS, the CPU's allocator, cuDNN and cuBLAS.
SAID = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")


class Placed(NamedTuple):
    """A device and the reason for it."""

    device: torch.device
    reason: str


def choose(device: str | torch.device) -> Placed:
    """The device to run on; `"auto"` takes the accelerator that torch finds, else the CPU."""
    if device == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        if found is None:
            return Placed(torch.device("cpu"), "torch finds no accelerator")
        return Placed(torch.device(found.type, torch.accelerator.current_device_index()), "the accelerator that torch finds")
    try:
        asked = torch.device(device)
        torch.empty(0, device=asked)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise DescriptionError(
            f'device={str(device)!r} cannot be used: {str(error).splitlines()[0].rstrip(".")}. Use "auto" or "cpu".'
        ) from None
    return Placed(asked, "asked for")


def readable(tensor: Tensor) -> bool:
    """Whether reading this tensor on the host waits for nobody."""
    return tensor.is_cpu


def memory_bytes(device: torch.device) -> int | None:
    """What is taken: of an accelerator the most so far, else by this process; None where nobody says it. Does not wait."""
    if device.type == "cpu":
        try:
            with open("/proc/self/statm", "rb") as file:
                return int(file.read().split()[1]) * mmap.PAGESIZE
        except (OSError, ValueError, IndexError):
            return None
    measure = getattr(getattr(torch, device.type, None), "max_memory_allocated", None)
    return None if measure is None else int(measure(device))


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an error says that the memory does not suffice, in whatever words its device has for it."""
    if isinstance(error, torch.OutOfMemoryError | MemoryError):
        return True
    return isinstance(error, RuntimeError) and any(words in str(error).lower() for words in SAID)


def clean_up(device: torch.device) -> None:
    """Let go of what a failed attempt held; an accelerator's cache is emptied, or the next attempt would find it taken."""
    gc.collect()
    if device.type != "cpu":
        torch.get_device_module(device).empty_cache()


def said(error: BaseException) -> str:
    """The first line of what the device said; the allocator's figures follow in some, and are in the error itself."""
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
