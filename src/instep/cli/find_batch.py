"""`instep find-batch [FILE.py[:build]] [options…]`: the largest micro-batch that fits; nothing is trained or written."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from instep.cli import script
from instep.cli.border import WrongUse, in_terminal
from instep.cli.target import parse_for_file, split_file
from instep.cli.words import words_of

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]

UNITS = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "b": 1.0}


@dataclass(frozen=True)
class FindBatchOptions:
    """How to look for the largest micro-batch; nothing is trained or written."""

    memory_bytes: Annotated[str | None, tyro.conf.arg(metavar="SIZE", help_behavior_hint="(default: what is free)")] = None
    """On a CPU, the memory that the whole process may use, like 8GB."""
    margin: float = 0.1
    """The share of the memory that is left free."""
    most: Annotated[int | None, tyro.conf.arg(metavar="SAMPLES", help_behavior_hint="(default: all training samples)")] = None
    """The largest micro-batch to look at."""
    paces: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = True
    """Leave out how fast each size is."""
    json: _Flag = False
    """Print it as one JSON object on stdout, everything else on stderr."""


def run(arguments: Sequence[str]) -> int:
    """Search and print; returns the exit code: 1 where nothing fits."""
    target, options = split_file(arguments, "find-batch")
    found = script.load(target) if target else script.recipe()
    given = parse_for_file(FindBatchOptions, found, options, "find-batch", target)
    own: FindBatchOptions = given.own
    memory_bytes = None if own.memory_bytes is None else in_bytes(own.memory_bytes)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        trainer = script.build_trainer(found, given.hyper_parameters)
        with words_of(FindBatchOptions):
            search = trainer.find_batch_size(memory_bytes=memory_bytes, margin=own.margin, most=own.most, paces=own.paces)
    print(search.to_json() if own.json else in_terminal(search))
    return 0 if search.largest else 1


def in_bytes(size: str) -> float:
    """A size as people write it, in bytes: 8GB, 500 MB, 8e9."""
    text = size.strip().lower().replace(" ", "")
    unit = next((unit for unit in UNITS if text.endswith(unit)), "")
    try:
        return float(text.removesuffix(unit)) * UNITS.get(unit, 1.0)
    except ValueError:
        raise WrongUse(f"--memory-bytes {size} is no size; write it like 8GB, 500MB or 8e9.") from None
