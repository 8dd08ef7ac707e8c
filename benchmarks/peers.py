"""The same work in Instep and in what people would use instead: loops by hand and nine other libraries, side by side.

Every contestant has a process of its own that stays alive. This one asks them for one measurement at a time, in a new random
order in every round, so that a slow moment of the machine hits all alike; the first round warms up and is checked: whoever
did not train, or does not end with the weights of the plain loop, has no number in the table.

    python -m benchmarks.peers [--rounds 5] [--work mlp-64,cnn] [--library instep,skorch] [--quick] [--write] [--add] [--pairs]

`make bench-peers ARGS="--rounds 5 --write"` makes the environment first, and writes docs/performance.md. Where the machine was
restless, `--add --work start,cnn` measures these works for some more rounds: what was measured before stays in the medians.
`--pairs --work cnn --rounds 8` adds what the aims need where a ratio is near 1: Instep and one other by turns, in new processes
every round.
"""

import argparse
import compileall
import importlib.metadata
import json
import os
import platform
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import instep
from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.peer.page import show, write_page
from benchmarks.peer.pairs import measure_pairs
from benchmarks.peer.results import Results, check_trained
from benchmarks.peer.team import Dead, Team, run_fresh
from benchmarks.peer.work import WORKS

JSON = Path(__file__).with_name("peers.json")


def main() -> None:
    options = parse()
    if options.redraw:
        write_page(Results.from_json(json.loads(JSON.read_text(encoding="utf-8"))))
        return
    goes_on = options.add or options.pairs
    results = measured_before(options) if goes_on else Results(machine(), versions(options.library), options.rounds)
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        controller = Controller(results, options, Path(folder))
        controller.run_pairs() if options.pairs else controller.run()
    print(show(results))
    if options.write or goes_on:
        write_page(results)
    if failures := list(failed(results)):
        sys.exit("\n".join(["", "failed:", *failures]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Instep beside loops by hand and other libraries.")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--work", type=names_of(WORKS), default=list(WORKS), help=", ".join(WORKS))
    parser.add_argument("--library", type=names_of(CONTESTANTS), default=list(CONTESTANTS), help=", ".join(CONTESTANTS))
    parser.add_argument("--quick", action="store_true", help="one round of small works: does everything run?")
    parser.add_argument("--write", action="store_true", help="benchmarks/peers.json, docs/performance.md and .svg")
    parser.add_argument("--add", action="store_true", help="more rounds of --work beside those of benchmarks/peers.json")
    parser.add_argument("--pairs", action="store_true", help="Instep beside one other by turns, for the aims of --work")
    parser.add_argument("--redraw", action="store_true", help="the page anew from benchmarks/peers.json, without measuring")
    parser.add_argument("--folder", type=Path, default=None, help="on the disk that is to hold the checkpoints")
    options = parser.parse_args()
    if options.write and (options.quick or set(options.work) != set(WORKS) or set(options.library) != set(CONTESTANTS)):
        parser.error("--write needs all works and all libraries at full size; leave out --quick, --work and --library.")
    if (options.add or options.pairs) and (options.quick or options.write or set(options.library) != set(CONTESTANTS)):
        parser.error("--add and --pairs need all libraries at full size; leave out --quick, --write and --library.")
    return options


def measured_before(options: argparse.Namespace) -> Results:
    """What benchmarks/peers.json has; more can be added to it with the same versions on a machine of the same kind."""
    before = Results.from_json(json.loads(JSON.read_text(encoding="utf-8")))
    now = machine(), versions(options.library)
    if (before.machine, before.versions) != now:
        sys.exit(f"{JSON.name} was measured with {before.machine} {before.versions}, this is {now[0]} {now[1]}; use --write.")
    return before


def names_of(known: dict[str, Any]) -> Any:
    """A type for argparse: names with commas between them, each of them known; in the order of the table."""

    def names(text: str) -> list[str]:
        chosen = text.split(",")
        if unknown := [name for name in chosen if name not in known]:
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(known)}")
        return [name for name in known if name in chosen]

    return names


