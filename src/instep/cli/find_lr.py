"""`instep find-lr [FILE.py[:build]] [options…]`: a range test on what `build` describes; nothing is trained or written."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli import script
from instep.cli.border import in_terminal
from instep.cli.target import parse_for_file, split_file
from instep.cli.words import words_of
from instep.tuning.sweep import Mode

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


@dataclass(frozen=True)
class FindLrOptions:
    """How to look for a learning rate; nothing is trained, and nothing is written but what --save names."""

    low: float = 1e-7
    """The learning rate to begin with."""
    high: float = 10.0
    """The learning rate to end with, unless the loss diverges before."""
    steps: int = 100
    """Updates from one to the other."""
    repeats: int = 2
    """How often the test is made, each time on other batches."""
    mode: Mode = "exponential"
    """Let the learning rate grow by equal factors, or (linear) by equal amounts."""
    save: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """Save the test to this file: .svg or .json; with matplotlib .png or .pdf."""
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
        with words_of(FindLrOptions):
            test = trainer.find_lr(low=own.low, high=own.high, steps=own.steps, repeats=own.repeats, mode=own.mode)
    print(test.to_json() if own.json else in_terminal(test))
    if own.save is not None:
        print(f"\ndrawn into {test.save(own.save)}", file=sys.stderr if own.json else sys.stdout)
    return 0 if test.suggestion is not None else 1
