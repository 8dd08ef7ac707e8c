"""Saver: when a checkpoint is due, and what becomes of it. How one is written is the checkpoint room's business."""

import math
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
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

AUTO = "auto"  # at the end of each epoch, and of those that come too soon only the last and the best ones
# Writing a small checkpoint takes 10 to 45 ms, most of them for waiting until the disk has it: under half a percent of 10 s. And
# more than 10 s, beside the epoch that it was in, nobody has to train again after a kill.
HELD_BACK_S = 10.0


class Saver:
    """Saves a run in the background, every so many updates or minutes, at the best evaluation and at the end.

    With `every="auto"` what comes within `HELD_BACK_S` of the last one written stays in memory until then, or until the run ends
    or pauses, unless a newer or a better one takes its place.
    """

    def __init__(
        self,
        *,
        every: CheckpointEvery,
        keep: int | None,
        steps_per_epoch: int,
        sharing: World | None = None,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        if keep is not None:
            require_whole("keep", keep, least=1)
        self._every_updates, self._every_s = _parse(every, steps_per_epoch)
        self._holds_back = every == AUTO
        self._keep = keep
        self._before = before  # writing: what has to be on the disk first
        self._sharing = sharing  # the processes, where each writes its share of the model
        self._writer: Writer | ShardWriter | None = None
        self._saved_step: int | None = None  # what is on the disk already, or about to be
        self._saved_at = time.monotonic()
        self.paused_at: int | None = None  # a checkpoint that is there only because the run paused then
        self.is_behind = False  # what was held back could not be written, so the run goes on from what is on the disk

    def open(self, folder: Path) -> None:
        """Make ready to write, or say why that cannot be: before the first step."""
        if self._sharing is None:
            self._writer = Writer(folder, keep=self._keep, before=self._before)
        else:
            self._writer = ShardWriter(folder, keep=self._keep, before=self._before, world=self._sharing)
        self._saved_at = -math.inf if self._holds_back else time.monotonic()  # the first of all is not held back
        self.is_behind = False

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
        """Waits for a copy; the writing goes on in the background, or later."""
        if self._writer is not None:
            self._saved_step = None
            self._writer.wait()
            if self._holds_back and time.monotonic() - self._saved_at < HELD_BACK_S:
                self._writer.hold(self._after_pause(checkpoint))
            else:
                self._writer.save(self._after_pause(checkpoint))
                self._saved_at = time.monotonic()
            self._saved_step = checkpoint.step

    def save_now(self, checkpoint: Checkpoint) -> None:
        """Waits until it is on the disk."""
        if self._writer is not None:
            self._saved_step = None
            with self._losing_what_is_held(self._writer):
                self._writer.save_now(self._after_pause(checkpoint))
            self._saved_step = checkpoint.step

    def save_last(self, step: int, capture: Callable[[], Checkpoint]) -> None:
        """The state where a run pauses or ends, unless it is saved already; waits until all is on the disk."""
        if self._writer is not None:
            self._writer.wait()
            if self._saved_step != step:
                self.save_now(capture())
                self.paused_at = step
            self._flush()

    def _flush(self) -> None:
        """Have on the disk what is held back."""
        if self._writer is not None:
            with self._losing_what_is_held(self._writer):
                self._writer.flush()

    @contextmanager
    def _losing_what_is_held(self, writer: Writer | ShardWriter) -> Iterator[None]:
        """An error in here is that it could not be written."""
        is_holding = writer.is_holding
        try:
            yield
        except BaseException:
            self.is_behind |= is_holding
            raise

    def _after_pause(self, checkpoint: Checkpoint) -> Checkpoint:
        """The checkpoint of a pause goes, once there is a newer one: a run that never stopped has none there."""
        if self.paused_at in (None, checkpoint.step):
            return checkpoint
        paused_at, self.paused_at = self.paused_at, None
        return replace(checkpoint, dropped=(paused_at,))

    def load(self, run: Path, which: Literal["best", "latest"] | int, parts: Collection[str] = ("model",)) -> Checkpoint:
        """These parts of a checkpoint of the run in this folder."""
        self._flush()
        return read(locate(run / CHECKPOINTS, which), parts=parts)

    def verified(self, run: Path, which: Literal["best", "latest"] | int) -> Path:
        """Where a checkpoint of the run in this folder is, every byte of which has been checked."""
        path = locate(run / CHECKPOINTS, which)
        verify(path)
        return path

    def close(self) -> None:
        """Wait until all is on the disk, and let go."""
        try:
            self._flush()
        finally:
            writer, self._writer = self._writer, None
            if writer is not None:
                writer.close()


def _parse(every: CheckpointEvery, steps_per_epoch: int) -> Interval:
    interval = parse_interval("epoch" if every == AUTO else every, steps_per_epoch)
    if interval is None:
        raise DescriptionError(
            f'checkpoint_every={every!r} is not known; use "epoch", "2 epochs", a number of updates, "10 minutes", "auto", or '
            "None for only the best and the last."
        )
    return interval
