"""The cases: scripts in `cases/<family>/`, what their `expected.toml` says of them, and what the doctor finds."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from programs import PIPE, Program, Programs

HERE = Path(__file__).parent
CASES = HERE / "cases"
JOBS, TIMEOUT_S = 2, 600.0
FACTOR = 1.5  # by which what was measured is beyond a rule's limit, or stays below it


@dataclass(frozen=True)
class Case:
    """A script, the ids that must be found in it, and the hints that may be.

    `shows` are the ids for which it runs by default, as the wrong script or as the correct look-alike.
    """

    script: Path
    expected: frozenset[str]
    hints: frozenset[str]
    shows: frozenset[str] = frozenset()

    @property
    def name(self) -> str:
        return f"{self.script.parent.name}/{self.script.stem}"


def cases() -> list[Case]:
    """All of them, in the order of the folders."""
    found = []
    for manifest in sorted(CASES.glob("*/expected.toml")):
        told = tomllib.loads(manifest.read_text(encoding="utf-8"))
        hints, default = told.get("hints", {}), told.get("default", {})
        for name, ids in told["cases"].items():
            shows = frozenset(id for id, pair in default.items() if name in pair)
            found.append(Case(manifest.parent / name, frozenset(ids), frozenset(hints.get(name, ())), shows))
    return found


class Examination:
    """A process of its own that runs scripts under the doctor, two at a time, and keeps its answers.

    `with Examination() as examination: examination.send(scripts); examination.answer(script)`. It imports `modules` first.
    With `programs`, it is forked where torch is imported already.
    """

    def __init__(
        self,
        *,
        jobs: int = JOBS,
        threads: int = 1,
        hash_seed: int = 0,
        modules: Sequence[str] = (),
        programs: Programs | None = None,
    ) -> None:
        assert programs is None or (threads, hash_seed) == (1, 0), "such a process has one thread and that hash seed"
        self._programs = programs
        self._answers: dict[tuple[str, ...], dict[str, Any]] = {}
        self._sent: set[tuple[str, ...]] = set()
        self._arguments = [str(HERE / "forkserver.py"), str(jobs), str(threads), str(TIMEOUT_S), *modules]
        # Passive: a thread that waits for another leaves it the core; where all cores are busy, spinning takes minutes.
        count = {"OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads), "OMP_WAIT_POLICY": "PASSIVE"}
        self._environment = {**os.environ, **count, "PYTHONWARNINGS": "default", "PYTHONHASHSEED": str(hash_seed)}

    def __enter__(self) -> "Examination":
        self._server: subprocess.Popen[str] | Program
        if self._programs is not None:
            self._server = self._programs.start(self._arguments, env=self._environment, stdin=PIPE, stdout=PIPE, stderr=2)
            return self
        command = [sys.executable, *self._arguments]
        self._server = subprocess.Popen(command, stdin=PIPE, stdout=PIPE, text=True, env=self._environment)
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        assert self._server.stdout is not None
        self._server.stdin.close()  # it ends when the scripts that it has have ended
        self._server.stdout.close()
        self._server.wait()
        if isinstance(self._server, Program):
            self._server.close()

    def send(self, scripts: Sequence[Path], *, watched: bool = True) -> None:
        """Scripts that will be asked for: they run while the asker does other things."""
        assert self._server.stdin is not None
        cases = dict.fromkeys(_case(script, watched) for script in scripts)
        new = [case for case in cases if case not in self._sent]
        self._sent.update(new)
        self._server.stdin.write("".join(json.dumps(case) + "\n" for case in new))
        self._server.stdin.flush()

    def answer(self, script: Path, *, watched: bool = True) -> dict[str, Any]:
        """What the doctor says of a script: findings, error, failures; what the script says: out, said."""
        self.send([script], watched=watched)
        assert self._server.stdout is not None
        case = _case(script, watched)
        while case not in self._answers:
            line = self._server.stdout.readline()
            assert line, f"the process that runs the cases ended with exit code {self._server.wait()}"
            answer = json.loads(line)
            self._answers[tuple(answer["case"])] = answer
        return self._answers[case]


def _case(script: Path, watched: bool) -> tuple[str, ...]:
    return (str(script),) if watched else ("--unwatched", str(script))


def examine(scripts: Sequence[Path], **options: Any) -> dict[Path, dict[str, Any]]:
    """What the doctor says of each script."""
    with Examination(**options) as examination:
        examination.send(scripts)
        return {script: examination.answer(script) for script in scripts}


def on_an_edge(case: Case, margins: dict[str, dict[str, float]]) -> list[str]:
    """What another machine might decide otherwise: what was measured is within a factor of a rule's limit."""
    said = case.expected | case.hints
    close = [(id, "found", factor) for id, factor in margins["found"].items() if id in said and factor < FACTOR]
    close += [(id, "not found", factor) for id, factor in margins["missed"].items() if id not in said and factor < FACTOR]
    return [f"{id} was {verdict} by a factor of {factor:.2f} only; it must be {FACTOR}" for id, verdict, factor in close]


def complaints(case: Case, answer: dict[str, Any]) -> list[str]:
    """What is wrong with an answer: ids that are missing, elsewhere, or not expected; errors of the script or of the doctor."""
    wrong = []
    if answer["error"]:
        wrong.append(f"the script failed: {answer['error']}\n{answer['out']}{answer['said']}")
    wrong += [f"the doctor failed: {failure}" for failure in answer["failures"]]
    here = {f["id"] for f in answer["findings"] if (f["where"] or "").rpartition(":")[0] == str(case.script)}
    everywhere = {f["id"]: f for f in answer["findings"]}
    wrong += on_an_edge(case, answer["margins"])
    for id in sorted(case.expected - here):
        wrong.append(f"{id} was found at {everywhere[id]['where']}" if id in everywhere else f"{id} was not found")
    wrong += [f"{f['id']} says no {part}" for f in answer["findings"] for part in ("why", "fix") if not f[part]]
    for id, finding in everywhere.items():
        if id not in case.expected | case.hints:
            wrong.append(f"not expected: {finding['severity']} {id} at {finding['where']}: {finding['message']}")
    return wrong
