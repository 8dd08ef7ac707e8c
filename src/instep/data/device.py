"""Where a run computes and why there; what can be read without waiting."""

from typing import NamedTuple

import torch
from torch import Tensor

from instep.errors import DescriptionError


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
            f'device={str(device)!r} cannot be used: {str(error).splitlines()[0]} Use "auto" or "cpu".'
        ) from None
    return Placed(asked, "asked for")


def readable(tensor: Tensor) -> bool:
    """Whether reading this tensor on the host waits for nobody."""
    return tensor.is_cpu
