"""`instep show RUN`: one run as text."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.options import parse
from instep.report.show import render
from instep.text import paint_for, terminal_width


@dataclass(frozen=True)
class ShowOptions:
    """Show one run: how it went, its curves, its best numbers."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of the run, like runs/digits."""


def run(arguments: Sequence[str]) -> int:
    """Print it; returns the exit code."""
    asked = parse(ShowOptions, arguments, prog="instep show")
    room = terminal_width(sys.stdout)
    print(render(asked.run, width=room or 80, table_width=room, paint=paint_for(sys.stdout)))
    return 0
