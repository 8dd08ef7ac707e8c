"""History: what a run said, as rows.

A row is a plain dictionary. What depends on the clock stands under "clock" and nowhere else, so that two runs can be compared.
How rows are kept on disk is in `jsonl`; text for the terminal is made in `report`.
"""

from __future__ import annotations

import math
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from instep.errors import DescriptionError
from instep.run.history.lines import OTHER_KINDS, Row
from instep.run.history.rows import Rows, Updates
from instep.text import plural

if TYPE_CHECKING:  # the records import torch, and `instep show` reads a history without it
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from instep.records import Evaluation, Logged

Mode = Literal["min", "max"]
OWN_COLUMNS = frozenset(
    {"kind", "step", "epoch", "loss", "lr", "momentum", "grad_norm", "clipped", "penalty", "skipped", "tables", "clock"}
)


class History:
    """The record of a run: its updates, evaluations and cycles, in order.

        history = trainer.fit()
        history.best["valid/loss"], history.last["step"]
        history.column("loss")                  # one value a line of the log
        pandas.DataFrame(history.to_dicts())
        history.plot()                          # with matplotlib; a notebook draws it without

    `monitor` and `mode` say which evaluation is the best one.

    >>> history = History([{"kind": "evaluation", "step": step, "valid/loss": 1 / step} for step in (10, 20)])
    >>> history
    History(20 steps, 2 evaluations, best valid/loss 0.05 at step 20)
    >>> history.curve("valid/loss")
    [(10, 0.1), (20, 0.05)]
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = (), *, monitor: str = "valid/loss", mode: Mode = "min") -> None:
        if mode not in get_args(Mode):
            raise DescriptionError(f'mode={mode!r} is not known; use "min" or "max".')
        self.monitor = monitor
        self.mode = mode
        self._rows = rows.copy() if isinstance(rows, Rows) else Rows()
        self._others: dict[str, list[Row]] = {kind: [] for kind in OTHER_KINDS}
        self._ranked: list[tuple[float, int]] = []  # the evaluations that have the monitored value, the best one first
        self._ranked_by: tuple[str, str, int] = ("", "", 0)  # the monitor, its mode, and how many evaluations were looked at
        for other in self._rows.others.values():
            self._others[other["kind"]].append(other)
        for row in () if isinstance(rows, Rows) else rows:
            self._append(dict(row))

    @property
    def rows(self) -> Sequence[Row]:
        """Everything, in order."""
        return self._rows

    @property
    def updates(self) -> Sequence[Row]:
        """The lines of the log, each the mean over the updates since the line before."""
        return Updates(self._rows)

    @property
    def evaluations(self) -> Sequence[Row]:
        """One row an evaluation."""
        return self._others["evaluation"]

    @property
    def cycles(self) -> Sequence[Row]:
        """One row a cycle of `fit_cycles`: what was chosen for it and, once it is over, what it brought."""
        return list({row["cycle"]: row for row in self._others["cycle"]}.values())

    @property
    def test(self) -> Row | None:
        """The numbers of the test data, at the end of the run; None where it has none, or has not ended."""
        tests = self._others["test"]
        return tests[-1] if tests else None

    @property
    def best(self) -> Row | None:
        """The first evaluation that no other beats; None before there is one. An evaluation that gave nan is never it."""
        return next(iter(self.best_rows(1)), None)

    def best_rows(self, count: int) -> list[Row]:
        """The best evaluations, the best one first; of two that are as good, the earlier one is better."""
        self._rank_new()
        return [self._others["evaluation"][place] for _, place in self._ranked[:count]]

    def _rank_new(self) -> None:
        """Sort in the evaluations that were added, not all of them: a run asks at each."""
        evaluations, known = self._others["evaluation"], self._ranked_by
        if known[:2] != (self.monitor, self.mode):
            self._ranked, known = [], ("", "", 0)
        sign = 1 if self.mode == "min" else -1
        rated = [(row.get(self.monitor), place) for place, row in enumerate(evaluations[known[2] :], start=known[2])]
        new = [(sign * float(value), place) for value, place in rated if value is not None and not math.isnan(value)]
        if len(new) == 1:
            insort(self._ranked, new[0])
        elif new:
            self._ranked = sorted([*self._ranked, *new])
        self._ranked_by = (self.monitor, self.mode, len(evaluations))

    @property
    def last(self) -> Row | None:
        """The last evaluation; where there is none, the last line of the log."""
        rows = self.evaluations or self.updates
        return rows[-1] if rows else None

    @property
    def names(self) -> list[str]:
        """The columns, as they first appear. Those of cycles are none: see `cycles`."""
        return self._rows.names()

    def column(self, name: str) -> list[Any]:
        """The values of one column, from the rows that have it."""
        return [value for _, value in self.curve(name)]

    def curve(self, name: str) -> list[tuple[int, Any]]:
        """One column as (step, value) pairs."""
        points = list(self._rows.points(name))
        if not points:
            raise DescriptionError(f"the history has no column {name!r}; it has: {', '.join(self.names) or 'nothing yet'}.")
        return points

    def to_dicts(self, *, clock: bool = True) -> list[Row]:
        """The rows, copied; `clock=False` leaves out what depends on the clock."""
        copies = [{**row, "clock": dict(row["clock"])} if "clock" in row else dict(row) for row in self._rows]
        return copies if clock else [{name: row[name] for name in row if name != "clock"} for row in copies]

    def add_update(self, logged: Logged) -> Row:
        """Append a line of the log; returns its row."""
        row: Row = {"kind": "update", "step": logged.step, "epoch": logged.epoch, "loss": logged.loss, "lr": logged.lr}
        for name in ("momentum", "grad_norm", "clipped", "penalty"):
            if (value := getattr(logged, name)) is not None:
                row[name] = value
        if logged.skipped:
            row["skipped"] = logged.skipped
        return self._append({**row, **logged.parts, **free_names(logged.extra), "clock": _known(vars(logged.pace))})

    def add_evaluation(self, evaluation: Evaluation, *, seconds: float) -> Row:
        """Append an evaluation, made `seconds` after this process began to train; returns its row.

        What is not one number (a confusion matrix) stands under "tables".
        """
        return self._add_numbers("evaluation", evaluation, seconds)

    def add_test(self, evaluation: Evaluation, *, seconds: float) -> Row:
        """Append the evaluation of the test data, as `add_evaluation` does; returns its row."""
        return self._add_numbers("test", evaluation, seconds)

    def _add_numbers(self, kind: str, evaluation: Evaluation, seconds: float) -> Row:
        row = {"kind": kind, "step": evaluation.step, "epoch": evaluation.epoch}
        tables = {"tables": dict(evaluation.tables)} if evaluation.tables else {}
        return self._append({**row, **free_names(evaluation), **tables, "clock": {"seconds": seconds}})

    def add_cycle(self, cycle: Mapping[str, Any], step: int, epoch: int) -> Row:
        """Append what was chosen for a cycle, or what it brought; returns its row."""
        return self._append({"kind": "cycle", "step": step, "epoch": epoch, **cycle})

    def add_log(self, extra: Mapping[str, float]) -> Row:
        """Append what was logged after the last update; returns its row."""
        last = self._rows[-1] if self._rows else {"step": 0, "epoch": 0}
        return self._append({"kind": "log", "step": last["step"], "epoch": last["epoch"], **extra})

    def _append(self, row: Row) -> Row:
        self._rows.append(row)
        if (kind := row.get("kind")) in OTHER_KINDS:
            self._others[kind].append(row)
        return row

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        if not self._rows:
            return "History(nothing yet)"
        parts = [plural(self._rows[-1]["step"], "step"), plural(len(self.evaluations), "evaluation")]
        best, loss = self.best, self.updates[-1].get("loss") if self.updates else None
        if best is not None:
            parts.append(f"best {self.monitor} {best[self.monitor]:.4g} at step {best['step']}")
        elif loss is not None:
            parts.append(f"loss {loss:.4g}")
        return f"History({', '.join(parts)})"

    def plot(self, *names: str, ax: Axes | None = None, log: bool = False, label: str = "") -> Figure:
        """Draws the losses, metrics and the learning rate over the steps with matplotlib; returns the figure.

            history.plot()
            history.plot("loss", "valid/loss", log=True).savefig("loss.png")

        With names, those columns; on an `ax` of yours all in one chart, without names the losses. `log` is for the losses, or the
        columns that are named. `label` stands before each name in the legend, to tell several runs on one `ax` apart. The best
        evaluation is marked.
        """
        from instep.drawing.figure import plot
        from instep.run.history.charts import charts, one_chart  # they import this file

        drawn = charts(self, names, log=log) if ax is None else [one_chart(self, names, log=log)]
        if not any(chart.lines for chart in drawn):
            raise DescriptionError("the history has nothing to draw yet; train first.")
        return plot([chart.labelled(label) for chart in drawn], "history.plot()", ax=ax)

    def _repr_html_(self) -> str:
        from instep.run.history.html import draw  # it imports this file

        return draw(self)


def _known(values: Mapping[str, Any]) -> Row:
    return {name: value for name, value in values.items() if value is not None}


def free_names(values: Mapping[str, float]) -> Mapping[str, float]:
    """The same values, none of which has a name that a row needs itself."""
    own = sorted(OWN_COLUMNS & set(values))
    if own:
        raise DescriptionError(f"{own[0]!r} is a column of the history itself; log it under another name.")
    return values
