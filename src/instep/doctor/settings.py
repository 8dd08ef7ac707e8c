"""Settings: what the user wants of the doctor, from the command line and from `[tool.instep.doctor]` in pyproject.toml."""

import difflib
import json
import linecache
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import Finding
from instep.errors import DescriptionError

FailOn = Literal["error", "warning"]
_COMMENT = re.compile(r"#\s*instep:\s*ignore(?:\[([\w\s,-]*)\])?")


@dataclass(frozen=True)
class Settings:
    """What to leave out, how strict to be, where to write."""

    ignore: tuple[str, ...] = ()
    strict: bool = False  # hints count as warnings, and rules ask for fewer occasions
    probes: bool = True  # one more forward of each model, on copies, to see what influences what
    fail_on: FailOn | None = None
    json: str | None = None
    sarif: str | None = None
    curves: Literal["", "training", "all"] = ""  # losses to record, for `--html` and `--confirm`
    roots: tuple[str, ...] = field(default=())  # folders that are the user's though they are installed

    def __post_init__(self) -> None:
        for id in self.ignore:
            known(id)
        if self.fail_on not in (None, "error", "warning"):
            raise DescriptionError(f"fail-on is {self.fail_on!r}; it can be 'error' or 'warning'.")

    def admitted(self, finding: Finding) -> Finding | None:
        """The finding as it counts under these settings; None where it is not wanted."""
        if finding.id in self.ignore or is_ignored_in_source(finding):
            return None
        return replace(finding, severity="warning") if self.strict and finding.level == "hint" else finding

    def fails(self, findings: Iterable[Finding]) -> bool:
        """Whether `fail_on` is met."""
        levels = {"error": {"error"}, "warning": {"error", "warning"}}.get(self.fail_on or "", set())
        return any(finding.level in levels for finding in findings)

    def text(self) -> str:
        """As JSON, for child processes."""
        return json.dumps(asdict(self))

    @classmethod
    def from_text(cls, text: str) -> "Settings":
        told = json.loads(text)
        return cls(**{**told, "ignore": tuple(told["ignore"]), "roots": tuple(told["roots"])})


def known(id: str) -> str:
    """The id, if it is in the catalogue; else an error that names one like it."""
    if id not in CATALOGUE:
        close = difflib.get_close_matches(id, CATALOGUE, n=1)
        hint = f"did you mean {close[0]}?" if close else "see instep doctor --list."
        raise DescriptionError(f"the doctor knows no {id!r}; {hint}")
    return id


def from_pyproject(folder: Path) -> dict[str, Any]:
    """The table `[tool.instep.doctor]` of the nearest pyproject.toml at or above a folder, as arguments of `Settings`."""
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        if path.is_file():
            try:
                table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("instep", {}).get("doctor", {})
            except tomllib.TOMLDecodeError as error:
                raise DescriptionError(f"{path} cannot be read: {error}.") from None
            return _checked(table, path)
    return {}


def _checked(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    kinds = {"ignore": list, "strict": bool, "probes": bool, "fail-on": str}
    for name, value in table.items():
        if name not in kinds:
            raise DescriptionError(f"{path}: [tool.instep.doctor] has no {name!r}; it takes {', '.join(kinds)}.")
        if not isinstance(value, kinds[name]):
            raise DescriptionError(f"{path}: [tool.instep.doctor] {name} must be a {kinds[name].__name__}, not {value!r}.")
    found = {name.replace("-", "_"): value for name, value in table.items()}
    if "ignore" in found:
        found["ignore"] = tuple(found["ignore"])
    return found


def is_ignored_in_source(finding: Finding) -> bool:
    """Whether the reported line says `# instep: ignore[ID]`, or `# instep: ignore` for everything."""
    file, _, line = (finding.where or "").rpartition(":")
    if not file or not line.isdigit():
        return False
    comment = _COMMENT.search(linecache.getline(os.path.abspath(file), int(line)) or linecache.getline(file, int(line)))
    if comment is None:
        return False
    ids = comment.group(1)
    return ids is None or finding.id in {id.strip() for id in ids.split(",")}
