"""`instep runs [FOLDER]`: the runs in a folder, one a line."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.options import parse
from instep.report.runs import render
from instep.text import paint_for, terminal_width


@dataclass(frozen=True)
class RunsOptions:
    """List the runs in a folder."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path("runs")
    """The folder to search, at any depth."""


def run(arguments: Sequence[str]) -> int:
    """Print them; returns the exit code."""
    folder = parse(RunsOptions, arguments, prog="instep runs").folder
    print(render(folder, width=terminal_width(sys.stdout), paint=paint_for(sys.stdout)))
    return 0
