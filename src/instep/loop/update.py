"""UpdateCycle: forward and backward over every micro-batch of a batch, then one optimizer step.

The only place from which `backward()` and `step()` are called. What each micro-batch weighs is worked out in `sums`.
"""

import copy
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol, get_args

import torch
from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from instep.data.device import is_out_of_memory, readable, said
from instep.distributed.dtensors import local
from instep.errors import (
    DescriptionError,
    NonFiniteGradient,
    NonFiniteLoss,
    ObjectiveError,
    OutOfMemory,
    UpdateError,
)
from instep.loop.accumulation import OnNonFinite, Sums
from instep.loop.objective import Loss, as_loss
from instep.loop.shared_accumulation import SharedSums
from instep.loop.torch_calls import backward, step
from instep.optim.clip import Clipping, Limit, nonfinite_gradients
from instep.optim.fused_adam import FusedAdam
from instep.optim.penalty import Penalty
from instep.records import SavedTensors, StepResult


class Exchange(Protocol):
    """How the processes of a run exchange the gradients and counts of one optimizer."""

    def backward(
        self,
        optimizer: Optimizer,
        sums: SharedSums,
        micro_batches: list[Any],
        forward: Callable[[Any], Loss],
        *,
        go_back: Callable[[Tensor], None],
        stop_on_bad: bool,
    ) -> None: ...


