"""Saver: when a checkpoint is due, and what becomes of it. How one is written is the checkpoint room's business."""

import time
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Literal

from instep.checkpoint import Checkpoint, Writer, check, locate, read, verify
from instep.checkpoint.sharded import ShardWriter, seal_shards
from instep.distributed.world import World
from instep.errors import DescriptionError
from instep.loop.batch_plan import require_whole
from instep.loop.interval import Interval, parse_interval
from instep.run.folder import CHECKPOINTS

CheckpointEvery = int | str | None


class Saver:
    """Saves a run in the background, every so many updates or minutes, at the best evaluation and at the end."""

    def __init__(
        self,
        *,
        every: CheckpointEvery,
        keep: int | None,
        steps_per_epoch: int,
        sharing: World | None = None,
    ) -> None:
        if keep is not None:
            require_whole("keep", keep, least=1)
        self._every_updates, self._every_s = _parse(every, steps_per_epoch)
        self._keep = keep
        self._sharing = sharing  # the processes, where each writes its share of the model
        self._writer: Writer | ShardWriter | None = None
        self._saved_step: int | None = None  # what is on the disk already, or about to be
        self._saved_at = time.monotonic()
        self.paused_at: int | None = None  # a checkpoint that is there only because the run paused then

    def open(self, folder: Path) -> None:
        """Make ready to write, or say why that cannot be: before the first step."""
        if self._sharing is None:
            self._writer = Writer(folder, keep=self._keep)
        else:
            self._writer = ShardWriter(folder, keep=self._keep, world=self._sharing)
        self._saved_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after this many updates; what went wrong in the background is raised here."""
        if self._writer is None:
            return False
        self._writer.raise_pending()
        if self._every_updates is not None:
            return step % self._every_updates == 0
        is_late = self._every_s is not None and time.monotonic() - self._saved_at >= self._every_s
        return is_late if self._every_s is None or self._sharing is None else self._sharing.broadcast_object(is_late)

    def check(self, checkpoint: Checkpoint) -> None:
        """Refuse by name what cannot be kept."""
        check(checkpoint) if self._sharing is None else seal_shards(checkpoint)

    def mark_saved(self, step: int | None) -> None:
        """The state of this step is on the disk already; None where what is there must be written again."""
        self._saved_step = step

    def save(self, checkpoint: Checkpoint) -> None:
        """Waits for a copy; the writing goes on in the background."""
        if self._writer is not None:
            self._saved_step = None
            self._writer.wait()
            self._writer.save(self._after_pause(checkpoint))
            self._saved_step = checkpoint.step
            self._saved_at = time.monotonic()

    def save_now(self, checkpoint: Checkpoint) -> None:
        """Waits until it is on the disk."""
        if self._writer is not None:
            self._saved_step = None
            self._writer.save_now(self._after_pause(checkpoint))
            self._saved_step = checkpoint.step

    def save_last(self, step: int, capture: Callable[[], Checkpoint]) -> None:
        """The state where a run pauses or ends, unless it is saved already; waits until all is on the disk."""
        if self._writer is not None:
            self._writer.wait()
            if self._saved_step != step:
                self.save_now(capture())
                self.paused_at = step

    def _after_pause(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint of a pause goes, once there is a newer one: a run that never stopped has none there."""
        if self.paused_at in (None, checkpoint.step):
            return checkpoint
        paused_at, self.paused_at = self.paused_at, None
        return replace(checkpoint, dropped=(paused_at,))

    def load(self, run: Path, which: Literal["best", "latest"] | int, parts: Collection[str] = ("model",)) -> Checkpoint:
        """These parts of a checkpoint of the run in this folder."""
        if self._writer is not None:
            self._writer.wait()
        return read(locate(run / CHECKPOINTS, which), parts=parts)

    def verified(self, run: Path, which: Literal["best", "latest"] | int) -> Path:
        """Where a checkpoint of the run in this folder is, every byte of which has been checked."""
        path = locate(run / CHECKPOINTS, which)
        verify(path)
        return path

    def close(self) -> None:
        """Wait for what is being written, and let go."""
        if self._writer is not None:
            writer, self._writer = self._writer, None
            writer.close()


def _parse(every: CheckpointEvery, steps_per_epoch: int) -> Interval:
    interval = parse_interval(every, steps_per_epoch)
    if interval is None:
        raise DescriptionError(
            f'checkpoint_every={every!r} is not known; use "epoch", "2 epochs", a number of updates, "10 minutes", or None '
            "for only the best and the last."
        )
    return interval
