"""Promises that need new processes: repeat, interrupt (with a real kill), spread (with real torchrun processes)."""

import ast
import contextlib
from collections.abc import Collection, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import torch

from instep.proof import children
from instep.proof.causes import find_causes, of_process, process_calls
from instep.proof.children import Child, ChildFailed
from instep.proof.record import Difference, Record, apart, compare, gradients_apart, weights_apart
from instep.proof.result import Cause, Row
from instep.proof.split import BOUNDS, own_dtype
from instep.proof.subject import Arrangement, quiet, rounds_to
from instep.proof.trial import Trial
from instep.text import listed

PROCESSES = 2
DRIFT = 1e-6  # of losses and weights after some updates in float64: rounding grows from one to the next
DRIFT_OWN = 5e-2  # of losses where there is no float64


class NewProcesses:
    """The trainings in new processes: one after the other, beside what is tried in this one."""

    def __init__(self, trial: Trial, promises: Collection[str]) -> None:
        self._trial = trial
        self._started: list[Child] = []
        self._is_over = False
        self._failure = ""  # of the new process
        self._pool = ThreadPoolExecutor(max_workers=1)
        subject = trial.subject
        self.has_any = subject.origin is not None
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
            if child.process.poll() is None:
                child.process.kill()
        self._pool.shutdown()


# --- Repeat


def repeat_here(trial: Trial) -> Row | None:
    """The same run twice in this process; None where it is the same."""
    trial.tell("the same run twice")
    found = compare(trial.baseline, trial.train(Arrangement()), history=True)
    if found is None:
        return None
    causes = tuple(find_causes(trial, found))
    return Row("repeat", "twice in one process", "differs", found.size, f"First to differ: {found}.", causes)


def repeat_elsewhere(trial: Trial, processes: NewProcesses) -> Row:
    """And once in a new process."""
    if not processes.has_any:
        return Row("repeat", "twice in one process", "bitwise", meaning="the run depends on nothing but its description.")
    words = "twice here, once in a new process"
    trial.tell(words)
    try:
        other = processes.again()
    except ChildFailed as error:
        return Row("repeat", words, "fails", meaning=f"In a new process: {error}", causes=_of_new_process(trial))
    found = compare(trial.baseline, other, history=True)
    if found is not None:
        meaning = f"Twice here it is the same; in a new process {found} is the first to differ."
        return Row("repeat", words, "differs", found.size, meaning, _of_new_process(trial))
    return Row("repeat", words, "bitwise", meaning="the run depends on nothing but its description.")


def _of_new_process(trial: Trial) -> tuple[Cause, ...]:
    """Whether it is the hash seed: new processes with the same one agree, with others they do not."""
    seeds = ("1", "1", "2", "3")
    started = [
        children.start(trial.subject, trial.folder / f"hash-{place}", [{}], environment={"PYTHONHASHSEED": seed})
        for place, seed in enumerate(seeds)
    ]
    left: list[Record | None] = []
    for child in started:
        with contextlib.suppress(ChildFailed):
            left.append(child.records()[0])
            continue
        left.append(None)
    same = [record is not None and left[0] is not None and compare(left[0], record) is None for record in left[1:]]
    calls = process_calls(trial)
    return (of_process(calls, by_hash=same[0] and not all(same), lines=list(set_lines(trial))),)


