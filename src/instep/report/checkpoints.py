"""The checkpoints of a run as a table."""

from instep.run.history import History
from instep.run.run_files import CheckpointEntry, RecordedRun
from instep.text import Paint, age, clean, columns, number, plain, size

LAST = 20  # of many are shown


def lines(entries: list[CheckpointEntry], history: History, now_s: float, *, paint: Paint = plain) -> list[str]:
    """A line for each, of many for the last and the best ones: the monitored value; whether it is a best one, the latest."""
    if not entries:
        return []
    values = {row["step"]: row.get(history.monitor) for row in history.evaluations}
    ranks = _ranks(entries, history)
    rows = [
        (
            f"{one.step:,}",
            *([number(values.get(one.step))] if values else []),
            size(one.size_bytes),
            age(now_s - one.written_s),
            ", ".join(filter(None, (_rank(one, ranks.get(one.step)), "latest" if one.is_latest else ""))),
        )
        for one in entries
    ]
    shown = [row for place, row in enumerate(rows, start=1) if row[-1] or place > len(rows) - LAST]
    head = ("checkpoint", *([clean(history.monitor)] if values else []), "size", "age", "")
    said = [] if len(shown) == len(rows) else [f"the last {LAST} of {len(rows):,} checkpoints, and the best ones"]
    return [*said, *columns(head, shown, left=("",), paint=paint, styles={"": lambda text: "green" if "best" in text else ""})]


def best_line(entries: list[CheckpointEntry], history: History) -> str:
    """The best evaluation, and which weights are the best on the disk where its own are not; "" where nothing was evaluated."""
    best = history.best
    if best is None:
        return ""
    said = f"best: {clean(history.monitor)} {number(best[history.monitor])} at step {best['step']:,}"
    if not entries or any(one.step == best["step"] for one in entries):
        return said
    kept = next((f"; the best that has one is at step {one.step:,}" for one in entries if one.is_best), "")
    return f"{said}, which has no checkpoint{kept}"


def next_start(run: RecordedRun, entries: list[CheckpointEntry]) -> int | None:
    """The step from which a run goes on that has come further than its last checkpoint; None for any other."""
    if run.state not in ("unfinished", "interrupted", "failed") or not entries or run.step is None:
        return None
    return entries[-1].step if entries[-1].step < run.step else None


def _ranks(entries: list[CheckpointEntry], history: History) -> dict[int, int]:
    """The checkpoints on the disk by their evaluations: the one that is marked as the best is 1, the others follow.

    Only good ones: of as many evaluations as there are checkpoints.
    """
    marked = [one.step for one in entries if one.is_best]
    there = {one.step for one in entries}.difference(marked)
    evaluated = (row["step"] for row in history.best_rows(len(entries)))
    ordered = dict.fromkeys([*marked, *(step for step in evaluated if step in there)])
    return {step: rank for rank, step in enumerate(ordered, start=1)}


def _rank(one: CheckpointEntry, rank: int | None) -> str:
    """The label says which is the best; the next ones go by their evaluations."""
    if one.is_best:
        return "best"
    return "" if rank is None or not 2 <= rank <= 20 else f"{ {2: '2nd', 3: '3rd'}.get(rank, f'{rank}th') } best"
