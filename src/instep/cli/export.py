"""`instep export RUN`: a run's model as a `.pt2`, which runs without the code that it was trained with, or as Hugging Face's."""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from instep.cli import rebuild
from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.text import fold_for


@dataclass(frozen=True)
class ExportOptions:
    """Export the model of a run: with torch.export, so that it runs where its class is not known, on batches of any size; or
    with save_pretrained, with its tokenizer, for from_pretrained of Hugging Face."""

    run: rebuild.Run
    """The folder of the run, like runs/digits."""
    place: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE.pt2|DIR")] = None
    """Where to write it, as with -o."""
    to: Annotated[Literal["pt2", "hf"], tyro.conf.arg(metavar="pt2|hf")] = "pt2"
    """What to write: a .pt2 file, or a folder of Hugging Face."""
    output: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"], metavar="FILE.pt2|DIR", help_behavior_hint="(default: model.pt2 or hf in the run)"),
    ] = None
    """Where to write it."""
    which: rebuild.Which = None
    """The checkpoint whose weights are used: that of the best evaluation, the latest, or that of a step."""
    weights: rebuild.Weights = None
    """Of a run with ema= or swa=: the model's own weights or the averaged ones."""
    file: rebuild.File = None
    """The file whose build() makes the Trainer, where it was moved since the run was trained."""


def run(arguments: Sequence[str]) -> int:
    """Export; returns the exit code."""
    own = parse(ExportOptions, arguments, prog="instep export")
    if own.output is not None and own.place is not None:
        raise WrongUse(f"{own.place} and -o {own.output} both say where to write; leave one out")
    where = own.output or own.place
    if own.to == "hf":
        return export_pretrained(own, where or own.run / "hf")
    return export_program(own, where or own.run / "model.pt2")


def export_pretrained(own: ExportOptions, output: Path) -> int:
    """A folder of Hugging Face."""
    with contextlib.redirect_stdout(sys.stderr):
        from instep.integrations.huggingface import save_pretrained

        found = rebuild.rebuild(own.run, own.which, own.file, own.weights)
        model = type(found.trainer.model).__name__
        files = save_pretrained(found.trainer, output)
    base = "base_model, " if "adapter_config.json" in files else ""  # an adapter is put on a base that the reader has
    words = f"wrote {output}: {found} ({', '.join(files)}); load it with {model}.from_pretrained({base}{str(output)!r})"
    print(fold_for(sys.stdout, words))
    return 0


def export_program(own: ExportOptions, output: Path) -> int:
    """A `.pt2` file."""
    if output.suffix != ".pt2":
        raise WrongUse(f"{output} does not end in .pt2; say -o {output.with_suffix('.pt2')}")
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = rebuild.rebuild(own.run, own.which, own.file, own.weights)
        example = rebuild.example_batch(found.trainer, 3)
        from instep.checkpoint.exported import export_model, write_exported

        program = export_model(found.trainer.model, example)
        said = {
            "run": found.run.path.name,
            "step": found.step,
            "weights": found.weights,
            "hyper_parameters": found.run.description.get("hyper_parameters"),
        }
        write_exported(output, program, {"instep.json": json.dumps(said)})
    words = f"wrote {output}: {found}; run it with torch.export.load({str(output)!r}).module()(inputs)"
    print(fold_for(sys.stdout, words))
    return 0
