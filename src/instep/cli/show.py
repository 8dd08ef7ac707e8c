"""`instep show RUN`: one run as text."""

import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.options import parse
from instep.report.show import render


@dataclass(frozen=True)
class ShowOptions:
    """Show one run: how it went, its curves, its best numbers."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of the run, like runs/digits."""


def run(arguments: Sequence[str]) -> int:
    """Print it; returns the exit code."""
    asked = parse(ShowOptions, arguments, prog="instep show")
    print(render(asked.run, width=min(shutil.get_terminal_size().columns, 120)))
    return 0
