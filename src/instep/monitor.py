"""The monitor: which evaluation was the best, and when it is time to stop."""

from collections.abc import Mapping
from typing import Any, Literal

from instep.errors import DescriptionError
from instep.metrics import Metric, higher_is_better
from instep.records import Evaluation

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
        f'whether less or more of {name} is better cannot be told from its name; use monitor_mode="min" or "max".'
    )
