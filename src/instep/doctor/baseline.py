"""The baseline: findings that a project has already, in a file. Only new ones fail.

A finding is known by its id, its file and the text of its line, however far the line has moved; of several on lines of the same
text, as many are known as there were. The file keeps apart what each run has found (`train.py --epochs 1`, `pytest`), so that
trainings share one: writing for a run replaces what that run had, and what any run has is known to all.
"""

import hashlib
import json
import linecache
import os
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from instep.doctor.finding import Finding
from instep.errors import DescriptionError
from instep.text import plural

NAME = ".instep-doctor.json"
VERSION = 2
Key = tuple[str, str, str]  # id, file as seen from the baseline's folder, text of the line


def write_baseline(path: Path, found: Mapping[str, Iterable[Finding]]) -> int:
    """Write what runs have found, each in place of what it had; returns how many findings these are.

    In the order of runs, files and lines, so that differences of two are short.
    """
    counts = {run: Counter(_key(finding, path) for finding in findings) for run, findings in found.items()}
    runs = {**(read_runs(path) if path.exists() else {}), **counts}
    told = {run: [_entry(key, count) for key, count in sorted(known.items())] for run, known in sorted(runs.items()) if known}
    path.write_text(json.dumps({"version": VERSION, "runs": told}, indent=2) + "\n", encoding="utf-8")
    return sum(known.total() for known in counts.values())


def read_runs(path: Path) -> dict[str, Counter[Key]]:
    """How many findings of each key each run has; an error for a file that is no baseline."""
    if path.is_dir():
        raise DescriptionError(f"the baseline {path} is a folder; name a file.")
    if not path.is_file():
        raise DescriptionError(f"there is no baseline {path}; write one with instep doctor --baseline {path} --write-baseline.")
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
        version = told["version"]
        if version == VERSION:
            return {run: Counter(dict(map(_counted, entries))) for run, entries in told["runs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise DescriptionError(f"{path} is no baseline of the doctor; delete it, and write one with --write-baseline.") from None
    raise DescriptionError(
        f"{path} is a baseline of version {version}, and this Instep reads version {VERSION}; delete it, and write one with "
        "--write-baseline."
    )


def read_baseline(path: Path) -> Counter[Key]:
    """How many findings of each key are known: as many as the run has that has the most."""
    known: Counter[Key] = Counter()
    for counts in read_runs(path).values():
        known |= counts
    return known


def count_gone(path: Path, found: Mapping[str, Iterable[Finding]]) -> int:
    """How many findings of these runs are in the baseline, and were not found this time."""
    runs, gone = read_runs(path), 0
    for run, findings in found.items():
        gone += (runs.get(run, Counter()) - Counter(_key(finding, path) for finding in findings)).total()
    return gone


def gone_text(gone: int) -> str:
    """What is to be done about findings that are gone: the same mistake could come back in silence."""
    verb, them = ("is", "it") if gone == 1 else ("are", "them")
    return f"{plural(gone, 'finding')} of the baseline {verb} not found any more; writing it again takes {them} out."


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


def _entry(key: Key, count: int) -> dict[str, Any]:
    id, file, line = key
    return {"id": id, "file": file, "line": line, "count": count}


def _counted(entry: dict[str, Any]) -> tuple[Key, int]:
    return (entry["id"], entry["file"], entry["line"]), int(entry["count"])


def states(findings: Sequence[Finding], path: str | None) -> list[dict[str, Any]]:
    """For each finding in turn what a report adds to it: whether it is known, where there is a baseline."""
    if path is None:
        return [{} for _ in findings]
    known = {id(finding) for finding in split_known(findings, Path(path))[1]}
    return [{"known": id(finding) in known} for finding in findings]
