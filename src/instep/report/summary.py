"""What `instep train` ends with: what was trained, how long, the best and the last numbers, where the run is, what to do next."""

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from instep.records import Plan
from instep.report.run_status import epoch_number, place_of
from instep.run.history import NO_COLUMNS, History
from instep.text import GAP, Paint, clean, duration, labelled, number, plain, plural, wrapped

PLACES = ("step", "epoch", "lr", "momentum", "clipped", "skipped")
MOST = 6  # numbers of one row
NEXT = {
    "evaluate": "the numbers of its best weights",
    "show": "its curves and checkpoints here",
    "report": "all of it as a page for the browser",
}


@dataclass(frozen=True)
class Ending:
    """How a run came to its end."""

    plan: Plan
    folder: Path
    why: str = ""  # it stopped before its last step
    resumed_from: int = 0
    classifies: bool = False  # as its loss says; False where nobody knows


def render(history: History, end: Ending, *, width: int = 80, paint: Paint = plain) -> str:
    """The words, ending with the command that makes the report."""
    if history.last is None:
        return f"{end.folder}: nothing was trained"
    head = [paint(line, "bold" if end.why else "bold green") for line in wrapped(_head(history, end), width)]
    rows = [GAP + line for line in labelled(_rows(history, end), width=width - len(GAP), paint=paint)]
    return "\n".join([*head, "", *rows, "", *_next(history, end, width, paint)])


def _head(history: History, end: Ending) -> str:
    last = history.last or {}
    steps = last["step"]
    ended = "stopped" if end.why else "finished"
    epochs = epoch_number(steps, last["epoch"], end.plan.steps_per_epoch)
    said = f"{ended}: {plural(epochs, 'epoch')}, {plural(steps, 'update')} in {duration(last['clock']['seconds'])}"
    resumed = f", resumed at step {end.resumed_from:,}" if end.resumed_from else ""
    return f"{said}{resumed}{f'. {end.why}' if end.why else ''}"


def _rows(history: History, end: Ending) -> list[tuple[str, str]]:
    last, best = history.last or {}, history.best
    skipped = sum(row.get("skipped", 0) for row in history.updates)
    rows = [
        ("trained", _trained(end.plan)),
        ("best", "" if best is None else _best(history, best, end.plan)),
        ("last", _listed(last)),
        ("test", "" if history.test is None else _listed(history.test)),
        (
            "skipped",
            f"{plural(skipped, 'update')}: no target counted, or the loss or the gradient was not finite" if skipped else "",
        ),
        ("run", str(end.folder)),
    ]
    return [(label, text) for label, text in rows if text]


def _trained(plan: Plan) -> str:
    """The model and its data, in the words of the plan."""
    said = dict(plan.rows)
    return clean("; ".join(said[name] for name in ("model", "train") if name in said) or plan.title)


def _best(history: History, best: Mapping[str, Any], plan: Plan) -> str:
    where = place_of(best["step"], best["epoch"], plan.steps_per_epoch)
    return f"{history.monitor} {number(best[history.monitor])} {where}"


def _listed(row: Mapping[str, Any]) -> str:
    numbers = {name: value for name, value in row.items() if name not in (*NO_COLUMNS, *PLACES)}
    shown = [name for name in numbers if not name.startswith(("train/", "loss"))] if len(numbers) > MOST else list(numbers)
    more = len(numbers) - len(shown[:MOST])
    said = [f"{name} {number(numbers[name])}" for name in shown[:MOST]]
    return ", ".join([*said, *([f"… {more:,} more in the history"] if more else [])])


def _next(history: History, end: Ending, width: int, paint: Paint) -> list[str]:
    """Commands to type, the last of them for the report; what each does beside it where there is room."""
    run = shlex.quote(str(end.folder))
    told = NEXT | ({"evaluate": "the numbers of each class"} if end.classifies else {})
    commands = {f"instep {name} {run}": does for name, does in told.items() if name != "evaluate" or history.evaluations}
    widest = max(map(len, commands)) + len(GAP)
    fits = len(GAP) + widest + max(map(len, commands.values())) <= width
    return [
        f"{GAP}{paint(command, 'cyan')}{' ' * (widest - len(command)) + paint(does, 'dim') if fits else ''}"
        for command, does in commands.items()
    ]
