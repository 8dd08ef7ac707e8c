"""docs/coming-from.md: no name of the other libraries is missing, each name in the column "here" exists, and the errors of the
Trainer say the same as the page."""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch

import instep
import instep.data
from instep import Trainer
from instep.run.argument_names import CALLED_HERE, METHODS, NOT_HERE
from instep.run.names_elsewhere import MORE_CALLED_HERE, MORE_NOT_HERE
from instep.run.options import NAMES
from test_readme import OPTIONS

PAGE = Path(__file__).parent.parent / "docs" / "coming-from.md"
# Learner.__init__, its methods (also those that other modules patch onto it) and the arguments of fit, as of fastai 2.8.9
# (31 July 2026, commit eea258d), which admits no torch as new as ours.
FASTAI = """
dls model loss_func opt_func lr splitter cbs metrics path model_dir wd wd_bn_bias train_bn moms default_cbs
add_cb add_cbs remove_cb remove_cbs added_cbs removed_cbs ordered_cbs create_opt all_batches one_batch fit n_epoch reset_opt
start_epoch validation_context validate get_preds predict show_results show_training_loop no_logging no_mbar loss_not_reduced
to_detach save load export freeze_to freeze unfreeze tta to_channelslast to_contiguous to_fp16 to_bf16 to_fp32 to_non_native_fp16
summary no_bar fit_one_cycle fit_flat_cos fit_sgdr fine_tune lr_find gather_args
"""


class Row(NamedTuple):
    there: list[str]
    here: list[str]  # pieces of code
    note: str


def rows(section: str) -> list[Row]:
    text = PAGE.read_text(encoding="utf-8").partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    cells = [re.split(r"(?<!\\) \|", line.strip("|"), maxsplit=2) for line in text.splitlines() if line.startswith("| `")]
    return [Row(re.findall(r"`([^`]+)`", there), re.findall(r"`([^`]+)`", here), note) for there, here, note in cells]


SECTIONS = ("Lightning", "transformers", "Keras", "fastai")
ALL = {(section, name): row for section in SECTIONS for row in rows(section) for name in row.there}


def names_in(section: str) -> set[str]:
    return {name for where, name in ALL if where == section}


def test_every_name_of_fastai_is_there() -> None:
    assert names_in("fastai") == set(FASTAI.split())


@pytest.mark.extras
def test_every_name_of_lightning_is_there() -> None:
    lightning = pytest.importorskip("lightning")
    assert names_in("Lightning") == set(inspect.signature(lightning.Trainer.__init__).parameters) - {"self"}


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_every_name_of_transformers_is_there() -> None:
    transformers = pytest.importorskip("transformers")
    arguments = {field.name for field in dataclasses.fields(transformers.TrainingArguments)}
    assert names_in("transformers") == arguments | set(inspect.signature(transformers.Trainer.__init__).parameters) - {"self"}


@pytest.mark.extras
@pytest.mark.filterwarnings("ignore")
def test_every_name_of_keras_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    keras = pytest.importorskip("keras")
    both = (keras.Model.compile, keras.Model.fit)
    assert names_in("Keras") == {name for method in both for name in inspect.signature(method).parameters} - {"self"}


# --- The column "here"


def test_a_row_says_what_it_is_or_why_not() -> None:
    for (section, name), row in ALL.items():
        assert row.here or len(row.note) > 20, (section, name)
    assert sum(len(rows(section)) for section in SECTIONS) > 100


def test_each_name_here_exists() -> None:
    for (section, name), row in ALL.items():
        for code in row.here:
            assert exists(code), (section, name, code)
    assert not exists("epoch=")
    assert not exists("trainer.train()")
    assert not exists("instep trian")
    assert not exists("instep train --process")
    assert not exists("data.source(…, samplers=…)")


def exists(code: str) -> bool:
    """Whether a piece of code names an argument of the Trainer, one of its methods, a command with its options, or a function of
    Instep with its arguments."""
    if argument := re.fullmatch(r"(\w+)=", code):
        return argument[1] in NAMES
    if member := re.fullmatch(r"trainer\.(\w+)(\(\))?", code):
        return hasattr(Trainer, member[1])
    if command := re.fullmatch(r"instep ([a-z-]+)((?: --[a-z-]+)*)", code):
        options = {one.strip("-").replace("-", "_") for one in command[2].split()}
        return command[1] in OPTIONS and options <= OPTIONS[command[1]]
    path, _, arguments = code.partition("(")
    found: Any = named(path.removeprefix("instep."))
    return found is not None and set(re.findall(r"(\w+)=", arguments)) <= set(_parameters(found) if "=" in arguments else ())


def named(path: str) -> Any:
    if path == "sklearn":
        return importlib.util.find_spec("instep.sklearn")
    found: Any = instep
    for part in path.split("."):
        found = getattr(found, part, None)
    return found


def _parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)


# --- What the Trainer itself answers


ARGUMENTS = [(section, name) for section, name in ALL if section != "fastai" or name in FASTAI.split()[:15]]


@pytest.mark.parametrize(("section", "name"), ARGUMENTS)
def test_the_trainer_answers_as_the_page_does(section: str, name: str) -> None:
    """The arguments that an error advises are those of the page."""
    if name in NAMES:
        return
    advice = (CALLED_HERE | NOT_HERE | MORE_CALLED_HERE | MORE_NOT_HERE).get(name)
    assert advice, f"{name} of {section} is on the page, and run/argument_names.py does not know it"
    row = ALL[section, name]
    on_page, advised = _arguments(" ".join([*row.here, row.note])), _arguments(advice)
    assert advised <= on_page, (advice, row)
    here = _arguments(" ".join(row.here))
    assert not here or advised & here or re.search(r"trainer\.|instep|torchrun|print", advice), (advice, row)


def _arguments(text: str) -> set[str]:
    """The arguments of the Trainer and of data.source that a text names."""
    ours = {*NAMES, *_parameters(instep.data.source)}
    of_groups = {"optimizer"} if "param_groups(" in text else {"schedule"} if "OneCycle(" in text else set()
    through = {"train"} if "data.source(" in text else of_groups  # how these get into a Trainer
    return {one for one in re.findall(r"(\w+)=", text) if one in ours} | through


def test_methods_of_other_libraries_are_answered() -> None:
    for name in ("validate", "save_checkpoint", "train", "lr_find", "fit_one_cycle"):
        assert name in METHODS
    model = torch.nn.Linear(2, 2)
    trainer = Trainer(
        model,
        loss=torch.nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters()),
        train=(torch.zeros(4, 2), torch.zeros(4, dtype=torch.int64)),
        epochs=1,
        progress=False,
    )
    for name in FASTAI.split()[15:]:
        if not hasattr(Trainer, name) and name not in ("n_epoch", "reset_opt", "start_epoch"):
            with pytest.raises(AttributeError, match=rf"a Trainer has no {name}; \w+ .*"):
                getattr(trainer, name)
