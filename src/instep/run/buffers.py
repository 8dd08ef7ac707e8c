"""Passing buffers: those that a module registers as not persistent. A state_dict leaves them out; going on exactly needs them."""

from collections.abc import Mapping

import torch
from torch import Tensor, nn


def passing_buffers(model: nn.Module) -> dict[str, Tensor]:
    kept = model.state_dict(keep_vars=True)
    return {name: buffer for name, buffer in model.named_buffers() if name not in kept}


def restore_passing_buffers(model: nn.Module, state: Mapping[str, Tensor]) -> None:
    """One that has another shape by now (a cache that grew) is replaced, the others get their values back."""
    for name, value in state.items():
        owner, _, last = name.rpartition(".")
        module = model.get_submodule(owner)
        now = module._buffers.get(last)
        if now is not None and now.shape == value.shape and now.dtype == value.dtype and now.is_contiguous():
            with torch.no_grad():
                now.copy_(value)
        else:
            module._buffers[last] = value.to(now.device) if now is not None else value
