"""Which weights are used where a run keeps two kinds: the model's own, and their average.

One rule: what the monitored value judges is what is used. With `monitor="valid/ema/…"` these are the averaged weights, with
any other, or none, the model's own. It holds for predictions, exports, `load` and `load_model`.
"""

from collections.abc import Iterable
from typing import Any, Literal

from instep.errors import DescriptionError

Weights = Literal["model", "ema"]
AVERAGED = "ema/"  # stands before the numbers of the averaged weights, after the name of the data


def choose_weights(asked: Any, *, monitor: str | None, sets: Iterable[str], has_average: bool) -> Weights:
    """The weights that were asked for, or those that the rule says; `sets` are the names of the data that is evaluated."""
    if asked not in ("model", "ema", None):
        raise DescriptionError(f'weights={asked!r} is not known; use "model", "ema" or None.')
    if asked == "ema" and not has_average:
        raise DescriptionError('weights="ema" takes averaged weights, and this run keeps none; pass ema= to the Trainer.')
    if asked is None:
        return "ema" if has_average and monitor is not None and _judges_average(monitor, sets) else "model"
    return "ema" if asked == "ema" else "model"


def _judges_average(monitor: str, sets: Iterable[str]) -> bool:
    """A set may be called "ema" too, so its whole name is taken off first."""
    own = max((name for name in sets if monitor.startswith(f"{name}/")), key=len, default="")
    return monitor[len(own) + 1 :].startswith(AVERAGED)
