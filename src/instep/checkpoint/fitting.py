"""Fitting weights into models: planned for all of them first, so that an error leaves every model as it was."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor, nn

from instep.checkpoint.difference import Difference, compare
from instep.checkpoint.names import bare_names, match
from instep.errors import CheckpointError

State = Mapping[str, Any]  # what a state_dict() is, by name


@dataclass(frozen=True)
class Fitting:
    """What a model will get, by its own names, and what does not fit."""

    model: nn.Module
    state: State
    difference: Difference

    def apply(self) -> None:
        """Copy the weights into the model, converted to the dtype and the device that it has."""
        self.model.load_state_dict(self.state, strict=False)


def fit(model: nn.Module, state: State, *, prefix: str = "") -> Fitting:
    """Plan how a state goes into a model; `prefix` stands before the names in what is said of them."""
    bare = bare_names(model)
    actual = {name: actual for actual, name in bare.items()}
    now = {bare[name]: value for name, value in model.state_dict(keep_vars=True).items()}
    matched = match(now, state)
    file = {ours: state[theirs] for theirs, ours in matched.items()}
    mismatches = [
        replace(mismatch, name=prefix + mismatch.name)
        for mismatch in compare(now, file, {n: v for n, v in state.items() if n not in matched})
    ]
    misshapen = {mismatch.name.removeprefix(prefix) for mismatch in mismatches if mismatch.kind == "shape"}
    fitting = OrderedDict((actual[name], value) for name, value in file.items() if name not in misshapen)
    if (versions := getattr(state, "_metadata", None)) is not None and all(name in state for name in fitting):
        fitting._metadata = versions  # type: ignore[attr-defined]  # by which modules recognise states of older versions
    repaired = sum(theirs != actual[ours] for theirs, ours in matched.items())
    return Fitting(model, fitting, Difference(tuple(mismatches), repaired))


def apply_all(fittings: Sequence[Fitting], where: object, *, strict: bool) -> Difference:
    """Give all models their weights, or none; returns what did not fit."""
    mismatches = [mismatch for fitting in fittings for mismatch in fitting.difference.mismatches]
    difference = Difference(tuple(mismatches), sum(fitting.difference.repaired for fitting in fittings))
    for fitting in fittings:
        if not fitting.state and fitting.model.state_dict(keep_vars=True):
            raise CheckpointError(f"{where} has nothing that fits the model:\n{difference}{_advice(fitting)}")
    if strict and difference:
        raise CheckpointError(
            f"{where} does not fit the model:\n{difference}\nUse the model that it was saved from, or pass "
            "strict=False to load what fits and get the difference."
        )
    for fitting in fittings:
        fitting.apply()
    return replace(difference, loaded=sum(len(fitting.state) for fitting in fittings))


def require_state(state: Any, where: object) -> State:
    """A mapping of names to tensors (and a module's extra state), or an error that says what it is."""
    if not isinstance(state, Mapping) or not all(isinstance(name, str) for name in state):
        raise CheckpointError(f"{where} holds a {type(state).__name__}, not weights by name; save model.state_dict().")
    if state and not any(isinstance(value, Tensor) for value in state.values()):
        raise CheckpointError(f"{where} has {', '.join(list(state)[:8])} and no weights by name; save model.state_dict().")
    return state


def _advice(fitting: Fitting) -> str:
    """For weights that stand under a name, as those of one of several models do, or those of a part of a larger one."""
    ours = set(bare_names(fitting.model).values())
    for head in sorted({name.partition(".")[0] for name in fitting.difference.unexpected}):
        if any(name.removeprefix(f"{head}.") in ours for name in fitting.difference.unexpected):
            return f'\nFor the weights whose names begin with {head}., load into {{"{head}": model}}.'
    return ""
