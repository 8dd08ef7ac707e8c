"""The second run of `--confirm`: the same script in a process of its own, in a copy of its folder, with fixes in memory.

The script's files stay as they are. What it writes below its working folder goes into the copy, which is deleted; writing into
the folder itself by its whole path is refused.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from instep.doctor.curves import Curve, read_curves
from instep.doctor.finding import Finding
from instep.doctor.launch import SECOND_RUN
from instep.doctor.treatment import DONE, START
from instep.errors import DescriptionError
from instep.text import size

MOST_BYTES = 2_000_000_000
LEFT_OUT = frozenset({".git", ".hg", "__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache", "node_modules"})
LAST_LINES = 8
OWN = ("instep-confirm-", "instep-doctor-")  # folders that a run of the doctor makes


@dataclass(frozen=True)
class Command:
    """How the script was started, noted before it could change anything."""

    target: str
    arguments: tuple[str, ...]
    module: bool
    folder: Path
    environment: Mapping[str, str]

    @classmethod
    def of_now(cls, target: str, arguments: Sequence[str], *, module: bool) -> "Command":
        return cls(target, tuple(arguments), module, Path.cwd(), dict(os.environ))

    @property
    def script_folder(self) -> Path:
        return self.folder if self.module else (self.folder / self.target).resolve().parent


@dataclass(frozen=True)
class SecondRun:
    """What came of it."""

    code: int
    curves: list[Curve]
    counts: dict[str, int]  # how often each fix acted, by id
    said: list[str] = field(default_factory=list)  # its last lines, where it failed
    elsewhere: dict[str, int] = field(default_factory=dict)  # how often what it changes was called from other lines


def run_again(
    command: Command, findings: Iterable[Finding], notes: Path, *, here: bool, measures_only: bool = False
) -> SecondRun:
    """Run it with the remedies of these findings; `notes` is the folder of the first run, `here` takes no copy.

    With `measures_only` the script trains as it is, and its loss by the right formula is noted besides.
    """
    with tempfile.TemporaryDirectory(prefix=OWN[0]) as name:
        inside = Path(name)
        journal = inside / "journal"
        journal.mkdir()
        moved = {} if here else _copies(command, inside)
        wanted = [
            {
                "id": one.id,
                "where": _moved(one.where, moved),
                "places": [_moved(place, moved) for place in one.places],
                "evidence": dict(one.evidence),
            }
            for one in findings
        ]
        told = {
            "remedies": wanted,
            "measures_only": measures_only,
            "protected": list(moved),
            "roots": [moved.get(str(command.script_folder), "")],
        }
        (journal / SECOND_RUN).write_text(json.dumps(told, default=str))
        with suppress(OSError):
            shutil.copy(notes / START, journal / START)
        output = inside / "said.txt"
        code = _start(command, moved, journal, output)
        said = output.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:] if code else []
        counts = _counts(journal)
        acted, elsewhere = ({id: pair[place] for id, pair in counts.items()} for place in (0, 1))
        return SecondRun(code, read_curves(journal), acted, said, elsewhere)


def _start(command: Command, moved: dict[str, str], journal: Path, output: Path) -> int:
    folder = moved.get(str(command.folder), str(command.folder))
    target = command.target
    if not command.module:
        target = str(Path(moved.get(str(command.script_folder), str(command.script_folder))) / Path(target).name)
        with suppress(ValueError):
            target = str(Path(target).relative_to(folder))
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    program = [sys.executable, *flags, *(("-m",) if command.module else ()), target, *command.arguments]
    child = str(Path(__file__).parent / "child")
    path = os.pathsep.join(filter(None, (child, command.environment.get("PYTHONPATH"))))
    environment = {**command.environment, "PYTHONPATH": path, "INSTEP_DOCTOR": str(journal), "PWD": folder}
    environment.pop("INSTEP_DOCTOR_PID", None)
    with output.open("wb") as out:
        return subprocess.run(
            program, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out, check=False
        ).returncode


def check_size(command: Command) -> None:
    """Whether the folders can be copied: asked before the first run, which may take long. Raises `DescriptionError`."""
    folders = _folders(command)
    total = sum(_size(folder) for folder in folders)
    if total > min(MOST_BYTES, shutil.disk_usage(tempfile.gettempdir()).free // 2):
        raise DescriptionError(
            f"--confirm runs the script again in a copy of {' and '.join(map(str, folders))}, and that is {size(total)}; "
            "start it from a smaller folder, or let it run in place with --confirm-here: it then writes its files once more."
        )


def _folders(command: Command) -> list[Path]:
    """The working folder, and the script's where it lies elsewhere."""
    inside = command.script_folder.is_relative_to(command.folder.resolve())
    return [command.folder] if inside else [command.folder, command.script_folder]


def _copies(command: Command, inside: Path) -> dict[str, str]:
    """Copies of the folders: from each to its copy."""
    folders, moved = _folders(command), {}
    for number, folder in enumerate(folders):
        place = inside / f"copy-{number}" / folder.name
        try:
            shutil.copytree(folder, place, symlinks=False, ignore=_left_out, ignore_dangling_symlinks=True)
        except OSError as error:  # shutil's own is one: (from, to, why) for each file
            first = error.args[0][0][2] if isinstance(error, shutil.Error) else error
            raise DescriptionError(
                f"{folder} could not be copied: {first}; --confirm-here runs in place, and the script writes its files once more."
            ) from None
        moved[str(folder)] = str(place)
    if len(folders) == 1:
        below = command.script_folder.relative_to(command.folder.resolve())
        moved[str(command.script_folder)] = str(Path(moved[str(command.folder)]) / below)
    return moved


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Histories, caches, environments, and the copies themselves: nothing that a training reads."""
    return {
        name
        for name in names
        if name in LEFT_OUT or name.startswith(OWN) or os.path.exists(os.path.join(folder, name, "pyvenv.cfg"))
    }


def _size(folder: Path) -> int:
    total = 0
    for place, folders, names in os.walk(folder, followlinks=True):
        gone = _left_out(place, folders)
        folders[:] = [name for name in folders if name not in gone]
        for name in names:
            with suppress(OSError):
                total += os.path.getsize(os.path.join(place, name))
        if total > MOST_BYTES:
            break
    return total


def _moved(where: str | None, moved: dict[str, str]) -> str | None:
    """A line, as the copy calls it: names below the working folder stay, others are whole."""
    for old, new in moved.items():
        if where is not None and where.startswith(old + os.sep):
            return new + where.removeprefix(old)
    return where


def _counts(journal: Path) -> dict[str, tuple[int, int]]:
    """How often each fix acted, and how often what it changes was called elsewhere: in the process in which it acted most."""
    counts: dict[str, tuple[int, int]] = {}
    for path in journal.glob(f"*{DONE}"):
        for id, (acted, elsewhere) in json.loads(path.read_text()).items():
            counts[id] = max((acted, elsewhere), counts.get(id, (0, 0)))
    return counts
