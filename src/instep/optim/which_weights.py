"""Which weights are used where a run keeps several kinds: the model's own, and averages of them.

One rule: what the monitored value judges is what is used. With `monitor="valid/ema/…"` these are the moving average, with
`monitor="valid/swa/…"` the mean over epochs, with any other, or none, the model's own. It holds for predictions, exports, `load`
and `load_model`.
"""

from collections.abc import Collection, Iterable
from typing import Any, Literal

from instep.errors import DescriptionError

Weights = Literal["model", "ema", "swa"]
AVERAGED: tuple[Weights, ...] = ("ema", "swa")  # stand before the numbers of averaged weights, after the name of the data


def choose_weights(asked: Any, *, monitor: str | None, sets: Iterable[str], averages: Collection[Weights]) -> Weights:
    """The weights that were asked for, or those that the rule says; `sets` are the names of the data that is evaluated,
    `averages` those of the averages that the run keeps."""
    if asked not in ("model", *AVERAGED, None):
        raise DescriptionError(f'weights={asked!r} is not known; use "model", "ema", "swa" or None.')
    for name in AVERAGED:
        if asked == name and name not in averages:
            raise DescriptionError(
                f'weights="{name}" takes averaged weights, and this run keeps none; pass {name}= to the Trainer.'
            )
        if asked == name:
            return name
    if asked is None and monitor is not None:
        judged = _judged(monitor, sets)
        return next((name for name in averages if judged.startswith(f"{name}/")), "model")
    return "model"


def _judged(monitor: str, sets: Iterable[str]) -> str:
    """The monitored number without the name of its set, which may be called "ema" too."""
    own = max((name for name in sets if monitor.startswith(f"{name}/")), key=len, default="")
    return monitor[len(own) + 1 :]
