"""Promises 4 to 6 in this process: load, observe, tune: the same training with something around it."""

import random
from typing import Any

import numpy as np
import torch

from instep.proof.causes import find_causes, of_observing
from instep.proof.record import Difference, Trainer, compare, same, state_of, weights_apart
from instep.proof.result import Cause, Row
from instep.proof.subject import Arrangement, is_description_error, is_stream, quiet
from instep.proof.trial import Trial
from instep.records import Update

SEARCHED = 20  # steps of a range test


def prove_load(trial: Trial) -> Row:
    """The samples that worker processes load, beside those that are loaded here."""
    source = trial.look.feed.train
    if not is_stream(trial.look) and source.in_memory:
        return Row("load", "", "does not apply", meaning="the training data is in memory, and no worker loads it.")
    workers = 1 if is_stream(trial.look) else 2
    words = f"num_workers={workers}, beside 0"
    trial.tell(words)
    other = trial.train(Arrangement({"num_workers": workers}))
    holds = "worker processes load the same samples, with the same augmentation."
    return trial.judge("load", words, other, holds, lambda found: find_causes(trial, found))


# --- Observe


def prove_observe(trial: Trial) -> Row:
    """Everything on that only looks, beside nothing."""
    alone = {"evaluate_every": None, "monitor": None} if _may_be_unevaluated(trial) else {}
    quiet_record = trial.train(Arrangement({**alone, "log_every": 10**6})) if alone else trial.baseline
    kinds = observations(trial)
    words = "all that looks at it, beside nothing"
    trial.tell(", ".join(kinds))
    changes: dict[str, Any] = {}
    for kind in kinds.values():
        changes |= kind
    observed = trial.train(Arrangement(changes), after=look_around)
    found = compare(_trained(quiet_record), _trained(observed))
    if found is None:
        return Row("observe", words, "bitwise", meaning=f"with or without {', '.join(kinds)}: the weights are the same.")
    return Row(
        "observe", words, "differs", found.size, f"First to differ: {found}.", tuple(_blame(trial, quiet_record, kinds, found))
    )


def observations(trial: Trial) -> dict[str, dict[str, Any]]:
    """What looks at a training, by name, as arguments of the Trainer."""
    found: dict[str, dict[str, Any]] = {}
    if trial.look.valid_loaders and _may_be_unevaluated(trial):
        found["evaluations"] = {"evaluate_every": 1}
    found["logging"] = {"log_every": 1}
    found["checkpoints"] = {"folder": trial.folder / "observed", "checkpoint_every": 1, "keep": 1}
    found["progress"] = {"progress": True}
    found["the doctor"] = {"doctor": True}
    found["draws between updates"] = {}
    return found


def look_around(trainer: Trainer, update: Update) -> None:
    """What people do in a loop of their own: draw numbers, log, look at the data."""
    torch.rand(3), random.random(), np.random.rand(2)
    trainer.log(drawn=float(torch.rand(())))
    if update.step == 0:
        trainer.run.look()


def _blame(trial: Trial, before: Any, kinds: dict[str, dict[str, Any]], found: Difference) -> list[Cause]:
    """Which of them changes the training, tried one by one."""
    guilty = []
    for place, (name, changes) in enumerate(kinds.items()):
        if "folder" in changes:
            changes = changes | {"folder": trial.folder / f"observed-{place}"}
        after = look_around if name == "draws between updates" else None
        if compare(_trained(before), _trained(trial.train(Arrangement(changes), after=after))) is not None:
            guilty.append(name)
    causes = find_causes(trial, found)
    return causes or [of_observing(guilty, found)]


def _may_be_unevaluated(trial: Trial) -> bool:
    """Not where evaluations decide the learning rate."""
    if trial.look.options.evaluate_every is None:
        return False
    try:
        with quiet():
            trial.subject.trainer(Arrangement({"evaluate_every": None, "monitor": None, "schedule": trial.look.options.schedule}))
    except Exception as error:
        if not is_description_error(error):
            raise
        return False
    return True


def _trained(record: Any) -> Any:
    """Without attributes that only a run with a folder keeps."""
    record.state = {name: value for name, value in record.state.items() if not name.startswith("attributes/")}
    return record


# --- Tune


def prove_tune(trial: Trial) -> Row:
    """A range test and a search for the batch size ahead of the training, beside neither."""
    if len(trial.look.steppers) > 1:
        return Row("tune", "", "does not apply", meaning="a range test needs one optimizer, and this run has several.")
    words = "a range test, a batch-size search"
    trial.tell(words)
    moved: list[str] = []

    def search(trainer: Trainer) -> None:
        before = state_of(trainer.run)
        modes = [module.training for module in trainer.run.model.modules()]
        trainer.find_lr(steps=SEARCHED, repeats=1)
        trainer.find_batch_size(paces=False, most=trainer.batch_size)
        after = state_of(trainer.run)
        moved.extend(name for name in dict.fromkeys([*before, *after]) if not same(before.get(name), after.get(name)))
        if modes != [module.training for module in trainer.run.model.modules()]:
            moved.append("modes")

    other = trial.train(Arrangement(), before=search)
    if moved:
        size = weights_apart(trial.baseline.state, other.state)
        return Row("tune", words, "differs", size, f"The search left a trace in {', '.join(moved[:4])}.")
    holds = "afterwards everything is as before, and the training is the same."
    return trial.judge("tune", words, other, holds, lambda found: find_causes(trial, found))