class UpdateCycle:
    """Gradient accumulation: one optimizer step from any number of micro-batches, equal to the step of the whole batch.

    By hand, in a loop of your own:

        cycle = UpdateCycle(optimizer, clip_norm=1.0)
        for batch in batches:
            for x, y in pieces(batch, 4):
                cycle.backward(loss_fn(model(x), y), count=len(x))
            result = cycle.step()

    or in one call: `result = cycle.run(micro_batches, objective)`. The objective is called as `objective(micro_batch)`, or as
    `objective(model, micro_batch)` where the cycle was given its `model`.

    The order is always: clear the gradients (before the first forward of a `run`, before the first backward by hand, so they can
    be read after the step), forward and backward over each micro-batch, unscale, divide by the count, penalties, clip, step.
    `clip_norm` and `clip_value` are one number, or one for each group by name; `l1` and `l2` add l1·Σ|p| + l2·Σp² to the
    objective, not for biases and norm layers; `scaler` is a GradScaler for half precision, which may skip an update; `beside` are
    losses and other modules that are called with the model: a skipped update leaves their buffers as they were, too.

    A loss that is inf or nan raises before the step, and so does such a gradient where the norm is measured (`clip_norm`, also
    math.inf); `on_nonfinite="skip"` skips that update instead. On an accelerator it is noticed one update late, or with
    `defer_checks` when somebody calls `settle()`, so that nothing waits for the device; "skip" waits for it once an update.

    >>> from instep.data import pieces
    >>> model, x = nn.Linear(3, 1), torch.ones(5, 3)
    >>> cycle = UpdateCycle(torch.optim.SGD(model.parameters(), lr=0.1))
    >>> for part in pieces(x, 2):  # of 3 and 2 samples
    ...     cycle.backward(model(part).mean(), count=len(part))
    >>> cycle.step().count
    5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        *,
        model: nn.Module | None = None,
        clip_norm: Limit = None,
        clip_value: Limit = None,
        l1: float = 0.0,
        l2: float = 0.0,
        on_nonfinite: OnNonFinite = "stop",
        scaler: GradScaler | None = None,
        exchange: Exchange | None = None,
        defer_checks: bool = False,
        beside: Sequence[nn.Module] = (),
    ) -> None:
        if not isinstance(optimizer, Optimizer):
            raise DescriptionError(f"optimizer is a {type(optimizer).__name__}; pass a torch.optim.Optimizer.")
        if on_nonfinite not in get_args(OnNonFinite):
            raise DescriptionError(f'on_nonfinite={on_nonfinite!r} is not known; use "stop" or "skip".')
        self.optimizer = optimizer
        self.model = model
        self._modules = tuple(beside) if model is None else (model, *beside)  # whose buffers a forward may change
        self._clipping = Clipping(optimizer, norm=clip_norm, value=clip_value, model=model)
        self._penalty = Penalty(optimizer, l1=l1, l2=l2, model=model)
        self._scaler = scaler if scaler is not None and scaler.is_enabled() else None
        self._on_nonfinite = on_nonfinite
        self._exchange = exchange  # with the other processes of a run
        self.needs_closure = _needs_closure(optimizer)  # then it evaluates the loss several times a step
        if self.needs_closure and self._scaler is not None:
            raise DescriptionError(f"{type(optimizer).__name__} cannot be used with a GradScaler; use fp32 or bf16.")
        self._clear = self._set_gradients_to_none if type(optimizer).zero_grad is Optimizer.zero_grad else optimizer.zero_grad
        self._fused = FusedAdam.of(optimizer)
        self._open = Sums(on_nonfinite)  # the cycle that is being added up by hand
        self._defer_checks = defer_checks and not self.needs_closure
        self._evaluations = 0  # so far: one an update, unless it needs a closure
        self._unread: list[tuple[int, Tensor]] = []  # an accelerator's flags: was something of this update not finite?

    def run(
        self,
        micro_batches: Iterable[Any],
        objective: Callable[..., Loss | Tensor],
        expected: Callable[[], float | None] | None = None,
    ) -> StepResult:
        """Forward and backward over every micro-batch, then the step.

        `expected` says what the counts of several micro-batches should add up to. The result does not depend on it, but for
        rounding; where it is right, the gradients need not be multiplied at the end.
        """
        if self._open.pieces:
            raise UpdateError(
                f"cycle.run() while {self._open.pieces} micro-batches are added up by hand; call step() or discard() first."
            )
        if self.needs_closure:
            return self._run_with_closure(list(micro_batches), objective)
        buffers = self._guarded_buffers()
        self._clear()
        if self._exchange is not None:
            sums = self._with_others(self._exchange, list(micro_batches), objective)
        else:
            sums = Sums(self._on_nonfinite, None if expected is None else expected())
            for micro_batch in micro_batches:
                value = sums.add(self._forward(objective, micro_batch))
                if value is not None:
                    backward(value if self._scaler is None else self._scaler.scale(value))
        done = self._finish(sums)
        if buffers and not done.stepped:
            buffers.put_back()  # what was skipped must not stay in BatchNorm's statistics
        return done

    def _with_others(self, exchange: Exchange, micro_batches: list[Any], objective: Callable[..., Loss | Tensor]) -> Sums:
        """Forward and backward where other processes have the rest of the batch: what all of them have added up."""
        sums = SharedSums()
        exchange.backward(
            self.optimizer,
            sums,
            micro_batches,
            lambda micro_batch: self._forward(objective, micro_batch),
            go_back=backward if self._scaler is None else self._go_back_scaled,
            stop_on_bad=self._on_nonfinite == "stop",
        )
        return sums

    def _go_back_scaled(self, value: Tensor) -> None:
        assert self._scaler is not None
        backward(self._scaler.scale(value))

    def backward(self, loss: Tensor | Loss, *, count: float | Tensor | None = None) -> None:
        """Add the gradient of one micro-batch; `count` says how many samples (or tokens) `loss` is the mean of."""
        if self.needs_closure:
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
            if value is not None:
                backward(value if self._scaler is None else self._scaler.scale(value))
        except BaseException:
            self.discard()  # a cycle that lacks a micro-batch must not be stepped
            raise

    def step(self) -> StepResult:
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

    def copy(self) -> "UpdateCycle":
        """One for updates that are only tried out: what it leaves unread must not stop the run."""
        cycle = copy.copy(self)
        cycle._unread, cycle._defer_checks = [], False
        return cycle

    def _guarded_buffers(self) -> SavedTensors | None:
        """The values of the buffers, where an update may be skipped after its forward."""
        return None if self._on_nonfinite == "stop" or not self._modules else SavedTensors(self._buffers())

    def _buffers(self) -> list[Tensor]:
        return [buffer for module in self._modules for buffer in module.buffers()]

    def settle(self) -> None:
        """Look at what was left unread of the updates so far: raises where a loss or gradients were not finite. Waits."""
        if not self._unread:
            return
        unread, self._unread = self._unread, []
        flags = torch.stack([flag.to(unread[0][1].device) for _, flag in unread]).tolist()
        bad = next((number for (number, _), is_bad in zip(unread, flags, strict=True) if is_bad), None)
        if bad is not None:
            raise _noticed_late(self._evaluations - bad)

    def _finish(self, sums: Sums) -> StepResult:
        try:
            done = self._evaluated(sums)
            if done.stepped:
                if self._scaler is not None:
                    return done._replace(stepped=self._scaled_step(self._scaler))
                step(self.optimizer, self._fused)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise _step_too_large(self.optimizer, error) from error
        if not done.stepped:
            self._require_finite_weights()
        return done

    def _require_finite_weights(self) -> None:
        """Skipping helps against a bad batch; weights that a step has spoilt would let every further update be skipped."""
        parameters = [p for group in self.optimizer.param_groups for p in group["params"]]
        if not all(torch.isfinite(parameter).all().item() for parameter in parameters):
            raise NonFiniteLoss(
                "the weights themselves are not finite, so every further update would be skipped: a step before this one had "
                "gradients that were not. Go back to a checkpoint; clip_norm=math.inf measures the gradients before each step."
            )

    def _evaluated(self, sums: Sums) -> StepResult:
        """The gradients made ready for a step, or cleared where there is to be none."""
        done = self._prepared(sums) if self._may_step(sums) else None
        may_step = done is not None and (done.grad_norm is None or self._is_finite(done.grad_norm))
        self._evaluations += 1
        if done is not None and may_step:
            return done
        self._clear()
        return StepResult(sums.loss(), sums.total(), None, stepped=False, parts=sums.parts())

    def _prepared(self, sums: Sums) -> StepResult:
        """Unscale, normalise, penalties, clip."""
        if self._scaler is not None:
            self._scaler.unscale_(self.optimizer)
        if sums.is_weighted:
            _multiply([p.grad for g in self.optimizer.param_groups for p in g["params"] if p.grad is not None], sums.normaliser())
        penalty = self._penalty.add() if self._penalty.active else None
        norm, clipped = self._clipping.apply() if self._clipping.active else (None, None)
        return StepResult(sums.loss(), sums.total(), norm, stepped=True, clipped=clipped, penalty=penalty, parts=sums.parts())

    def _scaled_step(self, scaler: GradScaler) -> bool:
        """Whether the step was made: the scaler leaves it out where a gradient overflowed, and lowers its scale."""
        before = scaler.get_scale()
        scaler.step(self.optimizer)
        scaler.update()
        return scaler.get_scale() >= before

    def _is_finite(self, norm: Tensor) -> bool:
        """Whether the gradients may be stepped with; under a scaler that is the scaler's business."""
        if self._scaler is not None:
            return True
        if not readable(norm) and self._on_nonfinite == "stop":
            self._unread.append((self._evaluations, ~torch.isfinite(norm)))
            return True
        if torch.isfinite(norm).item():
            return True
        if self._on_nonfinite == "stop":
            named = ", ".join(nonfinite_gradients(self.optimizer, self.model)[:8])
            raise NonFiniteGradient(f"the loss is finite, its gradients are not: {named}; no step was made.")
        return False

    def _may_step(self, sums: Sums) -> bool:
        if not sums.pieces:
            raise UpdateError("no micro-batch went backward in this cycle, so there is no gradient to step with.")
        if self._unread and not self._defer_checks:
            self.settle()
        if sums.bad_on_host or sums.nothing_counted:
            return False
        flag = sums.bad_on_device()
        if flag is None:
            return True
        if self._on_nonfinite == "skip":
            return not flag.item()
        self._unread.append((self._evaluations, flag))
        return True

    def _run_with_closure(self, micro_batches: list[Any], objective: Callable[..., Loss | Tensor]) -> StepResult:
        """For optimizers that evaluate the loss several times a step, like LBFGS.

        Each evaluation starts from the same buffers; what the first one made of them (BatchNorm's statistics) is what stays.
        """
        buffers = self._buffers()
        before, after = SavedTensors(buffers), SavedTensors([])
        weights = SavedTensors(p for group in self.optimizer.param_groups for p in group["params"])
        evaluations: list[StepResult] = []

        inside = False  # the closure, and not the optimizer's own work

        def closure() -> Tensor:
            nonlocal inside, after
            inside = True
            if evaluations:
                before.put_back()
            self._clear()
            if self._exchange is not None:
                sums = self._with_others(self._exchange, micro_batches, objective)
            else:
                sums = Sums(self._on_nonfinite)
                for micro_batch in micro_batches:
                    value = sums.add(self._forward(objective, micro_batch))
                    if value is not None:
                        backward(value)
            if not evaluations:
                after = SavedTensors(buffers)
            evaluations.append(self._evaluated(sums))
            inside = False
            return evaluations[-1].loss

        try:
            self.optimizer.step(closure)  # type: ignore[arg-type]  # torch says float and takes tensors
        except Exception as error:
            weights.put_back()  # a later evaluation failed: the ones before it have moved the weights already
            before.put_back()
            if inside or not is_out_of_memory(error):
                raise
            raise _step_too_large(self.optimizer, error) from error
        if not all(evaluation.stepped for evaluation in evaluations):
            weights.put_back()
            before.put_back()
            return evaluations[0]._replace(stepped=False)
        after.put_back()
        return evaluations[0]


