"""New processes: the trainings of a proof that need some, made one after the other beside what is tried in this one."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from instep.proof import children
from instep.proof.children import Child, ChildFailed
from instep.proof.record import Record
from instep.proof.split import own_dtype
from instep.proof.trial import Trial

PROCESSES = 2  # that share a training


class NewProcesses:
    """The trainings in new processes: one after the other, beside what is tried in this one."""

    def __init__(self, trial: Trial, promises: Collection[str], *, is_wanted: bool) -> None:
        self._trial = trial
        self._started: list[Child] = []
        self._is_over = False
        self._failure = ""  # of the new process
        self._pool = ThreadPoolExecutor(max_workers=1)
        subject = trial.subject
        self.has_any = subject.origin is not None and is_wanted
        if not self.has_any:
            return
        is_stopped = "interrupt" in promises and subject.steps > 1
        self._fresh = self._pool.submit(self._kill_and_resume if is_stopped else self._repeat)
        if "spread" in promises and not too_small(trial):
            self._spread = self._pool.submit(self._records, "spread", spread_arrangements(trial), processes=PROCESSES)

    def again(self) -> Record:
        """The same run in a new process."""
        fresh = self._fresh.result()
        if not fresh:
            raise ChildFailed(self._failure)
        return fresh[0]

    def resumed(self) -> Record:
        """The run that was killed, resumed in that new process."""
        fresh = self._fresh.result()
        if len(fresh) < 2:
            raise ChildFailed(self._failure)
        return fresh[1]

    def spread(self) -> list[Record]:
        return self._spread.result()

    def _repeat(self) -> list[Record]:
        return self._ended(self._start("again", [{}]))

    def _ended(self, child: Child) -> list[Record]:
        """What a process has recorded, also where it failed after that."""
        try:
            return child.records()
        except ChildFailed as error:
            self._failure = str(error)
            return children.read_records(child.folder)

    def _records(self, folder: str, arrangements: list[dict[str, Any]], **how: Any) -> list[Record]:
        return self._start(folder, arrangements, **how).records()

    def _start(self, folder: str, arrangements: list[dict[str, Any]], **how: Any) -> Child:
        if self._is_over:
            raise ChildFailed("the proof is over.")
        self._started.append(children.start(self._trial.subject, self._trial.folder / folder, arrangements, **how))
        return self._started[-1]

    def _kill_and_resume(self) -> list[Record]:
        """Kill one process; a second one trains from the start, then it goes on where the first was killed."""
        stop, changes = stopping(self._trial)
        killed = self._start("killed", [{"changes": changes}], kill_at=stop)
        if killed.wait() >= 0:
            self._failure = f"before it was killed: {children.last_words(killed.folder)}"
            return []
        return self._ended(self._start("resumed", [{}, {"changes": changes}]))

    def close(self) -> None:
        """End those that are still at work."""
        self._is_over = True
        for child in self._started:
            child.end()
        self._pool.shutdown()


def stopping(trial: Trial) -> tuple[int, dict[str, Any]]:
    """In which update the run is stopped, and where it keeps what it goes on from."""
    steps = trial.subject.steps
    stop = steps // 2 + 1 if steps > 2 else 1
    return stop, {"folder": str(trial.folder / "run"), "checkpoint_every": max(1, stop // 3)}


def spread_arrangements(trial: Trial) -> list[dict[str, Any]]:
    """In the run's own precision, and in float64."""
    changes: dict[str, Any] = {"update_cycle": 1, "micro_batch_size": None}
    if torch.accelerator.is_available() and torch.accelerator.device_count() < PROCESSES:
        changes["device"] = "cpu"
    kinds = [False] if own_dtype(trial.look) is torch.float64 else [False, True]
    initial = trial.folder / "initial.pt"
    if not initial.exists():
        torch.save(trial.look.model.state_dict(), initial)
    return [{"changes": changes, "in_float64": is_wide, "initial": str(initial)} for is_wide in kinds]


def too_small(trial: Trial) -> bool:
    plan = trial.look.plan
    return not trial.look.feed.is_dataloader and min(plan.batch_size, plan.samples) < PROCESSES * plan.fewest
