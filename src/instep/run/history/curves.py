"""Curves: the columns of a history, and which chart each of them belongs to."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from instep.run.history import NO_COLUMNS, History, Row

NOT_DRAWN = NO_COLUMNS | {"step", "epoch"}
OWN_CHARTS = {
    "lr": "Learning rate",
    "momentum": "Momentum",
    "grad_norm": "Gradient norm",
    "clipped": "Clipped updates",
    "skipped": "Skipped updates",
    "penalty": "Penalty",
}
CLOCK_CHARTS = {"samples_per_s": "Samples per second", "waiting": "Waiting for data", "memory_bytes": "Memory"}
LOSS = "Loss"


@dataclass
class Curve:
    """One column over the steps."""

    name: str
    chart: str
    is_evaluated: bool  # a value an evaluation, not one a line of the log
    steps: list[int] = field(default_factory=list)
    values: list[float | None] = field(default_factory=list)


def curves_of(history: History) -> list[Curve]:
    """All columns that have a number, in the order of their charts: the loss, metrics, how it was trained, how fast.

    With several objectives `loss` is that of the first, which stands there under its own name too, and is left out.
    """
    curves = all_curves(history)
    names = {curve.name for curve in curves}
    return [curve for curve in curves if not _is_of_first_objective(curve.name, names)]


def all_curves(history: History) -> list[Curve]:
    """Those too that are left out elsewhere."""
    found: dict[tuple[str, str], Curve] = {}
    for row in history.rows:
        if row.get("kind") in ("update", "log", "evaluation"):
            _take_in(row, found)
    return sorted(found.values(), key=lambda curve: _rank(curve.chart, curve.is_evaluated))


def resumed_at(rows: Sequence[Row]) -> list[int]:
    """The steps from which a new process went on, in runs of earlier versions: its clock begins at 0 again.

    The clock of a run goes on now, and `run.json` says where it was resumed: see `RecordedRun.resumed`.
    """
    found, before, step = [], 0.0, 0
    for row in rows:
        seconds = _seconds(row)
        if seconds is not None:
            if seconds < before:
                found.append(step)
            before = seconds
        step = row["step"]
    return found


def seconds_trained(rows: Sequence[Row]) -> float:
    """How long all processes together have trained; the clock of a resumed run goes on, in earlier versions it began again."""
    total = before = 0.0
    for seconds in map(_seconds, rows):
        if seconds is not None:
            total += seconds - before if seconds >= before else seconds
            before = seconds
    return total


def _seconds(row: Row) -> float | None:
    seconds = row.get("clock", {}).get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


def _take_in(row: Row, found: dict[tuple[str, str], Curve]) -> None:
    is_evaluated, step = row["kind"] == "evaluation", row["step"]
    clock = row.get("clock", {})
    parts = {("row", name): row[name] for name in row if name not in NOT_DRAWN}
    parts |= {("clock", name): clock[name] for name in CLOCK_CHARTS if isinstance(clock.get(name), int | float)}
    for key, value in parts.items():
        curve = found.get(key)
        if curve is None:
            chart = _chart(key[1], is_evaluated) if key[0] == "row" else CLOCK_CHARTS[key[1]]
            curve = found[key] = Curve(key[1], chart, is_evaluated)
        curve.steps.append(step)
        curve.values.append(value)


def _chart(name: str, is_evaluated: bool) -> str:
    """`valid/accuracy` and `test/accuracy` share one, so do `f1/0` and `f1/1`, and everything that is a loss."""
    parts = name.split("/")
    if parts[0] in OWN_CHARTS and not is_evaluated:
        return OWN_CHARTS[parts[0]]
    if LOSS.lower() in (parts[0], parts[-1]):
        return LOSS
    if is_evaluated:
        parts = [part for part in parts[1:] if part not in ("ema", "swa")] or parts
    return "/".join(parts[:-1] if len(parts) > 1 and parts[-1].isdecimal() else parts)


def _is_of_first_objective(name: str, names: Iterable[str]) -> bool:
    return name in ("loss", *OWN_CHARTS) and any(other.startswith(f"{name}/") for other in names)


def _rank(chart: str, is_evaluated: bool) -> int:
    if chart == LOSS:
        return 0
    if is_evaluated:
        return 1
    how = [*OWN_CHARTS.values(), "", *CLOCK_CHARTS.values()]  # what users log stands between
    return 2 + how.index(chart if chart in how else "")
