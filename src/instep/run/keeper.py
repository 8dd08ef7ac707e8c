"""The keeper: the folder of a run while it trains: held by a lock, gone on with where it holds an unfinished run, saved to.

Without a folder nothing is kept, and everything here does nothing.
"""

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from instep.checkpoint import Checkpoint, read_newest, steps
from instep.checkpoint.rows import Holding
from instep.errors import FolderError
from instep.run.changes import COMPARED, ignores_length, require_same
from instep.run.checkpoints import Saver
from instep.run.folder import RunFolder
from instep.run.logbook import Logbook

Description = Callable[[], Mapping[str, Any]]


class Keeper:
    """Enters a run folder before the first update and leaves it after the last one, however that comes about."""

    def __init__(
        self,
        saver: Saver,
        logbook: Logbook,
        *,
        allow_changes: Collection[str],
        schedule: Any,
        capture: Callable[[], Checkpoint],
        restore: Callable[[Checkpoint], None],
        held: Holding | None = None,
    ) -> None:
        self._saver = saver
        self._logbook = logbook
        self._allow_changes = allow_changes
        self._schedule = schedule
        self._capture = capture
        self._restore = restore
        self._held = held  # where this process holds a share of the model: all of them save together
        self.save_is_due = False
        self._folder: RunFolder | None = None
        self._described: Mapping[str, Any] | None = None  # as it was before the first update, which changes the optimizer

    def enter(self, path: Path | None, description: Description, step: int) -> list[str]:
        """Hold the folder, and go on with the run that is in it; returns what should be said about that."""
        if path is None:
            return []
        folder = RunFolder(path)
        before = folder.enter()
        try:
            if self._folder is None:
                now = self._description(description)
                is_begun = before is not None and bool(steps(folder.checkpoints))
                notices = self._compare(before, now, path) if before is not None and is_begun else []
                _require_known(folder, before)
                notices += self._take_up(folder, before)
                folder.describe(now, None if before is None else before.get("created"))
                changed = before is not None and is_begun and any(before.get(part) != now.get(part) for part in COMPARED)
            else:
                now, notices, changed = {}, [], False
                folder.describe(*_as_it_was_left(before, path, step))
            self._saver.open(folder.checkpoints)
            if changed:  # a checkpoint that knows nothing of an allowed change must not be gone on from
                self.save_is_due = self._held is not None
                if not self.save_is_due:
                    self._saver.save_now(self._capture())
        except BaseException:
            folder.leave()
            raise
        self._folder = folder
        self._described = self._described or now
        return notices

    def _description(self, description: Description) -> Mapping[str, Any]:
        """What decides the result as it was when this Trainer first came here."""
        known = self._described
        return {**description(), **({} if known is None else {part: known[part] for part in COMPARED})}

    def set_status(self, state: str, step: int) -> None:
        if self._folder is not None:
            folder = self._folder
            self._saver.guarded(lambda: folder.set_status(state, step))

    def forget(self) -> None:
        """Take up what is in the folder when it is entered next."""
        self._folder = None

    def leave(self, state: str, step: int) -> None:
        """Wait for what is being written and let go of the folder."""
        try:
            self._saver.close()
        finally:
            if self._folder is not None:
                try:
                    self.set_status(state, step)
                finally:
                    self._folder.leave()

    def _compare(self, before: Mapping[str, Any], now: Mapping[str, Any], path: Path) -> list[str]:
        longer_is_fine = ignores_length(self._schedule, before.get("total_steps", 0), now["total_steps"])
        return require_same(before, now, allowed=self._allow_changes, folder=path, longer_is_fine=longer_is_fine)

    def _take_up(self, folder: RunFolder, before: Mapping[str, Any] | None) -> list[str]:
        self._logbook.keep_in(folder.history)
        checkpoint, skipped = read_newest(folder.checkpoints, held=self._held) if before is not None else (None, [])
        if checkpoint is None:
            self._logbook.restore(None)
            self._saver.check(self._capture())  # what cannot be kept is said now, not at the first checkpoint
            return [] if before is None else ["the run in the folder has no checkpoint yet: it begins again"]
        self._restore(checkpoint)
        self._saver.saved_step = None if skipped else checkpoint.step
        return [*(f"{one.reason} The one before it is used." for one in skipped), f"going on from step {checkpoint.step}"]


def _as_it_was_left(before: dict[str, Any] | None, path: Path, step: int) -> tuple[dict[str, Any], str | None]:
    """The description in a folder that this process comes back to; nobody may have trained in it meanwhile."""
    if before is None or before.get("status", {}).get("step") != step:
        raise FolderError(
            f"{path} was changed since this Trainer paused at step {step}; make a new Trainer to go on from what is there."
        )
    return before, before.get("created")


def _require_known(folder: RunFolder, before: Mapping[str, Any] | None) -> None:
    if before is None and (steps(folder.checkpoints) or folder.history.exists()):
        raise FolderError(
            f"{folder.path} holds the checkpoints or the history of a run, but no run.json; put it back, or use another folder."
        )
