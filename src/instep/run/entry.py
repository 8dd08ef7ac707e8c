"""Entry: how a run opens its folder: it locks it, compares itself with the run that is there, and reads its newest checkpoint.

Without a folder nothing is kept, and everything here does nothing. Only rank 0 enters; what it finds is for all processes.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from instep.checkpoint import Checkpoint, Skipped, read_newest, steps
from instep.errors import FolderError
from instep.records import record_class
from instep.run.changes import COMPARED, Compared, ignores_length, require_same
from instep.run.folder import RunFolder
from instep.run.history import HistoryFile
from instep.run.run_files import seconds_before_pause

if TYPE_CHECKING:
    from instep.run.run import Run


@record_class
class Found:
    """What was found in a folder, as all processes have to know it."""

    notices: tuple[str, ...] = ()
    step: int | None = None  # of the checkpoint to resume from
    is_saved: bool = True  # False where that checkpoint has to be written again: a later one is damaged
    is_begun: bool = False  # this Trainer was here before, and goes on with what it has
    has_changed: bool = False  # a checkpoint that knows nothing of an allowed change must not be resumed from


class FolderEntry:
    """The folder of one run, from its first update to its last, also where it pauses in between."""

    def __init__(self) -> None:
        self.checkpoint: Checkpoint | None = None  # what was found, on rank 0, until it is restored
        self._folder: RunFolder | None = None
        self._described: Mapping[str, Any] | None = None  # as it was before the first update, which changes the optimizer
        self._run: Run | None = None
        self._before: dict[str, Any] | None = None  # run.json as it was found
        self._is_untouched = False  # nothing is trained, so what was found stays
        self._moved: set[str] = set()  # what training has changed of what the script made, in processes before

    def enter(self, run: "Run") -> Found:
        """Take the lock of the folder and find the run that is in it."""
        if run.folder is None:
            return Found()
        folder = RunFolder(run.folder)
        before = folder.enter()
        try:
            found = self._find(run, folder, before) if self._folder is None else self._come_back(run, folder, before)
        except BaseException:
            folder.leave()
            raise
        self._folder, self._before, self._is_untouched = folder, before, False
        return found

    def leave_untouched(self) -> None:
        """Nothing is left to train: run.json stays as it is, unless it does not know yet how the run ended."""
        if self._folder is None or self._before is None:
            return
        self._folder.describe(self._before, self._before.get("created"))
        self._is_untouched = (self._before.get("status") or {}).get("state") in ("finished", "stopped")

    def set_status(self, state: str, step: int) -> None:
        if self._folder is not None and not self._is_untouched:
            self._folder.set_status(state, step)

    def forget(self) -> None:
        """Resume from the folder when it is entered next."""
        self._folder = None

    def abandon(self, found: Found) -> None:
        """Let go of a folder whose run could not be resumed; all is as before it was entered."""
        if self._folder is not None:
            self._folder.leave()
        if not found.is_begun:
            self._folder = self._described = None

    def leave(self, state: str, step: int) -> None:
        """Say how the run ended, and let go of the folder."""
        if self._folder is not None:
            try:
                self._note_pause(self._folder, state)
                self.set_status(state, step)
            finally:
                self._folder.leave()

    def _note_pause(self, folder: RunFolder, state: str) -> None:
        """What the next process has to know: what training has changed of what the script made, and a checkpoint of a pause."""
        if self._run is not None:
            paused_at = self._run.saver.paused_at if state == "interrupted" else None
            paused_after_s = round(self._run.logbook.paused_after_s, 3) if state in ("interrupted", "failed") else None
            moved = sorted(self._moved.union(self._run.moved()))
            folder.note(moved=moved, paused_at=paused_at, paused_after_s=paused_after_s)

    def _find(self, run: "Run", folder: RunFolder, before: dict[str, Any] | None) -> Found:
        now = self._describe(run)
        is_begun = before is not None and bool(steps(folder.checkpoints))
        compared = _compare(run, before, now) if before is not None and is_begun else Compared([], is_changed=False)
        _require_described(folder, before)
        run.logbook.keep_in(folder.history)
        held = run.processes.shares(run.model)
        checkpoint, skipped = read_newest(folder.checkpoints, held=held) if before is not None else (None, [])
        folder.describe(now, None if before is None else before.get("created"))
        self._described = self._described or now
        self.checkpoint = checkpoint
        self._run = run
        self._moved |= set(() if before is None else before.get("moved") or ())
        folder.note(moved=sorted(self._moved), resumed=_resumptions(before, checkpoint))
        if before is not None and checkpoint is not None and before.get("paused_at") == checkpoint.step:
            run.saver.paused_at = checkpoint.step
            folder.note(paused_at=checkpoint.step)  # for a process after a kill
        if before is not None and checkpoint is not None:
            run.logbook.paused_after_s = seconds_before_pause(before)
            folder.note(paused_after_s=run.logbook.paused_after_s)
        return Found(
            notices=(*compared.notices, *_say_found(folder, before, checkpoint, skipped)),
            step=None if checkpoint is None else checkpoint.step,
            is_saved=not skipped,
            has_changed=compared.is_changed,
        )

    def _come_back(self, run: "Run", folder: RunFolder, before: dict[str, Any] | None) -> Found:
        """To a folder that this Trainer was in before; nobody may have trained in it meanwhile."""
        step = run.state.step
        if before is None or before.get("status", {}).get("step") != step:
            raise FolderError(
                f"{run.folder} was changed since this Trainer paused at step {step}; make a new Trainer to go on from what is "
                "there."
            )
        folder.describe(before, before.get("created"))
        return Found(is_begun=True)

    def _describe(self, run: "Run") -> Mapping[str, Any]:
        """The description, with what decides the result as it was when this Trainer first came here."""
        known = self._described
        return {**run.describe(), **({} if known is None else {part: known[part] for part in COMPARED})}


def _compare(run: "Run", before: Mapping[str, Any], now: Mapping[str, Any]) -> Compared:
    longer_is_fine = ignores_length(run.options.schedule, before.get("total_steps", 0), now["total_steps"])
    return require_same(
        before,
        now,
        allowed=run.allow_changes,
        folder=run.folder,
        longer_is_fine=longer_is_fine,
        done=0 if run.state.cycles is not None else checkpoints_in(run.folder)[-1],
        workers=_worker_counts(run),
    )


def _worker_counts(run: "Run") -> list[str]:
    """The hyper-parameters that are the number of loader workers, by name and by value; one alone may be a coincidence."""
    choice = run.loader.choice
    counts = (run.options.num_workers, None if choice is None else choice.workers)
    return [name for name in ("workers", "num_workers") if name in run.hyper_parameters and run.hyper_parameters[name] in counts]


def _resumptions(before: Mapping[str, Any] | None, checkpoint: Checkpoint | None) -> list[int]:
    """The steps from which this run was resumed, this time too; a run that begins again was not."""
    return [] if before is None or checkpoint is None else [*(before.get("resumed") or ()), checkpoint.step]


def _say_found(
    folder: RunFolder, before: Mapping[str, Any] | None, checkpoint: Checkpoint | None, skipped: list[Skipped]
) -> list[str]:
    if before is None:
        return []
    if checkpoint is None:
        return ["the run in the folder has no checkpoint yet: it begins again"]
    killed_at = _killed_at(folder, before)
    why = f", the last checkpoint on the disk: the run was killed after step {killed_at:,}" if killed_at > checkpoint.step else ""
    going_on = f"going on from step {checkpoint.step:,}{why}"
    return [*(f"{one.reason} The one before it is used." for one in skipped), going_on]


def _killed_at(folder: RunFolder, before: Mapping[str, Any]) -> int:
    """The last step that a run has recorded which ended without saying so; 0 where it said how it ended."""
    if (before.get("status") or {}).get("state") != "running" or not folder.history.exists():
        return 0
    rows = HistoryFile.read(folder.history, about=0).rows
    return int(rows[-1]["step"]) if rows else 0


def _require_described(folder: RunFolder, before: Mapping[str, Any] | None) -> None:
    if before is None and (steps(folder.checkpoints) or folder.history.exists()):
        raise FolderError(
            f"{folder.path} holds the checkpoints or the history of a run, but no run.json; put it back, or use another folder."
        )


def checkpoints_in(folder: Path | None) -> list[int]:
    """The steps of the checkpoints that a run folder holds."""
    return [] if folder is None else steps(RunFolder(folder).checkpoints)
