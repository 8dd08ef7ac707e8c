"""Loggers: what takes the rows of a run elsewhere: TensorBoard, MLflow, a CSV file, a class of the user's own.

The history has every row. A logger follows it in a thread (`logger_thread`), so a slow one loses nothing: what does not fit into
its short queue waits in the history. Only at the end there is a limit to how long the run waits.
"""

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from instep import keys
from instep.errors import DescriptionError, InstepError, give_notice
from instep.run.history import NO_COLUMNS, Row
from instep.text import plural

if TYPE_CHECKING:
    from instep.run.logger_thread import LoggerThread  # loaded by those who log
    from instep.run.run import Run

START_WAIT_S = 10.0  # for loggers to start, before the first update is made without waiting for them
FINISH_WAIT_S = 30.0  # for loggers to take the last rows, all together
PATIENCE_S = 2.0  # of this wait, before it is said
METHODS = ("start", "log", "finish")


class Logger(Protocol):
    """What takes the rows of a run elsewhere; any class with these three methods is one.

    Called in a thread of its own. What it raises is said once and does not stop the run. It may also have a `name` for messages,
    `wants`, of "preview" and "graph", to find these in the description of a new run (None where there is none), and
    `require(folder)`, which is called before anything is written and raises where something is missing.
    """

    def start(self, description: Mapping[str, Any]) -> int | None:
        """The run begins or goes on. May return a step: rows of the history from this step on are then given again.

        The description is what run.json has, and: `name`, `folder` (None without one), `step` at which the run goes on, `seconds`
        that it has trained so far, `log_every`, and `is_changed`, whether what decides the result was changed for a resumed run.
        """

    def log(self, row: Mapping[str, Any]) -> None:
        """A row of the history: an update, an evaluation, a cycle, the test, or numbers logged at the end, by its `kind`."""

    def finish(self, state: str) -> None:
        """The run is "finished", "stopped" (by patience), "interrupted" or "failed"; it may start again."""


def require_logger(given: Any) -> Logger:
    """The same, or an error where it is no logger."""
    missing = [name for name in METHODS if not callable(getattr(given, name, None))]
    if missing or isinstance(given, type):
        what = f"the class {given.__name__}: pass an instance of it" if isinstance(given, type) else f"a {type(given).__name__}"
        has_not = f", which has no method {missing[0]}()" if missing and not isinstance(given, type) else ""
        raise DescriptionError(
            f"loggers= got {what}{has_not}; a logger has start(description), log(row) and finish(state), or is a name."
        )
    logger: Logger = given
    return logger


class RunLoggers:
    """The loggers of one run, from the start of a session to its end."""

    def __init__(self, loggers: Iterable[Logger]) -> None:
        self._loggers = [require_logger(one) for one in loggers]
        self._threads: list[LoggerThread] = []  # of this session
        self._busy: dict[int, LoggerThread] = {}  # those of earlier ones that were not waited for, by their logger
        self._kept = 0  # rows from before this session

    def add(self, loggers: Iterable[Logger]) -> None:
        """More of them, for a run that has not begun."""
        self._loggers += [require_logger(one) for one in loggers]

    def require(self, folder: Path | None) -> None:
        """Raises where a logger cannot work: a package is missing, or it needs a folder."""
        for logger in self._loggers:
            check = getattr(logger, "require", None)
            if check is not None:
                check(folder)

    def start(self, run: "Run", *, is_changed: bool) -> None:
        """Start all of them. Waits a short while, with the generators put back, so that packages are loaded by then."""
        rows = run.logbook.history.rows
        self._kept = len(rows)
        if not self._loggers or not run.world.is_first or run.is_replay:
            return
        description = _describe(run, rows, is_changed=is_changed)
        if not rows:
            description |= _look(run, {want for logger in self._loggers for want in getattr(logger, "wants", ())})
        with keys.fork_rng(run.device):
            for logger in self._loggers:
                self._begin(logger, description)
            _wait_until(lambda: all(thread.is_ready for thread in self._threads), START_WAIT_S)
        self.feed(rows)

    def _begin(self, logger: Logger, description: Mapping[str, Any]) -> None:
        name = getattr(logger, "name", None) or type(logger).__name__
        before = self._busy.pop(id(logger), None)
        if before is not None and not before.is_over:
            self._busy[id(logger)] = before
            give_notice(f"{name} is still at the rows of before, and logs nothing until the run starts again.")
            return
        from instep.run.logger_thread import LoggerThread

        self._threads.append(LoggerThread(logger, name, description))

    def feed(self, rows: Sequence[Row]) -> None:
        """Hand on the rows that are new, as many as fit into the queues; does not wait."""
        for thread in self._threads:
            thread.feed(rows, kept=self._kept)
            if (failure := thread.pop_failure()) is not None:
                give_notice(failure)

    def finish(self, state: str, rows: Sequence[Row], where: str) -> None:
        """Hand on the rest and end the threads; waits a while for those that are behind, and says what was not taken."""
        threads, self._threads = self._threads, []

        def is_done() -> bool:
            for thread in threads:
                thread.feed(rows, kept=self._kept, ending=state)
            return all(thread.is_over for thread in threads)

        if not _wait_until(is_done, min(PATIENCE_S, FINISH_WAIT_S)):
            behind = ", ".join(f"{one.name} ({plural(one.left(len(rows)), 'row')} left)" for one in threads if not one.is_over)
            give_notice(f"waiting at most {FINISH_WAIT_S:g} s for {behind}")
            _wait_until(is_done, FINISH_WAIT_S - PATIENCE_S)
        for thread in threads:
            thread.abandon()
            for text in filter(None, (thread.pop_failure(), thread.say_lost(len(rows), where))):
                give_notice(text)
        self._busy |= {id(thread.logger): thread for thread in threads if not thread.is_over}


