"""The checkpoints of a run as a table."""

from instep.run.history import History
from instep.run.run_files import CheckpointEntry
from instep.text import Paint, age, clean, columns, number, plain, size

LAST = 20  # of many are shown


def lines(entries: list[CheckpointEntry], history: History, now_s: float, *, paint: Paint = plain) -> list[str]:
    """A line for each, of many for the last and the best ones: the monitored value; whether it is a best one, the latest."""
    if not entries:
        return []
    values = {row["step"]: row.get(history.monitor) for row in history.evaluations}
    ranks = {row["step"]: rank for rank, row in enumerate(history.best_rows(len(entries)), start=1)}
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


def _rank(one: CheckpointEntry, rank: int | None) -> str:
    """The label says which is the best; the next ones go by their evaluations."""
    if one.is_best:
        return "best"
    return "" if rank is None or not 2 <= rank <= 20 else f"{ {2: '2nd', 3: '3rd'}.get(rank, f'{rank}th') } best"
