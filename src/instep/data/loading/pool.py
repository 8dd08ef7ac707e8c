"""Pool: the processes behind a loader: how torch is asked to start them, and what is said when one dies.

Each worker writes down which sample it is at, in memory that outlives it. Torch raises the death of a worker wherever the main
thread happens to be, in the middle of an update or of writing a checkpoint; here it is kept for those who ask for its batch.
"""

import atexit
import multiprocessing
import os
import re
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from instep.data.position import Indices, Source
from instep.data.sources.dataloader import WorkerSettings
from instep.data.sources.stream import Stream
from instep.errors import DataError, DescriptionError, give_notice
from instep.text import listed

PATIENCE_S = 60.0  # to wait for a batch before it is said which sample it waits for, where a DataLoader has no timeout


class Pool:
    """A number of worker processes that read one source."""

    def __init__(self, source: Source | Stream, count: int, settings: WorkerSettings) -> None:
        self._source = source
        self._settings = settings
        self._count = count
        self._board = torch.full((count, 2), -1, dtype=torch.int64).share_memory_()  # a row: process id, index of the sample
        self._closing = torch.zeros(1, dtype=torch.int64).share_memory_()  # 1 where a worker that is told to end has to
        self._forks = _start_method(settings.context) == "fork"
        self._processes: set[int | None] = set()
        self._is_waiting = False
        self._wanted: Sequence[int] | Indices = ()  # the samples of the batch that is waited for
        self._is_patient = True  # nothing was said yet of a batch that does not come
        self._death: str | None = None

    def loader(self, dataset: Any, **options: Any) -> "DataLoader[Any]":
        """Torch's loader for these workers, not yet begun: they give what `dataset` gives, as it is."""
        self._board.fill_(-1)
        self._closing.zero_()
        self._death = None
        with _quiet():
            return DataLoader(
                dataset,
                batch_size=None,
                collate_fn=_identity,
                num_workers=self._count,
                prefetch_factor=self._settings.prefetch,
                timeout=self._settings.timeout_s or PATIENCE_S,
                multiprocessing_context=self._settings.context,
                worker_init_fn=_WorkerInit(self._source, self._board, self._closing, self._settings.init),
                generator=torch.Generator(),  # else torch would draw from the run's own
                **options,
            )

    def start(self, loader: "DataLoader[Any]") -> Iterator[Any]:
        """Its iterator, with the processes started."""
        others = {process.pid for process in multiprocessing.active_children()} - self._processes
        try:
            with _quiet():
                iterator: Iterator[Any] = self._guarded(lambda: iter(loader))
        except (AttributeError, TypeError, ValueError, OSError) as error:
            if self._forks:
                raise
            raise DescriptionError(
                f"{self._source.name} cannot be sent to a worker process: {error}. Define its classes and functions at the top "
                "of a module, not inside a function, or use num_workers=0."
            ) from error
        self._processes = {process.pid for process in multiprocessing.active_children()} - others
        _STARTED.update(self._processes)
        _WATCHED.add(self)
        _install_death_handler()
        return iterator

    def close(self) -> None:
        """The workers may be ended now."""
        self._closing.fill_(1)

    def next_batch(self, iterator: Iterator[Any], wanted: Sequence[int] | Indices = ()) -> Any:
        """The next batch, that of the samples `wanted` where they are known; StopIteration where there is none."""
        self._wanted = wanted
        return self._guarded(lambda: self._wait_for(iterator))

    def _wait_for(self, iterator: Iterator[Any]) -> Any:
        while True:
            try:
                return next(iterator)
            except RuntimeError as error:
                if "timed out" not in str(error) or self._settings.timeout_s:
                    raise
            if self._is_patient:
                self._is_patient = False
                give_notice(f"no batch of {self._source.name} came for {PATIENCE_S:g} s: {self._busy_with()}.")

    def _busy_with(self) -> str:
        """Which worker is at which of the samples that are waited for."""
        at = [
            f"worker {row} (process {process}) is at sample {index}"
            for row, (process, index) in enumerate(self._board.tolist())
            if index >= 0 and (not len(self._wanted) or index in self._wanted)
        ]
        return "; ".join(at) or f"no worker has begun with {listed(self._wanted) or 'a sample'}"

    def note_death(self, said: str) -> bool | None:
        """Told of a death: whether somebody waits for that worker, None where it is not one of these."""
        if not _named_processes(said) & self._processes:
            return None
        self._death = said
        return self._is_waiting

    def _guarded(self, call: Callable[[], Any]) -> Any:
        said = self._death
        if said is None:
            self._is_waiting = True
            try:
                return call()
            except RuntimeError as error:
                if "DataLoader" not in str(error):
                    raise
                said = self._death or str(error)  # the handler was told more than the one who waited
            finally:
                self._is_waiting = False
        # Raised out here: the traceback of torch's error would keep the other processes alive.
        raise DataError(self._describe_death(said))

    def _describe_death(self, said: str) -> str:
        name = self._source.name
        if "timed out" in said:
            limit = f"within the timeout of its DataLoader, {self._settings.timeout_s:g} s"
            return f"no batch of {name} came {limit}: {self._busy_with()}."
        did, reason = _cause(said)
        rows = [row for row, process in enumerate(self._board[:, 0].tolist()) if process in _named_processes(said)]
        if not rows:
            hint = "" if self._forks else '; a script that starts workers needs if __name__ == "__main__": before what it does'
            return f"a worker of {name} {did} before its first sample{hint}."
        process, index = self._board[rows[0]].tolist()
        at = f"while it loaded sample {index}" if index >= 0 else "before its first sample"
        return f"worker {rows[0]} of {name} (process {process}) {did} {at}.{reason}"


