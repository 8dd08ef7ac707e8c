"""The plain loop: what one would write by hand for a run: clear the gradients, forward, loss, backward, clip, step.

It has the model, the optimizer, the loss, the batches and the micro-batches of the run, and nothing that Instep does around them.
"""

import contextlib
import itertools
import sys
from collections.abc import Callable, Generator, Mapping
from typing import Any, NamedTuple

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from instep.data.inputs import call_model
from instep.data.loading.loader import Batch
from instep.errors import DescriptionError
from instep.loop.objective import Loss, as_loss
from instep.run.run import Run
from instep.tuning.rehearsal import require_one_optimizer

Forward = Callable[[Any, Any], Tensor]  # of a model and a micro-batch


class PlainUpdate(NamedTuple):
    """One update of the plain loop: its batch, and the loss of the last of its pieces."""

    batch: Batch
    loss: Tensor


def plain_updates(run: Run, before: Callable[[Batch], object] | None = None) -> Generator[PlainUpdate, None, None]:
    """One update each time the next is asked for, epoch after epoch without end; `before` is called ahead of each."""
    stepper = run.steppers[0]
    model, optimizer, forward = run.model, stepper.optimizer, run.precision.wrap(_loss_of(run))
    clip, scaler = _clipping(run, optimizer), run.precision.scaler()
    feed = run.feed.for_looking("instep bench")
    loader = feed.train_loader(batch_size=run.batch_size, device=run.device, drop_last=run.plan.drop_last, epochs=sys.maxsize)
    with contextlib.closing(loader):
        for epoch in itertools.count():
            for batch in loader.batches(epoch):
                if before is not None:
                    before(batch)
                pieces = [piece for _, piece in stepper.pieces(batch)]
                optimizer.zero_grad()
                for piece in pieces:
                    loss = forward(model, piece)
                    if len(pieces) > 1:
                        loss = loss / len(pieces)
                    (loss if scaler is None else scaler.scale(loss)).backward()
                _step(optimizer, clip, scaler)
                yield PlainUpdate(batch, loss.detach())


def require_plain_loop(run: Run) -> None:
    """Raises where there is no plain loop that does the work of this run."""
    require_one_optimizer(run)
    if run.processes.are_several:
        raise DescriptionError("the plain loop has one process; compare it without torchrun.")
    if run.steppers[0].cycle.needs_closure:
        kind = type(run.optimizer).__name__
        raise DescriptionError(f"{kind} evaluates the loss several times a step; only optimizers that do it once are compared.")


def left_out(run: Run) -> list[str]:
    """The arguments of the run that the plain loop does not have, like `ema=0.999`."""
    options = run.options
    extra: dict[str, Any] = {
        "ema": options.ema,
        "swa": options.swa,
        "l1": options.l1,
        "l2": options.l2,
        "deterministic": options.deterministic,
    }
    if options.on_nonfinite != "stop":
        extra["on_nonfinite"] = options.on_nonfinite
    return [f"{name}={value!r}" for name, value in extra.items() if value]


def _loss_of(run: Run) -> Forward:
    """The value of the loss for a model and a micro-batch, without the counts that Instep weighs it by."""
    loss, objective = run.options.loss, run.options.objective
    if loss is not None:
        return lambda model, piece: _value(loss(call_model(model, piece[0]), piece[1]), piece)
    if isinstance(objective, Mapping):
        objective = next(iter(objective.values()))
    if objective is not None:
        return lambda model, piece: _value(objective(model, piece), piece)
    return lambda model, piece: _value(model(**piece), piece)


def _value(returned: Any, piece: Any) -> Tensor:
    value = returned if isinstance(returned, Tensor) else returned.value if isinstance(returned, Loss) else None
    value = as_loss(returned, piece).value if value is None else value
    return value if value.ndim == 0 else value.mean()


def _clipping(run: Run, optimizer: Optimizer) -> Callable[[], object] | None:
    """torch's own functions, where the run clips at all; limits by the name of a group hold for that group."""
    norm, value = run.options.clip_norm, run.options.clip_value
    if norm is None and value is None:
        return None

    def clip() -> None:
        for limit, function in ((norm, nn.utils.clip_grad_norm_), (value, nn.utils.clip_grad_value_)):
            if isinstance(limit, Mapping):
                for group in optimizer.param_groups:
                    own = _limit_of(group.get("name", ""), limit)
                    if own is not None:
                        function(group["params"], own)
            elif limit is not None:
                function([p for group in optimizer.param_groups for p in group["params"]], limit)

    return clip


def _limit_of(group: str, limits: Mapping[str, Any]) -> Any:
    """That of its name, of the name that it was split from, or of all."""
    return next((limit for name, limit in limits.items() if name in ("*", group, group.partition("/")[0])), None)


def _step(optimizer: Optimizer, clip: Callable[[], object] | None, scaler: GradScaler | None) -> None:
    if clip is not None:
        if scaler is not None:
            scaler.unscale_(optimizer)
        clip()
    if scaler is None:
        optimizer.step()
    else:
        scaler.step(optimizer)
        scaler.update()
