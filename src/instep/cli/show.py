"""`instep show RUN`: one run as text, and as a picture."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.report.show import render
from instep.text import paint_for, terminal_width


@dataclass(frozen=True)
class ShowOptions:
    """Show one run: how it went, its curves, its best numbers."""

    run: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="RUN")]
    """The folder of the run, like runs/digits."""
    plot: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False
    """Draw its curves into a picture, with matplotlib."""
    output: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"], metavar="FILE", help_behavior_hint="(default: RUN/curves.png)"),
    ] = None
    """The picture of --plot: .png, .svg or .pdf."""


def run(arguments: Sequence[str]) -> int:
    """Print it; returns the exit code."""
    asked = parse(ShowOptions, arguments, prog="instep show")
    if asked.output is not None and not asked.plot:
        raise WrongUse(f"-o {asked.output} is the picture of --plot: instep show {asked.run} --plot -o {asked.output}")
    picture = _draw(asked.run, asked.output or asked.run / "curves.png") if asked.plot else None
    room = terminal_width(sys.stdout)
    print(render(asked.run, width=room or 80, table_width=room, paint=paint_for(sys.stdout)))
    if picture is not None:
        print(f"\npicture: {picture}")
    return 0


def _draw(run: Path, picture: Path) -> Path:
    """Write the picture of a run; returns its path."""
    from instep.drawing.figure import save
    from instep.run.history.charts import charts
    from instep.run.run_files import read_run

    drawn = charts(read_run(run).history)
    if not drawn:
        raise WrongUse(f"{run} has nothing to draw yet: no line of the log, and no evaluation.")
    try:
        return save(drawn, picture, "instep show --plot")
    except OSError as error:
        raise WrongUse(f"{picture} cannot be written: {error.strerror}.") from None
