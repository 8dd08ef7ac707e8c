"""The state of a model, back into the model it was taken from; `model.state_dict()` is what a checkpoint keeps of it."""

from collections.abc import Collection, Mapping
from typing import Any

from torch import Tensor, nn

from instep.errors import CheckpointError


def restore_model(model: nn.Module, state: Mapping[str, Any], *, left_out: Collection[str] = ()) -> None:
    """Copy a state_dict into a model, bit for bit: `load_state_dict`, but a shape or a dtype that differs is an error.

    What is `left_out` of the state stays as it is in the model.
    """
    now = {name: value for name, value in model.state_dict().items() if name not in left_out}
    problems = [f"{name} is not in the checkpoint" for name in now if name not in state]
    problems += [f"{name} is not in the model" for name in state if name not in now]
    problems += [
        f"{name} is {_form(now[name])}, in the checkpoint it is {_form(state[name])}"
        for name in now
        if name in state and _form(now[name]) != _form(state[name])
    ]
    if problems:
        more = f"; and {len(problems) - 8} more" if len(problems) > 8 else ""
        raise CheckpointError(f"the model is not that of the checkpoint: {'; '.join(problems[:8])}{more}.")
    model.load_state_dict(state, strict=not left_out)


def _form(value: Any) -> str:
    return f"{value.dtype} of shape {tuple(value.shape)}" if isinstance(value, Tensor) else "no tensor"