def _wait_until(is_so: Callable[[], bool], seconds: float) -> bool:
    """Whether it became so in time."""
    ends = time.monotonic() + seconds
    while not is_so():
        if time.monotonic() > ends:
            return False
        time.sleep(0.002)
    return True


def _describe(run: "Run", rows: Sequence[Row], *, is_changed: bool) -> dict[str, Any]:
    described = run.describe(content=False)
    seconds = [row["clock"]["seconds"] for row in rows[-1:] if "seconds" in row.get("clock", {})]
    return {
        **described,
        "name": described["title"] if run.folder is None else run.folder.resolve().name,
        "folder": None if run.folder is None else str(run.folder),
        "step": run.state.step,
        "seconds": seconds[0] if seconds else 0.0,
        "log_every": run.options.log_every,
        "is_changed": is_changed,
    }


def _look(run: "Run", wants: Collection[str]) -> dict[str, Any]:
    """What some loggers show beside numbers. Made by the main thread, before the first update: leaves no trace."""
    found: dict[str, Any] = {}
    if "preview" in wants:
        found["preview"] = _try_looking(lambda: run.look(batches=1), "pictures of the data")
    if "graph" in wants and not run.processes.are_several:
        found["graph"] = _try_looking(run.record_graph, "graph of the model")
    return found


def _try_looking(look: Callable[[], Any], what: str) -> Any:
    try:
        return look()
    except InstepError:  # such data cannot be read twice, such a model has no graph
        return None
    except Exception as error:
        give_notice(f"loggers get no {what}: {type(error).__name__}: {error}")
        return None


# --- For those who write loggers


def numbers_of(row: Row) -> dict[str, float]:
    """The numbers of a row that make curves, by name, with the pace; nothing of a cycle, whose numbers are no curves."""
    if row["kind"] == "cycle":
        return {}
    left_out = NO_COLUMNS | ({"step"} if row["kind"] == "update" else {"step", "epoch"})  # an epoch is no second point
    own = {name: value for name, value in row.items() if name not in left_out and isinstance(value, int | float)}
    clock = {name: value for name, value in row.get("clock", {}).items() if name in ("samples_per_s", "waiting", "memory_bytes")}
    return {name: float(value) for name, value in own.items()} | {f"clock/{name}": float(clock[name]) for name in clock}


def settings_of(description: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """The hyper-parameters and settings of a run as plain values by name, those that say nothing left out."""
    optimizer = description["optimizer"]
    groups = optimizer.get("groups", [{}])
    return {
        **_flatten("", description["settings"]),
        **({"optimizer": optimizer["class"]} if "class" in optimizer else {}),
        **(_flatten("optimizer", groups[0]) if len(groups) == 1 else {}),
        **_flatten("", description["hyper_parameters"]),
    }


def _flatten(name: str, value: Any) -> dict[str, bool | int | float | str]:
    if isinstance(value, Mapping) and set(value) == {"$float"}:
        return {name: float(value["$float"])}
    if isinstance(value, Mapping):
        prefix = f"{name}." if name else ""
        return {key: flat for inner in value for key, flat in _flatten(f"{prefix}{inner}", value[inner]).items()}
    if isinstance(value, list):
        return {name: ", ".join(map(str, value))} if value else {}
    return {} if value is None else {name: value}


class WallTimes:
    """When rows were made, in seconds since 1970: rows know how long the run had trained by then."""

    def __init__(self, description: Mapping[str, Any]) -> None:
        self._begun_s = time.time() - description["seconds"]

    def of(self, row: Row) -> float:
        seconds = row.get("clock", {}).get("seconds")
        return time.time() if seconds is None else self._begun_s + float(seconds)
