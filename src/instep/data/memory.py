"""Memory: how a device says that something does not fit, and what is let go of then."""

import gc

import torch

# What devices say instead of raising torch.OutOfMemoryError: MPS, the CPU's allocator, cuDNN and cuBLAS.
SAID = ("out of memory", "can't allocate memory", "cannot allocate memory", "alloc_failed")


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
