"""What a run said: `History` in memory, `HistoryFile` on disk."""

from instep.run.history.jsonl import HistoryFile, ReadBack
from instep.run.history.record import History, Mode, Row, free_names

__all__ = ["History", "HistoryFile", "Mode", "ReadBack", "Row", "free_names"]
