"""One run as text: what `instep show RUN` shows."""

import math
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from instep.report import checkpoints
from instep.report.run_status import why_stopped
from instep.report.shortened import shorten
from instep.run.history import NO_COLUMNS, History
from instep.run.run_files import CheckpointEntry, RecordedRun, find_checkpoints, read_run, section
from instep.text import (
    GAP,
    PROSE,
    Paint,
    age,
    clean,
    columns,
    labelled,
    number,
    plain,
    plural,
    rate,
    size,
    sparkline,
    wrapped,
)

LAST_EVALUATIONS = 10
PLACES = frozenset({"step", "epoch"})  # columns that say where, not what


def render(
    path: str | Path,
    *,
    width: int = 80,
    table_width: int | None = None,
    now_s: float | None = None,
    paint: Paint = plain,
) -> str:
    """What the run was, its curves, its last evaluations and the best one, its checkpoints.

    All numbers of an evaluation are shown, unless `table_width` says how much room there is.
    """
    run = read_run(Path(path))
    now_s = time.time() if now_s is None else now_s
    kept = find_checkpoints(run.path)
    parts = [
        [*_heading(run, width, paint), *_notes(run.problems, width, paint)],
        labelled(_description(run, kept, now_s), width=min(width, PROSE), paint=paint),
        _curves(run, min(width, PROSE), paint),
        [*_evaluations(run, table_width, paint), *_best(run.history, kept, width)],
        _test(run.history, width),
        _cycles(run.history, width, paint),
        checkpoints.lines(kept, run.history, now_s, paint=paint),
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _heading(run: RecordedRun, width: int, paint: Paint) -> list[str]:
    title = run.description.get("title")
    said = clean(f"{run.path}: {title}" if isinstance(title, str) else str(run.path))
    return [paint(line, "bold") for line in wrapped(said, min(width, PROSE))]


def _notes(problems: Sequence[str], width: int, paint: Paint) -> list[str]:
    return [paint(line, "yellow") for one in problems for line in wrapped(f"note: {clean(one)}", min(width, PROSE))]


def _description(run: RecordedRun, kept: list[CheckpointEntry], now_s: float) -> list[tuple[str, str]]:
    said = run.description
    epochs = run.total("epochs")
    rows = [
        ("state", f"{run.state}{_how_far(run)}{_goes_on(run, kept)}"),
        ("created", f"{datetime.fromtimestamp(run.created_s):%Y-%m-%d %H:%M}, {age(now_s - run.created_s)} ago"),
        ("size", size(run.size_bytes)),
        ("epochs", f"{epochs:,}{' a cycle' if run.history.cycles else ''}" if epochs else ""),
        ("device", ", ".join(filter(None, (_text(said.get("device", "")), _threads(said.get("threads")))))),
        ("versions", _listed(section(said, "versions"))),
        ("script", _script(section(said, "script"))),
        ("build", _listed(section(said, "hyper_parameters"))),
        ("settings", _listed(section(said, "settings"))),
    ]
    return [(label, text) for label, text in rows if text]


def _script(said: Mapping[str, Any]) -> str:
    """The file that `instep train` was given, and its function where that is not build."""
    if not said:
        return ""
    file, function = said.get("file"), said.get("function")
    return f"{file or 'the built-in recipe'}{'' if function in (None, 'build') else f':{function}'}"


def _how_far(run: RecordedRun) -> str:
    total = run.end
    if run.step is None:
        return ""
    return f" at step {run.step:,}" + (f" of {total:,}" if total else "") + (f": {why}" if (why := why_stopped(run)) else "")


def _goes_on(run: RecordedRun, kept: list[CheckpointEntry]) -> str:
    start = checkpoints.next_start(run, kept)
    return "" if start is None else f"; a resume goes on from step {start:,}, the last checkpoint on the disk"


def _curves(run: RecordedRun, width: int, paint: Paint) -> list[str]:
    """A line for each column: first and last value, and the curve between them."""
    history = run.history
    names = shorten(history.names, history.monitor).names
    curves = {name: [math.nan if value is None else value for value in history.column(name)] for name in names}
    curves = {clean(name): values for name, values in curves.items() if name not in PLACES and len(values) > 1}
    if not curves:
        return []
    room = max(10, width - max(map(len, curves)) - 24)
    rows = [(name, number(values[0]), number(values[-1]), sparkline(values, room)) for name, values in curves.items()]
    lines = columns(
        ("curve", "first", "last", ""), rows, left=("curve", ""), width=width, paint=paint, styles={"": lambda _: "cyan"}
    )
    if run.left_out:
        every = len(history.updates) + run.left_out
        lines += wrapped(f"drawn from {len(history.updates):,} of {every:,} lines, the extremes among them", width)
    return lines


def _evaluations(run: RecordedRun, width: int | None, paint: Paint) -> list[str]:
    """The last ones, epochs from 1 as the progress counts them; as many columns as fit, the monitored one among them."""
    history, every = run.history, len(run.history.evaluations) + run.left_out_evaluations
    shown, best = history.evaluations[-LAST_EVALUATIONS:], history.best
    if not shown:
        return ["no evaluations" if history.rows else "nothing was logged"]
    found = [name for name in history.names if name not in PLACES and any(name in row for row in shown)]
    places = len("epoch") + max(len("step"), *(len(f"{row['step']:,}") for row in shown))
    room = None if width is None else width - places - len("best") - 3 * len(GAP)
    names, left = shorten(found, history.monitor, room=room)
    rows = [
        (
            str(row["epoch"] + 1),
            f"{row['step']:,}",
            *(number(row.get(name)) for name in names),
            "best" if row is best else "",
        )
        for row in shown
    ]
    styles = {history.monitor: lambda _: "bold", "": lambda _: "green"}
    lines = columns(("epoch", "step", *map(clean, names), ""), rows, left=("",), paint=paint, styles=styles)
    if len(shown) < every:
        lines.insert(0, f"the last {len(shown)} of {every} evaluations")
    if left:
        lines.append(f"… {left:,} more columns in the history")
    return lines


def _best(history: History, kept: list[CheckpointEntry], width: int) -> list[str]:
    said = checkpoints.best_line(kept, history)
    return ["", *wrapped(said, min(width, PROSE))] if said else []


def _test(history: History, width: int) -> list[str]:
    """The numbers of the test data, where the run has come to its end."""
    row = history.test
    if row is None:
        return []
    names = shorten(name for name in row if name not in (*PLACES, *NO_COLUMNS))
    numbers = [f"{clean(name)} {number(row[name])}" for name in names.names]
    return wrapped(f"test: {', '.join([*numbers, *filter(None, [names.rest])])}", min(width, PROSE))


def _cycles(history: History, width: int, paint: Paint) -> list[str]:
    """What was chosen for each cycle, and what it brought; and why the last choice was made."""
    cycles = history.cycles
    if not cycles:
        return []
    rows = [
        (
            f"{row['cycle']}",
            f"{row['start']:,} to {row['stop']:,}",
            rate(row["max_lr"]),
            f"{row.get('confidence', 0):.2f}",
            *(number(row.get(name)) for name in ("before", "after", "gain")),
        )
        for row in cycles
    ]
    lines = columns(("cycle", "steps", "max_lr", "confidence", "before", "after", "gain"), rows, paint=paint)
    return [*lines, "", *wrapped(f"cycle {cycles[-1]['cycle']}: {clean(cycles[-1]['reason'])}", min(width, PROSE))]


def _listed(values: Mapping[str, Any]) -> str:
    """`name=value, …`, without what was left at None."""
    return ", ".join(f"{name}={_text(value)}" for name, value in values.items() if value is not None)


def _threads(count: Any) -> str:
    return plural(count, "thread") if isinstance(count, int) else ""


def _text(value: Any) -> str:
    return value if isinstance(value, str) else repr(value)
