"""Hugging Face: a run's model as a folder of `save_pretrained`, with its tokenizer, that `from_pretrained` loads again.

What is written is loaded again and compared before it takes its place. How such models are trained needs nothing from here: see
`loop/model_loss.py` for their losses, `data/sources/hugging_face.py` for their data sets and collators.
"""

import copy
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from instep.data.inputs import inputs_of
from instep.data.structure import map_columns
from instep.errors import CheckpointError, DescriptionError
from instep.loop.evaluate import evaluating
from instep.run.run import Run

# Where a collate function may have what made its samples.
PROCESSORS = ("tokenizer", "processing_class", "processor", "image_processor", "feature_extractor")


class HasRun(Protocol):
    """A Trainer."""

    @property
    def run(self) -> Run: ...


def save_pretrained(trainer: HasRun, folder: str | Path, *, tokenizer: Any = None) -> list[str]:
    """Write the model of a run to a folder with `save_pretrained`, and its tokenizer; returns the names of the files.

    The weights are those that the Trainer has now; `trainer.load("best")` gives it others. `tokenizer` may be any processor; None
    takes that of the run's collate function, where it has one. Of a PEFT model the adapter is written. What was written is loaded
    again: its weights, and its outputs for a batch of the training data, are the model's own, or nothing is left behind.

        trainer.fit()
        save_pretrained(trainer, "models/mine")
        model = AutoModelForCausalLM.from_pretrained("models/mine")
    """
    model, folder = _bare(trainer.run.model), Path(folder)
    if not hasattr(model, "save_pretrained"):
        raise DescriptionError(
            f"{type(model).__name__} has no save_pretrained(), as models of transformers and PEFT have; use "
            "instep.save_model(…), or instep export --to pt2."
        )
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise DescriptionError(f"{folder} is there already, and is not an empty folder; name another one.")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as beside:
        _write(model, beside)
        found = find_processor(trainer) if tokenizer is None else tokenizer
        if found is not None:
            found.save_pretrained(beside)
        _require_same(model, _load(model, beside), trainer)
        made = Path(shutil.copytree(beside, folder, dirs_exist_ok=True))
    return sorted(path.name for path in made.iterdir())


def find_processor(trainer: HasRun) -> Any:
    """The tokenizer, or other processor, of a run: that of its collate function; None where it has none."""
    collate = trainer.run.feed.collate
    for name in PROCESSORS:
        found = getattr(collate, name, None)
        if hasattr(found, "save_pretrained"):
            return found
    return None


def is_adapter(model: nn.Module) -> bool:
    """A PEFT model, of which the adapter is saved and not the base."""
    return hasattr(model, "peft_config") and hasattr(model, "get_base_model")


def _bare(model: nn.Module) -> Any:
    """Without what DistributedDataParallel puts round it."""
    return model.module if isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel) else model


def _write(model: Any, folder: str) -> None:
    with _quietly():
        model.save_pretrained(folder)


@contextmanager
def _quietly() -> Iterator[None]:
    """Without their progress bars, and without the warning of an adapter that it could not look its base up in the network."""
    from transformers.utils import logging

    had_bars = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        if had_bars:
            logging.enable_progress_bar()


def _load(model: Any, folder: str) -> nn.Module:
    """A model from the folder: of its own class, or the adapter on a copy of its base."""
    with _quietly():
        if not is_adapter(model):
            loaded: nn.Module = type(model).from_pretrained(folder)
            return loaded.to(model.dtype)
        base = copy.deepcopy(model).unload()
        loaded = type(model).from_pretrained(base, folder, is_trainable=False)
        return loaded


def _require_same(model: nn.Module, loaded: nn.Module, trainer: HasRun) -> None:
    loaded.to(trainer.run.device)
    ours, theirs = _named(model), _named(loaded)
    other = [name for name in ours if name not in theirs or not torch.equal(ours[name], theirs[name])]
    if other:
        raise CheckpointError(f"what was written gives other weights when it is loaded: {', '.join(other[:4])}.")
    batch = map_columns(lambda column: column[:2], dict(inputs_of(trainer.run.example())))
    with evaluating(model, loaded):
        expected, found = model(**batch), loaded(**batch)
    for name, value in expected.items():
        if isinstance(value, Tensor) and not torch.equal(value, found[name]):
            raise CheckpointError(f"what was written gives other outputs when it is loaded: {name}.")


def _named(model: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in model.state_dict().items() if isinstance(value, Tensor)}
