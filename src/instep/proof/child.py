"""What a child of a proof does: build, train as arranged, and leave a record; killed in the middle of an update where asked."""

import json
import os
import pickle
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from instep.checkpoint import steps
from instep.loop.objective import Objective
from instep.proof.children import TASK, Task
from instep.proof.record import Trainer, record_training
from instep.proof.subject import Arrangement, Subject, quiet, wide
from instep.run.folder import CHECKPOINTS
from instep.run.run import Run

WAITS_S = 60.0  # for the first checkpoint, which is written in the background


def task_of_child() -> Task | None:
    """What this process was started for; None where it is no child of a proof."""
    path = os.environ.get(TASK)
    return None if path is None else Task(**json.loads(Path(path).read_text(encoding="utf-8")))


def values_of(task: Task) -> dict[str, Any] | None:
    """The values for build, where the arguments do not say them; they may need the user's file, which is loaded by now."""
    if task.values is None:
        return None
    values: dict[str, Any] = pickle.loads(Path(task.values).read_bytes())
    return values


def run_child(task: Task, build: Callable[[], Trainer]) -> int:
    """Do the task; returns the exit code."""
    os.environ.pop(TASK, None)  # what the user's code starts is no child
    folder, rank = Path(task.folder), int(os.environ.get("RANK", "0"))
    try:
        for place, arranged in enumerate(task.arrangements):
            torch.set_num_threads(task.threads)
            arrangement = Arrangement(**arranged)
            with quiet():
                trainer = Subject(build, task.steps, at=task.at).trainer(arrangement)
                if task.kill_at is not None:
                    _die_in(trainer.run, task.kill_at)
                with wide(arrangement.in_float64):
                    record = record_training(trainer)
            if rank == 0:
                (folder / f"record-{place}.pkl").write_bytes(pickle.dumps(record))
    except Exception as error:
        words = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        (folder / f"error-{rank}.txt").write_text(f"{type(error).__name__}: {words}", encoding="utf-8")
        raise
    return 0


def _die_in(run: Run, step: int) -> None:
    """Kill this process, as `kill -9` does, in the forward of an update, once a checkpoint is on the disk."""

    def around(objective: Objective) -> Objective:
        def forward(model: Any, batch: Any) -> Any:
            loss = objective(model, batch)
            if run.state.step >= step:
                _wait_for_checkpoint(run)
                os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
            return loss

        return forward

    run.leader.wrap(around)


def _wait_for_checkpoint(run: Run) -> None:
    assert run.folder is not None
    until = time.monotonic() + WAITS_S
    while not steps(run.folder / CHECKPOINTS) and time.monotonic() < until:
        time.sleep(0.01)
