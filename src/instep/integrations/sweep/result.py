"""What a sweep found: its trials as a table, the best of them, and which parameters matter."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from instep.drawing.bars import draw_bars
from instep.drawing.html import block, paragraph, table
from instep.drawing.parallel import Path as Line
from instep.drawing.parallel import Scale, draw_parallel
from instep.errors import DescriptionError
from instep.integrations.sweep.record import Mode, State, TrialRecord
from instep.integrations.sweep.space import Parameter, Range, Space
from instep.integrations.sweep.trial import FOLDER
from instep.report.page.html import MARK
from instep.report.page.sweep import sweep_page
from instep.text import Paint, columns, number, plain, plural, wrapped

REPORT = "report.html"
SHOWN = 12  # trials in the text and in a notebook; the page has all
WIDTH = 80
FAR = 30  # times the lowest value: then the axis goes by the logarithm, or a run that went wrong hides all others


class StoredTrials(Protocol):
    """Where the trials are kept."""

    def records(self) -> list[TrialRecord]: ...
    def importances(self) -> dict[str, float]: ...


@dataclass(frozen=True)
class Trial:
    """One trial of a sweep: a run in its folder."""

    number: int
    folder: Path
    parameters: Mapping[str, Any]  # those that were searched
    value: float | None  # the metric at its best; None where there is no number
    evaluations: int
    state: State
    error: str = ""


@dataclass(frozen=True)
class SweepResult:
    """The trials of a sweep, the best one first. `print` shows them as a table, a notebook with pictures.

    result.best.parameters, result.best.value, result.best.folder
    pandas.DataFrame(result.to_dicts())
    """

    folder: Path
    metric: str
    metric_mode: Mode
    rows: tuple[Trial, ...]
    importances: Mapping[str, float]  # shares of 1; empty where there are too few finished trials
    space: Mapping[str, Parameter]

    @property
    def best(self) -> Trial | None:
        """The finished trial with the best value; a pruned one only where none is finished. None where there is no number."""
        valued = [row for row in self.rows if row.value is not None]
        return next((row for row in valued if row.state == "finished"), valued[0] if valued else None)

    def to_dicts(self) -> list[dict[str, Any]]:
        """The table: a dictionary a trial."""
        return [
            {
                "trial": row.number,
                **row.parameters,
                self.metric: row.value,
                "state": row.state,
                "evaluations": row.evaluations,
                "folder": str(row.folder),
                **({"error": row.error} if row.error else {}),
            }
            for row in self.rows
        ]

    def save_report(self, path: str | Path | None = None) -> Path:
        """Write the page with the pictures and all trials, `report.html` in the folder of the sweep; returns where."""
        output = self.folder / REPORT if path is None else Path(path)
        if output.exists() and not output.read_bytes().startswith(MARK.encode()):
            raise DescriptionError(f"{output} exists and is not a report of Instep; name another file.")
        output.write_text(sweep_page(self.to_document()), encoding="utf-8")
        return output

    def to_document(self) -> dict[str, Any]:
        """What the page shows, as JSON can hold it."""
        best = self.best
        head, rows = self._cells(self.rows)
        return {
            "name": self.folder.resolve().name,
            "numbers": self._numbers(),
            "parallel": self._parallel(),
            "importances": draw_bars("How much each parameter matters", self.importances) if self.importances else None,
            "head": [*head, "error"],
            "rows": [[*cells, row.error] for cells, row in zip(rows, self.rows, strict=True)],
            "best": self.rows.index(best) if best else None,
            "space": {name: str(one) for name, one in self.space.items()},
        }

    def __str__(self) -> str:
        return self.render()

    def render(self, *, width: int | None = None, paint: Paint = plain) -> str:
        """The best trials as a table, and what to say about all."""
        head, rows = self._cells(self.rows[:SHOWN])
        lines = columns(head, rows, left=("state",), width=width, paint=paint)
        left = len(self.rows) - SHOWN
        lines += [f"… and {plural(left, 'trial')} more in the report"] if left > 0 else []
        return "\n".join([*lines, "", *(line for text in self._sentences() for line in wrapped(text, width or WIDTH))])

    def _repr_html_(self) -> str:
        head, rows = self._cells(self.rows[:SHOWN])
        bold = [place for place, row in enumerate(self.rows[:SHOWN]) if row is self.best]
        said = [paragraph(text) for text in self._sentences()]
        bars = draw_bars("How much each parameter matters", self.importances) if self.importances else ""
        return block(self._parallel(), table(head, rows, left=("state",), bold=bold), *said, bars)

    def _cells(self, rows: tuple[Trial, ...]) -> tuple[list[str], list[list[str]]]:
        head = ["trial", *self.space, self.metric, "evaluations", "state"]
        body = [
            [
                str(row.number),
                *(shown(row.parameters[name]) for name in self.space),
                number(row.value),
                str(row.evaluations),
                row.state,
            ]
            for row in rows
        ]
        return head, body

    def _sentences(self) -> list[str]:
        best, said = self.best, []
        if best is not None:
            chosen = ", ".join(f"{name}={shown(value)}" for name, value in best.parameters.items())
            said.append(f"The best {self.metric} is {number(best.value)}, with {chosen}: {best.folder}.")
        if self.importances:
            shares = ", ".join(f"{name} {share:.0%}" for name, share in self.importances.items())
            said.append(
                f"What matters for a good {self.metric}, by {plural(self._count('finished'), 'finished trial')}: {shares}."
            )
        return said

    def _count(self, state: State) -> int:
        return sum(row.state == state for row in self.rows)

    def _numbers(self) -> list[list[str]]:
        """What one wants to know first, as (what, value, more)."""
        best = self.best
        states: tuple[State, ...] = ("finished", "pruned", "diverged", "failed", "running")
        told = ", ".join(f"{self._count(state)} {state}" for state in states if self._count(state))
        first = [] if best is None else [[f"best {self.metric}", number(best.value), f"trial {best.number}"]]
        chosen = [] if best is None else [[name, shown(value), "of the best"] for name, value in best.parameters.items()]
        return [*first, *chosen, ["trials", str(len(self.rows)), told]]

    def _parallel(self) -> str:
        known = [row for row in self.rows if row.value is not None and math.isfinite(row.value)]
        values = [row.value for row in known if row.value is not None]
        low, high = min(values, default=0.0), max(values, default=1.0)
        last = Scale(self.metric, low, high, log=low > 0 and high > FAR * low)
        place = {row.number: at / max(1, len(known) - 1) for at, row in enumerate(known)}
        best = self.best
        lines = [
            Line(
                _tooltip(row, self.metric),
                [*(_point(one, row.parameters[name]) for name, one in self.space.items()), row.value if row in known else None],
                place.get(row.number),
                is_best=row is best,
            )
            for row in self.rows
        ]
        title = f"The parameters of each trial and its {self.metric}"
        return draw_parallel(title, [*(_scale(name, one) for name, one in self.space.items()), last], lines)


def result_of(trials: StoredTrials, space: Space, folder: Path, metric: str, mode: Mode) -> SweepResult:
    """The trials as they are stored, the best first; those without a number last."""
    rows = [
        Trial(
            one.trial,
            folder / FOLDER.format(one.trial),
            {name: space.parameters[name].value_of(value) for name, value in one.stored.items()},
            one.best(mode),
            one.last,
            one.state,
            one.error,
        )
        for one in trials.records()
    ]
    sign = 1 if mode == "min" else -1
    rows.sort(key=lambda row: (row.value is None, sign * (row.value or 0.0), row.number))
    return SweepResult(folder, metric, mode, tuple(rows), trials.importances(), space.parameters)


def shown(value: Any) -> str:
    """The value of a parameter in few letters."""
    return f"{value:.4g}" if isinstance(value, float) else str(getattr(value, "name", value))


def _tooltip(row: Trial, metric: str) -> str:
    chosen = ", ".join(f"{name}={shown(value)}" for name, value in row.parameters.items())
    return f"trial {row.number}: {chosen}, {metric} {number(row.value)} ({row.state})"


def _scale(name: str, one: Parameter) -> Scale:
    if isinstance(one, Range):
        return Scale(name, one.low, one.high, one.log)
    return Scale(name, names=tuple(shown(value) for value in one.values))


def _point(one: Parameter, value: Any) -> float | str:
    return float(value) if isinstance(one, Range) else shown(value)
