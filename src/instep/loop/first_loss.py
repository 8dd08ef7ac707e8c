"""The first loss of a run, before its backward: what model, loss and data show together, and nobody can mean.

With `loss=` a mistake is refused. In an objective that somebody wrote it may be meant, so it is said there.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from instep import keys
from instep.errors import ObjectiveError, give_notice
from instep.loop.loss_checks import same_shape, shapes_of
from instep.loop.loss_graph import mistake_in
from instep.loop.objective import Loss, MeanOverSamples, Objective, as_loss, given_loss, innermost, name_of


def look_at_first(objective: Objective, loss: Loss, *, is_said: bool) -> None:
    """Raises what is wrong with the first loss of an objective; `is_said`: notices are given by this process."""
    given = given_loss(objective)
    mistake = mistake_in(loss.value) if isinstance(loss.value, Tensor) else None
    if given is not None:
        function, counted = given
        if mistake is not None and counted is not None:
            raise ObjectiveError(f"{mistake} If it is meant, call the loss in an objective=.")
        if counted is not None:
            counted.require_values(loss.target)
        elif type(loss) is MeanOverSamples:
            require_no_coupling(name_of(function), function, loss.output, loss.target)
    if is_said and mistake is not None:
        give_notice(mistake)
    notice = _how_counted(objective, loss)
    if is_said and notice is not None:
        give_notice(notice)


def _how_counted(objective: Objective, loss: Loss) -> str | None:
    """What is to be said of a count that nobody told."""
    given, notice = given_loss(objective), getattr(innermost(objective), "notice", None)
    if isinstance(notice, str):  # of a ModelLoss, which says it itself
        return notice
    if type(loss) is not MeanOverSamples:
        return None
    if given is None:
        return (
            "the objective returned the output of a model, whose loss counts as a mean over samples. Leave objective= out where "
            "it is model(**batch), and its tokens are counted; or return Loss(value, count), so that a split batch stays exact."
        )
    return (
        f"{name_of(given[0])} counts as a mean over samples. If it is a mean over something else (tokens, weights), "
        "return Loss(value, count), so that a split batch stays exact."
    )


def checking_values(objective: Objective) -> Objective:
    """The objective of a trial: it raises too where the values of a target cannot be meant."""
    given = given_loss(objective)
    counted = None if given is None else given[1]
    if counted is None:
        return objective

    def checked(model: nn.Module, batch: Any) -> Loss:
        loss = as_loss(objective(model, batch), batch)
        counted.require_values(loss.target)
        return loss

    return checked


def require_no_coupling(name: str, loss: Callable[..., Any], output: Any, target: Any) -> None:
    """Refuse a loss of the user's own in which an output (n, 1) and a target (n,) become n x n numbers.

    Whether it does, or brings them to one shape itself, is found by trying: n x n numbers have the same mean in whatever order
    the targets stand, and another one where both sides have one shape. Constant outputs or targets show neither, and pass.
    """
    if not isinstance(output, Tensor) or not isinstance(target, Tensor) or output.shape == target.shape:
        return
    if output.numel() != target.numel() or output.ndim == target.ndim or len(target) < 2:
        return
    try:
        as_it_is, turned, fitting = _tried(loss, output, (target, target.roll(1, 0), target.reshape(output.shape)))
    except Exception:  # whatever a user's code raises for what it was not written for
        return
    if _are_close(as_it_is, turned) and not _are_close(as_it_is, fitting):
        raise ObjectiveError(
            f"{name} compares every output with every target: {shapes_of(output, target)} are spread to each other, and the "
            f"order of the targets makes no difference to the loss; {same_shape(output, target)}."
        )


def _tried(loss: Callable[..., Any], output: Tensor, targets: tuple[Tensor, ...]) -> list[Tensor]:
    """The loss for each target, in double precision and with the same random numbers; a module is copied, so no trace is left."""
    values, output = [], output.detach().double()
    for target in targets:
        function = copy.deepcopy(loss) if isinstance(loss, nn.Module) else loss
        with torch.no_grad(), keys.fork_rng(output.device):
            keys.seed_all(keys.for_evaluation(0), output.device)
            returned = function(output, target.double() if target.is_floating_point() else target)
        values.append(returned.reshape(()))
    return values


def _are_close(one: Tensor, other: Tensor) -> bool:
    return torch.allclose(one, other, rtol=1e-9, atol=0.0)
