"""LoggerThread: a logger at work, in a thread with a short queue. Nothing that the logger does reaches the run.

The thread calls the logger; everything public here is called by the main thread, and does not wait.
"""

import copy
import queue
import threading
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Any

from instep.run.history import Row
from instep.text import plural

QUEUE_ROWS = 256


class LoggerThread:
    """One logger from its start to its finish; made anew each time that the run starts."""

    def __init__(self, logger: Any, name: str, description: Mapping[str, Any]) -> None:
        self.name = name
        self.logger = logger
        self._queue: queue.Queue[Row | str] = queue.Queue(QUEUE_ROWS)  # rows, and at the end how the run ended
        self._has_started = threading.Event()
        self._from_step: int | None = None  # rows from this step on are wanted again
        self._first = self._next = -1  # the places in the history of the first row that it gets and of the next one
        self._taken = self._failed = 0  # rows
        self._failure: str | None = None  # the first, until it is said
        self._is_ending = self._is_abandoned = False
        self._thread = threading.Thread(target=self._work, args=(dict(description),), name=f"instep {name}", daemon=True)
        self._thread.start()

    @property
    def is_ready(self) -> bool:
        """Whether the logger has started, or has failed to."""
        return self._has_started.is_set() or self.is_over

    @property
    def is_over(self) -> bool:
        return not self._thread.is_alive()

    def feed(self, rows: Sequence[Row], *, kept: int, ending: str | None = None) -> None:
        """Put what it does not have of a history into the queue, as far as it fits; and behind all, how the run ended.

        The first `kept` rows are from before this start.
        """
        if not self._has_started.is_set() or self._is_ending:
            return
        if self._next < 0:
            self._first = self._next = kept if self._from_step is None else _place_of(rows, self._from_step)
        try:
            while self._next < len(rows):
                self._queue.put_nowait(rows[self._next])
                self._next += 1
            if ending is not None:
                self._queue.put_nowait(ending)
                self._is_ending = True
        except queue.Full:
            return  # it is offered again with the next row

    def left(self, rows: int) -> int:
        """How many rows of a history of this length it has not taken yet."""
        return rows - self._taken - max(0, self._first)

    def abandon(self) -> None:
        """Do not wait for it any longer: it ends after the row that it is at."""
        self._is_abandoned = True

    def pop_failure(self) -> str | None:
        """What has failed, to be said once."""
        failure, self._failure = self._failure, None
        return failure

    def say_lost(self, rows: int, where: str) -> str | None:
        """What the logger does not have at the end of a session, where there is something."""
        if not self.is_over:
            what = "has not started" if not self._has_started.is_set() else f"has not taken {plural(self.left(rows), 'row')}"
            return f"{self.name} {what} in time, and is not waited for; {where}."
        if self._failed > 1:
            return f"{self.name} could not log {plural(self._failed, 'row')} in all; {where}."
        return None

    # --- In the thread

    def _work(self, description: Mapping[str, Any]) -> None:
        try:
            self._from_step = self.logger.start(description)
        except BaseException as error:  # sys.exit() as well: this thread is all that it may end
            self._fail("could not start, and logs nothing of this run", error)
            return
        self._has_started.set()
        while not self._is_abandoned:
            item = self._queue.get()
            if isinstance(item, str):
                self._finish(item)
                return
            self._log(item)

    def _log(self, row: Row) -> None:
        try:
            self.logger.log(copy.deepcopy(row))  # the row is the history's own
        except BaseException as error:
            self._fail(f"could not log the row of step {row['step']:,}; the run goes on", error, is_first=not self._failed)
            self._failed += 1
        self._taken += 1

    def _finish(self, state: str) -> None:
        try:
            self.logger.finish(state)
        except BaseException as error:
            self._fail("could not finish", error, is_first=not self._failed)

    def _fail(self, what: str, error: BaseException, *, is_first: bool = True) -> None:
        if is_first:
            self._failure = f"{self.name} {what}: {type(error).__name__}: {error}"


def _place_of(rows: Sequence[Row], step: int) -> int:
    """Where the rows from a step on begin."""
    return bisect_left(rows, step, key=lambda row: row["step"])
