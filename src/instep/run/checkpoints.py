"""The saver: when a checkpoint is due, and what becomes of it. How one is written is the checkpoint room's business."""

import time
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Literal

from instep.checkpoint import Checkpoint, Writer, check, locate, read, verify
from instep.checkpoint.sharded import ShardWriter, seal_shards
from instep.distributed.world import World
from instep.errors import CheckpointError, DescriptionError, FolderError
from instep.loop.batch_plan import require_whole
from instep.run.folder import CHECKPOINTS

CheckpointEvery = int | str | None
OnCheckpointError = Literal["stop", "continue"]


class Saver:
    """Saves a run in the background, every so many updates or minutes, at the best evaluation and at the end."""

    def __init__(
        self,
        *,
        every: CheckpointEvery,
        keep: int | None,
        on_error: OnCheckpointError,
        steps_per_epoch: int,
        note: Callable[[str], None],
        world: World | None = None,
    ) -> None:
        if keep is not None:
            require_whole("keep", keep, least=1)
        if on_error not in ("stop", "continue"):
            raise DescriptionError(f'on_checkpoint_error={on_error!r} is not known; use "stop" or "continue".')
        self._every_updates, self._every_s = _interval(every, steps_per_epoch)
        self._keep = keep
        self._on_error = on_error
        self._note = note
        self._world = world  # where all processes write together, each its share
        self._writer: Writer | ShardWriter | None = None
        self.saved_step: int | None = None  # what is on the disk already, or about to be
        self._saved_at = time.monotonic()

    def open(self, folder: Path) -> None:
        """Make ready to write, or say why that cannot be: before the first step."""
        if self._world is None:
            self._writer = Writer(folder, keep=self._keep)
        else:
            self._writer = ShardWriter(folder, keep=self._keep, world=self._world)
        self._saved_at = time.monotonic()

    def due(self, step: int) -> bool:
        """Whether a checkpoint is due after this many updates; what went wrong in the background is said here."""
        if self._writer is None:
            return False
        if not self.guarded(self._writer.raise_pending):
            self.saved_step = None
        if self._every_updates is not None:
            return step % self._every_updates == 0
        is_late = self._every_s is not None and time.monotonic() - self._saved_at >= self._every_s
        return is_late if self._every_s is None or self._world is None else self._world.of_first(is_late)

    def check(self, checkpoint: Checkpoint) -> None:
        """Refuse by name what cannot be kept."""
        check(checkpoint) if self._world is None else seal_shards(checkpoint)

    def save(self, checkpoint: Checkpoint) -> None:
        """Waits for a copy; the writing goes on in the background."""
        if self._writer is not None:
            writer = self._writer
            self.guarded(writer.wait)  # what went wrong with the one before must not cost this one
            saved = self.guarded(lambda: writer.save(checkpoint))
            self.saved_step = checkpoint.step if saved else None
            self._saved_at = time.monotonic()

    def save_now(self, checkpoint: Checkpoint) -> None:
        """Waits until it is on the disk."""
        if self._writer is not None:
            writer = self._writer
            saved = self.guarded(lambda: writer.save_now(checkpoint))
            self.saved_step = checkpoint.step if saved else None

    def save_last(self, step: int, capture: Callable[[], Checkpoint]) -> None:
        """The state where a run pauses or ends, unless it is saved already; waits until all is on the disk."""
        if self._writer is not None:
            writer = self._writer
            is_written = self.guarded(writer.wait)
            if self.saved_step != step or not is_written:
                self.save_now(capture())

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
            self.guarded(writer.close)

    def guarded(self, do: Callable[[], object]) -> bool:
        """Whether it went well; what did not is raised, or noted where the run is to go on."""
        try:
            do()
        except (CheckpointError, FolderError) as error:
            if self._on_error == "stop":
                raise
            self._note(f"{error} The run goes on without it.")
            return False
        return True


def _interval(every: CheckpointEvery, steps_per_epoch: int) -> tuple[int | None, float | None]:
    """Updates or seconds between two checkpoints."""
    if every is None:
        return None, None
    if isinstance(every, int) and not isinstance(every, bool) and every >= 1:
        return every, None
    words = every.split() if isinstance(every, str) else []
    if words == ["epoch"]:
        return steps_per_epoch, None
    if len(words) == 2 and words[1] in ("minute", "minutes") and words[0].replace(".", "", 1).isdecimal() and float(words[0]) > 0:
        return None, 60 * float(words[0])
    if len(words) == 2 and words[1] in ("epoch", "epochs", "updates") and words[0].isdecimal() and int(words[0]) >= 1:
        return int(words[0]) * (1 if words[1] == "updates" else steps_per_epoch), None
    raise DescriptionError(
        f'checkpoint_every={every!r} is not known; use "epoch", "2 epochs", a number of updates, "10 minutes", or None '
        "for only the best and the last."
    )
