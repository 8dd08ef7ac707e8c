"""Findings in SARIF 2.1.0, which code-review tools read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from instep.doctor.baseline import fingerprint, states
from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import Finding

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"
LEVELS = {"error": "error", "warning": "warning", "hint": "note"}


def as_sarif(findings: Sequence[Finding], *, baseline: str | None = None) -> dict[str, Any]:
    """One run with its rules and results. A baseline tells which of them are new."""
    ids = sorted({finding.id for finding in findings})
    results = [
        _result(finding, ids) | ({"baselineState": "unchanged" if state["known"] else "new"} if state else {})
        for finding, state in zip(findings, states(findings, baseline), strict=True)
    ]
    driver = {"name": "instep doctor", "rules": [_rule(id) for id in ids]}
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{"tool": {"driver": driver}, "results": results}],
    }


def _rule(id: str) -> dict[str, Any]:
    entry = CATALOGUE[id]
    return {
        "id": id,
        "shortDescription": {"text": entry.title},
        "help": {"text": entry.page or entry.title},
        "defaultConfiguration": {"level": LEVELS[entry.severity]},
    }


def _result(finding: Finding, ids: Sequence[str]) -> dict[str, Any]:
    text = "\n".join((finding.message, finding.why, f"Fix: {finding.change}"))
    result: dict[str, Any] = {
        "ruleId": finding.id,
        "ruleIndex": ids.index(finding.id),
        "level": LEVELS[finding.level],
        "message": {"text": text},
        "partialFingerprints": {"instepDoctor/v1": fingerprint(finding)},
        "properties": {"evidence": dict(finding.evidence), "since_step": finding.since_step, "process": finding.process},
    }
    if finding.where:
        result["locations"] = [_location(finding.where)]
    if finding.places:
        result["relatedLocations"] = [_location(place) for place in finding.places]
    return result


def _location(place: str) -> dict[str, Any]:
    file, _, line = place.rpartition(":")
    return {"physicalLocation": {"artifactLocation": {"uri": _uri(file)}, "region": {"startLine": int(line)}}}


def _uri(file: str) -> str:
    path = Path(file)
    return path.as_uri() if path.is_absolute() else path.as_posix()
