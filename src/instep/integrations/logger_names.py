"""Loggers by name: `loggers="tensorboard"`. Nothing of a logger is loaded before it is asked for."""

import importlib
from collections.abc import Iterable
from typing import Any

from instep.errors import DescriptionError
from instep.run.loggers import Logger, require_logger
from instep.text import nearest

# Where each is found, in this folder.
LOGGERS = {
    "tensorboard": "TensorBoard",
    "mlflow": "MLflow",
    "wandb": "WandB",
    "trackio": "Trackio",
    "csv": "CSV",
}


def find_loggers(given: Logger | str | Iterable[Logger | str] | None) -> tuple[Logger, ...]:
    """The loggers that were named or made: one, several, or None."""
    if given is None:
        return ()
    if isinstance(given, str) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(_make(one) if isinstance(one, str) else require_logger(one) for one in given)


def _make(name: str) -> Logger:
    if name not in LOGGERS:
        close = nearest(name.lower(), LOGGERS)
        hint = f"did you mean {close!r}?" if close else f"there are {', '.join(LOGGERS)}, or pass an object of your own."
        raise DescriptionError(f"no logger is called {name!r}; {hint}")
    made: Any = getattr(importlib.import_module(f"instep.integrations.{name}"), LOGGERS[name])()
    return require_logger(made)
