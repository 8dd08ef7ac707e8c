"""Weights at a path: whatever kind of file or folder it is, the states of the models that were asked for.

A run folder gives its best checkpoint, or the latest where no evaluation was made; a checkpoint folder its model; a file what is
in it: safetensors, a bare state_dict, or a dictionary that has one under a usual name.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from instep.checkpoint import checkpoint_folder
from instep.checkpoint.fitting import State, require_state
from instep.checkpoint.left_out import Described
from instep.checkpoint.manifest import ENDING, MANIFEST
from instep.checkpoint.read import read
from instep.checkpoint.safefile import read_safetensors
from instep.checkpoint.torchfile import ENDINGS, read_torch
from instep.errors import CheckpointError
from instep.optim.which_weights import AVERAGED, Weights, choose_weights

# Where dictionaries keep the state of a model: the classic one, Lightning's, and what many repositories write.
MODEL = ("model_state_dict", "state_dict", "model")
ONE = ""  # how the only model is called
_SHELF, _DESCRIPTION = "checkpoints", "run.json"


def read_states(path: Path, models: Sequence[str] = (ONE,), weights: Weights | None = None) -> dict[str, State]:
    """The state of each of these models, by its name; `("",)` asks for that of the only one.

    Of a checkpoint with averaged weights, `weights` says which are meant; without it the run does.
    """
    if not path.exists():
        raise CheckpointError(f"{path} does not exist; name a file of weights, a run or a checkpoint.")
    if path.is_dir():
        return _of_checkpoint(checkpoint_in(path), models, weights)
    _require_average(path, weights, there=())
    content = read_torch(path) if _is_torch(path) else read_safetensors(path)
    return {name: state_in(content, name, path) for name in models}


def read_left_out(path: Path) -> Described | None:
    """What the checkpoint at a path leaves out of its model; None for one that has all of it, and for files."""
    return read(checkpoint_in(path), parts=()).state.get("left_out") if path.is_dir() else None


def checkpoint_in(folder: Path) -> Path:
    """The checkpoint that a folder is or has: of a run the best one, or the latest where there is no best."""
    if (folder / MANIFEST).exists() or checkpoint_folder.step_of(folder.name) is not None:
        return folder
    if (folder / _SHELF).is_dir():
        folder = folder / _SHELF
    there = checkpoint_folder.steps(folder)
    if not there:
        raise CheckpointError(f"{folder} has no checkpoint; name a run that has some, a checkpoint, or a file of weights.")
    return checkpoint_folder.locate(folder, "best" if checkpoint_folder.best_step(folder) in there else "latest")


def state_in(content: Any, name: str, where: object) -> State:
    """The state of a model in what a file holds: under its name, its classic names, or all of it."""
    if not isinstance(content, Mapping):
        return require_state(content, where)
    key = key_in(content, name)
    flat = require_state(content if key is None else content[key], where)
    if name == ONE or (key is not None and key not in MODEL):
        return flat
    under = {key.removeprefix(f"{name}."): value for key, value in flat.items() if key.startswith(f"{name}.")}
    if not under:
        heads = dict.fromkeys(key.partition(".")[0] for key in flat)
        raise CheckpointError(f"{where} has no model {name!r}; its names begin with {', '.join(list(heads)[:8])}.")
    return under


def key_in(content: Mapping[str, Any], name: str) -> str | None:
    """Where a dictionary keeps the state of a model; None where it is a bare state_dict."""
    own = () if name == ONE else (name, f"{name}_state_dict", f"model_{name}_state_dict", f"model{name}_state_dict")
    return next((key for key in (*own, *MODEL) if isinstance(content.get(key), Mapping)), None)


def _of_checkpoint(path: Path, models: Sequence[str], weights: Weights | None) -> dict[str, State]:
    there = {file.name.removesuffix(ENDING) for file in path.glob(f"*{ENDING}")}
    averages = [name for name in AVERAGED if name in there and name not in models]
    _require_average(path, weights, there=averages)
    kind = "model" if not averages else weights or _weights_of_run(path, averages)
    parts = {name: name if name in there else kind for name in models}
    held = dict(read(path, parts=sorted(set(parts.values()))).parts)
    if kind in held and kind != "model":
        held[kind] = _without_wrapper(held[kind]) if int(held[kind]["n_averaged"]) else read(path, parts=["model"]).parts["model"]
    return {
        name: require_state(held[part], path) if part == name or name == ONE else state_in(held[part], name, path)
        for name, part in parts.items()
    }


def _require_average(path: Path, weights: Weights | None, *, there: Collection[Weights]) -> None:
    if weights in AVERAGED and weights not in there:
        raise CheckpointError(f"{path} holds no averaged weights; leave weights= out.")


def _weights_of_run(checkpoint: Path, averages: Collection[Weights]) -> Weights:
    """What the run of a checkpoint uses, by its description: the weights that the monitored value judges."""
    try:
        found = json.loads((checkpoint.parent.parent / _DESCRIPTION).read_bytes())
        sets = [name for name in found["data"] if name != "train"]
        return choose_weights(None, monitor=found["monitor"], sets=sets, averages=averages)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise CheckpointError(
            f"{checkpoint} holds the model's own weights and their average, and there is no run.json of its run that says which "
            f'are meant; pass weights="model" or {" or ".join(f"weights={chr(34)}{name}{chr(34)}" for name in averages)}.'
        ) from None


def _without_wrapper(average: Mapping[str, Any]) -> dict[str, Any]:
    """The averaged weights by the model's own names."""
    return {name.removeprefix("module."): value for name, value in average.items() if name != "n_averaged"}


def _is_torch(path: Path) -> bool:
    """By its ending; a file of any other name by what it begins with."""
    if path.suffix in ENDINGS or path.suffix == ENDING:
        return path.suffix in ENDINGS
    with open(path, "rb") as file:
        return not _begins_as_safetensors(file)


def _begins_as_safetensors(file: BinaryIO) -> bool:
    return file.read(9)[8:] == b"{"
