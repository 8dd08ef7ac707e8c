"""Built: the modules of a run and the code of the user's own in it, as the script made them."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from torch import nn
from torch.optim import Optimizer

from instep.data.sources.recognize import Source
from instep.data.sources.stream import Stream
from instep.data.sources.underlying import underlying
from instep.run.code import DataSet, describe_code
from instep.run.module_texts import describe_modules


class Built(NamedTuple):
    """By the names that these parts have in `run.json`."""

    modules: Mapping[str, str]
    attributes: Mapping[str, Any]
    code: Mapping[str, Any]


def describe_built(
    model: nn.Module,
    settings: Mapping[str, Any],
    optimizers: Mapping[str, Optimizer],
    sources: Mapping[str, Source | Stream],
) -> Built:
    """What these hold and do now."""
    owners: dict[str, Any] = {"model": model}
    for name in ("loss", "objective", "metrics", "schedule", *sources):
        owners |= _owners(name, settings.get(name))
    for name, optimizer in optimizers.items():
        owners[f"optimizer.{name}" if name else "optimizer"] = type(optimizer)
    for name, source in sources.items():
        owners[f"data.{name}"] = DataSet(source.dataset if isinstance(source, Stream) else underlying(source))
    return Built(*describe_modules(model), describe_code(owners, model))


def _owners(name: str, setting: Any) -> dict[str, Any]:
    """What was passed under a name, or under several in it."""
    if not isinstance(setting, Mapping):
        return {name: setting}
    return {f"{name}.{key}": value for key, value in setting.items()}
