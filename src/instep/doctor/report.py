"""The report in the terminal: each finding with what was seen, where, why it matters and what to change."""

import os
import shutil
import textwrap
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import SEVERITIES, Finding

COLOURS = {"error": "\x1b[31m", "warning": "\x1b[33m", "hint": "\x1b[36m"}
BOLD, DIM, PLAIN = "\x1b[1m", "\x1b[2m", "\x1b[0m"
INDENT = "    "


def wants_colour(stream: TextIO) -> bool:
    """Whether colours are welcome there: a terminal, and no NO_COLOR."""
    return stream.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def render(findings: Sequence[Finding], *, steps: int | None = None, colour: bool = False, failed: int = 0) -> str:
    """The whole report."""
    width = min(shutil.get_terminal_size().columns, 120)
    lines = [_head(findings, steps, colour)]
    for finding in findings:
        lines += ["", *_paragraphs(finding, width, colour)]
    if failed:
        lines += ["", f"{failed} errors inside the doctor were caught; what it says may be incomplete."]
    return "\n".join(lines)


def one_line(finding: Finding, *, colour: bool = False) -> str:
    """What is said at once, as soon as it is certain."""
    place = f"{finding.where}: " if finding.where else ""
    return f"instep doctor: {_painted(finding.level, COLOURS[finding.level], colour)} {finding.id}: {place}{finding.message}"


def _head(findings: Sequence[Finding], steps: int | None, colour: bool) -> str:
    watched = "" if steps is None else f" in {steps:,} steps"
    if not findings:
        return _painted(f"instep doctor: nothing to say{watched}.", BOLD, colour)
    counts = Counter(finding.level for finding in findings)
    said = ", ".join(f"{counts[level]} {level}{'s' if counts[level] > 1 else ''}" for level in SEVERITIES if counts[level])
    return _painted(f"instep doctor: {said}{watched}", BOLD, colour)


def _paragraphs(finding: Finding, width: int, colour: bool) -> list[str]:
    level = _painted(finding.level, COLOURS[finding.level], colour)
    place = f"  {finding.where}" if finding.where else ""
    since = "" if finding.since_step is None else f"  since step {finding.since_step}"
    process = f"  ({finding.process})" if finding.process else ""
    title = _painted(CATALOGUE[finding.id].title, BOLD, colour)
    lines = [f"{level} {_painted(finding.id, BOLD, colour)}{place}{_painted(since + process, DIM, colour)}", f"  {title}"]
    lines += _wrapped(finding.message, width)
    lines += _wrapped(finding.why, width)
    lines += [f"{INDENT}fix:", *(f"{INDENT}  {line}" for line in finding.change.strip("\n").splitlines())]
    return [*lines, _painted(f"{INDENT}instep doctor --explain {finding.id}", DIM, colour)]


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=INDENT, subsequent_indent=INDENT)


def _painted(text: str, paint: str, colour: bool) -> str:
    return f"{paint}{text}{PLAIN}" if colour and text else text
