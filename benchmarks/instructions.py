"""Instructions of the processor, counted under valgrind: what neither load nor frequency nor the layout of memory changes.

For each work the instructions of an update in Instep's Trainer, in the best loop by hand and in the plain loop: those of a fit of
so many updates less those of a fit of half as many, so that what a fit costs once is not in it. Then those of the steps that
`benchmarks/doctor.py` trains: unwatched, watched, while the doctor rests, and the mean of a long run. Then those of its whole
scripts, from the start of Python to the report. One thread. Instructions are not time: one that waits for memory takes as long
as many that do not.

    .venv-peers/bin/python -m benchmarks.instructions [--work mlp-64,transformer] [--only loops|doctor|scripts] [--write]

Needs valgrind; under it everything takes about a hundred times as long. `--write` writes benchmarks/instructions.json.
"""

import argparse
import ctypes
import json
import mmap
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path

UPDATES = {"mlp-64": 64, "mlp-512": 16, "cnn": 12, "transformer": 8}
LOOPS = ("plain", "hand", "instep")
# Works of benchmarks/doctor.py by how their names begin: steps that are counted, and whether those are large (see step_sampling)
WATCHED = {"MLP 16-32-2": (16, False), "the same, cleared in place": (16, False), "transformer": (4, True)}
DUMP, START, STOP = ((ord("C") << 24 | ord("T") << 16) + number for number in (0, 4, 5))  # valgrind/callgrind.h
FIRST = 24  # steps that the doctor watches without rest: here fewer than 200, which would take too long
ENVIRONMENT = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
JSON = Path(__file__).with_suffix(".json")


def main() -> None:
    given = parse()
    if given.count:
        tell_valgrind = Requests()
        for is_counted in count_loop(*given.count[1:]) if given.count[0] == "loop" else count_doctor(given.count[1]):
            if is_counted:
                tell_valgrind(START)
            else:
                tell_valgrind(DUMP)
                tell_valgrind(STOP)
        return
    found = json.loads(JSON.read_text(encoding="utf-8")) if JSON.exists() else {}
    if given.only in (None, "loops"):
        found["loops"] = found.get("loops", {}) | {work: loops(work) for work in given.work}
    if given.only in (None, "doctor"):
        with ThreadPoolExecutor(2) as pool:
            found["doctor"] = dict(zip(WATCHED, pool.map(doctor, WATCHED), strict=True))
    if given.only in (None, "scripts"):
        found["scripts"] = found.get("scripts", {}) | scripts(given.script)
    show("million instructions an update", found.get("loops", {}), LOOPS, ("hand", "instep"))
    show(
        "million instructions a step", found.get("doctor", {}), ("plain", "watched", "resting", "long run"), ("long run", "plain")
    )
    show("million instructions a script", found.get("scripts", {}), ("plain", "watched"), ("watched", "plain"))
    if given.write:
        JSON.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def show(title: str, rows: dict[str, dict[str, float]], kinds: tuple[str, ...], ratio: tuple[str, str]) -> None:
    """A table of counts, with the ratio of two of them."""
    if rows:
        print(f"\n{title:<34}" + "".join(f"{kind:>14}" for kind in kinds) + f"{' / '.join(ratio):>20}")
    for name, counts in rows.items():
        row = "".join(f"{counts[kind] / 1e6:>14,.3f}" for kind in kinds)
        print(f"{name:<34}{row}{counts[ratio[0]] / counts[ratio[1]]:>20.3f}")


class Requests:
    """Speaks to callgrind from inside the process, as the macros of its C header do: a pattern that a real processor ignores."""

    CODE = bytes.fromhex(
        "4889f8 31d2 48c1c703 48c1c70d 48c1c73d 48c1c733 4887db 4889d0 c3"
    )  # x86-64: rax = request, rdx = answer

    def __init__(self) -> None:
        self._page = mmap.mmap(-1, mmap.PAGESIZE, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        self._page.write(self.CODE)
        place = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        self._call = ctypes.CFUNCTYPE(ctypes.c_uint64, ctypes.c_void_p)(place)

    def __call__(self, request: int) -> None:
        arguments = (ctypes.c_uint64 * 6)(request)
        self._call(ctypes.addressof(arguments))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=lambda text: text.split(","), default=list(UPDATES), help=", ".join(UPDATES))
    parser.add_argument("--script", type=lambda text: text.split(","), default=["rows", "in place", "images"])
    parser.add_argument("--only", choices=("loops", "doctor", "scripts"))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--count", nargs="+", help=argparse.SUPPRESS)  # what a process under valgrind does
    return parser.parse_args()


