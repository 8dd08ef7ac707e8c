"""`instep predict RUN DATA`: the outputs of a run's model for a file of inputs, in its order."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from instep.cli import arrays, given_data, rebuild
from instep.cli.options import parse
from instep.data.structure import size
from instep.report import predictions as report
from instep.report.classification import class_names
from instep.text import fold_for, paint_for, terminal_width


@dataclass(frozen=True)
class PredictOptions:
    """Predict with the weights of a run."""

    run: rebuild.Run
    """The folder of the run, like runs/digits."""
    data: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DATA")]
    """A file of inputs, one entry a sample: .npy, .npz, .safetensors or .pt; .csv or .parquet after training on a frame."""
    output: Annotated[
        Path | None, tyro.conf.arg(aliases=["-o"], metavar="FILE", help_behavior_hint="(default: a summary is printed)")
    ] = None
    """Where to write the predictions: .npy, .npz, .safetensors, .pt or .csv."""
    which: rebuild.Which = None
    """The checkpoint whose weights are used: that of the best evaluation, the latest, or that of a step."""
    weights: rebuild.Weights = None
    """Of a run with ema= or swa=: the model's own weights or the averaged ones."""
    file: rebuild.File = None
    """The file whose build() makes the Trainer, where it was moved since the run was trained."""


def run(arguments: Sequence[str]) -> int:
    """Predict, and write or print; returns the exit code."""
    own = parse(PredictOptions, arguments, prog="instep predict")
    if own.output is not None:
        arrays.require_writable(own.output)
    data = given_data.read(own.data)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = rebuild.rebuild(own.run, own.which, own.file, own.weights)
        example = rebuild.example_batch(found.trainer, 1)
        inputs = given_data.read_inputs(data, found, own.data, example)
        with given_data.explain_misfit(own.data, inputs, example):
            predictions = found.trainer.predict(inputs, weights=found.weights)
    classes = class_names(found.run.description)
    if own.output is None:
        width, paint = terminal_width(sys.stdout), paint_for(sys.stdout)
        head = paint(fold_for(sys.stdout, f"{found} on {own.data}"), "bold")
        print(f"{head}\n\n{report.render(predictions, classes, width=width, paint=paint)}")
    else:
        arrays.write(own.output, report.named(predictions), classes)
        print(fold_for(sys.stdout, f"wrote {own.output}: {size(predictions) or 0:,} predictions of {found}"))
    return 0
