"""Several runs side by side: what they set differently, and how far each came."""

from collections.abc import Sequence
from typing import Any

from instep.report.diff import leaves
from instep.report.page.facts import as_text, parameter_count
from instep.run.run_files import RecordedRun
from instep.text import duration, number

MOST_ROWS = 200
MISSING = "-"
_TENSORS = "model.parameters."  # their shapes; how many numbers there are says enough


def comparison(runs: Sequence[RecordedRun]) -> dict[str, Any]:
    """Rows of a name and a text for each run: first the results, then every setting in which two differ."""
    described = [dict(leaves(run.description)) for run in runs]
    rows = []
    for name in dict.fromkeys(name for one in described for name in one if not name.startswith(_TENSORS)):
        texts = [as_text(one[name]) if name in one else MISSING for one in described]
        if len(set(texts)) > 1:
            rows.append([name, *texts])
    return {"results": _results(runs), "settings": rows[:MOST_ROWS], "left_out": max(0, len(rows) - MOST_ROWS)}


def _results(runs: Sequence[RecordedRun]) -> list[list[str]]:
    monitors = dict.fromkeys(run.history.monitor for run in runs if run.history.best is not None)
    rows = [
        ["state", *(run.state for run in runs)],
        ["updates", *(MISSING if run.step is None else f"{run.step:,}" for run in runs)],
        ["parameters", *(f"{parameter_count(run.description):,}" for run in runs)],
        ["time", *(duration(run.trained_s) for run in runs)],
    ]
    rows += [[f"best {name}", *(_best(run, name) for run in runs)] for name in monitors]
    names = dict.fromkeys(name for run in runs for name in _last(run))
    return rows + [[f"last {name}", *(number(_last(run).get(name)) for run in runs)] for name in names]


def _best(run: RecordedRun, monitor: str) -> str:
    best = run.history.best
    return MISSING if best is None or monitor not in best else f"{number(best[monitor])} at step {best['step']:,}"


def _last(run: RecordedRun) -> dict[str, float]:
    row = run.history.last
    return {} if row is None else {name: value for name, value in row.items() if isinstance(value, float) and name != "lr"}
