"""UpdateCycle: forward and backward over every micro-batch of a batch, then one optimizer step.

The only place where `backward()` and `step()` are called. What each micro-batch weighs is worked out in `sums`.
"""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, get_args

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_, clip_grad_value_
from torch.optim import Optimizer

from instep.errors import DescriptionError, InstepError, NonFiniteLoss, ObjectiveError, UpdateError
from instep.objective import Loss, as_loss
from instep.records import Done
from instep.sums import OnNonFinite, Sums


class UpdateCycle:
    """One optimizer step from any number of micro-batches, equal to the step of the whole batch.

    By hand, in a loop of your own:

        cycle = UpdateCycle(optimizer, clip_norm=1.0)
        for batch in batches:
            for x, y in pieces(batch, 4):
                cycle.backward(loss_fn(model(x), y), count=len(x))
            done = cycle.step()

    or at once: `done = cycle.run(micro_batches, objective)`. The objective is called as `objective(micro_batch)`, or as
    `objective(model, micro_batch)` where the cycle was given its `model`.

    Order, always: gradients cleared (before the first forward of a `run`, before the first backward by hand, so they can be read
    after the step), forward and backward over each micro-batch, normalise, clip, step. A non-finite loss raises before the
    step; `on_nonfinite="skip"` leaves that update out instead. On an accelerator it is noticed one update late, so that
    nothing waits for the device, while "skip" waits for it once an update.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        model: nn.Module | None = None,
        clip_norm: float | None = None,
        clip_value: float | None = None,
        on_nonfinite: OnNonFinite = "stop",
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise DescriptionError(f"optimizer is a {type(optimizer).__name__}; pass a torch.optim.Optimizer.")
        for name, limit in (("clip_norm", clip_norm), ("clip_value", clip_value)):
            if limit is not None and not limit > 0:
                raise DescriptionError(f"{name}={limit} leaves no gradient; use a number above 0, or None for no clipping.")
        if on_nonfinite not in get_args(OnNonFinite):
            raise DescriptionError(f'on_nonfinite={on_nonfinite!r} is not known; use "stop" or "skip".')
        self.optimizer = optimizer
        self.model = model
        self._clip_norm = clip_norm
        self._clip_value = clip_value
        self._on_nonfinite = on_nonfinite
        self._needs_closure = _needs_closure(optimizer)
        self._clear = self._set_gradients_to_none if type(optimizer).zero_grad is Optimizer.zero_grad else optimizer.zero_grad
        self._open = Sums(on_nonfinite)  # the cycle that is being added up by hand
        self._late: Tensor | None = None  # an accelerator's unread flag: was the loss of the update before not finite?

    def run(self, micro_batches: Iterable[Any], objective: Callable[..., Loss | Tensor]) -> Done:
        """Forward and backward over every micro-batch, then the step."""
        if self._open.pieces:
            raise UpdateError(
                f"cycle.run() while {self._open.pieces} micro-batches are added up by hand; call step() or discard() first."
            )
        if self._needs_closure:
            return self._run_with_closure(list(micro_batches), objective)
        sums = Sums(self._on_nonfinite)
        self._clear()
        for micro_batch in micro_batches:
            value = sums.add(self._forward(objective, micro_batch))
            if value is not None:
                value.backward()
        return self._finish(sums)

    def backward(self, loss: Tensor | Loss, *, count: float | Tensor | None = None) -> None:
        """Add the gradient of one micro-batch; `count` says how many samples (or tokens) `loss` is the mean of."""
        if self._needs_closure:
            raise UpdateError(
                f"{type(self.optimizer).__name__} evaluates the loss several times a step, which cannot be done by hand; "
                "use cycle.run(micro_batches, objective)."
            )
        if not isinstance(loss, Loss):
            if count is None:
                raise ObjectiveError("cycle.backward(loss) needs count=, the number of samples (or tokens) it is the mean of.")
            loss = Loss(loss, count)
        elif count is not None:
            raise ObjectiveError("cycle.backward(Loss(value, count), count=…) has two counts; leave one out.")
        if not self._open.pieces:
            self._clear()
        try:
            value = self._open.add(loss)
        except InstepError:
            self.discard()  # a cycle that lacks a micro-batch must not be stepped
            raise
        if value is not None:
            value.backward()

    def step(self) -> Done:
        """Normalise, clip and step with what `backward` added up; says what was done."""
        sums, self._open = self._open, Sums(self._on_nonfinite)
        return self._finish(sums)

    def discard(self) -> None:
        """Drop what was added up by hand: the gradients are cleared, no step is made."""
        self._open = Sums(self._on_nonfinite)
        self._clear()

    def _set_gradients_to_none(self) -> None:
        """What torch's own zero_grad() does, without its entry in the profiler, which takes 15 µs an update."""
        for group in self.optimizer.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def _forward(self, objective: Callable[..., Loss | Tensor], micro_batch: Any) -> Loss:
        returned = objective(micro_batch) if self.model is None else objective(self.model, micro_batch)
        return returned if isinstance(returned, Loss) else as_loss(returned, micro_batch)

    def _finish(self, sums: Sums) -> Done:
        evaluation = self._evaluated(sums)
        if evaluation.stepped:
            self.optimizer.step()
        return evaluation

    def _evaluated(self, sums: Sums) -> Done:
        """The gradients made ready for a step, or cleared where there is to be none."""
        if self._may_step(sums):
            return Done(sums.loss(), sums.total(), self._prepare_gradients(sums), stepped=True)
        self._clear()
        return Done(sums.loss(), sums.total(), None, stepped=False)

    def _may_step(self, sums: Sums) -> bool:
        if not sums.pieces:
            raise UpdateError("no micro-batch went backward in this cycle, so there is no gradient to step with.")
        if self._late is not None:
            self._check_update_before(self._late)
        if sums.bad_on_host or sums.nothing_counted:
            return False
        flag = sums.bad_on_device()
        if flag is None:
            return True
        if self._on_nonfinite == "skip":
            return not flag.item()
        self._late = flag
        return True

    def _check_update_before(self, flag: Tensor) -> None:
        self._late = None
        if flag.item():
            raise NonFiniteLoss(
                "the loss of the update before this one is not finite, and its step was made. Go back to a checkpoint, or "
                'use on_nonfinite="skip", which waits for the device once an update.'
            )

    def _prepare_gradients(self, sums: Sums) -> Tensor | None:
        """Normalise, then clip; returns the norm before clipping where it is measured."""
        if self._clip_norm is None and self._clip_value is None and sums.pieces == 1:
            return None
        parameters = [p for group in self.optimizer.param_groups for p in group["params"] if p.grad is not None]
        _multiply([p.grad for p in parameters], sums.normaliser())
        grad_norm = None if self._clip_norm is None else clip_grad_norm_(parameters, self._clip_norm)
        if self._clip_value is not None:
            clip_grad_value_(parameters, self._clip_value)
        return grad_norm

    def _run_with_closure(self, micro_batches: list[Any], objective: Callable[..., Loss | Tensor]) -> Done:
        """For optimizers that evaluate the loss several times a step, like LBFGS.

        Each evaluation starts from the same buffers; what the first one made of them (BatchNorm's statistics) is what stays.
        """
        buffers = [] if self.model is None else list(self.model.buffers())
        before = [buffer.clone() for buffer in buffers]
        after: list[Tensor] = []
        evaluations: list[Done] = []

        def closure() -> Tensor:
            if evaluations:
                _assign(buffers, before)
            sums = Sums(self._on_nonfinite)
            self._clear()
            for micro_batch in micro_batches:
                value = sums.add(self._forward(objective, micro_batch))
                if value is not None:
                    value.backward()
            if not evaluations:
                after.extend(buffer.clone() for buffer in buffers)
            evaluations.append(self._evaluated(sums))
            return evaluations[-1].loss

        self.optimizer.step(closure)  # type: ignore[arg-type]  # torch says float and takes tensors
        _assign(buffers, after)
        return evaluations[0]


def _multiply(gradients: list[Any], factor: float | Tensor) -> None:
    if not isinstance(factor, Tensor):
        if factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        return
    for device in {gradient.device for gradient in gradients}:
        torch._foreach_mul_([gradient for gradient in gradients if gradient.device == device], factor.to(device))


def _assign(buffers: list[Tensor], values: list[Tensor]) -> None:
    for buffer, value in zip(buffers, values, strict=True):
        buffer.copy_(value)


def _needs_closure(optimizer: Optimizer) -> bool:
    """Whether `step` cannot be called without a closure, like LBFGS's."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
