"""`instep find-lr [FILE.py[:build]] [options…]`: a range test on what `build` describes; nothing is trained or written."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli import script
from instep.cli.target import parse_for_file, split_file

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


@dataclass(frozen=True)
class FindLrOptions:
    """How to look for a learning rate; nothing is trained, and nothing is written but what --save names."""

    lowest: float = 1e-7
    """The learning rate to begin with."""
    highest: float = 10.0
    """The learning rate to end with, unless the loss diverges before."""
    updates: int = 100
    """How many updates it takes from one to the other."""
    repeats: int = 2
    """How often that is done, each time on other batches."""
    linear: _Flag = False
    """Let the learning rate grow by equal amounts, not by equal factors."""
    save: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """Draw it into this file: .svg or .json."""
    json: _Flag = False
    """Print it as one JSON object on stdout, everything else on stderr."""


def run(arguments: Sequence[str]) -> int:
    """Test and print; returns the exit code: 1 where the curve allows no suggestion."""
    target, options = split_file(arguments, "find-lr")
    found = script.load(target) if target else script.recipe()
    given = parse_for_file(FindLrOptions, found, options, "find-lr", target)
    own: FindLrOptions = given.own
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        trainer = script.build_trainer(found, given.hyper_parameters)
        test = trainer.find_lr(
            low=own.lowest,
            high=own.highest,
            steps=own.updates,
            repeats=own.repeats,
            mode="linear" if own.linear else "exponential",
        )
    print(test.to_json() if own.json else test)
    if own.save is not None:
        print(f"\ndrawn into {test.save(own.save)}", file=sys.stderr if own.json else sys.stdout)
    return 0 if test.suggestion is not None else 1
