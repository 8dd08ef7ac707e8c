"""A loop of people's own that is saved and resumed: what it trains, and which generator a broken one has forgotten."""

import io
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from instep import keys
from instep.errors import DescriptionError
from instep.proof.record import apart, flatten, same
from instep.proof.result import Cause, Row

Made = tuple[Callable[[int], Any], Mapping[str, Any]]
FIRST, NEW = 0, 1  # seeds of the process that stops, and of the one that goes on
GENERATORS: dict[str, tuple[Callable[[], Any], Callable[[Any], object]]] = {
    "torch": (torch.get_rng_state, torch.set_rng_state),
    "NumPy": (np.random.get_state, np.random.set_state),
    "Python's random": (random.getstate, random.setstate),
}
SAVE = {"torch": "torch.get_rng_state()", "NumPy": "np.random.get_state()", "Python's random": "random.getstate()"}


@dataclass
class Loop:
    """What a loop left: the losses by update, its state in the end, and what was in hand where it stopped."""

    losses: dict[int, Any] = field(default_factory=dict)
    state: dict[str, Any] = field(default_factory=dict)
    saved: bytes = b""
    generators: dict[str, Any] = field(default_factory=dict)


def train_on(
    make: Callable[[], Made],
    steps: int,
    *,
    until: int | None = None,
    after: Loop | None = None,
    restored: tuple[str, ...] = (),
    start: int = 0,
) -> Loop:
    """A new loop, to its end or `until` an update; `after` another one, whose state it loads first.

    `restored` are generators that go on where that one's stopped; the others stand where those of a new process stand.
    """
    keys.seed_all(keys.for_build(FIRST if after is None else NEW))
    step, state = _made(make)
    loop = Loop()
    if after is not None:
        _load(state, after.saved)
        for name in restored:
            GENERATORS[name][1](after.generators[name])
    for number in range(start, steps if until is None else until):
        loss = step(number)
        loop.losses[number] = loss.detach().clone() if isinstance(loss, Tensor) else loss
    loop.state = _state(state)
    loop.saved = _save(state)
    loop.generators = {name: get() for name, (get, _) in GENERATORS.items()}
    return loop


def resume_row(make: Callable[[], Made], steps: int, place: int, straight: Loop) -> Row:
    """The row of one place where the loop stops."""
    words = f"saved after update {place}, resumed"
    begun = train_on(make, steps, until=place)
    again = train_on(make, steps)
    if _first_difference(straight, again) is not None:
        cause = Cause(
            "unsteady-loop",
            "the same loop made twice with the same seeds gives something else, without any resuming.",
            "make() has to set everything up anew: the model, the optimizer, the data, and what they share.",
        )
        return Row("resume", words, "differs", _size(straight, again), "The loop does not repeat itself.", (cause,))
    resumed = train_on(make, steps, after=begun, start=place)
    found = _first_difference(straight, resumed)
    if found is None:
        return Row(
            "resume", words, "bitwise", meaning="weights, losses and all that is saved are those of the loop that never stopped."
        )
    causes = _causes(make, steps, place, straight, begun, found)
    return Row("resume", words, "differs", _size(straight, resumed), f"First to differ: {found}.", tuple(causes))


def _causes(make: Callable[[], Made], steps: int, place: int, straight: Loop, begun: Loop, found: str) -> list[Cause]:
    """The generators whose state was forgotten: with them put back, the loop goes on as it was."""
    every = tuple(GENERATORS)
    if _first_difference(straight, train_on(make, steps, after=begun, start=place, restored=every)) is not None:
        return [
            Cause(
                "unsaved-state",
                f"{found} differs although all that `state` holds was loaded, and the generators stood where they had stood.",
                "put into `state` what the loop still needs: the optimizer, the scheduler, the GradScaler, the position in the "
                "data, counters. Or make it a function of the update, as Instep does (instep.keys, instep.data.Order).",
            )
        ]
    needed = [
        name
        for name in every
        if _first_difference(
            straight,
            train_on(make, steps, after=begun, start=place, restored=tuple(other for other in every if other != name)),
        )
        is not None
    ]
    saving = ", ".join(SAVE[name] for name in needed)
    return [
        Cause(
            "unsaved-generator",
            f"the generator of {' and '.join(needed) or 'the process'} starts anew; put back where it stood, the loop goes on as "
            "it was.",
            f"save {saving or 'it'} and set it when you load, or key each update: keys.seed_all(keys.for_step(seed, i)).",
        )
    ]


def _made(make: Callable[[], Made]) -> Made:
    made = make()
    if not isinstance(made, tuple) or len(made) != 2 or not callable(made[0]) or not isinstance(made[1], Mapping):
        raise DescriptionError(f"make() gave {type(made).__name__}; it has to give (step, state): a function and a mapping.")
    for name, thing in made[1].items():
        if not hasattr(thing, "state_dict") or not hasattr(thing, "load_state_dict"):
            raise DescriptionError(f"state[{name!r}] is a {type(thing).__name__}, which has no state_dict() to save.")
    return made


def _save(state: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    torch.save({name: thing.state_dict() for name, thing in state.items()}, file)
    return file.getvalue()


def _load(state: Mapping[str, Any], saved: bytes) -> None:
    loaded = torch.load(io.BytesIO(saved), weights_only=False)
    for name, thing in state.items():
        thing.load_state_dict(loaded[name])


def _state(state: Mapping[str, Any]) -> dict[str, Any]:
    return flatten({name: thing.state_dict() for name, thing in state.items()})


def _first_difference(one: Loop, other: Loop) -> str | None:
    """What differs first; of losses only those that both have."""
    for number, loss in other.losses.items():
        if not same(one.losses.get(number), loss):
            return f"the loss of update {number}"
    for name, value in one.state.items():
        if not same(value, other.state.get(name)):
            return name
    return None


def _size(one: Loop, other: Loop) -> float:
    pairs = [(value, other.state.get(name)) for name, value in one.state.items() if isinstance(value, Tensor)]
    gaps = [apart(a, b) for a, b in pairs if a.is_floating_point()]
    return max(gaps, default=0.0)
