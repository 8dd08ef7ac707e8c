"""`instep evaluate RUN [DATA]`: the loss and the metrics of a run's weights, on its validation data or on new samples."""

import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from instep.cli import given_data, rebuild
from instep.cli.border import YELLOW, WrongUse, say
from instep.cli.options import parse
from instep.optim.which_weights import Weights as Kind
from instep.records import Evaluation
from instep.report import evaluation as report
from instep.report.classification import class_names
from instep.text import paint_for, terminal_width


@dataclass(frozen=True)
class EvaluateOptions:
    """Evaluate the weights of a run on the validation data that its file describes, or on new samples.

    Where the model classifies, a report of each class and a confusion matrix follow the numbers."""

    run: rebuild.Run
    """The folder of the run, like runs/digits."""
    data: Annotated[
        Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="[DATA]", help_behavior_hint="(default: the validation data)")
    ] = None
    """New samples with their targets: .csv or .parquet after training on a frame, else x and y in .npz, .safetensors or .pt."""
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
    if own.data is not None and own.test:
        raise WrongUse(f"evaluate either {own.data} or --test, the test data of the file; leave one out.")
    data = None if own.data is None else given_data.read(own.data)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = rebuild.rebuild(own.run, own.which, own.file, "model")
        if own.data is None:
            evaluation = found.trainer.evaluate("test" if own.test else None, weights=own.weights, report=True)
        else:
            evaluation = _evaluate_file(found, own.data, data, own.weights)
    classes, where = class_names(found.run.description), str(found) if own.data is None else f"{found} on {own.data}"
    print(
        json.dumps(report.as_json(evaluation, classes, run=str(own.run), step=found.step))
        if own.json
        else report.render(evaluation, where, classes, width=terminal_width(sys.stdout), paint=paint_for(sys.stdout))
    )
    recorded = [row for row in found.run.history.evaluations if row["step"] == found.step and own.data is None]
    if recorded and (table := report.compared(evaluation, recorded[-1])):
        say("the run recorded other numbers at this step; have the data, the file or the versions changed?", YELLOW, who="note")
        print("\n".join(table), file=sys.stderr)
    return 0


def _evaluate_file(found: rebuild.RebuiltRun, path: Path, data: Any, weights: Kind | None) -> Evaluation:
    """The numbers are called after the file: rows/loss for rows.csv; with its ending where the data has an entry of that name."""
    example = rebuild.example_batch(found.trainer, 1)
    samples = given_data.read_samples(data, found, path, example)
    name = path.name if isinstance(data, Mapping) and path.stem in data else path.stem
    with given_data.explain_misfit(path, samples, example):
        return found.trainer.evaluate({name: samples}, weights=weights, report=True)
