"""The classic dictionary: the file that PyTorch's tutorials save, `epoch`, `model_state_dict`, `optimizer_state_dict`, `loss`.

Written with `torch.save`, and read with `weights_only=True` by anybody. With several models, `{"g": G, "d": D}`, their states are
under `model_g_state_dict`, `optimizer_g_state_dict` and so on.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from instep.checkpoint.fitting import apply_all, fit
from instep.checkpoint.interchange import Models, as_models, state_of
from instep.checkpoint.torchfile import read_torch, write_torch
from instep.checkpoint.weights import MODEL, ONE, key_in, state_in
from instep.errors import CheckpointError, DescriptionError

Optimizers = Optimizer | Mapping[str, Optimizer]
OPTIMIZER = ("optimizer_state_dict", "optimizer", "optimizer_states")


def save_classic(
    path: str | Path, model: Models, optimizer: Optimizers, *, epoch: int, loss: float | Tensor, **extras: Any
) -> None:
    """Write the dictionary of PyTorch's tutorials, with `torch.save`.

    `extras` are entries of your own: numbers, strings, tensors and containers of them.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(4, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_classic(f"{folder}/old.pt", model, torch.optim.SGD(model.parameters()), epoch=3, loss=0.5, note="first")
    ...     sorted(torch.load(f"{folder}/old.pt", weights_only=True))
    ['epoch', 'loss', 'model_state_dict', 'note', 'optimizer_state_dict']
    """
    content: dict[str, Any] = {"epoch": epoch}
    for name, one in as_models(model).items():
        content[_key("model", name)] = state_of(one)
    for name, one_optimizer in _as_optimizers(optimizer).items():
        content[_key("optimizer", name)] = one_optimizer.state_dict()
    content["loss"] = float(loss.detach() if isinstance(loss, Tensor) else loss)
    taken = [name for name in extras if name in content or name in (*MODEL, *OPTIMIZER)]
    if taken:
        raise DescriptionError(f"{', '.join(taken)} cannot be an entry of your own: the dictionary has it already.")
    write_torch(Path(path), content | extras)


def load_classic(path: str | Path, model: Models, optimizer: Optimizers | None = None, *, strict: bool = True) -> dict[str, Any]:
    """Load the dictionary of PyTorch's tutorials into a model, and an optimizer where one is passed; returns the other entries.

    Reads also a bare state_dict, and dictionaries with `state_dict` or `model` in place of `model_state_dict`. An error leaves
    everything as it was.

    >>> import tempfile, torch
    >>> model = torch.nn.Linear(4, 2)
    >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     save_classic(f"{folder}/old.pt", model, optimizer, epoch=3, loss=0.5)
    ...     load_classic(f"{folder}/old.pt", model, optimizer)
    {'epoch': 3, 'loss': 0.5}
    """
    path = Path(path)
    content = read_torch(path)
    models, optimizers = as_models(model), {} if optimizer is None else _as_optimizers(optimizer)
    fittings = [fit(one, state_in(content, name, path), prefix=f"{name}." if name != ONE else "") for name, one in models.items()]
    keys = {name: _optimizer_key(content, name, path) for name in optimizers}
    for name, one_optimizer in optimizers.items():
        _require_groups(one_optimizer, _optimizer_state(content[keys[name]]), path)
    apply_all(fittings, path, strict=strict)
    for name, one_optimizer in optimizers.items():
        _restore(one_optimizer, _optimizer_state(content[keys[name]]))
    used = {key_in(content, name) for name in models}
    return {} if None in used else {key: value for key, value in content.items() if key not in used and key not in keys.values()}


def _key(what: str, name: str) -> str:
    return f"{what}_state_dict" if name == ONE else f"{what}_{name}_state_dict"


def _as_optimizers(optimizer: Optimizers) -> Mapping[str, Optimizer]:
    return {ONE: optimizer} if isinstance(optimizer, Optimizer) else optimizer


def _optimizer_key(content: Mapping[str, Any], name: str, path: Path) -> str:
    usual = OPTIMIZER if name == ONE else (f"optimizer_{name}_state_dict", f"optimizer{name}_state_dict")
    key = next((key for key in usual if key in content), None)
    state = _optimizer_state(content[key]) if key is not None else {}
    if key is None or not isinstance(state.get("state"), Mapping) or not isinstance(state.get("param_groups"), list):
        raise CheckpointError(f"{path} has no state of an optimizer under {', '.join(usual)}; leave the optimizer out.")
    return key


def _optimizer_state(held: Any) -> Mapping[str, Any]:
    """The state itself; Lightning keeps a list of them."""
    only = held[0] if isinstance(held, list) and len(held) == 1 else held
    return only if isinstance(only, Mapping) else {}


def _require_groups(optimizer: Optimizer, state: Mapping[str, Any], path: Path) -> None:
    """What `Optimizer.load_state_dict` would refuse, said before anything is changed."""
    now = [len(group["params"]) for group in optimizer.param_groups]
    then = [len(group["params"]) for group in state["param_groups"]]
    if now != then:
        raise CheckpointError(
            f"the optimizer in {path} has {_counted(then)}, yours has {_counted(now)}; make the groups as they were, "
            "or leave the optimizer out."
        )


def _restore(optimizer: Optimizer, state: Mapping[str, Any]) -> None:
    """`load_state_dict`, but state keeps the dtype it has in the file: torch would round float32 moments of bfloat16 weights."""
    optimizer.load_state_dict(dict(state))
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    for number, parameter in zip(numbers, parameters, strict=True):
        for name, value in state["state"].get(number, {}).items():
            loaded = optimizer.state[parameter].get(name)
            if isinstance(value, Tensor) and isinstance(loaded, Tensor) and loaded.dtype != value.dtype:
                optimizer.state[parameter][name] = value.to(loaded.device)


def _counted(groups: list[int]) -> str:
    return f"{len(groups)} group{'' if len(groups) == 1 else 's'} of {', '.join(map(str, groups))} parameters"
