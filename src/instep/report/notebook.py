"""Notebook: progress as one output of a cell that is redrawn in its place: a bar, the numbers, the loss so far, evaluations.

A thread of its own draws it about once a second from `RunStatus` and the lines of the log, so that an update costs nothing here.
It speaks to the kernel through IPython's display handles, which classic Jupyter, JupyterLab, VS Code and Colab understand.
"""

from __future__ import annotations

import contextvars
import threading
from dataclasses import replace
from html import escape
from typing import TYPE_CHECKING, Any

from instep.drawing.chart import COLOURS
from instep.drawing.html import block, paragraph, pictures, table
from instep.drawing.thinning import thinned
from instep.report.run_status import RunStatus
from instep.report.shortened import shorten
from instep.run.history import History, Row
from instep.run.history.charts import one_chart
from instep.text import clean, number

if TYPE_CHECKING:
    from instep.records import Evaluation

PAUSE_S = 1.0  # between two drawings
SHOWN_EVALUATIONS = 8
SHOWN_NOTES = 20
LONGEST = 1_000  # lines of the log that are kept; then every spike of them, in half as many


class Notebook:
    """The output of a cell. `close` leaves the summary, the curve and the evaluations in it."""

    def __init__(self, status: RunStatus) -> None:
        self._status = status
        self._updates: list[Row] = []
        self._evaluations: list[Row] = []
        self._best: Evaluation | None = None
        self._notes: list[str] = []
        self._summary = ""
        self._handle: Any = None
        self._closing = threading.Event()
        self._drawer: threading.Thread | None = None

    def start(self) -> None:
        self._draw()
        # The kernel looks up in the context which cell an output belongs to.
        context = contextvars.copy_context()
        self._drawer = threading.Thread(target=context.run, args=(self._keep_drawing,), name="instep-progress", daemon=True)
        self._drawer.start()

    def logged(self) -> None:
        """Keeps the losses; the next drawing shows them."""
        line = self._status.logged
        if line is None:
            return
        losses = {name: value for name, value in line.extra.items() if name.startswith("loss/")}
        self._updates.append({"kind": "update", "step": line.step, "epoch": line.epoch, "loss": line.loss, **losses})
        if len(self._updates) > LONGEST:
            kept = thinned([row["loss"] for row in self._updates], LONGEST // 2)
            self._updates = [self._updates[place] for place in kept]

    def evaluated(self, evaluation: Evaluation, *, best: bool) -> None:
        if evaluation is self._status.tested:
            return  # the summary has its numbers
        if best:
            self._best = evaluation
        self._evaluations.append({"kind": "evaluation", "step": evaluation.step, "epoch": evaluation.epoch, **evaluation})
        del self._evaluations[:-LONGEST]

    def epoch_ended(self) -> None:
        """Nothing to do: the next drawing shows it."""

    def note(self, text: str) -> None:
        self._notes.append(text)

    def flush(self) -> None:
        """Show the notes of a run that does not start."""
        self._publish(block(*self._noted()), "\n".join(self._notes))

    def close(self, summary: str) -> None:
        self._closing.set()
        if self._drawer is not None:
            self._drawer.join(timeout=5.0)
        self._summary = summary
        self._draw()

    def _keep_drawing(self) -> None:
        while not self._closing.wait(PAUSE_S):
            self._draw()

    def _draw(self) -> None:
        words = self._summary or "  ".join(self._words())
        self._publish(block(self._head(), self._curve(), self._table(), *self._noted()), words)

    def _publish(self, html: str, text: str) -> None:
        """Show it in the place of what was shown. Whatever goes wrong with that, the run goes on."""
        from IPython.display import display

        shown = {"text/html": html, "text/plain": text}
        try:
            if self._handle is None:
                self._handle = display(shown, raw=True, display_id=True)
            else:
                self._handle.update(shown, raw=True)
        except Exception:  # of the kernel's sockets: nobody looks any more
            self._closing.set()

    def _words(self) -> list[str]:
        status = self._status
        return [*status.where(), *filter(None, [status.left()]), *(words for _, words in status.numbers())]

    def _head(self) -> str:
        """The bar and the numbers, or the summary of a run that has ended."""
        if self._summary:
            return f"<p><b>{escape(self._summary)}</b></p>"
        share, (epoch, step) = self._status.share, self._status.where()
        bar = "" if share is None else _bar(share)
        numbers = "&ensp; ".join(escape(words) for words in self._words()[2:])
        return f"<div>{bar}<b>{escape(clean(epoch))}</b>&ensp; {escape(clean(step))}&ensp; {numbers}</div>"

    def _curve(self) -> str:
        """The losses of training and of the evaluations, as soon as there is a line to draw."""
        if len(self._updates) + len(self._evaluations) < 2:
            return ""
        chart = one_chart(History([*self._updates, *self._evaluations]))
        return pictures([replace(chart, marks=())]) if any(len(line.xs) > 1 for line in chart.lines) else ""

    def _table(self) -> str:
        """The last evaluations, the best one bold."""
        shown = self._evaluations[-SHOWN_EVALUATIONS:]
        if not shown:
            return ""
        columns = dict.fromkeys(name for row in shown for name in row if name not in ("kind", "step", "epoch"))
        names = shorten(columns, self._status.monitor)
        rows = [
            (
                self._status.epoch_of(row["step"], row["epoch"]).strip(),
                f"{row['step']:,}",
                *(number(row.get(n)) for n in names.names),
            )
            for row in shown
        ]
        best = [place for place, row in enumerate(shown) if self._best is not None and row["step"] == self._best.step]
        return table(("epoch", "step", *map(clean, names.names)), rows, bold=best) + paragraph(names.rest)

    def _noted(self) -> list[str]:
        """What was said once, the last of it."""
        return [paragraph(f"note: {text}") for text in self._notes[-SHOWN_NOTES:]]


def _bar(share: float) -> str:
    size = "height: 6px; border-radius: 3px"
    done = f'<div style="width: {share:.1%}; {size}; background: {COLOURS[0]}"></div>'
    words = f'role="progressbar" aria-valuemin="0" aria-valuemax="100" aria-valuenow="{100 * share:.0f}"'
    return f'<div {words} style="max-width: 604px; {size}; margin: 4px 0; background: rgba(128, 128, 128, 0.3)">{done}</div>'
