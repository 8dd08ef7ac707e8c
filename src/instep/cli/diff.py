"""`instep diff RUN RUN`: two runs side by side: descriptions, numbers, weights."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from instep.checkpoint import locate, read
from instep.cli import rebuild
from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.errors import CheckpointError
from instep.report import diff, weights
from instep.run.run_files import CHECKPOINTS, read_ends, read_run
from instep.text import Paint, fold_for, paint_for, terminal_width


@dataclass(frozen=True)
class DiffOptions:
    """Show how two runs differ: in their description, their numbers and their weights."""

    first: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run, like runs/digits."""
    second: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of another."""
    which: Annotated[str, tyro.conf.arg(metavar="best|latest|STEP")] = "latest"
    """The checkpoint of each whose weights are compared."""


def run(arguments: Sequence[str]) -> int:
    """Print it; returns the exit code."""
    own = parse(DiffOptions, arguments, prog="instep diff")
    first, second = (read_run(path, read=read_ends) for path in (own.first, own.second))
    width, paint = terminal_width(sys.stdout), paint_for(sys.stdout)
    print(diff.render(first, second, _weights(own, width, paint), width=width, paint=paint))
    return 0


def _weights(own: DiffOptions, width: int | None, paint: Paint) -> list[str]:
    """What can be said of the weights; a run without checkpoints is no reason to say nothing of the rest."""
    try:
        one, other = (_model(path, own.which) for path in (own.first, own.second))
    except (WrongUse, CheckpointError) as error:
        return [fold_for(sys.stdout, f"weights: not compared. {error}")]
    return weights.lines(one, other, (str(own.first), str(own.second)), width=width, paint=paint)


def _model(path: Path, which: str) -> dict[str, Any]:
    state: dict[str, Any] = read(locate(path / CHECKPOINTS, rebuild.find_step(path, which)), parts=["model"]).parts["model"]
    return state
