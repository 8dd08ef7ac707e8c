"""Jobs: who trains the trials. One job is this process; more are processes of their own, which end with this one.

A job asks for every evaluation whether to go on; the process that runs the sweep answers. It alone uses the storage.
"""

import multiprocessing
import os
import pickle
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from instep.distributed.interrupt import Interrupt
from instep.errors import DescriptionError, InstepError
from instep.integrations.sweep.record import Ending
from instep.integrations.sweep.trial import MakeTrainer, Task, train_trial

NextTask = Callable[[], Task | None]
# a trial, the number of its evaluation, the value, whether it is the last; the answer is whether to stop there
Report = Callable[[int, int, float, bool], bool]
Finish = Callable[[int, Ending], None]
LOOK_S = 0.2  # between two looks at what the user has asked for


def train_here(make: MakeTrainer, metric: str, next_task: NextTask, report: Report, finish: Finish) -> int | None:
    """Train one trial after the other in this process; gives the signal that stopped it."""
    with Interrupt() as interrupt:
        while interrupt.signal is None and (task := next_task()) is not None:
            trial = task.trial

            def report_one(evaluation: int, value: float, is_last: bool, trial: int = trial) -> bool:
                return report(trial, evaluation, value, is_last)

            finish(trial, train_trial(make, task, metric, report_one, lambda: interrupt.signal is not None))
        return interrupt.signal


def train_in_processes(
    make: MakeTrainer, metric: str, next_task: NextTask, report: Report, finish: Finish, *, jobs: int
) -> int | None:
    """Train so many trials at a time, each in a process; gives the signal that stopped them."""
    _require_picklable(make, jobs)
    with Interrupt() as interrupt, _pool(make, metric, jobs) as pool:
        may_be_more = True  # trials to train: asked for again when one has ended
        while True:
            if interrupt.signal is not None:
                pool.stop.set()
                may_be_more = False
            for worker in pool.workers:
                if worker.task is None and may_be_more:
                    worker.task = next_task()
                    may_be_more = worker.task is not None
                    if worker.task is not None:
                        worker.connection.send(worker.task)
            busy = [worker for worker in pool.workers if worker.task is not None]
            if not busy:
                return interrupt.signal
            ready = wait([worker.connection for worker in busy], timeout=LOOK_S)
            for place, worker in enumerate(pool.workers):
                if worker.connection in ready:
                    if not _hear(worker, report, finish):
                        pool.replace(place)
                    may_be_more = may_be_more or pool.workers[place].task is None


@dataclass
class Worker:
    """A process that trains, and what it is training."""

    process: BaseProcess
    connection: "Connection[Any, Any]"
    task: Task | None = None
    has_begun: bool = False  # whether it has ever said something


class Pool:
    """The processes. A sweep that ends, or is killed, takes them along."""

    def __init__(self, make: MakeTrainer, metric: str, jobs: int) -> None:
        self._context = multiprocessing.get_context("spawn")
        self.stop = self._context.Event()
        self._make, self._metric = make, metric
        self._threads = max(1, torch.get_num_threads() // jobs)
        self.workers = [self._start(place) for place in range(jobs)]

    def _start(self, place: int) -> Worker:
        own, theirs = self._context.Pipe()
        given = (theirs, self._make, self._metric, self.stop, place, self._threads)
        process = self._context.Process(target=_work, args=given)  # no daemon: it may start loader workers
        process.start()
        theirs.close()
        return Worker(process, own)

    def replace(self, place: int) -> None:
        """A new process for one that has died."""
        self.workers[place].connection.close()
        self.workers[place] = self._start(place)

    def close(self, *, at_once: bool) -> None:
        for worker in self.workers:
            worker.connection.close()  # a process that waits for its next trial ends by that
            if at_once:
                worker.process.kill()
        for worker in self.workers:
            worker.process.join()


@contextmanager
def _pool(make: MakeTrainer, metric: str, jobs: int) -> Iterator[Pool]:
    pool = Pool(make, metric, jobs)
    try:
        yield pool
    except BaseException:
        pool.close(at_once=True)
        raise
    pool.close(at_once=False)


def _hear(worker: Worker, report: Report, finish: Finish) -> bool:
    """Answer a process; False where it has died."""
    assert worker.task is not None
    trial = worker.task.trial
    try:
        said = worker.connection.recv()
    except (EOFError, ConnectionError):
        worker.process.join()
        if not worker.has_begun:
            raise InstepError(
                f"a process of the sweep ended with code {worker.process.exitcode} before it trained anything; a script that "
                'calls sweep(jobs=…) does so under if __name__ == "__main__":'
            ) from None
        finish(trial, Ending("failed", f"its process ended with code {worker.process.exitcode}"))
        return False
    worker.has_begun = True
    match said:
        case ("evaluation", evaluation, value, is_last):
            worker.connection.send(report(trial, evaluation, value, is_last))
        case ("end", Ending() as ending):
            worker.task = None
            finish(trial, ending)
        case ("error", BaseException() as error):
            raise error
    return True


def _work(connection: Any, make: MakeTrainer, metric: str, stop: Any, place: int, threads: int) -> None:
    """The life of a process: one trial after the other."""
    for number in (signal.SIGINT, signal.SIGTERM):  # what the terminal sends to all is the first process's to hear
        signal.signal(number, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    sys.stdout = sys.stderr
    torch.set_num_threads(threads)
    if torch.accelerator.is_available() and torch.accelerator.device_count() > 1:
        torch.accelerator.set_device_index(place % torch.accelerator.device_count())
    connection.send(("started",))

    def report(evaluation: int, value: float, is_last: bool) -> bool:
        connection.send(("evaluation", evaluation, value, is_last))
        return bool(connection.recv())

    while True:
        try:
            task = connection.recv()
            connection.send(("end", train_trial(make, task, metric, report, stop.is_set)))
        except (EOFError, ConnectionError):
            return
        except BaseException as error:
            connection.send(("error", _portable(error)))
            return


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        wait([parent.sentinel])
        os._exit(1)  # at any moment: what a killed run has in its folder is enough to go on


def _portable(error: BaseException) -> BaseException:
    """The error, or its words where it cannot travel."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return InstepError(f"{type(error).__name__}: {error}")
    return error


def _require_picklable(make: MakeTrainer, jobs: int) -> None:
    try:
        pickle.dumps(make)
    except Exception as error:
        raise DescriptionError(
            f"jobs={jobs} starts processes, which have to import build ({error}); define it at the top of a file, or use jobs=1."
        ) from None
