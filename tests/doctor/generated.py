"""What must hold of a script of the grammar: watched or not it runs the same; the doctor names its mistake and nothing else."""

from pathlib import Path
from typing import Any

from doctor.grammar import Script
from instep.doctor.finding import COMMON

MISSED = "is not named"


def complaints(script: Script, path: Path, watched: dict[str, Any], plain: dict[str, Any]) -> list[str]:
    """What is wrong with the two runs of a script."""
    wrong = [f"the doctor failed: {failure}" for failure in watched["failures"]]
    if not plain["out"] or (plain["error"] and "on purpose" not in plain["error"] and "exit code 5" not in plain["error"]):
        wrong.append(f"the script fails by itself: {plain['error']}")
    wrong += [
        f"{part} differs: {plain[part]!r}, watched {watched[part]!r}" for part in ("out", "error") if plain[part] != watched[part]
    ]
    if not script.ids and plain["said"] != watched["said"]:
        wrong.append(f"stderr differs: {plain['said']!r}, watched {watched['said']!r}")
    return wrong + about_findings(script, path, watched["findings"])


def about_findings(script: Script, path: Path, findings: list[dict[str, Any]]) -> list[str]:
    """What is missing, elsewhere, or false."""
    named = [finding for finding in findings if finding["id"] in script.ids]
    wrong = [f"{' or '.join(sorted(script.ids))} {MISSED}"] if script.ids and not named else []
    for finding in named:
        places = [finding["where"], *finding["places"]]
        if not any(_is_marked(place or "", script, path) for place in places):
            wrong.append(f"{finding['id']} is at {finding['where']}")
    for finding in findings:
        common = finding["severity"] == "hint" and finding["id"] in COMMON
        if finding["id"] not in script.ids and not common:
            wrong.append(f"false: {finding['severity']} {finding['id']} at {finding['where']}: {finding['message']}")
    return wrong


def _is_marked(place: str, script: Script, path: Path) -> bool:
    file, _, line = place.rpartition(":")
    return file == str(path) and line.isdigit() and int(line) in script.lines
