"""RunStatus: where a run stands right now, and the words for it. How they are drawn is up to the displays."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from instep.report.shortened import shorten
from instep.text import duration, many, number, plural, rate

if TYPE_CHECKING:
    from instep.records import Evaluation, Logged, Plan
    from instep.run.run_files import RecordedRun


@dataclass(slots=True)
class RunStatus:
    """The latest of everything that a run has said."""

    plan: Plan
    step: int = 0  # update cycles begun
    epoch: int = 0  # the one that the next update belongs to, or the last one did
    first_step: int = 0  # where this process took over
    started_s: float = field(default_factory=time.monotonic)
    before_s: float = 0.0  # that the run took in other processes
    logged: Logged | None = None
    evaluation: Evaluation | None = None
    best: Evaluation | None = None
    tested: Evaluation | None = None
    skipped: int = 0

    @property
    def monitor(self) -> str:
        """The metric that decides which evaluation is the best; "" where nothing is evaluated."""
        return self.plan.metrics[0] if self.plan.metrics else ""

    @property
    def share(self) -> float | None:
        """How much of the run is done, 0 to 1; None where nobody knows its end."""
        return min(1.0, self.step / self.plan.total_steps) if self.plan.total_steps else None

    @property
    def seconds(self) -> float:
        """Since the start in this process."""
        return time.monotonic() - self.started_s

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far, with everything that took time: updates, evaluations, saving."""
        done = self.step - self.first_step
        if done <= 0 or not self.plan.total_steps:
            return None
        return max(0, self.plan.total_steps - self.step) * self.seconds / done

    def where(self, step: int | None = None, epoch: int | None = None) -> tuple[str, str]:
        """The words for a place, now or another: ("epoch 3/10", "step 412/1,200"), of even width through a run."""
        step, epoch = self.step if step is None else step, self.epoch if epoch is None else epoch
        return f"epoch {self.epoch_of(step, epoch)}", f"step {_of(step, self.plan.total_steps)}"

    def epoch_of(self, step: int, epoch: int) -> str:
        """`3/10` is the third of ten; where nobody knows how many there are, the number that the history has, from 0."""
        if not self.plan.epochs:
            return str(epoch)
        return _of(epoch_number(step, epoch, self.plan.steps_per_epoch), self.plan.epochs)

    def numbers(self) -> list[tuple[str, str]]:
        """What is known besides the place, the most wanted first, as (kind, words)."""
        said = []
        if self.logged is not None:
            said += [("loss", words) for words in self.losses()]
            said += [("lr", f"{name} {number(value)}") for name, value in self.logged.parts.items()]
        if self.evaluation is not None and self.monitor in self.evaluation:
            said.append(("metric", f"{self.monitor} {number(self.evaluation[self.monitor])}"))
        if self.skipped:
            said.append(("late", f"{self.skipped} skipped"))
        if self.logged is not None:
            pace = self.logged.pace
            said.append(("lr", f"lr {rate(self.logged.lr)}"))
            said.append(("pace", f"{many(pace.samples_per_s)} samples/s"))
            said.append(("late" if pace.waiting >= 0.2 else "pace", f"data wait {pace.waiting:.0%}"))
        return said

    def losses(self) -> list[str]:
        """The words for the loss, or for those of several objectives by their names."""
        if self.logged is None:
            return []
        named = {name: value for name, value in self.logged.extra.items() if name.startswith("loss/")}
        return [f"{name} {number(value)}" for name, value in named.items()] or [f"loss {number(self.logged.loss)}"]

    def left(self) -> str:
        """The words for the time left, or for the time gone where nobody knows the end."""
        if self.seconds_left is not None:
            return f"{duration(self.seconds_left)} left"
        return "" if self.plan.total_steps else duration(self.seconds)

    def summary(self, reason: str, why: str = "") -> str:
        """One line for the end of a run."""
        said = [f"{reason} at step {self.step:,} after {duration(self.before_s + self.seconds)}{f': {why}' if why else ''}"]
        if self.best is not None and self.monitor in self.best:
            said.append(f"best {self.monitor} {number(self.best[self.monitor])} {self._place(self.best)}")
        else:
            said += self.losses()
        if self.skipped:
            said.append(f"{plural(self.skipped, 'update')} skipped")
        said += [f"{name} {number(self.tested[name])}" for name in shorten(self.tested).names] if self.tested else []
        return ", ".join(said)

    def _place(self, evaluation: Evaluation) -> str:
        return place_of(evaluation.step, evaluation.epoch, self.plan.steps_per_epoch)


def why_stopped(run: RecordedRun) -> str:
    """Why a run stopped before its end, which only patience does; "" for any other."""
    settings = run.description.get("settings")
    patience = settings.get("patience") if isinstance(settings, dict) else None
    if run.state != "stopped" or not isinstance(patience, int):
        return ""
    return f"{run.history.monitor} has not improved for {plural(patience, 'evaluation')}"


def epoch_number(step: int, epoch: int, steps_per_epoch: int) -> int:
    """Which epoch people would say a place is in: from 1, and the place after the last update of an epoch still is."""
    return max(1, math.ceil(step / steps_per_epoch)) if steps_per_epoch else epoch + 1


def place_of(step: int, epoch: int, steps_per_epoch: int) -> str:
    """The words for where an evaluation was: in epoch 3 (step 360)."""
    return f"in epoch {epoch_number(step, epoch, steps_per_epoch)} (step {step:,})"


def _of(count: int, total: int) -> str:
    return f"{count:>{len(f'{total:,}')},}/{total:,}" if total else f"{count:,}"
