"""The document: all that a page shows of some runs, as JSON can hold it. The page itself only draws it."""

import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from instep.drawing.thinning import thinned
from instep.report.classification import class_names
from instep.report.page.comparison import comparison
from instep.report.page.facts import as_text, command, facts_of, parameter_count
from instep.report.run_status import why_stopped
from instep.run.history import NO_COLUMNS, History, Row
from instep.run.history.curves import Curve, curves_of
from instep.run.observed import read_findings, read_range_tests
from instep.run.run_files import RecordedRun, find_checkpoints, section
from instep.text import duration, number, size

MOST_POINTS = 40_000  # of all curves together: about a megabyte
FEWEST, LONGEST = 100, 2_000  # points of one curve
MOST_EVALUATIONS = 1_000  # rows of a table
MOST_CLASSES, MOST_CONFUSIONS = 40, 30  # of a matrix that is shown as a whole; that are listed of a larger one


def document(runs: Sequence[RecordedRun], samples: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """What a page shows; `samples` holds, by the name of a run, what was found by building it again."""
    names = _names(runs)
    curves = [curves_of(run.history) for run in runs]
    each = max(FEWEST, min(LONGEST, MOST_POINTS // max(1, sum(map(len, curves)))))
    return {
        "made": time.strftime("%Y-%m-%d %H:%M"),
        "runs": [_run(run, name, (samples or {}).get(str(run.path), {})) for run, name in zip(runs, names, strict=True)],
        "charts": _charts(runs, curves, each),
        "comparison": comparison(runs) if len(runs) > 1 else None,
    }


def _names(runs: Sequence[RecordedRun]) -> list[str]:
    """The folder of each, with those above it where that is not enough."""
    short = [run.path.resolve().name for run in runs]
    return [name if Counter(short)[name] == 1 else str(run.path) for run, name in zip(runs, short, strict=True)]


def _run(run: RecordedRun, name: str, samples: Mapping[str, Any]) -> dict[str, Any]:
    history = run.history
    best = history.best
    return {
        "name": name,
        "title": as_text(run.description.get("title", "")),
        "state": run.state,
        "step": run.step,
        "end": run.end,
        "created": f"{datetime.fromtimestamp(run.created_s):%Y-%m-%d %H:%M}",
        "problems": list(run.problems),
        "numbers": _numbers(run),
        "best": None if best is None else {"step": best["step"], "name": history.monitor, "value": best[history.monitor]},
        "resumed": run.resumed,
        "evaluations": _evaluations(run),
        "checkpoints": [
            {
                "step": one.step,
                "size": size(one.size_bytes),
                "best": one.is_best,
                "latest": one.is_latest,
                "written": f"{datetime.fromtimestamp(one.written_s):%Y-%m-%d %H:%M}",
            }
            for one in find_checkpoints(run.path)
        ],
        "cycles": [{key: _json(value) for key, value in row.items() if key != "kind"} for row in history.cycles],
        "range_tests": read_range_tests(run.path),
        "findings": read_findings(run.path),
        "matrices": _matrices({**_tables(history), **samples.get("tables", {})}, class_names(run.description)),
        "preview": samples.get("preview"),
        "samples": samples.get("samples"),
        "facts": facts_of(run),
        "command": command(run.description),
    }


def _numbers(run: RecordedRun) -> list[list[str]]:
    """What one wants to know first, as (what, value, more)."""
    history, said = run.history, run.description
    best, last, test = history.best, history.last, history.test
    end = f"of {run.end:,}" if run.end else ""
    rows = [["state", run.state, why_stopped(run)]]
    if best is not None:
        rows.append([f"best {history.monitor}", number(best[history.monitor]), f"at step {best['step']:,}"])
    if last is not None and last is not best:
        value = last.get(history.monitor, last.get("loss"))
        rows.append([f"last {history.monitor if history.monitor in last else 'loss'}", number(value), ""])
    if test is not None:
        rows += [[name, number(value), "at the end"] for name, value in test.items() if _is_number(name, value)]
    rows.append(["updates", "none" if run.step is None else f"{run.step:,}", end])
    rows.append(["time", duration(run.trained_s), _resumptions(run)])
    if parameter_count(said):
        rows.append(["parameters", f"{parameter_count(said):,}", as_text(section(said, "model").get("class", ""))])
    return rows


def _resumptions(run: RecordedRun) -> str:
    count = len(run.resumed)
    return "" if not count else "resumed once" if count == 1 else f"resumed {count} times"


def _is_number(name: str, value: Any) -> bool:
    return name not in (*NO_COLUMNS, "step", "epoch") and isinstance(value, int | float)


def _evaluations(run: RecordedRun) -> dict[str, Any]:
    """The last ones as a table; the best is there in any case."""
    history = run.history
    shown = list(history.evaluations[-MOST_EVALUATIONS:])
    best = history.best
    if best is not None and not any(row is best for row in shown):
        shown.insert(0, best)
    names = [name for name in dict.fromkeys(name for row in shown for name in row) if name not in (*NO_COLUMNS, "step", "epoch")]
    return {
        "names": ["epoch", "step", *names],
        "rows": [[row["epoch"] + 1, row["step"], *(_json(row.get(name)) for name in names)] for row in shown],
        "best": next((place for place, row in enumerate(shown) if row is best), None),
        "all": len(history.evaluations) + run.left_out_evaluations,
    }


def _tables(history: History) -> dict[str, Any]:
    """The tables of the evaluations, of each name the last."""
    rows: list[Row] = [*history.evaluations, *([] if history.test is None else [history.test])]
    return {name: table for row in rows for name, table in row.get("tables", {}).items()}


def _matrices(tables: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Confusion matrices by the name of their data; of one with many classes the most frequent confusions."""
    found: dict[str, Any] = {}
    for name, table in tables.items():
        if _is_matrix(table):
            wrong = [[i, j, count] for i, row in enumerate(table) for j, count in enumerate(row) if i != j and count]
            is_small = len(table) <= MOST_CLASSES
            found[name.removesuffix("confusion_matrix").removesuffix("/")] = {
                "classes": len(table),
                "names": [as_text(name) for name in names] if len(names) == len(table) else [],
                "counts": table if is_small else None,
                "confusions": [] if is_small else sorted(wrong, key=lambda one: -one[2])[:MOST_CONFUSIONS],
            }
    return found


def _is_matrix(table: Any) -> bool:
    return isinstance(table, list) and bool(table) and all(
        isinstance(row, list) and len(row) == len(table) and all(isinstance(count, int) for count in row) for row in table
    )  # fmt: skip


def _charts(runs: Sequence[RecordedRun], curves: Sequence[Sequence[Curve]], most: int) -> list[dict[str, Any]]:
    """Charts in the order of the first run that has each, with the curves of all runs in them."""
    found: dict[str, list[dict[str, Any]]] = {}
    for place, (run, of_run) in enumerate(zip(runs, curves, strict=True)):
        best = run.history.best
        for curve in of_run:
            keep = [curve.steps.index(best["step"])] if best is not None and best["step"] in curve.steps else []
            kept = thinned(curve.values, most, keep)
            found.setdefault(curve.chart, []).append(
                {
                    "run": place,
                    "name": curve.name,
                    "evaluated": curve.is_evaluated,
                    "steps": [curve.steps[at] for at in kept],
                    "values": [_json(curve.values[at]) for at in kept],
                    "left_out": len(curve.values)
                    - len(kept)
                    + (run.left_out_evaluations if curve.is_evaluated else run.left_out),
                }
            )
    return [{"title": title, "curves": in_it, "lines": _lines(title, runs)} for title, in_it in found.items()]


def _lines(title: str, runs: Sequence[RecordedRun]) -> list[dict[str, Any]]:
    """The norm at which gradients are clipped."""
    if title != "Gradient norm":
        return []
    found = []
    for place, run in enumerate(runs):
        limit = section(run.description, "settings").get("clip_norm")
        for name, value in limit.items() if isinstance(limit, Mapping) else [("", limit)]:
            if isinstance(value, int | float):
                found.append({"run": place, "name": f"clip_norm {name}".strip(), "value": value})
    return found


def _json(value: Any) -> Any:
    """inf and nan, for which JSON has no words, as text."""
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value
