"""`instep evaluate RUN`: the loss and the metrics of a run's weights on its validation data."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from instep.cli import rebuild
from instep.cli.border import YELLOW, say
from instep.cli.options import parse
from instep.optim.which_weights import Weights as Kind
from instep.report import evaluation as report
from instep.report.classification import class_names
from instep.text import paint_for, terminal_width


@dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate the weights of a run on the validation data that its file describes.

    Where the model classifies, a report of each class and a confusion matrix follow the numbers."""

    run: rebuild.Run
    """The folder of the run, like runs/digits."""
    which: rebuild.Which = None
    """The checkpoint whose weights are used: that of the best evaluation, the latest, or that of a step."""
    weights: Annotated[
        Kind | None, tyro.conf.arg(metavar="model|ema|swa", help_behavior_hint="(default: all kinds, by name)")
    ] = None
    """Of a run with ema= or swa=: the numbers of the model's own weights or of the averaged ones."""
    test: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False
    """Evaluate the test data that the file describes, in place of the validation data."""
    file: rebuild.File = None
    """The file whose build() makes the Trainer, where it was moved since the run was trained."""
    json: Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")] = False
    """Print the numbers as one JSON object on stdout, everything else on stderr."""


def run(arguments: Sequence[str]) -> int:
    """Evaluate and print; returns the exit code."""
    own = parse(EvaluateOptions, arguments, prog="instep evaluate")
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = rebuild.rebuild(own.run, own.which, own.file, "model")
        evaluation = found.trainer.evaluate("test" if own.test else None, weights=own.weights, report=True)
    classes = class_names(found.run.description)
    print(
        json.dumps(report.as_json(evaluation, classes, run=str(own.run), step=found.step))
        if own.json
        else report.render(evaluation, str(found), classes, width=terminal_width(sys.stdout), paint=paint_for(sys.stdout))
    )
    recorded = [row for row in found.run.history.evaluations if row["step"] == found.step]
    if recorded and (table := report.compared(evaluation, recorded[-1])):
        say("the run recorded other numbers at this step; have the data, the file or the versions changed?", YELLOW, who="note")
        print("\n".join(table), file=sys.stderr)
    return 0
