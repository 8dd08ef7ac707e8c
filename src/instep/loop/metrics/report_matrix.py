"""The confusion matrix of a report that nobody asked a metric for: made where a model classifies, left out where it does not."""

from collections.abc import Mapping

from torch import Tensor

from instep.distributed.world import World
from instep.errors import ObjectiveError
from instep.loop.metrics.counts import Confusion, Counts, classified
from instep.loop.metrics.metric import Metric, Table
from instep.loop.metrics.ranking import Scores
from instep.loop.objective import Loss

MOST_CLASSES = 1_000  # a matrix of more than a million numbers is no report


class ReportMatrix:
    """Counts while outputs and targets are those of a classification."""

    def __init__(self, metrics: Mapping[str, Metric]) -> None:
        # Numbers 0 and 1 may be measured as well as classified: then a metric that was asked for says which it is.
        self._is_asked = any(isinstance(metric.state, Counts | Scores) for metric in metrics.values())
        self._counts: Confusion | None = Confusion("confusion_matrix")
        self._is_empty = True

    def add(self, loss: Loss) -> None:
        if self._counts is not None and not self._classifies(loss):
            self._counts = None
        if self._counts is not None:
            self._counts.add(loss.output, loss.target, ignore_index=loss.ignore_index, threshold=loss.threshold)
            self._is_empty = False

    def total(self, world: World | None) -> Table | None:
        """The matrix; None where it is not one of classes. All processes say whether it is."""
        is_there = self._counts is not None and not self._is_empty
        if world is not None:
            is_there = all(world.gather_objects(is_there))
        if not is_there or self._counts is None:
            return None
        found: Table = self._counts.total(world)[1].tolist()
        return found

    def _classifies(self, loss: Loss) -> bool:
        if not isinstance(loss.output, Tensor) or not isinstance(loss.target, Tensor):
            return False
        try:
            seen = classified("report", loss.output, loss.target, loss.ignore_index, loss.threshold)
        except ObjectiveError:
            return False
        of_one_shape = loss.output.ndim == loss.target.ndim and loss.threshold is not None
        return seen.number <= MOST_CLASSES and (
            self._is_asked
            or not of_one_shape
            or loss.threshold not in (0.0, "auto", "nearest")
            or not loss.target.is_floating_point()
        )
