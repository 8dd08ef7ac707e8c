"""What a command left, and a file for it to train."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Said:
    """The exit code of a command and what it wrote."""

    code: int
    out: str
    err: str


class Instep(Protocol):
    """The command, called in this process."""

    def __call__(self, *arguments: str) -> Said: ...


BUILD = '''\
import torch
from torch import nn

from instep.trainer import Trainer


def build(lr: float = 0.1, epochs: int = 2, deep: bool = False, seed: int = 0) -> Trainer:
    """A line through noise.

    Args:
        lr: How far an update goes.
        deep: Whether there is a second layer.
    """
    x, y = torch.randn(20, 4), torch.randint(3, (20,))
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 3)) if deep else nn.Linear(4, 3)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=lr),
        train=(x, y),
        valid=0.2,
        epochs=epochs,
        batch_size=8,
        metrics="accuracy",
        seed=seed,
    )
'''