def _noticed_late(ago: int) -> NonFiniteLoss:
    when = "the update before this one" if ago == 1 else f"the update {ago} updates before this one"
    return NonFiniteLoss(
        f"the loss or a gradient of {when} is not finite, and its step was made. Go back to a checkpoint, or use "
        'on_nonfinite="skip", which waits for the device once an update.',
        late=ago,
    )


def _step_too_large(optimizer: Optimizer, error: Exception) -> OutOfMemory:
    """The step is made with all gradients at once, whatever the micro-batches were; half of it may have been made."""
    return OutOfMemory(
        f"the step of {type(optimizer).__name__} does not fit in memory, and no split of the batch makes it smaller; use an "
        f"optimizer that keeps less, or a smaller model. ({said(error)})"
    )


def _multiply(gradients: list[Any], factor: float | Tensor) -> None:
    if not gradients:
        return
    gradients = local(gradients)
    if not isinstance(factor, Tensor):
        if factor != 1.0:
            torch._foreach_mul_(gradients, factor)
        return
    for device in {gradient.device for gradient in gradients}:
        torch._foreach_mul_([gradient for gradient in gradients if gradient.device == device], factor.to(device))


def _needs_closure(optimizer: Optimizer) -> bool:
    """Whether `step` cannot be called without a closure, like LBFGS's."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty
