"""`instep diff RUN RUN`: two runs side by side: descriptions, numbers, weights; or where they part."""

import contextlib
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
from instep.errors import CheckpointError, DescriptionError
from instep.report import diff, weights
from instep.run.run_files import CHECKPOINTS, read_ends, read_run
from instep.text import PROSE, Paint, fold_for, paint_for, terminal_width
from instep.trainer import Trainer


@dataclass(frozen=True)
class DiffOptions:
    """Show how two runs differ: in their description, their numbers and their weights."""

    first: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of a run, like runs/digits."""
    second: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of another."""
    which: Annotated[str, tyro.conf.arg(metavar="best|latest|STEP")] = "latest"
    """The checkpoint of each whose weights are compared."""
    diverge: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False
    """Find the first step at which they part, and what parts them: by their files, then by replaying both."""
    file: rebuild.File = None
    """With --diverge: the file whose build() makes the Trainer of both, where it was moved since they were trained."""


def run(arguments: Sequence[str]) -> int:
    """Print it; returns the exit code."""
    own = parse(DiffOptions, arguments, prog="instep diff")
    if own.diverge:
        return _diverge(own)
    if own.file is not None:
        raise WrongUse("--file goes with --diverge, which builds both runs again.")
    first, second = (read_run(path, read=read_ends) for path in (own.first, own.second))
    width, paint = terminal_width(sys.stdout), paint_for(sys.stdout)
    print(diff.render(first, second, _weights(own, width, paint), width=width, paint=paint))
    return 0


def _diverge(own: DiffOptions) -> int:
    from instep.proof.diverge import find_divergence

    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = find_divergence(own.first, own.second, lambda path: _build_again(path, own.file))
    width = terminal_width(sys.stdout)
    print(found.text(width=None if width is None else min(width, PROSE), paint=paint_for(sys.stdout)))
    return 0


def _build_again(path: Path, file: str | None) -> Trainer:
    try:
        return rebuild.build_again(path, file)
    except WrongUse as error:  # what the files tell is no less true
        raise DescriptionError(str(error)) from error


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
