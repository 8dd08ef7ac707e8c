"""Trial: what the checks of one proof share: the subject, its ordinary training as a record, a folder, somebody to tell."""

import functools
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from instep.proof.record import Difference, Record, Trainer, compare, record_training
from instep.proof.result import Cause, Row
from instep.proof.subject import Arrangement, Subject, quiet, wide
from instep.records import Update
from instep.run.run import Run

After = Callable[[Trainer, Update], object]
FindCauses = Callable[[Difference], list[Cause]]


@dataclass
class Trial:
    """One proof at work."""

    subject: Subject
    look: Run  # of a Trainer that is only looked at
    folder: Path
    tell: Callable[[str], object]
    threads: int = 1

    @functools.cached_property
    def baseline(self) -> Record:
        """The training as it is described, in this process, without anything around it."""
        return self.train(Arrangement())

    def train(
        self, arrangement: Arrangement, *, before: Callable[[Trainer], object] | None = None, after: After | None = None
    ) -> Record:
        """A new training to its end, recorded. `before` gets the Trainer ahead of it; what it prints is not shown."""
        with quiet(), redirect_stderr(StringIO()), ExitStack() as stack:
            trainer = self.subject.trainer(arrangement)
            if before is not None:
                before(trainer)
            stack.enter_context(wide(arrangement.in_float64))
            return record_training(trainer, after=None if after is None else functools.partial(after, trainer))

    def judge(self, promise: str, words: str, other: Record, holds: str, causes: FindCauses, **more: Any) -> Row:
        """The row of a promise that is bitwise: the ordinary training beside another one."""
        found = compare(more.pop("one", None) or self.baseline, other, history=more.pop("history", False))
        if found is None:
            return Row(promise, words, "bitwise", meaning=holds)
        return Row(promise, words, "differs", found.size, f"First to differ: {found}.", tuple(causes(found)))


def first_line(error: BaseException) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
