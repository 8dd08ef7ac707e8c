"""The writer: a run hands over a checkpoint and goes on, while a thread beside it writes. One at a time.

What comes too soon after another can be held in memory instead, and is written with the next, or at the end. An error of the
thread is kept, and raised at the next call.
"""

import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from instep.checkpoint.copies import Copies
from instep.checkpoint.encoded import EncodedCheckpoint, encode_checkpoint
from instep.checkpoint.record import Checkpoint
from instep.checkpoint.write import prepare_folder, write
from instep.errors import CheckpointError

HELD_BYTES = 1 << 28  # of all that is held; a single checkpoint may be larger
NICE = 10  # a tenth of a core that others want as well


class Writer:
    """Writes the checkpoints of one run to `folder`, which is made, tried and tidied up here.

    `keep` is how many of the last to keep (None: all); the best is kept as well. With `background=False` each `save` waits for
    the disk and takes no memory for copies. `before` is called ahead of each writing, in its thread, for what has to be on the
    disk first. There must be one writer to a folder.

        with Writer(folder / "checkpoints", keep=3) as writer:
            writer.save(Checkpoint(step, {"model": model.state_dict(), …}))
    """

    def __init__(
        self,
        folder: Path,
        *,
        keep: int | None = None,
        background: bool = True,
        before: Callable[[], object] = lambda: None,
    ) -> None:
        if keep is not None and keep < 1:
            raise CheckpointError(f"keep={keep} would keep no checkpoint; use 1 or more, or None to keep all.")
        self.folder = folder
        self.written: Path | None = None  # the last one that is on the disk
        self._keep = keep
        self._background = background
        self._before = before
        self._rooms: list[Copies] = []  # one for what is written, one more for each that is held beside it
        self._held: dict[Copies, EncodedCheckpoint] = {}  # by the room of its copy, in the order of their steps
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        prepare_folder(folder)

    def save(self, checkpoint: Checkpoint) -> None:
        """Hand over a checkpoint: waits for the one before to be written and for a copy of the tensors, not for the disk.

        What is held goes with it, ahead of it, as far as it is still wanted.
        """
        encoded = self._replace_held(checkpoint)
        if not self._background:
            self._write_all([*self._take_held(), encoded])
            return
        self._hold_copy(encoded)
        # Not a daemon: a script that ends without close() still gets the checkpoint that it saved.
        self._thread = threading.Thread(target=self._write, args=(self._take_held(),), name="instep checkpoint")
        self._thread.start()

    def save_now(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint in this very thread, after what is being written: also where no thread can be started any more."""
        encoded = self._replace_held(checkpoint)
        self._write_all([*self._take_held(), encoded])

    def hold(self, checkpoint: Checkpoint) -> None:
        """Keep a copy of a checkpoint, for the next `save`, `flush` or `close` to write. Waits for the one being written.

        It takes the place of those held before it, but for the best ones that it names. All of them take `HELD_BYTES` at most, or
        there is one: what does not fit is written first.
        """
        encoded = self._replace_held(checkpoint)
        if encoded.size_bytes + sum(one.size_bytes for one in self._held.values()) > HELD_BYTES:
            self.flush()
        self._hold_copy(encoded)

    def flush(self) -> None:
        """Wait until all that was saved or held is on the disk; raises what went wrong, and then nothing is held any more."""
        self.wait()
        self._write_all(self._take_held())

    def raise_pending(self) -> None:
        """Raise what went wrong while writing, once. Costs nothing, so it can be asked after every update."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    @property
    def is_holding(self) -> bool:
        return bool(self._held)

    @property
    def writing(self) -> bool:
        """Whether a checkpoint is being written at this moment."""
        return self._thread is not None and self._thread.is_alive()

    def wait(self) -> None:
        """Wait until all that was saved is on the disk; raises what went wrong."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        self.raise_pending()

    def close(self) -> None:
        """Flush, and give the memory of the copies back; a further `save` takes it again."""
        try:
            self.flush()
        finally:
            self._rooms = []

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except CheckpointError as late:
            if error is None:
                raise
            error.add_note(f"Also: {late}")  # what broke the run is the news, not this

    def _replace_held(self, checkpoint: Checkpoint) -> EncodedCheckpoint:
        """The checkpoint, encoded, with nothing held beside it but what it names as best; and nothing being written."""
        encoded = encode_checkpoint(checkpoint)
        self.wait()
        wanted = {encoded.best, *encoded.kept} - {encoded.step}
        dropped = {step for one in self._held.values() if one.step not in wanted for step in one.dropped}
        self._held = {room: one for room, one in self._held.items() if one.step in wanted}
        return replace(encoded, dropped=tuple(dropped.union(encoded.dropped)))

    def _hold_copy(self, encoded: EncodedCheckpoint) -> None:
        room = next((room for room in self._rooms if room not in self._held), None)
        if room is None:
            self._rooms.append(room := Copies())
        self._held[room] = room.copy(encoded)

    def _take_held(self) -> list[EncodedCheckpoint]:
        held, self._held = list(self._held.values()), {}
        return held

    def _write_all(self, checkpoints: Sequence[EncodedCheckpoint]) -> None:
        if checkpoints:
            self._before()
        for encoded in checkpoints:
            self.written = write(self.folder, encoded, keep=self._keep)

    def _write(self, checkpoints: Sequence[EncodedCheckpoint]) -> None:
        _give_way()
        try:
            self._write_all(checkpoints)
        except BaseException as error:  # nobody would see it here
            self._error = error


def _give_way() -> None:
    """Let those who train go first: on Linux a thread has a priority of its own, elsewhere the process has one."""
    if sys.platform == "linux":
        thread = threading.get_native_id()
        with suppress(OSError):  # not allowed here: then it writes like everybody else
            os.setpriority(os.PRIO_PROCESS, thread, min(19, os.getpriority(os.PRIO_PROCESS, thread) + NICE))
