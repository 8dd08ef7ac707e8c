"""All runs of a folder as a table: what `instep runs` shows."""

import time
from pathlib import Path

from instep.errors import DescriptionError
from instep.run.run_files import RecordedRun, find_runs, read_ends, read_run
from instep.text import age, clean, columns, number, size

HEAD = ("run", "state", "step", "of", "best", "age", "size")
TEXTS = ("run", "state", "best")


def render(folder: str | Path = "runs", *, now_s: float | None = None) -> str:
    """One line a run, by name."""
    folder = Path(folder)
    if not folder.is_dir():
        raise DescriptionError(f"there is no folder {folder}; `instep train` makes runs/, or name another: instep runs FOLDER.")
    found = [read_run(path, read=read_ends) for path in find_runs(folder)]
    if not found:
        return f"no runs in {clean(str(folder))}"
    lines = columns(HEAD, [_row(run, folder, time.time() if now_s is None else now_s) for run in found], left=TEXTS)
    return "\n".join([*lines, *_problems(found, folder)])


def _row(run: RecordedRun, folder: Path, now_s: float) -> tuple[str, ...]:
    best, total = run.history.best, run.end
    return (
        _name(run, folder),
        "stopped (patience)" if run.state == "stopped" else run.state,  # nothing else stops a run before its end
        "" if run.step is None else f"{run.step:,}",
        "" if total is None else f"{total:,}",
        "" if best is None else f"{clean(run.history.monitor)} {number(best[run.history.monitor])}",
        age(now_s - run.created_s),
        size(run.size_bytes),
    )


def _problems(found: list[RecordedRun], folder: Path) -> list[str]:
    problems = [f"{_name(run, folder)}: {clean(problem)}" for run in found for problem in run.problems]
    return ["", *problems] if problems else []


def _name(run: RecordedRun, folder: Path) -> str:
    return clean(str(run.path if run.path == folder else run.path.relative_to(folder)))
