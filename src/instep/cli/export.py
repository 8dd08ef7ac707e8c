"""`instep export RUN`: a run's model for others: a program of its own, its weights alone, or a folder of Hugging Face.

Each format writes and checks what it wrote, by running or loading it, before it is there. A further format is a row of FORMATS.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

import tyro

from instep.cli import rebuild
from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.errors import DescriptionError
from instep.report.classification import class_names
from instep.run.run_files import section
from instep.text import fold_for

if TYPE_CHECKING:
    from instep.checkpoint.exported import Program


class Format(NamedTuple):
    """One kind of export."""

    name: str  # in the run, where nothing else is said
    endings: tuple[str, ...]  # that name it; none for a folder
    write: Callable[[rebuild.RebuiltRun, Path], str]  # says how to use what it wrote
    require: Callable[[], None] = lambda: None  # what must be installed


def _write_pt2(found: rebuild.RebuiltRun, output: Path) -> str:
    from instep.checkpoint.exported import write_exported

    batches = rebuild.example_batches(found.trainer, 3)
    made = write_exported(output, found.trainer.model, batches, lambda made: {"instep.json": describe(found, made.shapes)})
    return f"; run it with torch.export.load({str(output)!r}).module()({made.call}){_fixed(made)}"


def _write_onnx(found: rebuild.RebuiltRun, output: Path) -> str:
    from instep.integrations.onnx import write_onnx

    batches = rebuild.example_batches(found.trainer, 3)
    made = write_onnx(output, found.trainer.model, batches, lambda made: {"instep": describe(found, made.shapes)})
    return f"; run it with onnxruntime.InferenceSession({str(output)!r}){_fixed(made)}"


def _fixed(made: "Program") -> str:
    """Which inputs a program takes, where torch has fixed a size that differs in the data."""
    several = len(made.shapes) > 1
    names = {name: name if not name.isdecimal() else f"input{name}" if several else "inputs" for name in made.fixed}
    told = ", ".join(f"{names[name]} ({', '.join(map(str, made.shapes[name]))})" for name in made.fixed)
    return f"; torch.export has fixed sizes that differ in the data, so it takes only {told}" if told else ""


def _require_onnx() -> None:
    from instep.integrations.onnx import require_onnx

    require_onnx()


def _write_state(found: rebuild.RebuiltRun, output: Path) -> str:
    from instep.checkpoint.exported import write_state

    write_state(output, found.trainer.model)
    if output.suffix == ".safetensors":
        return f"; load it with instep.load_model(model, {str(output)!r})"
    return f"; load it with model.load_state_dict(torch.load({str(output)!r}, weights_only=True))"


def _write_pretrained(found: rebuild.RebuiltRun, output: Path) -> str:
    from instep.integrations.huggingface import save_pretrained

    model = type(found.trainer.model).__name__
    files = save_pretrained(found.trainer, output)
    base = "base_model, " if "adapter_config.json" in files else ""  # an adapter is put on a base that the reader has
    return f" ({', '.join(files)}); load it with {model}.from_pretrained({base}{str(output)!r})"


FORMATS = {
    "pt2": Format("model.pt2", (".pt2",), _write_pt2),
    "onnx": Format("model.onnx", (".onnx",), _write_onnx, _require_onnx),
    "state_dict": Format("model.pt", (".pt", ".pth"), _write_state),
    "safetensors": Format("model.safetensors", (".safetensors",), _write_state),
    "hf": Format("hf", (), _write_pretrained),
}


@dataclass(frozen=True)
class ExportOptions:
    """Export the model of a run: as a program that runs where its class is not known, on batches of any size; its weights alone;
    or with save_pretrained, with its tokenizer, for from_pretrained of Hugging Face."""

    run: rebuild.Run
    """The folder of the run, like runs/digits."""
    place: Annotated[Path | None, tyro.conf.Positional, tyro.conf.arg(metavar="FILE|DIR")] = None
    """Where to write it, as with -o."""
    to: Annotated[
        Literal["pt2", "onnx", "state_dict", "safetensors", "hf"] | None,
        tyro.conf.arg(
            metavar="pt2|onnx|state_dict|safetensors|hf", help_behavior_hint="(default: by the ending of the file, else pt2)"
        ),
    ] = None
    """What to write: a program for torch.export (pt2) or ONNX, the weights for torch.load (state_dict) or as safetensors, or a
    folder of Hugging Face."""
    output: Annotated[
        Path | None,
        tyro.conf.arg(aliases=["-o"], metavar="FILE|DIR", help_behavior_hint="(default: model.pt2, … or hf in the run)"),
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
    given = own.output or own.place
    form = FORMATS[own.to or _format_of(given)]
    output = given or own.run / form.name
    if form.endings and output.suffix not in form.endings:
        raise WrongUse(f"{output} does not end in {form.endings[0]}; say -o {output.with_suffix(form.endings[0])}")
    try:
        form.require()
    except DescriptionError as error:
        raise WrongUse(str(error)) from None
    with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
        found = rebuild.rebuild(own.run, own.which, own.file, own.weights)
        use = form.write(found, output)
    print(fold_for(sys.stdout, f"wrote {output}: {found}{use}"))
    return 0


def _format_of(output: Path | None) -> str:
    """The format that the ending of a file names."""
    if output is None:
        return "pt2"
    for name, form in FORMATS.items():
        if output.suffix in form.endings:
            return name
    known = ", ".join(ending for form in FORMATS.values() for ending in form.endings)
    raise WrongUse(f"{output} does not say which format it is to have; end it in one of {known}, or say --to")


def describe(found: rebuild.RebuiltRun, inputs: Mapping[str, list[int | str]]) -> str:
    """What a model without its run cannot say: of a table, the columns in the order of the inputs; the names of the classes."""
    said, train = found.run.description, section(section(found.run.description, "data"), "train")
    return json.dumps(
        {
            "run": found.run.path.name,
            "step": found.step,
            "weights": found.weights,
            "hyper_parameters": said.get("hyper_parameters"),
            **({"columns": train["names"]} if train.get("names") else {}),
            **({"classes": list(classes)} if (classes := class_names(said)) else {}),
            "inputs": inputs,
        }
    )
