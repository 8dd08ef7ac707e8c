"""Interval: how often something happens, as users say it: 500, "epoch", "2 epochs", "500 updates", "10 minutes"."""

from typing import NamedTuple


class Interval(NamedTuple):
    """Updates or seconds between two of something; neither where it never happens by itself."""

    updates: int | None = None
    seconds: float | None = None


def parse_interval(every: object, steps_per_epoch: int) -> Interval | None:
    """What `every` says; None where it says nothing that is known, so that the caller names its argument and what it takes.

    >>> parse_interval("2 epochs", 50)
    Interval(updates=100, seconds=None)
    >>> parse_interval("1.5 minutes", 50)
    Interval(updates=None, seconds=90.0)
    """
    if every is None:
        return Interval()
    if isinstance(every, int) and not isinstance(every, bool):
        return Interval(updates=every) if every >= 1 else None
    match every.split() if isinstance(every, str) else []:
        case ["epoch"]:
            return Interval(updates=steps_per_epoch)
        case [count, "updates"] if _is_whole(count):
            return Interval(updates=int(count))
        case [count, "epoch" | "epochs"] if _is_whole(count):
            return Interval(updates=int(count) * steps_per_epoch)
        case [count, "minute" | "minutes"] if count.replace(".", "", 1).isdecimal() and float(count) > 0:
            return Interval(seconds=60 * float(count))
    return None


def _is_whole(text: str) -> bool:
    return text.isdecimal() and int(text) >= 1
