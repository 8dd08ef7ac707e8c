"""What a run said: `History` in memory, `HistoryFile` on disk."""

from instep.run.history.jsonl import HistoryFile, ReadBack
from instep.run.history.record import NO_COLUMNS, History, Mode, Row, free_names

__all__ = ["NO_COLUMNS", "History", "HistoryFile", "Mode", "ReadBack", "Row", "free_names"]
