"""The monitor: which evaluation was the best, and when it is time to stop."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from instep.errors import DescriptionError
from instep.loop.metrics.metric import Metric, higher_is_better
from instep.records import Evaluation
from instep.schedules.drive import Drive
from instep.schedules.plateau import PlateauDrive

Mode = Literal["min", "max"]

_LOWER = ("loss", "error", "perplexity", "mae", "mse", "rmse")
_HIGHER = ("accuracy", "acc", "f1", "auc", "auroc", "precision", "recall", "score", "iou", "dice", "bleu", "r2", "map")


class Monitor:
    """Watches one number of the evaluations."""

    def __init__(self, name: str, mode: Mode, patience: int | None) -> None:
        if patience is not None and (not isinstance(patience, int) or isinstance(patience, bool) or patience < 1):
            raise DescriptionError(f"patience={patience!r} is no number of evaluations to wait; use 1 or more, or None.")
        self.name = name
        self.mode: Mode = mode
        self.patience = patience
        self.best: float | None = None
        self.waited = 0  # evaluations since the best one

    @property
    def exhausted(self) -> bool:
        return self.patience is not None and self.waited >= self.patience

    def see(self, evaluation: Evaluation) -> bool:
        """Take in an evaluation; True where it is the best so far. nan is never the best."""
        if self.name not in evaluation:
            raise DescriptionError(f"monitor={self.name!r} is not in the evaluation; it has {', '.join(evaluation)}.")
        value = evaluation[self.name]
        better = value == value and (self.best is None or (value < self.best if self.mode == "min" else value > self.best))
        self.best = value if better else self.best
        self.waited = 0 if better else self.waited + 1
        return better

    def state(self) -> dict[str, Any]:
        return {"best": self.best, "waited": self.waited}

    def restore(self, state: Mapping[str, Any]) -> None:
        self.best, self.waited = state["best"], state["waited"]


def _tails(name: str) -> list[str]:
    """ "valid/scores/f1" may be the metric scores/f1 of valid, or f1 of valid/scores."""
    parts = name.split("/")
    return ["/".join(parts[i:]) for i in range(1, len(parts))]


def mode_for(name: str, asked: Literal["auto", "min", "max"], metrics: Mapping[str, Metric]) -> Mode:
    """Whether less or more of a number is better; "auto" goes by a torchmetrics object's word, then by the name."""
    if asked in ("min", "max"):
        return "min" if asked == "min" else "max"
    if asked != "auto":
        raise DescriptionError(f'monitor_mode={asked!r} is not known; use "min", "max" or "auto".')
    short = name.rsplit("/", 1)[-1].lower()
    told = next((told for part in _tails(name) if (told := higher_is_better(metrics, part)) is not None), None)
    if told is not None:
        return "max" if told else "min"
    words = short.split("_")
    if any(word in _LOWER for word in words):
        return "min"
    if any(word in _HIGHER for word in words):
        return "max"
    raise DescriptionError(
        f'whether less or more of {name} is better is not clear from its name; use monitor_mode="min" or "max".'
    )


def monitor_for(
    name: str | None,
    mode: Any,
    metrics: Mapping[str, Metric],
    *,
    patience: int | None,
    restore_best: bool,
    sets: Sequence[str],
    parts: Sequence[str] = ("loss",),
    more_parts: bool = False,
) -> Monitor | None:
    """The monitor of a run that evaluates on these sets and says these parts of each; None for one that does not evaluate.

    Where there are several losses, none of them is what the run goes by unless it is named. With `more_parts`, losses may have
    parts that nobody knows of before the first evaluation: these have to be named with their direction.
    """
    if mode not in ("auto", "min", "max"):
        raise DescriptionError(f'monitor_mode={mode!r} is not known; use "min", "max" or "auto".')
    if not sets:
        for asked, value in (("monitor", name), ("patience", patience), ("restore_best", restore_best or None)):
            if value is not None:
                raise DescriptionError(f"{asked}={value!r} needs evaluations; pass valid= and evaluate_every=.")
        return None
    known = [f"{prefix}/{part}" for prefix in sets for part in parts]
    if name is None and parts[0] != "loss":
        if patience is not None or restore_best:
            asked = "restore_best=True" if patience is None else f"patience={patience!r}"
            raise DescriptionError(f"{asked} needs one number to go by, and there are {', '.join(known)}; pass monitor=.")
        return None
    name = name or known[0]
    if not (more_parts and mode != "auto" and any(name.startswith(f"{prefix}/") for prefix in sets)):
        _require_number(name, known, more_parts=more_parts)
    _require_one_number(name, metrics)
    return Monitor(name, mode_for(name, mode, metrics), patience)


def require_monitor(drive: Drive, monitor: Monitor | None) -> None:
    """That a schedule which goes by the monitored value gets one, and takes it the way the run does."""
    if isinstance(drive, PlateauDrive) and monitor is not None:
        drive.follow(monitor.mode)
    if drive.needs_monitor and monitor is None:
        raise DescriptionError(
            "this schedule goes by the monitored value, so it needs evaluations; pass valid= and evaluate_every=."
        )
    if drive.monitor_mode is not None and monitor is not None and drive.monitor_mode != monitor.mode:
        raise DescriptionError(
            f"the schedule takes {monitor.name} for a number to {drive.monitor_mode}imise, the monitor for one "
            f'to {monitor.mode}imise; give it mode="{monitor.mode}".'
        )


def _require_one_number(name: str, metrics: Mapping[str, Metric]) -> None:
    """That it is no table, and no metric that has a number for each class."""
    metric = metrics.get(name.rpartition("/")[2])
    if metric is None:
        return
    if metric.gives == "table":
        raise DescriptionError(f"monitor={name!r} is a table, not one number; monitor another one, like the loss.")
    if metric.gives == "parts":
        raise DescriptionError(f"monitor={name!r} is one number a class; name one of them, like '{name}/0'.")


def _require_number(name: str, known: Sequence[str], *, more_parts: bool) -> None:
    """That an evaluation will have this number: a set's loss, a metric, or a part of one ("valid/scores/f1")."""
    if not any(name == number or name.startswith(f"{number}/") for number in known):
        hint = ' A part of the loss needs monitor_mode="min" or "max".' if more_parts else ""
        raise DescriptionError(f"monitor={name!r} is no number of an evaluation; there will be {', '.join(known)}.{hint}")
