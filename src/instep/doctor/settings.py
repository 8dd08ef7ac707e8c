"""Settings: what the user wants of the doctor, from the command line and from `[tool.instep.doctor]` in pyproject.toml."""

import ast
import difflib
import functools
import json
import linecache
import os
import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import Finding
from instep.errors import DescriptionError

FailOn = Literal["error", "warning"]
_COMMENT = re.compile(r"#\s*instep:\s*ignore(?:\[([\w\s,-]*)\])?")
_told: set[str] = set()  # unknown ids in comments that were named already


@dataclass(frozen=True)
class Settings:
    """What to leave out, how strict to be, where to write."""

    ignore: tuple[str, ...] = ()
    strict: bool = False  # hints count as warnings, and rules ask for fewer occasions
    probes: bool = True  # one more forward of each model, on copies, to see what influences what
    fail_on: FailOn | None = None
    json: str | None = None
    sarif: str | None = None
    baseline: str | None = None  # a file with findings that are known, and fail nothing
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

    def failing(self, findings: Iterable[Finding]) -> list[Finding]:
        """Those by which `fail_on` is met, and which are not in the baseline."""
        levels = {"error": {"error"}, "warning": {"error", "warning"}}.get(self.fail_on or "", set())
        return [finding for finding in self.split(list(findings))[0] if finding.level in levels]

    def fails(self, findings: Iterable[Finding]) -> bool:
        """Whether there are any."""
        return bool(self.failing(findings))

    def split(self, findings: Sequence[Finding]) -> tuple[list[Finding], list[Finding]]:
        """Those that are new, and those that are in the baseline."""
        if self.baseline is None:
            return list(findings), []
        from instep.doctor.baseline import split_known

        return split_known(findings, Path(self.baseline))

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
        close = difflib.get_close_matches(id.lower().replace("_", "-"), CATALOGUE, n=1)
        hint = f"did you mean {close[0]}?" if close else "see instep doctor --list."
        raise DescriptionError(f"the doctor knows no {id!r}; {hint}")
    return id


def from_pyproject(folder: Path) -> dict[str, Any]:
    """The table `[tool.instep.doctor]` of the nearest pyproject.toml at or above a folder, as arguments of `Settings`."""
    for place in (folder, *folder.parents):
        path = place / "pyproject.toml"
        if path.is_file():
            import tomllib

            try:
                table = tomllib.loads(path.read_text(encoding="utf-8")).get("tool", {}).get("instep", {}).get("doctor", {})
            except tomllib.TOMLDecodeError as error:
                raise DescriptionError(f"{path} cannot be read: {error}.") from None
            return _checked(table, path)
    return {}


def _checked(table: Mapping[str, Any], path: Path) -> dict[str, Any]:
    kinds = {"ignore": list, "strict": bool, "probes": bool, "fail-on": str, "baseline": str}
    for name, value in table.items():
        if name not in kinds:
            raise DescriptionError(f"{path}: [tool.instep.doctor] has no {name!r}; it takes {', '.join(kinds)}.")
        if not isinstance(value, kinds[name]):
            raise DescriptionError(f"{path}: [tool.instep.doctor] {name} must be a {kinds[name].__name__}, not {value!r}.")
    found = {name.replace("-", "_"): value for name, value in table.items()}
    if "ignore" in found:
        found["ignore"] = tuple(found["ignore"])
    if "baseline" in found:
        found["baseline"] = str(path.parent / found["baseline"])
    return found


def is_ignored_in_source(finding: Finding) -> bool:
    """Whether the source says `# instep: ignore[ID] reason`, or `# instep: ignore` for everything.

    The comment stands on the reported line, on another line of the same statement, or alone on the line above.
    """
    file, _, line = (finding.where or "").rpartition(":")
    if not file or not line.isdigit():
        return False
    lines = linecache.getlines(os.path.abspath(file)) or linecache.getlines(file)
    for number in _lines_that_speak(lines, int(line)):
        comment = _COMMENT.search(lines[number - 1])
        if comment is not None and _names(comment.group(1), finding.id, f"{file}:{number}"):
            return True
    return False


def _lines_that_speak(lines: Sequence[str], line: int) -> Iterator[int]:
    """The lines on which a comment is about that line."""
    if not 1 <= line <= len(lines):
        return
    first, last = _statement("".join(lines), line)
    yield from range(first, last + 1)
    if first > 1 and lines[first - 2].lstrip().startswith("#"):
        yield first - 1


@functools.lru_cache(maxsize=64)
def _statement(source: str, line: int) -> tuple[int, int]:
    """The first and the last line of the innermost simple statement that a line belongs to."""
    try:
        nodes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.stmt) and not hasattr(node, "body")]
    except (SyntaxError, ValueError):
        return line, line
    spans = [(node.lineno, node.end_lineno or node.lineno) for node in nodes]
    return min((span for span in spans if span[0] <= line <= span[1]), key=lambda span: span[1] - span[0], default=(line, line))


def _names(ids: str | None, id: str, place: str) -> bool:
    """Whether the ids of a comment have this one; one that the doctor does not know is said, once."""
    if ids is None:
        return True
    named = {one.strip() for one in ids.split(",")}
    for one in sorted(named - set(CATALOGUE)):
        if one and f"{place} {one}" not in _told:
            _told.add(f"{place} {one}")
            close = difflib.get_close_matches(one, CATALOGUE, n=1)
            hint = f"; did you mean {close[0]}?" if close else ""
            print(f"instep doctor: {place}: the comment ignores {one!r}, which the doctor does not know{hint}", file=sys.stderr)
    return id in named
