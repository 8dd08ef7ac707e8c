"""Children: the same training in new processes: one by one, one that is killed, or several under torchrun.

A child is `instep prove` itself, with a note of what to do in its environment. It leaves its record in a file.
"""

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch

from instep.errors import InstepError
from instep.proof.record import Record
from instep.proof.subject import Origin, Subject

TASK = "INSTEP_PROOF_TASK"  # in the environment of a child: the file that says what to do
LONGEST_S = 900.0  # that a child may take
ENDS_S = 10.0  # that it has to end when it is asked to
_COMMAND = "import sys; from instep.cli import main; sys.exit(main())"


@dataclass(frozen=True)
class Task:
    """What a child does."""

    folder: str  # where it leaves its records, `record-0.pkl` and on
    steps: int
    at: int
    arrangements: list[dict[str, Any]] = field(default_factory=list)  # changes, pieces, in_float64
    kill_at: int | None = None  # the update in which it kills itself
    threads: int = 1
    values: str | None = None  # a file with the values for build, where the arguments do not say them

    def write(self, path: Path) -> None:
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")


class ChildFailed(InstepError):
    """A child ended with an error; the words are its last line."""


@dataclass
class Child:
    """A process that is at work."""

    process: "subprocess.Popen[bytes]"
    folder: Path

    def wait(self) -> int:
        try:
            return self.process.wait(LONGEST_S)
        except subprocess.TimeoutExpired:
            self.end()
            raise ChildFailed(f"a process did not end within {LONGEST_S:.0f} s.") from None

    def end(self) -> None:
        """Have it end: torchrun ends its own processes when it is asked, not when it is killed."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(ENDS_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def records(self) -> list[Record]:
        """What it recorded, once it has ended well."""
        code = self.wait()
        if code:
            raise ChildFailed(last_words(self.folder) or f"a process ended with exit code {code}.")
        return read_records(self.folder)


def start(
    subject: Subject,
    folder: Path,
    arrangements: Sequence[Mapping[str, Any]],
    *,
    kill_at: int | None = None,
    processes: int = 1,
    environment: Mapping[str, str] | None = None,
) -> Child:
    """A new process (or several, under torchrun) that trains the subject in these arrangements, one after the other."""
    assert subject.origin is not None
    folder.mkdir(parents=True, exist_ok=True)
    values = None
    if subject.origin.values is not None:
        values = str(folder / "values.pkl")
        Path(values).write_bytes(pickle.dumps(dict(subject.origin.values)))
    threads = torch.get_num_threads() if processes == 1 else 1
    task = Task(str(folder), subject.steps, subject.at, [dict(one) for one in arrangements], kill_at, threads, values)
    task.write(folder / "task.json")
    arguments, paths = _found_by(subject.origin, folder)
    command = [sys.executable, "-P", "-c", _COMMAND, *arguments]
    if processes > 1:
        run = [sys.executable, "-P", "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
        command = [*run, "--no-python", *command]
    inherited = {name: value for name, value in os.environ.items() if name not in _OF_TORCHRUN}
    with open(folder / "said.txt", "wb") as said:
        process = subprocess.Popen(
            command,
            env=inherited | paths | dict(environment or {}) | {TASK: str(folder / "task.json")},
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )
    return Child(process, folder)


def _found_by(origin: Origin, folder: Path) -> tuple[tuple[str, ...], dict[str, str]]:
    """The arguments that name build, and what has to be in the environment for it: a package is imported, not loaded by file."""
    if not origin.imports:
        return origin.arguments, {}
    stub = folder / "build_of_proof.py"
    stub.write_text(f"{origin.imports}\n", encoding="utf-8")
    paths = os.pathsep.join(str(Path(path or ".").resolve()) for path in sys.path)
    return ("prove", f"{stub}:{origin.imports.split()[-1]}"), {"PYTHONPATH": paths}


_OF_TORCHRUN = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


def read_records(folder: Path) -> list[Record]:
    """Those that rank 0 left."""
    found = sorted(folder.glob("record-*.pkl"))
    return [pickle.loads(path.read_bytes()) for path in found]


def last_words(folder: Path) -> str:
    """What a child said of its end: the error that it left, else the last line of its output."""
    for left in sorted(folder.glob("error-*.txt")):
        return left.read_text(encoding="utf-8").strip()
    said = (folder / "said.txt").read_text(encoding="utf-8", errors="replace").splitlines()
    return next((line.strip() for line in reversed(said) if line.strip()), "")