class _WorkerInit:
    """What a worker does first."""

    def __init__(self, source: Source | Stream, board: Tensor, closing: Tensor, init: Callable[[int], object] | None) -> None:
        self._source, self._board, self._closing, self._init = source, board, closing, init
        self._run_handles_sigterm = callable(signal.getsignal(signal.SIGTERM))

    def __call__(self, number: int) -> None:
        # Ctrl-C reaches every process, SIGTERM of a scheduler too; the run stops after an update and ends its workers itself.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        if self._run_handles_sigterm:
            signal.signal(signal.SIGTERM, self._end_with_the_run)
        row = self._board[number].numpy()
        row[0] = os.getpid()
        self._source.report_to(row[1:])
        if self._init is not None:
            self._init(number)

    def _end_with_the_run(self, number: int, frame: Any) -> None:
        run = multiprocessing.parent_process()
        if self._closing.item() or run is None or not run.is_alive():
            os._exit(0)


_STARTED: set[int | None] = set()  # processes of all pools


@atexit.register
def _kill_those_left() -> None:
    """A worker that hangs in a library does not hear that it is to end, and Python would wait for it."""
    for process in multiprocessing.active_children():
        if process.pid in _STARTED:
            process.kill()


# Signals come to the process, so who listens to them is the process's too.
_WATCHED: "weakref.WeakSet[Pool]" = weakref.WeakSet()


class _DeathHandler:
    """Torch's handler of SIGCHLD, with what it raises told to those whom it concerns."""

    def __init__(self, raising: Callable[..., Any]) -> None:
        self._raising = raising

    def __call__(self, number: int, frame: Any) -> None:
        try:
            self._raising(number, frame)
        except RuntimeError as error:
            for pool in list(_WATCHED):
                is_waiting = pool.note_death(str(error))
                if is_waiting is not None:
                    if is_waiting:
                        raise
                    return
            raise


def _install_death_handler() -> None:
    if sys.platform == "win32" or threading.current_thread() is not threading.main_thread():
        return  # torch has no handler there either, and looks every few seconds
    raising = signal.getsignal(signal.SIGCHLD)
    if callable(raising) and not isinstance(raising, _DeathHandler):
        signal.signal(signal.SIGCHLD, _DeathHandler(raising))


def _cause(said: str) -> tuple[str, str]:
    """What became of a worker by torch's error, and the usual reason."""
    if killed := re.search(r"is killed by signal: ([^.]+)", said):
        reasons = {
            "Killed": " Where memory runs out the system does that: use fewer workers, or load less in each.",
            "Bus error": " There is too little shared memory: make /dev/shm larger, or the batches smaller.",
        }
        return f"was killed ({killed[1]})", reasons.get(killed[1], "")
    code = re.search(r"with exit code (\d+)", said)
    return f"ended with exit code {code[1]}" if code else "ended", ""


def _named_processes(said: str) -> set[int | None]:
    """The processes that torch's error names."""
    found = re.search(r"\(pid(?:\(s\))? ([\d, ]+)\)", said)
    return {int(process) for process in found[1].split(",")} if found else set()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without warnings of what was asked for, or is said here in other words."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="This DataLoader will create")  # more workers than cores
        warnings.filterwarnings("ignore", message="Got pickle error")
        # Python 3.12 warns of every fork beside a thread. The workers of torch have always been begun so.
        warnings.filterwarnings("ignore", message=".*multi-threaded.*fork", category=DeprecationWarning)
        yield


def _start_method(context: Any) -> str:
    if context is None:
        return multiprocessing.get_start_method(allow_none=True) or multiprocessing.get_all_start_methods()[0]
    return context if isinstance(context, str) else str(context.get_start_method())


def _identity(batch: Any) -> Any:
    return batch