class Controller:
    """Starts the processes, asks them in turn, and notes what they say."""

    def __init__(self, results: Results, options: argparse.Namespace, folder: Path) -> None:
        self._results, self._options, self._folder = results, options, folder
        self._teams: dict[str, Team] = {}
        self._shuffle = random.Random(0).shuffle
        self._begun = time.perf_counter()

    def run(self) -> None:
        compileall.compile_dir(Path(instep.__file__).parent, quiet=1)  # as it is for every package that was installed
        works = [name for name in WORKS if name in self._options.work]
        for processes in (1, 2):
            own = [name for name in works if WORKS[name].processes == processes]
            try:
                self._start([name for name in own if not WORKS[name].fresh], processes)
                for name in own:
                    self._row(name)
            finally:
                for team in self._teams.values():
                    team.stop()
                self._teams.clear()

    def _start(self, works: list[str], processes: int) -> None:
        """The processes of all who have something to do in these works."""
        for name in self._options.library:
            if any(not CONTESTANTS[name].reason_against(work, WORKS[work]) for work in works if takes_part(name, work)):
                self._teams[name] = Team(name, processes, self._folder)
        for name, team in list(self._teams.items()):
            try:
                team.wait()
            except Dead as error:
                self._say(f"{name} does not start: {error}")
                self._teams.pop(name).stop()
        self._say(f"{len(self._teams)} contestants are ready")

    def _row(self, name: str) -> None:
        work = WORKS[name]
        rounds = 1 if self._options.quick else min(self._options.rounds, work.most_rounds) * work.turns
        for threads in work.threads:
            contestants = [one for one in self._options.library if takes_part(one, name)]  # the plain loop is first
            self._round(name, threads, contestants, checked=True, counted=work.fresh)
            for _ in range(rounds - int(work.fresh)):
                self._shuffle(contestants)
                self._round(name, threads, contestants)
            self._say(f"{name}, {threads} thread{'s' if threads > 1 else ''}: {rounds} rounds")
        if self._options.write or self._options.add:
            self._save()

    def run_pairs(self) -> None:
        compileall.compile_dir(Path(instep.__file__).parent, quiet=1)
        for round_number in range(1, self._options.rounds + 1):
            for name in self._options.work:
                measure_pairs(self._results, name, self._folder)
                self._save()
            self._say(f"pairs: {round_number} of {self._options.rounds} rounds")

    def _save(self) -> None:
        """After each row: --redraw makes a page of what is there, also where this run is stopped."""
        JSON.write_text(json.dumps(self._results.as_json(), indent=1) + "\n", encoding="utf-8")

    def _round(self, name: str, threads: int, contestants: list[str], *, checked: bool = False, counted: bool = True) -> None:
        """One measurement of each; the first round of a process warms it up and is not counted."""
        for contestant in contestants:
            entry = self._results.entry(name, threads, contestant)
            entry.reason = CONTESTANTS[contestant].reason_against(name, WORKS[name])
            if entry.failed or entry.reason:
                continue
            plain, own = self._weights(name, threads, "plain"), self._weights(name, threads, contestant)
            compared = checked and WORKS[name].kind != "resume"  # there, each draws an order of its own
            answer = self._ask(name, threads, contestant, own if compared else None)
            entry.failed = answer.get("failed")
            if entry.failed is None and checked:
                check_trained(entry, answer, own, plain, self._results.entry(name, threads, "plain").loss)
            if entry.failed is None and counted:
                entry.add(answer)

    def _ask(self, name: str, threads: int, contestant: str, weights: Path | None) -> dict[str, Any]:
        request = {"work": name, "quick": self._options.quick, "threads": threads, "weights": weights and str(weights)}
        try:
            if WORKS[name].fresh:
                return run_fresh(contestant, self._folder, request)
            if contestant in self._teams:
                return self._teams[contestant].ask(request)
        except Dead as error:
            if contestant in self._teams and not WORKS[name].fresh:
                self._teams.pop(contestant).stop()
            return {"failed": f"its process ended: {error}"}
        return {"failed": "its process had ended"}

    def _weights(self, name: str, threads: int, contestant: str) -> Path:
        return self._folder / f"{name}-{threads}-{contestant}.npy"

    def _say(self, text: str) -> None:
        print(f"{time.perf_counter() - self._begun:6.0f} s  {text}", file=sys.stderr, flush=True)


def takes_part(contestant: str, work: str) -> bool:
    return not WORKS[work].only or contestant in WORKS[work].only


def machine() -> dict[str, Any]:
    return {"cores": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}", "python": platform.python_version()}


def versions(contestants: list[str]) -> dict[str, str]:
    packages = {"torch", "instep", *(CONTESTANTS[name].package for name in contestants)}
    found = {package: importlib.metadata.version(package) for package in sorted(packages - {"instep"})}
    return {"instep": instep.__version__, **found}


def failed(results: Results) -> list[str]:
    return [
        f"  {work}, {threads} threads, {name}: {entry.failed}"
        for work, rows in results.entries.items()
        for threads, row in rows.items()
        for name, entry in row.items()
        if entry.failed
    ]


if __name__ == "__main__":
    main()
