"""`instep bench [FILE.py[:build]] [options…]`: the run beside the plain loop, and whether compiling pays; nothing is trained."""

import contextlib
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import torch
import tyro

from instep.cli import script
from instep.cli.border import WrongUse
from instep.cli.target import parse_for_file, split_file
from instep.cli.words import words_of
from instep.errors import Notice
from instep.trainer import Trainer
from instep.tuning.comparison import COMPILED, PLAIN, TRAINER, Comparison, Way, enough_updates, take_turns
from instep.tuning.plain_loop import left_out, plain_updates, require_plain_loop

NOTHING_BUT_UPDATES: dict[str, Any] = {
    "loggers": (),
    **{"epochs": None, "schedule": None, "unfreeze_at": None, "test": None, "metrics": None, "init": None},
    **{"evaluate_every": None, "monitor": None, "monitor_mode": "auto", "patience": None, "restore_best": False},
    **{"folder": None, "keep_best": 1, "allow_changes": (), "progress": False, "doctor": False},
}


@dataclass(frozen=True)
class BenchOptions:
    """How to compare the run with the plain loop; nothing is kept of the training."""

    updates: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: about 2 seconds)")] = None
    """How many updates to time, of the Trainer and of the plain loop each."""
    compile: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = True
    """Leave out whether compile=True pays; compiling may take a minute."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write all that was measured to this file, as JSON."""


def run(arguments: Sequence[str]) -> int:
    """Measure and print; returns the exit code."""
    target, options = split_file(arguments, "bench")
    found = script.load(target) if target else script.recipe()
    given = parse_for_file(BenchOptions, found, options, "bench", target)
    own: BenchOptions = given.own
    if own.updates is not None and own.updates < 1:
        raise WrongUse(f"--updates {own.updates} is no number of updates to time; use 1 or more.")
    if own.json is not None and not own.json.absolute().parent.is_dir():
        raise WrongUse(f"--json {own.json}: there is no folder {own.json.parent}; make it, or name another file.")
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        trainer = script.build_trainer(found, given.hyper_parameters)
        with words_of(BenchOptions):
            comparison = compare(trainer, updates=own.updates, compile=own.compile)
    print(comparison)
    if own.json is not None:
        own.json.write_text(json.dumps(comparison.as_json(), indent=2) + "\n", encoding="utf-8")
    return 0


def compare(trainer: Trainer, *, updates: int | None, compile: bool) -> Comparison:
    """The updates of a Trainer beside those of the plain loop; all of them train its one model."""
    require_plain_loop(trainer.run)
    device, plan, failed = trainer.device, trainer.run.plan, None
    with warnings.catch_warnings(), ExitStack() as open_loops:
        warnings.simplefilter("ignore", Notice)  # said when it was built
        plain = open_loops.enter_context(closing(plain_updates(bare(trainer, 1).run)))
        updates = enough_updates(plain, device) if updates is None else updates
        own = bare(trainer, updates + 2)  # two warm up
        ways = {PLAIN: Way(plain, device), TRAINER: Way(open_loops.enter_context(closing(own.updates())), device)}
        if compile:
            try:
                compiled = bare(trainer, updates + 2, compile=True).updates()
                ways[COMPILED] = Way(open_loops.enter_context(closing(compiled)), device)
            except Exception as error:  # of whichever compiler torch uses
                failed = _first_line(error)
        take_turns(list(ways.values()), updates)
        return Comparison(
            batch_size=trainer.batch_size,
            threads=torch.get_num_threads(),
            device=str(device),
            updates=updates,
            total_steps=trainer.total_steps,
            timings={name: way.timing() for name, way in ways.items()},
            compilations=1 if plan.drop_last or plan.last_batch == plan.batch_size else 2,
            compile_failed=failed,
            waiting=own.run.loader.waited_s / ways[TRAINER].total_s,
            left_out=tuple(left_out(trainer.run)),
        )


def bare(trainer: Trainer, steps: int, **changes: Any) -> Trainer:
    """The same run for so many updates, and nothing but updates: no folder, evaluation, schedule, progress or doctor."""
    given = trainer.run.options
    optimizer = {trainer.run.leader.name: trainer.optimizer} if isinstance(given.optimizer, Mapping) else trainer.optimizer
    asked = {"optimizer": optimizer, "max_steps": steps, "compile": False, **changes}
    return Trainer(**{**vars(given), **NOTHING_BUT_UPDATES, **asked})


def _first_line(error: Exception) -> str:
    return next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
