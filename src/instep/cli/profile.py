"""`instep profile [FILE.py[:build]] [options…]`: where an update's time and memory go, and what would make it faster."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli import script
from instep.cli.bench import bare
from instep.cli.border import WrongUse
from instep.cli.target import parse_for_file, split_file
from instep.cli.words import words_of
from instep.text import PROSE, paint_for, terminal_width
from instep.tuning.profile import profile
from instep.tuning.profile_text import render

_Switch = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


@dataclass(frozen=True)
class ProfileOptions:
    """How to measure; nothing is kept of the training, and nothing is written but the trace."""

    updates: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: about 2 seconds)")] = None
    """How many updates to time."""
    trace: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: <file>-trace.json.gz)")] = None
    """Where to write the trace, .json or .json.gz."""
    no_trace: _Switch = False
    """Write no trace."""
    advice: _Switch = True
    """Leave out what would make it faster; only look where the time goes."""
    compile: _Switch = True
    """Leave out whether compile=True pays; compiling may take a minute."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write all that was measured to this file, as JSON."""


def run(arguments: Sequence[str]) -> int:
    """Measure and print; returns the exit code."""
    target, options = split_file(arguments, "profile")
    found = script.load(target) if target else script.recipe()
    given = parse_for_file(ProfileOptions, found, options, "profile", target)
    own: ProfileOptions = given.own
    trace = None if own.no_trace else own.trace or Path(f"{found.title}-trace.json.gz")
    _require_possible(own, trace)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        trainer = script.build_trainer(found, given.hyper_parameters)
        with words_of(ProfileOptions):
            measured = profile(
                trainer.run,
                lambda steps, **changes: bare(trainer, steps, **{"compile": trainer.run.options.compile, **changes}),
                updates=own.updates,
                trace=trace,
                compile=own.compile,
                advice=own.advice,
            )
    print(render(measured, width=min(terminal_width(sys.stdout) or 80, PROSE), paint=paint_for(sys.stdout)))
    if own.json is not None:
        own.json.write_text(json.dumps(measured.as_json(), indent=2) + "\n", encoding="utf-8")
    return 0


def _require_possible(own: ProfileOptions, trace: Path | None) -> None:
    if own.updates is not None and own.updates < 1:
        raise WrongUse(f"--updates {own.updates} is no number of updates to time; use 1 or more.")
    if own.no_trace and own.trace is not None:
        raise WrongUse("--trace and --no-trace say the opposite; leave one out.")
    for name, path in (("trace", trace), ("json", own.json)):
        if path is not None and not path.absolute().parent.is_dir():
            raise WrongUse(f"--{name} {path}: there is no folder {path.parent}; make it, or name another file.")
    if trace is not None and not trace.name.endswith((".json", ".json.gz")):
        raise WrongUse(f"--trace {trace} ends in {trace.suffix or 'nothing'}; use .json or .json.gz.")
