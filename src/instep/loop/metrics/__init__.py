"""Metrics: what is measured beside the loss, exact over batches of any size and over processes.

A metric is a name that is known here (`names`), a function `f(output, target)`, or a torchmetrics object (`functions`). Names
are counted in `counts`, `errors` and `ranking`; what an output and a target are is told from their shapes in `forms`.
"""
