"""Instep and one other contestant by turns, in new processes for every few measurements.

In the rounds of all contestants half a minute may lie between two of them, and a process that happens to lie well in memory
stays some per cent faster for as long as it lives. A ratio near 1 needs neighbours in time and many processes: Instep, the
other, the other, Instep; then the same in new processes.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.peer.aims import is_other_library
from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.peer.results import Results
from benchmarks.peer.team import Team, run_fresh
from benchmarks.peer.work import WORKS

TURNS = 2  # pairs in the same processes
BY_HAND = {"start": ["plain"], "checkpoint": ["plain", "hand"], "workers": ["plain"]}

Ask = Callable[[str], dict[str, Any]]


def others(results: Results, work: str) -> list[str]:
    """Whom the aims name for this work: a loop by hand, and of the libraries the one that was fastest in any of its rows."""
    rows = results.entries.get(work, {}).values()
    fastest = {min(row, key=lambda name: row[name].median()) for row in map(_libraries, rows) if row}
    return [*BY_HAND.get(work, ["hand"]), *sorted(fastest)]


def _libraries(row: dict[str, Any]) -> dict[str, Any]:
    return {name: entry for name, entry in row.items() if entry and is_other_library(name)}


def measure_pairs(results: Results, work: str, folder: Path) -> None:
    """New processes, and some pairs with each of the others."""
    against = [name for name in others(results, work) if not CONTESTANTS[name].reason_against(work, WORKS[work])]
    teams = {} if WORKS[work].fresh else {name: Team(name, WORKS[work].processes, folder) for name in ("instep", *against)}
    try:
        for team in teams.values():
            team.wait()
        for threads in WORKS[work].threads:
            request = {"work": work, "quick": False, "threads": threads, "weights": None}

            def ask(name: str, request: dict[str, Any] = request) -> dict[str, Any]:
                return teams[name].ask(request) if teams else run_fresh(name, folder, request)

            for name in teams:
                ask(name)  # warms it up
            for name in against:
                for _ in range(TURNS if teams else 1):
                    _measure_pair(results, work, threads, name, ask)
    finally:
        for team in teams.values():
            team.stop()


def _measure_pair(results: Results, work: str, threads: int, other: str, ask: Ask) -> None:
    mine, theirs, theirs_again, mine_again = (ask(name) for name in ("instep", other, other, "instep"))
    pair = results.pair(work, threads, other)
    for measure in ("train_s", "processor_s"):
        pair[measure].append(((mine[measure] + mine_again[measure]) / 2, (theirs[measure] + theirs_again[measure]) / 2))
