"""`instep runs [FOLDER]`: the runs in a folder, one a line."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.options import parse
from instep.report.runs import render


@dataclass(frozen=True)
class RunsOptions:
    """List the runs in a folder."""

    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="[FOLDER]")] = Path("runs")
    """The folder to search, at any depth."""


def run(arguments: Sequence[str]) -> int:
    """Print them; returns the exit code."""
    print(render(parse(RunsOptions, arguments, prog="instep runs").folder))
    return 0
