"""Promise 8, plain: the training beside the loop that one would write by hand, fed with the same batches under the same keys."""

import contextlib
import itertools

from instep import keys
from instep.data.loading.loader import Batch
from instep.proof.causes import find_causes
from instep.proof.record import Record, StepRecord, digest, gradients_of, state_of
from instep.proof.result import Row
from instep.proof.subject import UNEVALUATED, Arrangement, quiet
from instep.proof.trial import Trial
from instep.tuning.plain_loop import left_out, plain_updates, require_plain_loop

# The loop by hand has none of these, so neither side has.
BY_HAND = UNEVALUATED | {"l1": 0.0, "l2": 0.0, "ema": None, "compile": False, "update_cycle": 1, "micro_batch_size": None}


def prove_plain(trial: Trial) -> Row:
    """The row of the promise."""
    if len(trial.look.steppers) > 1:
        meaning = "a run with several optimizers has no one plain loop to stand beside."
        return Row("plain", "", "does not apply", meaning=meaning)
    require_plain_loop(trial.look)
    arrangement = Arrangement({**BY_HAND, "on_nonfinite": "stop"})
    without = [name for name in left_out(trial.look) if not name.startswith(("deterministic", "on_nonfinite"))]
    words = "a loop by hand" + (f", without {', '.join(without)}" if without else "")
    trial.tell(words)
    one = trial.train(arrangement)
    holds = "the weights are bit for bit those of a plain PyTorch loop with the same batches, learning rates and keys."
    return trial.judge("plain", words, train_by_hand(trial, arrangement), holds, lambda found: find_causes(trial, found), one=one)


def train_by_hand(trial: Trial, arrangement: Arrangement) -> Record:
    """Clear the gradients, forward, loss, backward, clip, step: recorded."""
    record = Record()
    with quiet():
        run = trial.subject.trainer(arrangement).run
        stepper, seed = run.steppers[0], run.options.seed

        def before(batch: Batch) -> None:
            step = batch.epoch * run.state.steps_per_epoch + batch.index
            if step and batch.index == 0:
                stepper.drive.after_epoch()
            run.unfreezing.reach(batch.epoch)
            run.modes.train()
            stepper.drive.before_update(step)
            keys.seed_all(keys.for_step(seed, step), run.device)

        run.train_mode.enter()
        with run.precision.algorithms(), contextlib.closing(plain_updates(run, before)) as updates:
            for step, (batch, loss) in enumerate(itertools.islice(updates, trial.subject.steps)):
                stepper.drive.after_update()
                hashes = {name: digest(gradient) for name, gradient in gradients_of(run).items()}
                record.steps.append(StepRecord(step, batch.indices.tolist(), digest(batch.data), {"": float(loss)}, hashes))
        record.state = state_of(run)
    return record
