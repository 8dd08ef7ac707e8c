"""Metrics: what is measured beside the loss, exact over batches of any size and over processes.

A metric is a name that is known here (`names`), a function `f(output, target)`, or a torchmetrics object (`functions`). Names
are counted in `counts`, `errors` and `ranking`; what an output and a target are is told from their shapes in `forms`.
"""

from instep.loop.metrics.metric import Metric, Table, add, higher_is_better, start, values
from instep.loop.metrics.names import accuracy, as_metrics
from instep.loop.metrics.report_matrix import ReportMatrix

__all__ = ["Metric", "ReportMatrix", "Table", "accuracy", "add", "as_metrics", "higher_is_better", "start", "values"]
