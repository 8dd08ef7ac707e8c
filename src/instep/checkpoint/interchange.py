"""Interchange: the weights of models in files that other programs read, and from files that they wrote.

`save_model` writes plain safetensors; `load_model` takes that, torch files, checkpoints and runs. The classic dictionary, with
the optimizer and the epoch in it, is in `classic.py`.
"""

from collections.abc import Mapping
from pathlib import Path

from torch import nn

from instep.checkpoint.difference import Difference
from instep.checkpoint.fitting import State, apply_all, fit
from instep.checkpoint.left_out import Described, require_same
from instep.checkpoint.manifest import ENDING
from instep.checkpoint.names import bare_names
from instep.checkpoint.safefile import write_safetensors
from instep.checkpoint.torchfile import ENDINGS, write_torch
from instep.checkpoint.weights import ONE, read_left_out, read_states
from instep.errors import DescriptionError
from instep.optim.which_weights import Weights

Models = nn.Module | Mapping[str, nn.Module]


def save_model(model: Models, path: str | Path) -> None:
    """Write the weights of a model to a safetensors file, or to a torch file where the name ends in .pt, .pth or .bin.

    Several models, `{"g": G, "d": D}`, go into one file, with names that begin with `g.` and `d.`. Names are those of the bare
    model, without what DistributedDataParallel and torch.compile put before them. Tied weights are stored once.

    >>> import tempfile
    >>> saved, loaded = nn.Linear(4, 3), nn.Linear(4, 3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(saved, f"{folder}/model.safetensors")
    ...     load_model(loaded, f"{folder}/model.safetensors")
    <all 2 tensors fit and were loaded>
    >>> bool((saved.weight == loaded.weight).all())
    True
    """
    path = Path(path)
    models = as_models(model)
    states = {name: state_of(one) for name, one in models.items()}
    state = states.get(ONE) or {f"{name}.{key}": value for name, one in states.items() for key, value in one.items()}
    if path.suffix in ENDINGS:
        write_torch(path, state)
    elif path.suffix == ENDING:
        write_safetensors(path, state)
    else:
        raise DescriptionError(
            f"{path} does not say which format it is to have; end it in .safetensors, or in .pt for torch.save."
        )


def load_model(model: Models, path: str | Path, *, strict: bool = True, weights: Weights | None = None) -> Difference:
    """Load the weights of a file, of a checkpoint, or of a run (its best, or its latest where it has no best) into a model.

    Takes safetensors and torch files, also the dictionaries that people keep a state_dict in. Names match with or without the
    prefixes `module.` and `_orig_mod.`. What does not fit is an error with a table, and the model stays as it was; with
    `strict=False` what fits is loaded and the difference is returned. Of several models those that are named are loaded.

    Of a run with `ema=` or `swa=` the weights are those that its `monitor=` names: the averaged ones with
    `monitor="valid/ema/…"` or `"valid/swa/…"`, else the model's own. `weights="model"`, `"ema"` or `"swa"` says it.

    >>> import tempfile
    >>> small, large = (nn.Sequential(nn.Linear(8, 4), nn.Linear(4, classes)) for classes in (3, 5))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_model(small, f"{folder}/model.pt")
    ...     difference = load_model(large, f"{folder}/model.pt", strict=False)
    >>> len(difference.mismatches)  # the weight and the bias of the last layer
    2
    """
    models = as_models(model)
    path = Path(path)
    states, left_out = read_states(path, list(models), weights), read_left_out(path)
    fittings = []
    for name, one in models.items():
        prefix = f"{name}." if name != ONE else ""
        fittings.append(fit(one, {**_own(one, left_out, prefix), **states[name]} if left_out else states[name], prefix=prefix))
    return apply_all(fittings, path, strict=strict)


def _own(model: nn.Module, left_out: Described, prefix: str) -> State:
    """The model's own weights that a checkpoint has none for."""
    weights = {name.removeprefix(prefix): made for name, made in left_out["weights"].items() if name.startswith(prefix)}
    names = require_same(model, {**left_out, "weights": weights})
    held = model.state_dict()
    return {name: held[name] for name in names}


def as_models(model: Models) -> Mapping[str, nn.Module]:
    """Several models by name; a single one has the empty name."""
    if isinstance(model, nn.Module):
        return {ONE: model}
    named = isinstance(model, Mapping) and model and all(isinstance(name, str) and name and "." not in name for name in model)
    if not named or not all(isinstance(one, nn.Module) for one in model.values()):
        raise DescriptionError(f'{type(model).__name__} is no model; pass a torch.nn.Module, or several as {{"g": G, "d": D}}.')
    return model


def state_of(model: nn.Module) -> State:
    """The state of a model under its bare names."""
    bare, state = bare_names(model), model.state_dict()
    if all(name == short for name, short in bare.items()):
        return state  # with the versions of its modules, which it carries in an attribute
    return {bare[name]: value for name, value in state.items()}
