"""Values that are not finite: why a monitored one is nan, and how to go back to the update that had such a loss."""

import math
import shlex
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from instep.data.loading.loader import Loader
from instep.data.sources.stream import Stream
from instep.errors import NonFiniteGradient, NonFiniteLoss, give_notice
from instep.loop.error_place import ErrorPlace
from instep.loop.torch_losses import ignored_by, known
from instep.records import Evaluation
from instep.text import listed, plural

if TYPE_CHECKING:
    from instep.run.run import Run


def name_replay(error: NonFiniteLoss | NonFiniteGradient, run: "Run") -> None:
    """Add to the message of a run that stopped how to look at the update: the command, or why there is none."""
    if error.step is None or run.is_replay:
        return
    if run.folder is None:
        error.add_note("A run with a folder= can be replayed to this step, to look at it: `instep replay`, instep.replay().")
        return
    if run.state.cycles is not None or (run.processes.are_several and run.feed.has_own_batches):
        return  # neither is replayed in one process
    command = f"instep replay {shlex.quote(str(run.folder))} --step {error.step} --anomaly"
    if run.script:
        error.args = (f"{error} To look at this update: {command}",)
    else:
        error.args = (f"{error} To look at this update: {command} --file FILE.py, where build() of FILE.py makes this Trainer.",)


def say_nan(run: "Run", evaluation: Evaluation) -> bool:
    """Say, at the user's line, why the monitored value is nan; True where it is."""
    monitor = run.monitor
    if monitor is None or not math.isnan(evaluation[monitor.name]):
        return False
    if run.world.is_first:
        counts = "" if monitor.patience is None else f", and counts as one without a better one for patience={monitor.patience}"
        give_notice(
            f"{monitor.name} is nan after {plural(run.state.step, 'update')}{_reason(run, monitor.name)}. Such an evaluation is "
            f"never the best{counts}."
        )
    return True


def _reason(run: "Run", name: str) -> str:
    broken = [name for name, p in run.model.named_parameters() if not torch.isfinite(p).all()]
    if broken:
        return f": weights are not finite ({listed(broken, most=4)})"
    found = max((one for one in run.valid_loaders if name.startswith(f"{one}/")), key=len, default=None)
    if found is None or isinstance(run.feed.valid[found], Stream):
        return ""
    return _in_data(run, run.valid_loaders[found], found)


def _in_data(run: "Run", loader: Loader, name: str) -> str:
    """The first samples that hold nan or inf; or that no target counts."""
    place = ErrorPlace(run.model, loader, run.splitting, steps_per_epoch=1, rank=None)
    ignored, all_ignored = _ignored(run.options.loss), True
    for batch in loader.batches(epoch=0):
        if len(batch.indices) and (words := place.name_values(batch)):
            words = words.strip().rstrip(".")
            return f": {words[:1].lower()}{words[1:]}"
        all_ignored = all_ignored and _is_ignored(batch.data, ignored)
    return f": every target of {name} is ignored ({ignored})" if all_ignored else f", though all numbers of {name} are finite"


def _ignored(loss: Any) -> int:
    counted = None if loss is None else known(loss)
    found = counted.ignore_index if counted is not None else None if loss is None else ignored_by(loss)
    return -100 if found is None else found


def _is_ignored(data: Any, ignored: int) -> bool:
    target = data[1] if isinstance(data, tuple | list) and len(data) == 2 else None
    return isinstance(target, Tensor) and not target.is_floating_point() and bool((target == ignored).all())
