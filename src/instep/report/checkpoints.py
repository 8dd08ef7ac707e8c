"""The checkpoints of a run as a table."""

from instep.run.run_files import CheckpointEntry
from instep.text import age, columns, size


def lines(entries: list[CheckpointEntry], now_s: float) -> list[str]:
    """A line for each, with whether it is the best or the latest."""
    rows = [
        (
            f"{one.step:,}",
            size(one.size_bytes),
            age(now_s - one.written_s),
            ", ".join(word for word, is_it in (("best", one.is_best), ("latest", one.is_latest)) if is_it),
        )
        for one in entries
    ]
    return columns(("checkpoint", "size", "age", ""), rows, left=("",)) if rows else []
