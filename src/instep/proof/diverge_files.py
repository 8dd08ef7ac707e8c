"""Where two runs part, as far as their files tell: by the rows of their histories, and by their checkpoints.

Nothing is built. Of checkpoints the checksums in their manifests are compared; only the first that differ are read.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.utils._pytree import keystr, tree_flatten_with_path

from instep.checkpoint import manifest_of, read, steps
from instep.checkpoint.checkpoint_folder import path_of
from instep.checkpoint.manifest import STATE_FILE
from instep.errors import CheckpointError
from instep.proof.replay_check import RowDifference, compare_rows, number_or_word, pair_rows
from instep.report.weights import Compared, compare
from instep.run.history import History
from instep.run.run_files import CHECKPOINTS
from instep.text import listed, number, plural

SHOWN = 4  # tensors


@dataclass(frozen=True)
class HistoryComparison:
    """The rows that stand for the same updates in both: how many are the same, and the first that is not."""

    rows: int
    same_to: int | None  # the step of the last row before which all are the same
    difference: RowDifference | None

    def __str__(self) -> str:
        if not self.rows:
            return "no row stands for the same updates in both"
        same = "" if self.same_to is None else f"the same to step {self.same_to:,}"
        if self.difference is None:
            return f"{same} ({plural(self.rows, 'row')})"
        one = self.difference
        values = f"{one.name} is {number_or_word(one.recorded)} and {number_or_word(one.replayed)}"
        return f"{f'{same}; ' if same else ''}at step {one.step:,} {values}"


@dataclass(frozen=True)
class CheckpointComparison:
    """The checkpoints of steps that both have: the last that is the same, and the first after it that is not."""

    compared: int
    same_at: int | None
    differs_at: int | None
    tensors: tuple[Compared, ...] = ()  # that differ then, by name
    problems: tuple[str, ...] = ()

    def __str__(self) -> str:
        if not self.compared:
            return "they have none of the same step"
        said = [] if self.same_at is None else [f"the same at step {self.same_at:,}"]
        if self.differs_at is not None:
            first = listed((f"{one.name} by {number(one.largest)}" for one in self.tensors[:SHOWN]), most=SHOWN)
            more = f" and {len(self.tensors) - SHOWN:,} more" if len(self.tensors) > SHOWN else ""
            said.append(f"not at step {self.differs_at:,}: {first}{more}")
        return ", ".join([*said, *self.problems]) + (f" ({self.compared} compared)" if self.differs_at is None else "")


def compare_histories(one: History, other: History) -> HistoryComparison:
    """Row by row, to the first that differs."""
    rows, same_to = 0, None
    for ours, theirs in pair_rows(one, other):
        rows += 1
        found = compare_rows(ours, theirs)
        if found:
            return HistoryComparison(rows, same_to, found[0])
        same_to = ours["step"]
    return HistoryComparison(rows, same_to, None)


def compare_checkpoints(one: Path, other: Path) -> CheckpointComparison:
    """In the order of their steps, to the first that differs; a damaged one is passed over and named."""
    folders = one / CHECKPOINTS, other / CHECKPOINTS
    compared, same_at, problems = 0, None, list[str]()
    for step in sorted(set(steps(folders[0])) & set(steps(folders[1]))):
        places = path_of(folders[0], step), path_of(folders[1], step)
        try:
            different = [] if _same_checksums(*places) else list(_differing(*(read(place).parts for place in places)))
        except CheckpointError as error:
            problems.append(str(error).rstrip("."))
            continue
        compared += 1
        if different:
            return CheckpointComparison(compared, same_at, step, tuple(different), tuple(problems))
        same_at = step
    return CheckpointComparison(compared, same_at, None, (), tuple(problems))


def _same_checksums(one: Path, other: Path) -> bool:
    """Of the files with tensors; what else a checkpoint counts may be of a run's own, such as the rows of its log."""
    ours, theirs = ({name: file for name, file in manifest_of(path).files.items() if name != STATE_FILE} for path in (one, other))
    return ours == theirs


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Compared]:
    """The tensors that differ, those of the model first."""
    ours, theirs = dict(named_tensors(one)), dict(named_tensors(other))
    for name in dict.fromkeys([*ours, *theirs]):
        if name not in ours or name not in theirs:
            yield Compared(name, None, None, "only in one of them")
        elif (found := compare(name, ours[name], theirs[name])) is not None:
            yield found


def named_tensors(parts: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    """Every tensor of some parts by where it stands: `model 0.weight`."""
    for part, content in parts.items():
        for path, value in tree_flatten_with_path(dict(content) if isinstance(content, Mapping) else content)[0]:
            if isinstance(value, Tensor):
                yield f"{part} {keystr(path).replace(chr(39), '').replace('][', '.').strip('[]')}", value
