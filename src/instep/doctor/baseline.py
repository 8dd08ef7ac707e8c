"""The baseline: findings that a project has already, in a file. Only new ones fail.

A finding is known by its id, its file and the text of its line, however far the line has moved; of several on lines of the same
text, as many are known as there were.
"""

import hashlib
import json
import linecache
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from instep.doctor.finding import Finding
from instep.errors import DescriptionError

NAME = ".instep-doctor.json"
VERSION = 1
Key = tuple[str, str, str]  # id, file as seen from the baseline's folder, text of the line


def write_baseline(path: Path, findings: Iterable[Finding]) -> int:
    """Write them all; returns how many. The order is that of files and lines, so that a difference of two is short."""
    counts = Counter(_key(finding, path) for finding in findings)
    entries = [{"id": id, "file": file, "line": line, "count": count} for (id, file, line), count in sorted(counts.items())]
    path.write_text(json.dumps({"version": VERSION, "findings": entries}, indent=2) + "\n", encoding="utf-8")
    return counts.total()


def read_baseline(path: Path) -> Counter[Key]:
    """How many findings of each key are known; an error for a file that is none."""
    if not path.is_file():
        raise DescriptionError(f"there is no baseline {path}; write one with --baseline {path} --write-baseline.")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        version = told["version"]
        if version == VERSION:
            return Counter({(one["id"], one["file"], one["line"]): int(one["count"]) for one in told["findings"]})
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DescriptionError(f"{path} is no baseline of the doctor; write one anew with --write-baseline.") from None
    raise DescriptionError(f"{path} is a baseline of version {version}; this Instep reads version {VERSION}.")


def split_known(findings: Sequence[Finding], path: Path) -> tuple[list[Finding], list[Finding]]:
    """Those that are new, and those that the baseline has."""
    left = read_baseline(path)
    new, known = [], []
    for finding in findings:
        key = _key(finding, path)
        if left[key] > 0:
            left[key] -= 1
            known.append(finding)
        else:
            new.append(finding)
    return new, known


def fingerprint(finding: Finding) -> str:
    """The same for a finding whose line has moved: for tools that compare two reports."""
    text = "\n".join((finding.id, os.path.basename((finding.where or "").rpartition(":")[0]), line_text(finding)))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def line_text(finding: Finding) -> str:
    """The source line that a finding names, without its indent; "" where there is none."""
    file, _, line = (finding.where or "").rpartition(":")
    return " ".join(linecache.getline(os.path.abspath(file), int(line)).split()) if file and line.isdigit() else ""


def _key(finding: Finding, baseline: Path) -> Key:
    file = (finding.where or "").rpartition(":")[0]
    if file:
        seen = os.path.relpath(os.path.abspath(file), baseline.resolve().parent)
        file = Path(seen).as_posix()
    return finding.id, file, line_text(finding)


def states(findings: Sequence[Finding], path: str | None) -> list[dict[str, Any]]:
    """For each finding in turn what a report adds to it: whether it is known, where there is a baseline."""
    if path is None:
        return [{} for _ in findings]
    known = {id(finding) for finding in split_known(findings, Path(path))[1]}
    return [{"known": id(finding) in known} for finding in findings]
