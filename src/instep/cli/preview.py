"""`instep preview [FILE.py[:build]] [options…]`: what the model will really see, after all transforms. Nothing is trained."""

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
from instep.report.preview import preview


@dataclass(frozen=True)
class PreviewOptions:
    """Look at the data as the model gets it; nothing is trained, and nothing is written but what --save names."""

    save: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="")] = None
    """Write the images to this PNG file."""


def run(arguments: Sequence[str]) -> int:
    """Look and print; returns the exit code."""
    target, options = split_file(arguments, "preview")
    found = script.load(target) if target else script.recipe()
    given = parse_for_file(PreviewOptions, found, options, "preview", target)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        shown = preview(script.build_trainer(found, given.hyper_parameters))
    print(in_terminal(shown))
    if given.own.save is not None:
        print(f"\nthe images are in {shown.save(given.own.save)}")
    return 0
