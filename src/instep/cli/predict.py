"""`instep predict RUN DATA`: the outputs of a run's model for a file of inputs, in its order."""

import contextlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from torch import Tensor

from instep.cli import arrays, rebuild, tables
from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.data.inputs import inputs_of
from instep.data.structure import columns, map_columns, size
from instep.errors import InstepError
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
    data = tables.read(own.data) if tables.is_table(own.data) else arrays.read(own.data)
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = rebuild.rebuild(own.run, own.which, own.file, own.weights)
        example = rebuild.example_batch(found.trainer, 1)
        if tables.is_table(own.data):
            data = tables.inputs_of(data, found.run.description, own.data)
        inputs = _inputs(data, example, own.data)
        try:
            predictions = found.trainer.predict(inputs, weights=found.weights)
        except Exception as error:
            said = f"{own.data} does not go through the model: {_forms(inputs)}; it was trained on {_forms(example)}."
            raise WrongUse(said) from (None if isinstance(error, InstepError) else error)
    classes = class_names(found.run.description)
    if own.output is None:
        width, paint = terminal_width(sys.stdout), paint_for(sys.stdout)
        head = paint(fold_for(sys.stdout, f"{found} on {own.data}"), "bold")
        print(f"{head}\n\n{report.render(predictions, classes, width=width, paint=paint)}")
    else:
        arrays.write(own.output, report.named(predictions), classes)
        print(fold_for(sys.stdout, f"wrote {own.output}: {size(predictions) or 0:,} predictions of {found}"))
    return 0


def _inputs(data: Any, example: Any, path: Path) -> Any:
    """The data as the model takes it: by name where it was trained so, else the one input; in the training's precision."""
    if isinstance(data, Mapping) and not isinstance(inputs_of(example), Mapping):
        data = _only(data, path)
    wanted = [column.dtype for column in columns(example) if _is_float(column)]
    return map_columns(lambda column: column.to(wanted[0]) if wanted and _is_float(column) else column, data)


def _is_float(column: Any) -> bool:
    return isinstance(column, Tensor) and column.is_floating_point()


def _only(data: Mapping[str, Any], path: Path) -> Any:
    """Of several arrays the one that is the input."""
    if len(data) == 1:
        return next(iter(data.values()))
    likely = [name for name in ("x", "input", "inputs") if name in data]
    if not likely:
        raise WrongUse(f"{path} has {', '.join(data)}, and the model takes one input; call it x, or leave the others out.")
    return data[likely[0]]


def _forms(batch: Any) -> str:
    told = [f"{str(c.dtype).removeprefix('torch.')} {tuple(c.shape[1:])}" for c in columns(batch) if isinstance(c, Tensor)]
    return f"samples of {', '.join(told)}" if told else type(batch).__name__
