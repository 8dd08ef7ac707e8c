"""Generators of a user's own: where one stands, as values that a checkpoint can keep, and the same place back."""

import copy
import random
from typing import Any

import numpy as np
import torch

from instep.records import GeneratorState

Generator = torch.Generator | random.Random | np.random.RandomState | np.random.Generator
GENERATORS = (torch.Generator, random.Random, np.random.RandomState, np.random.Generator)

_BIT_GENERATORS: dict[str, Any] = {
    kind.__name__: kind for kind in (np.random.PCG64, np.random.PCG64DXSM, np.random.MT19937, np.random.Philox, np.random.SFC64)
}


def read_generator(generator: Generator) -> GeneratorState:
    """Where it stands; a copy."""
    if isinstance(generator, torch.Generator):
        return GeneratorState("torch", generator.get_state())
    if isinstance(generator, random.Random):
        return GeneratorState("python", generator.getstate())
    if isinstance(generator, np.random.RandomState):
        return GeneratorState("numpy", copy.deepcopy(generator.get_state(legacy=False)))
    return GeneratorState("numpy", copy.deepcopy(generator.bit_generator.state))


def write_generator(generator: Generator, state: GeneratorState) -> None:
    """Let it go on from there. Raises ValueError, TypeError or RuntimeError for the state of another kind."""
    content: Any = state.content
    if isinstance(generator, torch.Generator):
        generator.set_state(content)
    elif isinstance(generator, random.Random):
        generator.setstate(content)
    elif isinstance(generator, np.random.RandomState):
        generator.set_state(content)
    else:
        generator.bit_generator.state = content


def make_generator(state: GeneratorState) -> Generator:
    """One that stands there, for a place where none was made yet."""
    made: Generator
    if state.kind == "torch":
        made = torch.Generator()
    elif state.kind == "python":
        made = random.Random()
    elif "has_gauss" in state.content:
        made = np.random.RandomState()
    else:
        made = np.random.Generator(_BIT_GENERATORS[state.content["bit_generator"]]())
    write_generator(made, state)
    return made


def same_place(one: GeneratorState, other: GeneratorState) -> bool:
    return one.kind == other.kind and _same(one.content, other.content)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, dict):
        return isinstance(other, dict) and one.keys() == other.keys() and all(_same(one[key], other[key]) for key in one)
    if isinstance(one, torch.Tensor):
        return torch.equal(one, other)
    return np.array_equal(one, other) if isinstance(one, np.ndarray) else bool(one == other)
