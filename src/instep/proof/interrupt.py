"""Promise 2, interrupt: a real kill in the middle of an update, and a new process that goes on."""

import contextlib
from typing import Any

from instep.proof.causes import find_causes
from instep.proof.children import ChildFailed
from instep.proof.new_processes import NewProcesses, stopping
from instep.proof.record import Record
from instep.proof.repeat import find_process_causes
from instep.proof.result import Row
from instep.proof.subject import Arrangement, quiet
from instep.proof.trial import Trial


def prove_interrupt(trial: Trial, processes: NewProcesses) -> Row:
    """A run that is killed in the middle of an update and started again, beside the run that never stopped."""
    if trial.subject.steps < 2:
        return Row("interrupt", "", "does not apply", meaning="a run of one update has nothing to go on with.")
    stop, changes = stopping(trial)
    if not processes.has_any:
        return _in_this_process(trial, stop, changes)
    words = f"kill -9 in update {stop}, then resumed"
    trial.tell(words)
    try:
        return _judge(trial, words, processes.resumed())
    except ChildFailed as error:
        causes = find_process_causes(trial, only_seen=True)
        return Row("interrupt", words, "fails", meaning=f"The run could not be resumed: {error}", causes=causes)


def _in_this_process(trial: Trial, stop: int, folder: dict[str, Any]) -> Row:
    """For a build that no other process can find."""
    words = f"stopped after update {stop}, resumed here"
    trial.tell(words)
    with quiet(), contextlib.closing(trial.subject.trainer(Arrangement(folder)).updates()) as updates:
        for update in updates:
            if update.step + 1 == stop:
                break
    return _judge(trial, words, trial.train(Arrangement(folder)))


def _judge(trial: Trial, words: str, resumed: Record) -> Row:
    if resumed.resumed_from is None:
        return Row("interrupt", words, "fails", meaning="nothing was there to resume from.")
    holds = (
        f"it went on from the checkpoint of step {resumed.resumed_from}; weights, losses and history are those of the run that "
    )
    resumed.state = {name: value for name, value in resumed.state.items() if not name.startswith("attributes/")}
    return trial.judge(
        "interrupt", words, resumed, f"{holds}never stopped.", lambda found: find_causes(trial, found), history=True
    )