def loops(work: str) -> dict[str, float]:
    """Instructions of an update by contestant."""
    with ThreadPoolExecutor(2) as pool:
        parts = pool.map(lambda name: sections("loop", work, name), LOOPS)
        return {name: (long - short) / (UPDATES[work] // 2) for name, (short, long) in zip(LOOPS, parts, strict=True)}


def doctor(name: str) -> dict[str, float]:
    """Instructions of a step by how it is watched, and of a step of a long run on average."""
    from instep.doctor.step_sampling import BURST, EVERY, EVERY_LARGE

    steps, is_large = WATCHED[name]
    plain, watched, resting = (count / steps for count in sections("doctor", name))
    every = EVERY_LARGE if is_large else EVERY
    mean = (BURST * watched + (every - BURST) * resting) / every
    return {"plain": plain, "watched": watched, "resting": resting, "long run": mean}


def scripts(kinds: list[str]) -> dict[str, dict[str, float]]:
    """Instructions of whole processes: a script by itself, and the same script under the doctor."""
    from benchmarks.doctor import SCRIPT, SCRIPTS

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        (Path(folder) / "script.py").write_text(SCRIPT, encoding="utf-8")
        found: dict[str, dict[str, float]] = {}
        for kind in kinds:
            command = [f"{folder}/script.py", kind, str(SCRIPTS[kind])]
            environment = ENVIRONMENT | {"PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
            for start in ([], ["-m", "instep", "doctor"]):  # the byte code is there, as it is in an installed package
                subprocess.run([sys.executable, *start, *command[:2], "1"], check=True, capture_output=True, env=environment)
            count = partial(whole_process, environment)
            plain, watched = pool.map(count, (command, ["-m", "instep", "doctor", *command]))
            found[kind] = {"plain": plain, "watched": watched}
        return found


def whole_process(environment: dict[str, str], command: list[str]) -> int:
    """Instructions of a process from its start to its end, without those of processes that it starts."""
    with tempfile.TemporaryDirectory() as folder:
        counting = ["--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null", f"--log-file={folder}/log"]
        process = subprocess.Popen(["valgrind", *counting, sys.executable, *command], env=environment, stdout=subprocess.DEVNULL)
        if process.wait():
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode} under valgrind")
        log = Path(folder, "log").read_text(encoding="utf-8")
        refs = re.search(rf"^=={process.pid}== I +refs: +([\d,]+)", log, re.M)
        assert refs is not None, log
        return int(refs[1].replace(",", ""))


def sections(*what: str) -> list[int]:
    """What a process under valgrind counted, from each start to the stop after it."""
    with tempfile.TemporaryDirectory() as folder:
        counting = ["--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={folder}/out", f"--log-file={folder}/log"]
        command = ["valgrind", *counting, sys.executable, "-m", "benchmarks.instructions", "--count", *what]
        subprocess.run(command, check=True, env=ENVIRONMENT, stdout=subprocess.DEVNULL)
        dumps = sorted(Path(folder).glob("out.*"), key=lambda path: int(path.suffix[1:]))
        return [int(re.findall(r"^totals: (\d+)", dump.read_text(), re.M)[0]) for dump in dumps]


def count_loop(work: str, contestant: str) -> Iterator[bool]:
    """Half as many updates and all of them, after a fit that warms up; True where counting begins, False where it ends."""
    import torch

    from benchmarks.peer.work import WORKS
    from benchmarks.peer.worker import Worker

    torch.set_num_threads(1)
    whole = replace(WORKS[work], samples=WORKS[work].batch * UPDATES[work])
    half = replace(whole, samples=whole.samples // 2)
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(contestant, Path(folder))
        trains = [worker.prepared(work, row) for row in (half, half, whole)]
        trains[0]()
        for train in trains[1:]:
            yield True
            train()
            yield False


def count_doctor(name: str) -> Iterator[bool]:
    """Steps unwatched, watched and while the doctor rests, some before each."""
    import torch

    from benchmarks.doctor import WORKS, training
    from instep.doctor import step_sampling
    from instep.doctor.watcher import Watcher

    torch.set_num_threads(1)
    step_sampling.FIRST = step_sampling.PHASE = FIRST
    steps = WATCHED[name][0]
    work = next(work for work in WORKS if work.name.startswith(name))
    for watched, before in ((False, 8), (True, FIRST - steps), (True, FIRST + 4)):
        with Watcher() if watched else nullcontext():
            going_on = training(work)
            for _ in range(before):
                next(going_on)
            yield True
            for _ in range(steps):
                next(going_on)
            yield False


if __name__ == "__main__":
    main()
