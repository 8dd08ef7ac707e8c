"""The writer: a run hands over a checkpoint and goes on, while a thread beside it writes. One at a time.

An error of that thread is kept, and raised at the next call.
"""

import threading
from pathlib import Path
from types import TracebackType

from instep.checkpoint.copies import Copies
from instep.checkpoint.encoded import EncodedCheckpoint, encode_checkpoint
from instep.checkpoint.record import Checkpoint
from instep.checkpoint.write import prepare_folder, write
from instep.errors import CheckpointError


class Writer:
    """Writes the checkpoints of one run to `folder`, which is made, tried and tidied up here.

    `keep` is how many of the last to keep (None: all); the best is kept as well. With `background=False` each `save` waits for
    the disk and takes no memory for copies. There must be one writer to a folder.

        with Writer(folder / "checkpoints", keep=3) as writer:
            writer.save(Checkpoint(step, {"model": model.state_dict(), …}))
    """

    def __init__(self, folder: Path, *, keep: int | None = None, background: bool = True) -> None:
        if keep is not None and keep < 1:
            raise CheckpointError(f"keep={keep} would keep no checkpoint; use 1 or more, or None to keep all.")
        self.folder = folder
        self.written: Path | None = None  # the last one that is on the disk
        self._keep = keep
        self._copies = Copies() if background else None
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        prepare_folder(folder)

    def save(self, checkpoint: Checkpoint) -> None:
        """Hand over a checkpoint: waits for the one before to be written and for a copy of the tensors, not for the disk."""
        encoded = encode_checkpoint(checkpoint)
        self.wait()
        if self._copies is None:
            self.written = write(self.folder, encoded, keep=self._keep)
            return
        copied = self._copies.copy(encoded)
        # Not a daemon: a script that ends without close() still gets the checkpoint that it saved.
        self._thread = threading.Thread(target=self._write, args=(copied,), name="instep checkpoint")
        self._thread.start()

    def save_now(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint in this very thread, after what is being written: also where no thread can be started any more."""
        encoded = encode_checkpoint(checkpoint)
        self.wait()
        self.written = write(self.folder, encoded, keep=self._keep)

    def raise_pending(self) -> None:
        """Raise what went wrong while writing, once. Costs nothing, so it can be asked after every update."""
        if self._error is not None:
            error, self._error = self._error, None
            raise error

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
        """Wait, and give the memory of the copies back; a further `save` takes it again."""
        try:
            self.wait()
        finally:
            self._copies = None if self._copies is None else Copies()

    def __enter__(self) -> "Writer":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        try:
            self.close()
        except CheckpointError as late:
            if error is None:
                raise
            error.add_note(f"Also: {late}")  # what broke the run is the news, not this

    def _write(self, encoded: EncodedCheckpoint) -> None:
        try:
            self.written = write(self.folder, encoded, keep=self._keep)
        except BaseException as error:  # nobody would see it here
            self._error = error
