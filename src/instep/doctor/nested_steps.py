"""Whether a step of an optimizer goes on inside another step of the same one.

A class of the user's that calls `super().step()` has two steps where an optimizer of the base class was made before: torch wraps
`step` of each class that it has seen, and both wrappers call the hooks.
"""

import sys
from types import FrameType

from torch.optim import Optimizer
from torch.optim import optimizer as module

WRAPPER = module.__file__


def is_within_own_step(optimizer: Optimizer) -> bool:
    """Asked in a hook of the inner step: by the frames of torch's wrappers, since a step that has raised leaves none behind."""
    frame: FrameType | None = sys._getframe(1)
    steps = 0
    while frame is not None and steps < 2:
        code = frame.f_code
        if code.co_name == "wrapper" and code.co_filename == WRAPPER and frame.f_locals.get("self") is optimizer:
            steps += 1
        frame = frame.f_back
    return steps > 1
