"""`instep replay RUN --step N`: a run at one of its steps: the batch, the loss, the parameters, what is not finite."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from instep.cli import rebuild
from instep.cli.border import WrongUse, in_terminal
from instep.cli.options import parse
from instep.cli.words import words_of
from instep.proof.replay import Replay, replay

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class ReplayOptions:
    """Go back to any step of a run: its updates are made again from the newest checkpoint at or before that step.

    Nothing is written into the run, which may be training still."""

    run: rebuild.Run
    """The folder of the run, like runs/digits."""
    step: Annotated[int, tyro.conf.arg(metavar="N")]
    """The update to look at; the first is 0."""
    to: Annotated[int | None, tyro.conf.arg(metavar="M", help_behavior_hint="(default: the same step)")] = None
    """Look at the updates up to this one."""
    anomaly: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Find the operation that made a value that is not finite, with your line; also in an update before N."""
    shell: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Open a Python prompt there, with model, batch, loss, optimizer, update (IPython where it is installed)."""
    file: rebuild.File = None
    """The file whose build() makes the Trainer, where it was moved since the run was trained."""


def run(arguments: Sequence[str]) -> int:
    """Replay and print; returns the exit code."""
    own = parse(ReplayOptions, arguments, prog="instep replay")
    if own.shell and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise WrongUse("--shell opens a prompt, and needs a terminal for it.")
    found = _replay(own)
    print(in_terminal(found))
    if own.shell:
        from instep.proof.replay_shell import open_shell

        print(flush=True)
        open_shell(found)
    return 0


def _replay(own: ReplayOptions) -> Replay:
    with contextlib.redirect_stdout(sys.stderr), words_of(ReplayOptions):  # what the user's file prints
        trainer = rebuild.build_again(own.run, own.file)
        return replay(own.run, trainer, step=own.step, to=own.to, anomaly=own.anomaly)
