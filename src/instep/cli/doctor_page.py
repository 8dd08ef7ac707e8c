"""`instep doctor --html`: puts what the doctor found, the losses that it recorded and the pages that explain it into one file."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instep.doctor.baseline import states
from instep.doctor.catalogue import CATALOGUE
from instep.doctor.confirm import SIDES, Comparison, Pair
from instep.doctor.curves import Curve, read_curves, training
from instep.doctor.finding import Finding
from instep.doctor.launch import Outcome
from instep.doctor.second_run import Command
from instep.doctor.settings import Settings
from instep.drawing.chart import Chart, Line, Mark
from instep.report.findings.page import FindingsPage

MOST_LINES, MOST_MARKS = 4, 6
FIRST_MARK = 4  # colours after those of the lines


def write_page(path: Path, command: Command, outcome: Outcome, settings: Settings, comparison: Comparison | None) -> None:
    """Write the page."""
    page = FindingsPage(
        script=" ".join((command.target, *command.arguments)),
        findings=told(outcome.findings, settings.baseline),
        steps=outcome.steps,
        folder=command.folder,
        charts=loss_charts(training(read_curves(outcome.folder)), outcome.findings),
        explanations={finding.id: CATALOGUE[finding.id].page for finding in outcome.findings},
        confirmed=[pair_chart(pair) for pair in comparison.pairs] if comparison is not None else (),
        verdict=comparison.verdict if comparison is not None else "",
    )
    path.write_text(page.text(), encoding="utf-8")


def told(findings: Sequence[Finding], baseline: str | None = None) -> list[dict[str, Any]]:
    """Findings as the page takes them."""
    return [
        finding.as_json() | state | {"title": CATALOGUE[finding.id].title}
        for finding, state in zip(findings, states(findings, baseline), strict=True)
    ]


def loss_charts(curves: Sequence[Curve], findings: Sequence[Finding]) -> list[Chart]:
    """The losses by step, with the steps from which on errors and warnings were seen."""
    drawn = [curve for curve in curves if len(curve.values) > 1][:MOST_LINES]
    if not drawn:
        return []
    lines = tuple(Line(curve.where, curve.steps, curve.values, colour) for colour, curve in enumerate(drawn))
    since = [(one.since_step, one.id) for one in findings if one.level != "hint" and one.since_step is not None]
    marks = tuple(
        Mark(f"{id} from step {step}", step, colour=FIRST_MARK + place) for place, (step, id) in enumerate(since[:MOST_MARKS])
    )
    return [Chart("Training loss", "step", lines, marks)]


def pair_chart(pair: Pair) -> Chart:
    """The curves of both runs over each other."""
    lines = tuple(
        Line(name, [place * curve.stride for place in range(len(curve.values))], curve.values, colour)
        for colour, (name, curve) in enumerate(zip(SIDES, (pair.before, pair.after), strict=True))
    )
    kind = pair.before.kind
    return Chart(f"{kind[0].upper()}{kind[1:]} at {pair.before.where}", "value", lines)
