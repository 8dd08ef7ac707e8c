"""`instep graph [FILE.py[:build]] [options…]`: the autograd graph of the first batch. Nothing is trained."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli import script
from instep.cli.border import WrongUse
from instep.cli.target import parse_for_file, split_file
from instep.errors import DescriptionError
from instep.report.graph.drawing import MADE_BY
from instep.report.graph.graph import form_of, graph
from instep.text import PROSE, size, terminal_width, wants_colour

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


@dataclass(frozen=True)
class GraphOptions:
    """Look at the autograd graph of a loss; nothing is trained, and nothing is written but what --output names."""

    output: Annotated[
        Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE", help_behavior_hint="(default: the terminal)")
    ] = None
    """Write the graph to a file: .html, .svg, .dot or .mmd."""
    diff: _Flag = False
    """Show how control flow changed the graph between the first batch and the second."""
    depth: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: all)")] = None
    """How many levels of modules the terminal shows."""
    objective: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: the first)")] = None
    """Which objective, where there are several."""
    open: _Flag = False
    """Open the file in a browser."""


def run(arguments: Sequence[str]) -> int:
    """Look, print or write; returns the exit code."""
    target, options = split_file(arguments, "graph")
    found = script.load(target) if target else script.recipe()
    given = parse_for_file(GraphOptions, found, options, "graph", target)
    own = given.own
    _check(own)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        trainer = script.build_trainer(found, given.hyper_parameters)
        try:
            shown = graph(trainer, objective=own.objective)
            if own.diff:
                shown = shown.diff(graph(trainer, batch=1, objective=own.objective))
        except DescriptionError as error:
            raise WrongUse(str(error)) from error
    if own.output is None:
        print(shown.tree(width=min(terminal_width(sys.stdout) or 80, PROSE), depth=own.depth, colour=wants_colour(sys.stdout)))
        return 0
    try:
        shown.save(own.output)
    except OSError as error:
        raise WrongUse(f"{own.output} cannot be written: {error.strerror}.") from None
    print(f"graph: {own.output} ({size(own.output.stat().st_size)})")
    if own.open:
        import webbrowser

        webbrowser.open(own.output.resolve().as_uri())
    return 0


def _check(own: GraphOptions) -> None:
    """Before anything is built."""
    if own.depth is not None and own.depth < 1:
        raise WrongUse(f"--depth {own.depth} shows nothing; use 1 or more.")
    if own.open and own.output is None:
        raise WrongUse("--open needs a file to open: -o graph.html --open")
    if own.output is None:
        return
    try:
        form_of(own.output)
    except DescriptionError as error:
        raise WrongUse(str(error)) from None
    if own.output.exists() and MADE_BY.encode() not in own.output.read_bytes()[:300]:
        raise WrongUse(f"{own.output} exists and was not made by instep graph; name another file with -o.")
