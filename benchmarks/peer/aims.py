"""What Instep aims at, and whether the numbers say that it is there."""

import statistics
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.peer.contestants import CONTESTANTS
from benchmarks.peer.results import Measure, Results, quartiles
from benchmarks.peer.work import WORKS


@dataclass(frozen=True)
class Aim:
    text: str
    measured: str
    met: bool


def judge(results: Results) -> list[Aim]:
    """Every aim for which there are numbers."""
    return [
        *first_among_libraries(results),
        *(aim for name in ("mlp-64", "mlp-512") for aim in at_least(results, name, "plain", 1.25)),
        *(aim for name in ("mlp-64", "mlp-512") for aim in at_least(results, name, "hand", 0.97)),
        *(aim for name in ("cnn", "transformer") for aim in at_least(results, name, "hand", 0.99)),
        *at_least(results, "workers", "plain", 0.97),
        *start(results),
        *resume(results),
        *checkpoint(results),
        *at_least(results, "processes", "hand", 0.97),
        *at_least(results, "processes", "hand", 0.97, "processor_s"),
        *defaults(results, "epochs"),
    ]


def first_among_libraries(results: Results) -> Iterator[Aim]:
    """One aim for all rows: the measured side names those in which another library is ahead, or level: the quartiles overlap."""
    ahead: list[str] = []
    level: list[str] = []
    rows = 0
    for work, by_threads in results.entries.items():
        for threads, row in by_threads.items():
            if not row.get("instep"):
                continue
            others = {name: one for name, one in row.items() if one and is_other_library(name)}
            if not others:
                continue
            rows += 1
            best = min(others, key=lambda name: others[name].median())
            speed = results.speed(work, int(threads), "instep", best)
            if speed is not None and speed < 1.0:
                mine, theirs = zip(*results.seconds_beside(work, int(threads), "instep", best), strict=True)
                is_ahead = quartiles(theirs)[1] < quartiles(mine)[0]
                said = f"{CONTESTANTS[best].label} in `{work}` with {plural(int(threads))} (Instep {speed:.2f} ×)"
                (ahead if is_ahead else level).append(said)
    if rows:
        parts = [f"first in {rows - len(ahead) - len(level)} of {rows} rows"]
        parts += [f"level, with quartiles that overlap: {', '.join(level)}"] if level else []
        parts += [f"ahead: {', '.join(ahead)}"] if ahead else []
        yield Aim("first among libraries in every row", "; ".join(parts), not ahead and not level)


def is_other_library(name: str) -> bool:
    return CONTESTANTS[name].library and CONTESTANTS[name].package != "instep"


def at_least(results: Results, work: str, against: str, limit: float, measure: Measure = "train_s") -> Iterator[Aim]:
    for threads in WORKS[work].threads:
        speed = results.speed(work, threads, "instep", against, measure)
        if speed is not None:
            by = ", by processor time" if measure == "processor_s" else ""
            text = f"`{work}`, {plural(threads)}: ≥ {limit} × the {CONTESTANTS[against].label}{by}"
            yield Aim(text, f"{speed:.3f} ×", speed >= limit)


def defaults(results: Results, work: str) -> Iterator[Aim]:
    for threads in WORKS[work].threads:
        speed = results.speed(work, threads, "instep-defaults", "instep")
        if speed is not None:
            yield Aim(
                f"`{work}`, {plural(threads)}: Instep with its defaults ≥ 0.95 × the lean Trainer",
                f"{speed:.3f} ×",
                speed >= 0.95,
            )


def start(results: Results) -> Iterator[Aim]:
    if beside := results.seconds_beside("start", 1, "instep", "plain"):
        mine, plain = zip(*beside, strict=True)
        more = statistics.median(mine) - statistics.median(plain)
        yield Aim("`start`: at most 0.3 s more than the plain loop's process", f"{more:+.2f} s", more <= 0.3)


def resume(results: Results) -> Iterator[Aim]:
    early, middle = results.entry("resume-early", 1, "instep"), results.entry("resume", 1, "instep")
    if early and middle:
        ratio = middle.median() / early.median()
        yield Aim("`resume`: as fast at 50 % of an epoch as at 1 % (at most 1.2 ×)", f"{ratio:.2f} ×", ratio <= 1.2)


def checkpoint(results: Results) -> Iterator[Aim]:
    for against, name in (("hand", "torch.save and a sync of the disk"), ("plain", "torch.save without a sync")):
        if beside := results.seconds_beside("checkpoint", 1, "instep", against):
            mine, theirs = zip(*beside, strict=True)
            share = statistics.median(mine) / statistics.median(theirs)
            yield Aim(f"`checkpoint`, a core free to write: at most 25 % of {name}", f"{share:.0%}", share <= 0.25)


def plural(threads: int) -> str:
    return f"{threads} thread{'s' if threads > 1 else ''}"
