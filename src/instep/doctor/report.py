"""The report in the terminal: each finding with what was seen, where, why it matters and what to change."""

import sys
from collections import Counter
from collections.abc import Sequence

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import SEVERITIES, Finding
from instep.text import PROSE, Paint, fold, fold_for, plain, plural, terminal_width, wrapped

STYLES = {"error": "red", "warning": "yellow", "hint": "cyan"}
CHANGES = {"-": "red", "+": "green"}  # the first sign of a line of a diff
INDENT = "    "


def render(
    findings: Sequence[Finding],
    *,
    steps: int | None = None,
    paint: Paint = plain,
    failed: int = 0,
    known: Sequence[Finding] = (),
    remarks: Sequence[str] = (),
) -> str:
    """The whole report. `known` are findings of the baseline: a line each; `remarks` say what could not be judged."""
    width = min(terminal_width(sys.stderr) or 80, PROSE)
    lines = [paint(_head(findings, steps), "bold")]
    common = [finding for finding in findings if finding.is_common]
    for finding in findings:
        if finding.is_common:
            continue
        lines += ["", *_paragraphs(finding, width, paint)]
    if common:
        hints = ", ".join(f"{finding.id} ({finding.where})" if finding.where else finding.id for finding in common)
        lines += ["", fold(f"{paint('hints', STYLES['hint'])} that many scripts get: {hints}; instep doctor --explain ID", width)]
    if known:
        lines += ["", f"in the baseline already: {plural(len(known), 'finding')}"]
        lines += [paint(f"  {one.level} {one.id}{f'  {one.where}' if one.where else ''}", "dim") for one in known]
    if failed:
        caught = f"{plural(failed, 'error')} inside the doctor {'was' if failed == 1 else 'were'} caught"
        lines += ["", fold(f"{caught}; what it says may be incomplete.", width)]
    for remark in remarks:
        lines += ["", fold(remark, width)] if findings or failed else [fold(remark, width)]
    return "\n".join(lines)


def one_line(finding: Finding, *, paint: Paint = plain) -> str:
    """What is said at once, as soon as it is certain."""
    place = f"{finding.where}: " if finding.where else ""
    line = fold_for(sys.stderr, f"instep doctor: {finding.level} {finding.id}: {place}{finding.message}")
    return line.replace(finding.level, paint(finding.level, STYLES[finding.level]), 1)


def _head(findings: Sequence[Finding], steps: int | None) -> str:
    watched = "" if steps is None else f" in {steps:,} steps"
    if not findings:
        return (
            "instep doctor: nothing found, and no step was watched." if steps == 0 else f"instep doctor: nothing to say{watched}."
        )
    counts = Counter(finding.level for finding in findings)
    said = ", ".join(f"{counts[level]} {level}{'s' if counts[level] > 1 else ''}" for level in SEVERITIES if counts[level])
    return f"instep doctor: {said}{watched}"


def _paragraphs(finding: Finding, width: int, paint: Paint) -> list[str]:
    level = paint(finding.level, STYLES[finding.level])
    place = f"  {finding.where}" if finding.where else ""
    since = "" if finding.since_step is None else f"  since step {finding.since_step}"
    process = f"  ({finding.process})" if finding.process else ""
    title = [paint(f"  {line}", "bold") for line in wrapped(CATALOGUE[finding.id].title, width - 2)]
    return [
        f"{level} {paint(finding.id, 'bold')}{place}{paint(since + process, 'dim')}",
        *title,
        *_wrapped(finding.message, width),
        *(_wrapped(f"Also at {', '.join(finding.places)}.", width) if finding.places else ()),
        *(line for signal in finding.signals for line in _wrapped(f"Seen with it: {signal}", width)),
        *_wrapped(finding.why, width),
        f"{INDENT}fix:",
        *(f"{INDENT}  {paint(line, CHANGES.get(line[:1], ''))}" for line in finding.change.strip("\n").splitlines()),
        paint(f"{INDENT}instep doctor --explain {finding.id}", "dim"),
    ]


def _wrapped(text: str, width: int) -> list[str]:
    return [INDENT + line for line in wrapped(text, width - len(INDENT))]
