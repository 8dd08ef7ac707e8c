"""Span: a stretch of a run, as users give it: a number of updates, or a share of the run.

A whole number counts updates; a float below 1 is a share of the run's updates, rounded to whole ones. So `warmup=100` is a
hundred updates, `warmup=0.1` a tenth of the run, and `warmup=100.0` an error that says how to write either.
"""

from instep.errors import DescriptionError

Span = int | float


def check_span(name: str, span: Span, *, least: int = 0) -> None:
    """Raises unless `span` is a number of updates (from `least` on) or a share of the run."""
    if isinstance(span, bool) or not isinstance(span, int | float):
        raise DescriptionError(f"{name}={span!r} is a {type(span).__name__}; use {_ways(name, least)}.")
    share = 0 < span < 1 or span == least == 0
    if not (span >= least if isinstance(span, int) else share):
        raise DescriptionError(f"{name}={span!r} is no stretch of a run; use {_ways(name, least)}.")


def in_updates(span: Span, total: int) -> int:
    """The span in updates, in a run of `total`."""
    return span if isinstance(span, int) else round(span * total)


def said(name: str, span: Span, total: int) -> str:
    """How a message names a span: `warmup=100`, or `warmup=0.1 (5 updates)`."""
    return f"{name}={span}" if isinstance(span, int) else f"{name}={span} ({in_updates(span, total)} updates)"


def _ways(name: str, least: int) -> str:
    return f"a whole number of updates from {least} on ({name}=100), or a share of the run below 1 ({name}=0.1)"
