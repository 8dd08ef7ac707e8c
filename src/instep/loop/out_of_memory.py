"""What becomes of an update or an evaluation that does not fit in memory: the run stops and says how to go on, or splits finer.

Owns the words, and what has to be kept before an update so that it can be done again from its start. How a batch is cut is the
business of `micro_batches`, and that gradients and generators start afresh that of the update cycle and the keys.
"""

import copy
import functools
from collections.abc import Callable
from typing import Any, Literal, NoReturn, TypeVar, get_args

import torch
from torch import Tensor, nn

from instep.data.device import clean_up, is_out_of_memory, said
from instep.data.loading.loader import Batch
from instep.errors import DescriptionError, OutOfMemory
from instep.loop.holders import Holders, ModuleNames, is_users
from instep.loop.micro_batches import MicroBatches, Pieces
from instep.loop.objective import Loss
from instep.loop.saved_state import SavedState
from instep.loop.update import UpdateCycle
from instep.records import StepResult

OnOutOfMemory = Literal["raise", "split"]
Seen = TypeVar("Seen")


class Splitting:
    """What a run does about it, as asked for; `say` is told of every finer split."""

    def __init__(
        self,
        how: OnOutOfMemory,
        micro_batches: MicroBatches,
        holders: Holders,
        device: torch.device,
        *,
        say: Callable[[str], object],
    ) -> None:
        if how not in get_args(OnOutOfMemory):
            raise DescriptionError(f'on_out_of_memory={how!r} is not known; use "raise" or "split".')
        self.is_on = how == "split"
        self.micro_batches = micro_batches
        self.modules = holders.modules  # whose buffers a forward changes
        self._attributes = own_attributes(holders) if self.is_on else []
        self._device = device
        self._say = say

    def quiet(self) -> "Splitting":
        """The same for updates that are only tried out: nothing is said of a finer split, and it is not kept."""
        other = copy.copy(self)
        other.micro_batches, other._say = self.micro_batches.copy(), lambda text: None
        return other

    def run(
        self,
        cycle: UpdateCycle,
        pieces: Pieces,
        objective: Callable[..., Loss],
        expected: Callable[[], float | None] | None = None,
    ) -> StepResult:
        """One update; done again from its start, split finer, where it does not fit in memory."""
        put_back = self._keep(cycle)
        while True:
            try:
                return cycle.run(pieces, objective, expected)
            except (RuntimeError, MemoryError) as error:
                self._split_finer(error, pieces.batch)
            cycle.discard()  # here, where the error, and all that its frames hold, is gone
            clean_up(self._device)
            with torch.no_grad():
                for undo in put_back:
                    undo()

    def runner(self, cycle: UpdateCycle) -> Callable[..., StepResult]:
        """How updates of this cycle are run: decided once, before the loop."""
        return functools.partial(self.run, cycle) if self.is_on else cycle.run

    def look(self, size: int, look: Callable[..., Seen]) -> Seen:
        """What `look` gives with no more samples at once than fit in memory. It begins again from the start: sums are exact."""
        while True:
            try:
                return look(largest=self.micro_batches.evaluation)
            except (RuntimeError, MemoryError) as error:
                self._look_finer(error, self.micro_batches.evaluation or size)
            clean_up(self._device)  # here, where the error with its frames and all they hold is gone

    def explain(self, error: BaseException, batch: Batch) -> OutOfMemory | None:
        """An error of an update that did not fit in memory, in words; None for any other."""
        if not is_out_of_memory(error):
            return None
        if isinstance(error, OutOfMemory):
            return error
        plan = self.micro_batches.plan
        size = max(plan.pieces(batch.samples))
        if plan.halved(batch.samples) is None:
            return _refusal(_at_its_end(size), error)
        return _refusal(
            f'a micro-batch of {size} samples does not fit in memory; pass on_out_of_memory="split" to split it finer where '
            f"needed, or a smaller micro_batch_size than {size}.",
            error,
        )

    def _keep(self, cycle: UpdateCycle) -> list[Callable[[], object]]:
        """Copy what the forwards change, where it lies: buffers, attributes, and the state of an optimizer with a closure."""
        put_back: list[Callable[[], object]] = [keep_buffers(module) for root in self.modules for module in root.modules()]
        if self._attributes:
            parts = [part for root in self.modules for part in (*root.modules(), *root.parameters())]
            put_back.append(SavedState(*self._attributes, leave={id(part): part for part in parts}).put_back)
        if cycle.needs_closure:
            put_back.append(_keep_state(cycle.optimizer.state))
        return put_back

    def _split_finer(self, error: Exception, batch: Batch) -> None:
        """Halve the micro-batches; raises where the error is another one, or where they cannot be halved."""
        if not is_out_of_memory(error) or isinstance(error, OutOfMemory):
            raise error
        plan = self.micro_batches.plan
        finer = plan.halved(batch.samples)
        if finer is None:
            raise error
        before, now = max(plan.pieces(batch.samples)), max(finer.pieces(batch.samples))
        step = batch.epoch * plan.steps_per_epoch + batch.index
        self._say(f"a micro-batch of {before} does not fit in memory: split into pieces of {now} from step {step} on")
        self.micro_batches.plan = finer

    def _look_finer(self, error: Exception, largest: int) -> None:
        if not is_out_of_memory(error) or isinstance(error, OutOfMemory):
            raise error
        if largest == 1:
            _refuse("one sample alone does not fit in memory while the model is evaluated.", error)
        if not self.is_on:
            _refuse(
                f"a batch of {largest} samples does not fit in memory while the model is evaluated; pass "
                'on_out_of_memory="split" to split it finer where needed, or a smaller micro_batch_size.',
                error,
            )
        finer = -(-largest // 2)
        self._say(f"a batch of {largest} does not fit in memory while the model is evaluated: split into pieces of {finer}")
        self.micro_batches.evaluation = finer


def _refusal(message: str, error: BaseException) -> OutOfMemory:
    refusal = OutOfMemory(f"{message} ({said(error)})")
    refusal.__cause__ = error
    return refusal


def _refuse(message: str, error: Exception) -> NoReturn:
    raise _refusal(message, error) from error


def _at_its_end(samples: int) -> str:
    if samples == 1:
        return "one sample alone does not fit in memory, so no split of the batch does."
    return (
        f"a micro-batch of {samples} samples does not fit in memory, and a finer split would have one of a single sample, while "
        "the model has BatchNorm, which needs two or more."
    )


def own_attributes(holders: Holders) -> list[Any]:
    """What a forward may change beside buffers: the attributes of modules that a user wrote, and what objectives hold."""
    own = [part for root in holders.modules for part in root.modules() if is_users(type(part))]
    return [*map(ModuleNames, own), *holders.objects]


def keep_buffers(module: nn.Module) -> Callable[[], None]:
    """The buffers of one module: the values, where they lie; and which tensors they were, for a forward that assigns others."""
    held: dict[str, tuple[Tensor, Tensor] | None] = {
        name: None if buffer is None else (buffer, buffer.clone()) for name, buffer in module._buffers.items()
    }

    def put_back() -> None:
        for name in [name for name in module._buffers if name not in held]:
            del module._buffers[name]
        for name, kept in held.items():
            if kept is None:
                module._buffers[name] = None
                continue
            buffer, values = kept
            if buffer.shape != values.shape:
                buffer.resize_(values.shape)
            if not torch.equal(buffer, values):  # an expanded one cannot be written to, and was not
                buffer.copy_(values)
            if module._buffers[name] is not buffer:
                module._buffers[name] = buffer

    return put_back


def _keep_state(state: dict[Any, Any]) -> Callable[[], None]:
    """An optimizer's state by parameter; needed only where it changes before the last backward."""
    copied = {parameter: copy.deepcopy(values) for parameter, values in state.items()}

    def put_back() -> None:
        state.clear()
        state.update({parameter: copy.deepcopy(values) for parameter, values in copied.items()})

    return put_back
