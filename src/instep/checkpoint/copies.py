"""Copies of a checkpoint's tensors, so that a run can go on while they are written.

The memory is kept from one checkpoint to the next: fresh memory costs a page fault every 4 kB, three to seven times the copy.
The run waits for the copy, so cores that it leaves free help: two take half the time of one.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import torch
from torch import Tensor

from instep.checkpoint.encoded import EncodedCheckpoint, EncodedPart
from instep.data.loading.worker_count import available_cores

HELP_BYTES = 1 << 24  # from here on it pays to start a thread
MOST_THREADS = 4  # more do not make the memory faster


class Copies:
    """The memory of one checkpoint on the host: as much as the checkpoint is large, for as long as this object lives."""

    def __init__(self) -> None:
        self._kept: dict[tuple[str, str], Tensor] = {}

    @torch.no_grad()
    def copy(self, encoded: EncodedCheckpoint) -> EncodedCheckpoint:
        """The same checkpoint, of tensors that nobody else has; waits for the devices they come from."""
        kept: dict[tuple[str, str], Tensor] = {}
        parts: dict[str, EncodedPart] = {}
        pairs: list[tuple[Tensor, Tensor]] = []
        for name, part in encoded.parts.items():
            tensors = self._room_for(name, part, kept)
            pairs += [(target, part.tensors[key]) for key, target in tensors.items()]
            parts[name] = replace(part, tensors=tensors)
        _copy_all(pairs)
        for device in {source.device for _, source in pairs}:
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


def _copy_all(pairs: Sequence[tuple[Tensor, Tensor]]) -> None:
    """From each second to its first, the largest first."""
    pairs = sorted(pairs, key=lambda pair: pair[0].nbytes, reverse=True)
    on_host = sum(target.nbytes for target, source in pairs if source.is_cpu)
    threads = min(MOST_THREADS, available_cores() // torch.get_num_threads()) if on_host >= HELP_BYTES else 1
    if threads <= 1:
        for target, source in pairs:
            _copy(target, source)
        return
    with ThreadPoolExecutor(threads, thread_name_prefix="instep copy") as pool:
        list(pool.map(_copy, *zip(*pairs, strict=True)))


@torch.no_grad()
def _copy(target: Tensor, source: Tensor) -> None:
    target.copy_(source, non_blocking=True)