def set_lines(trial: Trial) -> Iterator[str]:
    """The lines of the user's file in which the order of a set, or hash(), is used."""
    with contextlib.suppress(OSError, SyntaxError, TypeError):
        file = Path(trial.subject.file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if any(_is_set(part) for part in _ordered_by(node)):
                yield f"{file.name}:{node.lineno}"  # type: ignore[attr-defined]


def _ordered_by(node: ast.AST) -> list[ast.AST]:
    """What a node takes in its own order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "hash":
            return [ast.Set(elts=[])]
        return list(node.args) if node.func.id in ("list", "tuple", "enumerate", "iter", "zip") else []
    if isinstance(node, ast.For):
        return [node.iter]
    return [part.iter for part in node.generators] if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) else []


def _is_set(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return is_call or isinstance(node, ast.Set | ast.SetComp)


# --- Interrupt


def stopping(trial: Trial) -> tuple[int, dict[str, Any]]:
    """In which update the run is stopped, and where it keeps what it goes on from."""
    steps = trial.subject.steps
    stop = steps // 2 + 1 if steps > 2 else 1
    return stop, {"folder": str(trial.folder / "run"), "checkpoint_every": max(1, stop // 3)}


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
        return Row("interrupt", words, "fails", meaning=f"The run could not be resumed: {error}")


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


# --- Spread


def spread_arrangements(trial: Trial) -> list[dict[str, Any]]:
    """In the run's own precision, and in float64."""
    changes: dict[str, Any] = {"update_cycle": 1, "micro_batch_size": None}
    if torch.accelerator.is_available() and torch.accelerator.device_count() < PROCESSES:
        changes["device"] = "cpu"
    kinds = [False] if own_dtype(trial.look) is torch.float64 else [False, True]
    return [{"changes": changes, "in_float64": is_wide} for is_wide in kinds]


def too_small(trial: Trial) -> bool:
    plan = trial.look.plan
    return not trial.look.feed.is_dataloader and min(plan.batch_size, plan.samples) < PROCESSES * plan.fewest


def prove_spread(trial: Trial, processes: NewProcesses) -> Row:
    """Two processes under torchrun, beside one that makes the same micro-batches."""
    words = f"{PROCESSES} processes, beside update_cycle={PROCESSES}"
    if not processes.has_any:
        meaning = "no other process can find this build(); put it into a file: instep prove FILE.py"
        return Row("spread", words, "not tried", meaning=meaning)
    if too_small(trial):
        return Row("spread", words, "does not apply", meaning="a batch is too small for two processes.")
    trial.tell(words)
    cycle = PROCESSES if trial.look.feed.is_dataloader else 1
    alone: list[Record] = []
    for arranged in spread_arrangements(trial):
        is_wide, changes = arranged["in_float64"], {**arranged["changes"], "update_cycle": cycle}
        with contextlib.suppress(*([Exception] if is_wide else [])):
            alone.append(trial.train(Arrangement(changes, pieces=PROCESSES, in_float64=is_wide)))
    failure = ""
    try:
        found = processes.spread()
    except ChildFailed as error:
        found, failure = children.read_records(trial.folder / "spread"), str(error)
    if not found:
        if failure.startswith("DescriptionError"):
            return Row("spread", words, "does not apply", meaning=failure.partition(": ")[2])
        return Row("spread", words, "fails", meaning=failure)
    return _compared(trial, words, alone, found, own_dtype(trial.look))


def _compared(trial: Trial, words: str, alone: list[Record], found: list[Record], own: torch.dtype) -> Row:
    wide = len(alone) > 1 and len(found) > 1
    one, other = (alone[-1], found[-1]) if wide else (alone[0], found[0])
    judged_in = torch.float64 if wide or own is torch.float64 else own
    bound = BOUNDS[judged_in]
    measured = {str(own).removeprefix("torch."): gradients_apart(alone[0].first_gradients, found[0].first_gradients)[0]}
    worst, tensor = gradients_apart(one.first_gradients, other.first_gradients)
    measured[str(judged_in).removeprefix("torch.")] = worst
    drift = _losses_apart(one, other)
    weights = weights_apart(one.state, other.state)
    common: dict[str, Any] = {"measured": measured, "bound": bound}
    said = f"{rounds_to(worst)} in {str(judged_in).removeprefix('torch.')}, bound {rounds_to(bound)}"
    buffers = [
        name.partition("/")[2]
        for name, value in one.state.items()
        if name.startswith("buffers/") and isinstance(value, torch.Tensor) and apart(value, other.state.get(name)) > DRIFT
    ]
    if any(mine.indices[: len(theirs.indices)] != theirs.indices for mine, theirs in zip(one.steps, other.steps, strict=False)):
        found_first = Difference("samples", "", None, weights)
        causes = tuple(find_causes(trial, found_first))
        return Row("spread", words, "differs", weights, "the processes take other samples.", causes, **common)
    limit = DRIFT if judged_in is torch.float64 else DRIFT_OWN
    if worst > bound or drift > limit or (judged_in is torch.float64 and weights > DRIFT * 100):
        first = Difference("batch" if worst > bound else "loss", tensor, 0, max(worst, drift, weights))
        causes = tuple(find_causes(trial, first))
        meaning = (
            f"the gradient of the first update ({tensor}) differs by {said}; losses differ by {rounds_to(drift)}: no rounding."
        )
        return Row("spread", words, "differs", max(worst, drift), meaning, causes, **common)
    if buffers:
        return Row(
            "spread",
            words,
            "differs",
            weights,
            f"weights are equal ({said}), buffers are not.",
            (_of_buffers(trial, buffers),),
            **common,
        )
    meaning = (
        f"processes give the training of an update cycle of as many; the rest is rounding: {said}. Over whole batches, see split."
    )
    return Row("spread", words, "exact", measured[str(own).removeprefix("torch.")], meaning, **common)


def _losses_apart(one: Record, other: Record) -> float:
    pairs = zip(one.steps, other.steps, strict=False)
    gaps = [abs(a.losses[name] - b.losses[name]) / (abs(a.losses[name]) or 1.0) for a, b in pairs for name in a.losses]
    return max(gaps, default=0.0)


def _of_buffers(trial: Trial, buffers: list[str]) -> Cause:
    if any(name.rpartition(".")[2] in ("running_mean", "running_var") for name in buffers):
        return Cause(
            "batchnorm",
            f"each process has running statistics of its own share of the batch; those of the first are kept ({listed(buffers, 3)}).",
            "use GroupNorm or LayerNorm, or sync_batchnorm=True on accelerators.",
            listed(buffers, 3),
        )
    return Cause(
        "forward-state",
        f"{listed(buffers, 3)}: changed by each forward, and a process makes those of its own share.",
        "where it only counts, nothing; else change it once an update, in your loop over trainer.updates().",
        listed(buffers, 3),
    )
