"""Copies of a checkpoint's tensors, so that a run can go on while they are written.

The memory is kept from one checkpoint to the next: fresh memory costs a page fault every 4 kB, three to seven times the copy.
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from instep.checkpoint.encoded import EncodedCheckpoint, EncodedPart


class Copies:
    """The memory of one checkpoint on the host: as much as the checkpoint is large, for as long as this object lives."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Tensor] = {}

    @torch.no_grad()
    def copy(self, encoded: EncodedCheckpoint) -> EncodedCheckpoint:
        """The same checkpoint, of tensors that nobody else has; waits for the devices they come from."""
        kept: dict[tuple[str, str], Tensor] = {}
        parts: dict[str, EncodedPart] = {}
        devices: set[torch.device] = set()
        for name, part in encoded.parts.items():
            tensors = self._room_for(name, part, kept)
            for key, target in tensors.items():
                source = part.tensors[key]
                target.copy_(source, non_blocking=True)
                devices.add(source.device)
            parts[name] = replace(part, tensors=tensors)
        for device in devices:
            if device.type != "cpu":
                torch.accelerator.synchronize(device)
        self._kept = kept
        return replace(encoded, parts=parts)

    def _room_for(self, name: str, part: EncodedPart, kept: dict[tuple[str, str], Tensor]) -> Mapping[str, Tensor]:
        """Memory in the order of rows, which is that of the file."""
        for one in part.layout.stored:
            room = self._kept.get((name, one.name))
            if room is None or room.dtype != one.dtype or tuple(room.shape) != one.shape:
                pinned = part.tensors[one.name].device.type == "cuda"  # copies from there run beside the device's work
                room = torch.empty(one.shape, dtype=one.dtype, pin_memory=pinned)
            kept[name, one.name] = room
        return {one.name: kept[name, one.name] for one in part.layout.stored}
