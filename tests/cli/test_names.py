"""One name for one thing: what a command and a method of the Trainer both take has one name and one default."""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from typing import Any

import pytest

from instep.cli import diff, evaluate, find_batch, find_lr, preview
from instep.report.preview import Previewed
from instep.run.options import Options
from instep.trainer import Trainer
from instep.tuning.range_test import RangeTest

TERMINAL = {"json", "save", "run", "file", "first", "second"}  # what a command reads and writes, which no method has


@pytest.mark.parametrize(
    ("own", "method"),
    [(find_lr.FindLrOptions, Trainer.find_lr), (find_batch.FindBatchOptions, Trainer.find_batch_size)],
    ids=["find-lr", "find-batch"],
)
def test_options_are_parameters(own: type, method: Callable[..., Any]) -> None:
    parameters = inspect.signature(method).parameters
    options = {field.name: field.default for field in fields(own) if field.name not in TERMINAL}
    assert options
    assert options == {name: parameters[name].default for name in options}


def test_files_are_saved_and_checkpoints_chosen_by_the_names_of_methods() -> None:
    assert all("save" in {field.name for field in fields(own)} for own in (find_lr.FindLrOptions, preview.PreviewOptions))
    assert callable(RangeTest.save)
    assert callable(Previewed.save)
    assert all("which" in {field.name for field in fields(own)} for own in (diff.DiffOptions, evaluate.EvaluateOptions))
    assert "which" in inspect.signature(Trainer.load).parameters


def test_train_calls_arguments_of_the_trainer_as_the_trainer_does() -> None:
    from instep.cli.train import TrainOptions

    own, arguments = {field.name for field in fields(TrainOptions)}, {field.name: field.default for field in fields(Options)}
    assert {"folder", "progress", "allow_changes"} == own & arguments.keys()
    assert all(arguments[name] is not MISSING for name in own & arguments.keys())
