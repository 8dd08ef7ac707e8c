"""The journal: findings as they appear, one JSON line each, a file a process in a folder that all processes of a run share.

A process that is killed leaves its lines. Whoever finds something new also writes the `--json` and `--sarif` files anew from
all journals, so that these are there too, whatever happens.
"""

import hashlib
import json
import multiprocessing
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from instep.doctor.baseline import states
from instep.doctor.finding import SEVERITIES, Finding
from instep.doctor.sarif import as_sarif
from instep.doctor.settings import Settings


class Journal:
    """The lines of this process, and the reading of all."""

    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        self._settings = settings

    def found(self, finding: Finding) -> None:
        self._write({"key": finding.key, "finding": finding.of(process_name()).as_json()})
        self.publish()

    def withdrawn(self, finding: Finding) -> None:
        self._write({"key": finding.key, "finding": None})
        self.publish()

    def closed(self, steps: int, failures: list[str], remarks: list[str]) -> None:
        """The last line of a process: how many steps it took, the doctor's own errors in it, and what could not be judged."""
        self._write({"steps": steps, "failures": failures, "remarks": remarks})

    def first_to_say(self, finding: Finding) -> bool:
        """Whether no other process has said it; of several ranks one speaks."""
        name = hashlib.sha1(finding.key.encode(), usedforsecurity=False).hexdigest()
        try:
            os.close(os.open(self.folder / f"{name}.said", os.O_CREAT | os.O_EXCL))
        except OSError:
            return False
        return True

    def publish(self, *, complete: bool = False) -> None:
        """Write the files that were asked for."""
        settings = self._settings
        if settings.json is None and settings.sarif is None:
            return
        findings = self.findings()
        if settings.json is not None:
            told = [
                finding.as_json() | state for finding, state in zip(findings, states(findings, settings.baseline), strict=True)
            ]
            _replace(Path(settings.json), {"complete": complete, "findings": told})
        if settings.sarif is not None:
            _replace(Path(settings.sarif), as_sarif(findings, baseline=settings.baseline))

    def findings(self) -> list[Finding]:
        """Of all processes, each cause once, the worst first."""
        merged: dict[str, Finding] = {}
        told = [_last_words(path) for path in self.folder.glob("*.jsonl")]
        for findings in sorted(filter(None, told), key=lambda findings: _order(next(iter(findings.values())).process)):
            for key, finding in findings.items():
                known = merged.get(key)
                processes = ", ".join(filter(None, (known.process, finding.process))) if known else finding.process
                merged[key] = replace(known or finding, process=processes)
        return sorted(merged.values(), key=lambda finding: SEVERITIES.index(finding.level))

    def failures(self) -> list[str]:
        """Tracebacks of the doctor's own errors, in all processes."""
        return [text for line in self._all() for text in line.get("failures", ())]

    def remarks(self) -> list[str]:
        """What could not be judged, of the process that has seen the most; that nothing was watched, where no process could."""
        closed = [line for line in self._all() if "steps" in line]
        if not closed:
            return ["torch was not imported: there was nothing to watch."]
        most: dict[str, Any] = max(closed, key=lambda line: line["steps"])
        return [str(remark) for remark in most["remarks"]]

    def steps(self) -> int:
        """Optimizer steps of all processes that could say so at their end."""
        return sum(line.get("steps", 0) for line in self._all())

    def _all(self) -> Iterator[dict[str, Any]]:
        for path in self.folder.glob("*.jsonl"):
            yield from _lines(path)

    def _write(self, line: dict[str, Any]) -> None:
        path = self.folder / f"{os.getpid()}.jsonl"
        with suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line, default=str) + "\n")


def process_name() -> str:
    """How a finding names the process it comes from; "" for the one that was started."""
    if "RANK" in os.environ:
        return f"rank {os.environ['RANK']}"
    if os.environ.get("INSTEP_DOCTOR_PID") == str(os.getpid()):
        return ""
    name = multiprocessing.current_process().name  # the same in each run, unlike its number
    return f"process {os.getpid() if name == 'MainProcess' else name}"


def _order(process: str) -> tuple[int, str]:
    """Of processes by their names: that which was started first, ranks by their numbers, then the others."""
    return len(process), process


def _lines(path: Path) -> Iterator[dict[str, Any]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        with suppress(ValueError):  # a process that is writing, or was killed while it wrote
            yield json.loads(line)


def _last_words(path: Path) -> dict[str, Finding]:
    found: dict[str, Finding] = {}
    for line in _lines(path):
        if line.get("finding") is not None:
            found[line["key"]] = Finding.from_json(line["finding"])
        elif "key" in line:
            found.pop(line["key"], None)
    return found


def _replace(path: Path, content: dict[str, Any]) -> None:
    """Write it beside and rename: nobody reads half of it."""
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    with suppress(OSError):
        beside.write_text(json.dumps(content, indent=2, default=str) + "\n", encoding="utf-8")
        beside.replace(path)
