"""All runs of a folder as a table: what `instep runs` shows."""

import time
from pathlib import Path

from instep.errors import DescriptionError
from instep.report.checkpoints import next_start
from instep.run.run_files import RecordedRun, find_checkpoints, find_runs, read_ends, read_run
from instep.text import Paint, age, clean, columns, fold, number, plain, size

HEAD = ("run", "state", "step", "of", "best", "age", "size")
TEXTS = ("run", "state", "best")
STYLES = {"finished": "green", "running": "cyan", "failed": "red", "interrupted": "yellow"}


def render(folder: str | Path = "runs", *, now_s: float | None = None, width: int | None = None, paint: Paint = plain) -> str:
    """One line a run, by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DescriptionError(f"there is no folder {folder}; `instep train` makes runs/, or name another: instep runs FOLDER.")
    found = [read_run(path, read=read_ends) for path in find_runs(folder)]
    if not found:
        return f"no runs in {clean(str(folder))}"
    rows = [_row(run, folder, time.time() if now_s is None else now_s) for run in found]
    lines = columns(
        HEAD, rows, left=TEXTS, width=width, optional=("size", "age", "of"), paint=paint, styles={"state": state_style}
    )
    return "\n".join([*lines, *_problems(found, folder, width)])


def _row(run: RecordedRun, folder: Path, now_s: float) -> tuple[str, ...]:
    best, total = run.history.best, run.end
    return (
        _name(run, folder),
        _state(run),
        "" if run.step is None else f"{run.step:,}",
        "" if total is None else f"{total:,}",
        "" if best is None else f"{clean(run.history.monitor)} {number(best[run.history.monitor])}",
        age(now_s - run.created_s),
        size(run.size_bytes),
    )


def _state(run: RecordedRun) -> str:
    """With the step from which a run goes on that has come further than its last checkpoint."""
    if run.state == "stopped":
        return "stopped (patience)"  # nothing else stops a run before its end
    start = next_start(run, find_checkpoints(run.path))
    return run.state if start is None else f"{run.state} (resumes at {start:,})"


def _problems(found: list[RecordedRun], folder: Path, width: int | None) -> list[str]:
    problems = [f"{_name(run, folder)}: {clean(problem)}" for run in found for problem in run.problems]
    return ["", *(one if width is None else fold(one, width) for one in problems)] if problems else []


def state_style(state: str) -> str:
    """How the state of a run is painted."""
    return next((style for name, style in STYLES.items() if state.startswith(name)), "")


def _name(run: RecordedRun, folder: Path) -> str:
    return clean(str(run.path if run.path == folder else run.path.relative_to(folder)))
