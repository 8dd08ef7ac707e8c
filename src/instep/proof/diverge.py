"""Divergence: the first step at which two runs part, and what parts them.

By their histories, then by their checkpoints, then by replaying both from the last state that they have in common.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from instep.errors import InstepError
from instep.proof.diverge_files import CheckpointComparison, HistoryComparison, compare_checkpoints, compare_histories
from instep.proof.diverge_replay import SideBySide, replay_both
from instep.proof.replay_start import HasRun, build_run, read_whole
from instep.report.diff import description_lines
from instep.run.run_files import RecordedRun
from instep.text import Paint, clean, labelled, plain, plural, wrapped


@dataclass(frozen=True)
class Divergence:
    """What was found. `replayed` is None where there was no need for it, or where `not_replayed` says why it could not be."""

    runs: tuple[RecordedRun, RecordedRun]
    histories: HistoryComparison
    checkpoints: CheckpointComparison
    replayed: SideBySide | None = None
    not_replayed: str | None = None

    @property
    def is_none(self) -> bool:
        """Whether everything that could be compared is the same."""
        return self.histories.difference is None and self.checkpoints.differs_at is None

    @property
    def step(self) -> int | None:
        """The step whose update differs, as far as a replay found it."""
        found = None if self.replayed is None else self.replayed.difference
        return None if found is None else found.step

    def text(self, *, width: int | None = None, paint: Paint = plain) -> str:
        come = [run.step for run in self.runs]
        rows = (
            [("steps", " and ".join("nobody knows" if one is None else f"{one:,}" for one in come))] if come[0] != come[1] else []
        )
        rows += [("histories", str(self.histories)), ("checkpoints", str(self.checkpoints))]
        if self.replayed is not None:
            rows.append(("replayed", self._tell_replay(self.replayed)))
        if self.not_replayed is not None:
            rows.append(("replayed", f"no. {self.not_replayed}"))
        names = (clean(str(self.runs[0].path)), clean(str(self.runs[1].path)))
        described = description_lines(self.runs[0].description, self.runs[1].description, names, width, paint)
        head = [paint(line, "green" if self.is_none else "bold") for line in wrapped(self._verdict(), width or 10**6)]
        return "\n\n".join("\n".join(part) for part in ([*head, *labelled(rows, width=width or 80, paint=paint)], described))

    def _verdict(self) -> str:
        one, other = (clean(str(run.path)) for run in self.runs)
        if self.is_none:
            if not self.histories.rows and not self.checkpoints.compared:
                return f"nothing of {one} and {other} could be compared"
            return f"no difference between {one} and {other}"
        if self.step is not None:
            return f"{one} and {other} part in the update of step {self.step:,}"
        after, before = last_same(self), first_different(self)
        return f"{one} and {other} part in an update from step {after:,} to {before - 1:,}"

    def _tell_replay(self, found: SideBySide) -> str:
        begun = f"both from {found.starts[0]}, the same for {plural(found.updates, 'update')}"
        if found.difference is not None:
            return f"{begun}; {found.difference}"
        if found.failed is not None:
            return f"{begun}, until one failed: {found.failed}"
        own = [f"{clean(str(run.path))}: {one}" for run, one in zip(self.runs, found.checks, strict=True)]
        why = "another machine or version, nondeterministic operations, a loop of somebody's own"
        here = f"here they are the same, bit for bit, so that what parts them is not in what is recorded: {why}"
        return f"{begun}; {here}. Each against its own history: {'; '.join(own)}"


def find_divergence(one: Path, other: Path, build: Callable[[Path], HasRun]) -> Divergence:
    """Compare two runs; `build` makes the Trainer of the run in a folder, where both have to be replayed."""
    runs = read_whole(one), read_whole(other)
    histories = compare_histories(runs[0].history, runs[1].history)
    found = Divergence(runs, histories, compare_checkpoints(one, other))
    if found.is_none:
        return found
    try:
        pair = build_run(build(one), runs[0]), build_run(build(other), runs[1])
        start = found.checkpoints.same_at or 0
        start = start if start < first_different(found) else 0
        replayed = replay_both(pair, runs, start=start, to=first_different(found))
    except InstepError as error:
        return Divergence(runs, histories, found.checkpoints, not_replayed=str(error))
    return Divergence(runs, histories, found.checkpoints, replayed)


def last_same(found: Divergence) -> int:
    """How many updates are the same, as far as the files tell."""
    before = first_different(found)
    return max(
        (step for step in (found.histories.same_to, found.checkpoints.same_at) if step is not None and step < before), default=0
    )


def first_different(found: Divergence) -> int:
    """After how many updates something differs, as far as the files tell."""
    steps = [found.checkpoints.differs_at, None if found.histories.difference is None else found.histories.difference.step]
    return min(step for step in steps if step is not None)
