"""One process with torch and the doctor imported, which forks a child for each script: importing costs more than most scripts.

    python tests/doctor/forkserver.py JOBS THREADS TIMEOUT_S [MODULE…] < scripts, a JSON array a line ([script, argument…])

writes a JSON object a line as answers come, and ends when its input does. It has no thread when it forks. A child runs its
script in an empty folder, under the watch, and answers with what was found; ["--unwatched", script, …] runs without the doctor.
The modules are imported once, for all.
"""

import gc
import importlib
import json
import os
import runpy
import select
import signal
import sys
import tempfile
import time
import traceback
from collections import Counter, deque
from pathlib import Path
from typing import Any

import torch

from instep.doctor.journal import Journal
from instep.doctor.launch import PID, Output, ProcessWatch
from instep.doctor.rules import all_rules
from instep.doctor.settings import Settings
from instep.doctor.sites import Locator
from instep.doctor.watch import areas

UNWATCHED = "--unwatched"
TAKEN, TRIES = "EADDRINUSE", 3  # a port that a script found free may be another's before it is used: the script runs again
CLEAR: dict[str, Any] = {"found": {}, "missed": {}}
NOTHING: dict[str, Any] = {
    "findings": [],
    "error": "",
    "failures": [],
    "remarks": [],
    "steps": 0,
    "out": "",
    "said": "",
    "margins": CLEAR,
}


def examined(script: str, arguments: list[str]) -> dict[str, Any]:
    """What the doctor found in a script, run here and now, and in the processes that it forked."""
    folder = Path("doctor").absolute()
    folder.mkdir()
    journal = Journal(folder, Settings())
    process_watch = ProcessWatch(journal, Settings(), Output())
    os.environ[PID] = str(os.getpid())
    process_watch.start()
    margins = process_watch.collect_margins()
    error = run(script, arguments)
    process_watch.end()
    findings = [finding.as_json() for finding in journal.findings()]
    clear = {"found": margins.found, "missed": margins.missed}
    told = {"failures": journal.failures(), "remarks": journal.remarks(), "steps": journal.steps()}
    return {"findings": findings, "error": error, "margins": clear, **told}


def run(script: str, arguments: list[str]) -> str:
    """Run a script as if it had been started; returns what went wrong."""
    sys.argv, sys.path[0] = [script, *arguments], str(Path(script).parent)
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as stop:
        return "" if stop.code in (None, 0) else f"exit code {stop.code}"
    except BaseException:
        return traceback.format_exc()
    return ""


def child(case: list[str], out: Path) -> None:
    """Run one script in a folder of its own, and leave the answer in `out`."""
    os.setsid()  # so that whatever it starts can be ended with it
    folder = out.parent / out.stem
    folder.mkdir()
    os.chdir(folder)
    for number, name in ((1, "out.txt"), (2, "said.txt")):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
    begun = time.perf_counter()
    unwatched = case[0] == UNWATCHED
    answer = NOTHING | {"error": run(case[1], case[2:])} if unwatched else examined(case[0], case[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    answer["seconds"] = round(time.perf_counter() - begun, 3)
    answer["out"], answer["said"] = (Path(name).read_text(errors="replace")[-8000:] for name in ("out.txt", "said.txt"))
    out.with_suffix(".part").write_text(json.dumps(answer, default=str))
    out.with_suffix(".part").rename(out)


class Children:
    """The scripts that wait and those that run, at most `jobs` at once."""

    def __init__(self, jobs: int, timeout_s: float, folder: Path) -> None:
        self.jobs, self.timeout_s, self.folder = jobs, timeout_s, folder
        self.waiting: deque[list[str]] = deque()
        self.tries: Counter[str] = Counter()
        self.running: dict[int, tuple[list[str], Path, float]] = {}
        self.count = 0

    def poll(self) -> None:
        """Answer for those that have ended, end those that took too long, start those that wait."""
        for pid, (case, out, deadline) in list(self.running.items()):
            done, _ = os.waitpid(pid, os.WNOHANG)
            late = not done and time.monotonic() > deadline
            if late:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            if done or late:
                del self.running[pid]
                self.answer(case, out, f"took more than {self.timeout_s:g} s" if late else "ended without an answer")
        while self.waiting and len(self.running) < self.jobs:
            self.start(self.waiting.popleft())

    def start(self, case: list[str]) -> None:
        self.count += 1
        out = self.folder / f"{self.count}.json"
        pid = os.fork()
        if pid == 0:
            try:
                child(case, out)
            finally:
                os._exit(0)
        self.running[pid] = (case, out, time.monotonic() + self.timeout_s)

    def answer(self, case: list[str], out: Path, otherwise: str) -> None:
        answer = json.loads(out.read_text()) if out.exists() else NOTHING | {"error": otherwise}
        self.tries[json.dumps(case)] += 1
        if answer["error"] and TAKEN in answer["error"] + answer["said"] and self.tries[json.dumps(case)] < TRIES:
            self.waiting.append(case)
            return
        print(json.dumps({"case": case, **answer}), flush=True)


def serve(children: Children) -> None:
    """Take scripts from the input until it ends, and answer for each."""
    unread, is_open = b"", True
    while is_open or children.waiting or children.running:
        wait_s = None if not children.running else 0.005
        if not is_open:
            time.sleep(0.005)
        elif select.select([0], [], [], wait_s)[0]:
            part = os.read(0, 1 << 16)
            is_open = bool(part)
            *lines, unread = (unread + part).split(b"\n")
            children.waiting += [json.loads(line) for line in lines]
        children.poll()


def main() -> None:
    jobs, threads, timeout_s = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    torch.set_num_threads(threads)
    for name in sys.argv[4:]:
        importlib.import_module(name)
    torch.optim.SGD([torch.zeros(1, requires_grad=True)]).step()  # imports what every script would import again
    areas()
    all_rules()
    locator = Locator()
    for module in list(sys.modules.values()):  # where they lie is remembered
        locator.is_users(getattr(module, "__file__", None) or "")
    gc.collect()
    gc.freeze()  # else the first collection in a child copies all that was imported
    with tempfile.TemporaryDirectory() as folder:
        serve(Children(jobs, timeout_s, Path(folder)))


if __name__ == "__main__":
    main()
