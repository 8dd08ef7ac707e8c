"""What a run said: `History` in memory, `HistoryFile` on disk."""

from instep.run.history.jsonl import HistoryFile, ReadBack
from instep.run.history.lines import NO_COLUMNS, Row
from instep.run.history.record import History, Mode, free_names

__all__ = ["NO_COLUMNS", "History", "HistoryFile", "Mode", "ReadBack", "Row", "free_names"]
