"""Pairs: a right and a wrong script in one file, `frameworks/<framework>/<name>.py`.

Lines that end in `# wrong` are in the wrong one only, those that end in `# right` in the right one only; `# found`, or
`# wrong, found`, marks the line that the doctor has to point at. The docstring begins with the id. Lines keep their numbers.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from doctor.casebook import Case, on_an_edge

FRAMEWORKS = Path(__file__).parent / "frameworks"
MARK = re.compile(r"# (wrong|right|found)(, found)?$")
# What differs from one run to the next in what frameworks print.
CLOCK = re.compile(r"'?\w*(runtime|per_second)'?: '?[\d.e+-]+'?")


@dataclass(frozen=True)
class Pair:
    """One mistake in one framework."""

    source: Path

    @property
    def name(self) -> str:
        return f"{self.source.parent.name}/{self.source.stem}"

    @property
    def id(self) -> str:
        return self.source.read_text(encoding="utf-8").removeprefix('"""').partition(":")[0]

    @property
    def found(self) -> int:
        """The number of the line to point at."""
        lines = self.source.read_text(encoding="utf-8").splitlines()
        (number,) = (number for number, line in enumerate(lines, start=1) if line.endswith("found"))
        return number

    def write(self, folder: Path, kind: str) -> Path:
        """The right or the wrong script."""
        lines = self.source.read_text(encoding="utf-8").splitlines()
        marks = [MARK.search(line) for line in lines]
        kept = [line if not mark or mark[1] in (kind, "found") else "" for line, mark in zip(lines, marks, strict=True)]
        script = folder / f"{self.source.parent.name}_{self.source.stem}_{kind}.py"
        script.write_text("\n".join(kept) + "\n", encoding="utf-8")
        return script


def pairs(framework: str) -> list[Pair]:
    """Those of a framework."""
    return [Pair(path) for path in sorted((FRAMEWORKS / framework).glob("*.py"))]


def said_alone(errors: str) -> list[str]:
    """What a script itself has written to stderr."""
    return [CLOCK.sub("", line) for line in errors.splitlines() if not line.startswith("instep doctor: ")]


def complaints(pair: Pair, script: Path, watched: dict[str, Any], alone: dict[str, Any]) -> list[str]:
    """What is wrong with what the doctor says of a script, and with what the script does while it is watched."""
    wrong = script.stem.endswith("_wrong")
    told = [f"the script failed: {watched['error']}\n{watched['said']}"] if watched["error"] or alone["error"] else []
    told += [f"the doctor failed: {failure}" for failure in watched["failures"]]
    loud = [finding for finding in watched["findings"] if finding["severity"] != "hint"]
    expected = [(pair.id, f"{script}:{pair.found}")] if wrong else []
    found = [(finding["id"], finding["where"]) for finding in loud]
    if found != expected:
        told += [f"found {found}, expected {expected}", *(finding["message"] for finding in loud)]
    told += [f"{finding['id']} says no fix" for finding in loud if not finding["fix"]]
    told += on_an_edge(Case(script, frozenset(id for id, _ in expected), frozenset(_hints(watched))), watched["margins"])
    if CLOCK.sub("", watched["out"]) != CLOCK.sub("", alone["out"]):
        told.append(f"it prints other things while it is watched:\n{watched['out']}\nand alone:\n{alone['out']}")
    if said_alone(watched["said"]) != said_alone(alone["said"]):
        told.append(f"its stderr is another while it is watched:\n{watched['err']}\nand alone:\n{alone['err']}")
    return [f"{pair.name}, the {'wrong' if wrong else 'right'} one: {line}" for line in told]


def _hints(answer: dict[str, Any]) -> list[str]:
    return [finding["id"] for finding in answer["findings"] if finding["severity"] == "hint"]
