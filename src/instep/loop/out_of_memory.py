"""Overflow: what becomes of an update that does not fit in memory: the run stops and says how to go on, or splits finer.

Owns the words, and what has to be kept before an update so that it can be done again from its start. How a batch is cut is the
business of `sizes`, and that gradients and generators start afresh that of the update cycle and the keys.
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, NoReturn, get_args

import torch
from torch import Tensor, nn

from instep.data.loading.loader import Batch
from instep.data.memory import clean_up, is_out_of_memory, said
from instep.errors import DescriptionError, OutOfMemory
from instep.loop.batch_plan import Sizes
from instep.loop.stepper import Player

OnOverflow = Literal["raise", "split"]


class Overflow:
    """What a run does about it, as asked for; `say` is told of every finer split."""

    def __init__(
        self, how: OnOverflow, modules: Sequence[nn.Module], device: torch.device, *, say: Callable[[str], object]
    ) -> None:
        if how not in get_args(OnOverflow):
            raise DescriptionError(f'on_overflow={how!r} is not known; use "raise" or "split".')
        self.splits = how == "split"
        self._modules = modules  # whose buffers a forward changes
        self._device = device
        self._say = say
        self._ways_back: list[Callable[[], None]] = []

    def quiet(self) -> "Overflow":
        """The same for updates that are only tried out: nothing is said of what is split there."""
        other = copy.copy(self)
        other._say = lambda text: None
        return other

    def keep(self, player: Player) -> None:
        """Copy what this player's forwards change, where it lies: buffers, and the state of an optimizer with a closure."""
        self._ways_back = [_kept_buffers(module) for root in self._modules for module in root.modules()]
        if player.cycle.needs_closure:
            self._ways_back.append(_kept_state(player.optimizer.state))

    def begin_again(self, player: Player) -> None:
        """Put back what was kept and let go of what the failed attempt held; call it where the error itself is gone."""
        player.cycle.discard()
        clean_up(self._device)
        with torch.no_grad():
            for way_back in self._ways_back:
                way_back()

    def finer(self, error: Exception, sizes: Sizes, batch: Batch, player: Player) -> Sizes:
        """The sizes to do this update again with; raises where it cannot be, or is not to be, split finer."""
        if not is_out_of_memory(error):
            raise error
        whose = f", objective {player.name}" if player.name else ""
        where = f"step {player.step} (epoch {batch.epoch}, batch {batch.index}{whose})"
        if isinstance(error, OutOfMemory):
            raise OutOfMemory(f"{where}: {error}") from error.__cause__
        pieces = sizes.pieces(batch.samples)
        finer = sizes.halved(batch.samples)
        if finer is None:
            _refuse(f"{where}: {_at_its_end(max(pieces))}", error)
        if not self.splits:
            _refuse(
                f"{where}: a micro-batch of {max(pieces)} samples does not fit in memory; pass "
                f'on_overflow="split" to split it finer where needed, or a smaller micro_batch_size than {max(pieces)}.',
                error,
            )
        now = max(finer.pieces(batch.samples))
        self._say(f"a micro-batch of {max(pieces)} does not fit in memory: split into pieces of {now} from step {player.step} on")
        return finer

    def finer_look(self, error: Exception, largest: int) -> int:
        """With how many samples at once an evaluation or prediction begins again; raises like `finer`."""
        if not is_out_of_memory(error) or isinstance(error, OutOfMemory):
            raise error
        if largest == 1:
            _refuse("one sample alone does not fit in memory while the model is evaluated.", error)
        if not self.splits:
            _refuse(
                f"a batch of {largest} samples does not fit in memory while the model is evaluated; pass "
                'on_overflow="split" to split it finer where needed, or a smaller micro_batch_size.',
                error,
            )
        finer = -(-largest // 2)
        self._say(f"a batch of {largest} does not fit in memory while the model is evaluated: split into pieces of {finer}")
        return finer


def _refuse(message: str, error: Exception) -> NoReturn:
    raise OutOfMemory(f"{message} ({said(error)})") from error


def _at_its_end(samples: int) -> str:
    if samples == 1:
        return "one sample alone does not fit in memory, so no split of the batch does."
    return (
        f"a micro-batch of {samples} samples does not fit in memory, and a finer split would have one of a single sample, while "
        "the model has BatchNorm, which needs two or more."
    )


def _kept_buffers(module: nn.Module) -> Callable[[], None]:
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


def _kept_state(state: dict[Any, Any]) -> Callable[[], None]:
    """An optimizer's state by parameter; needed only where it changes before the last backward."""
    copied = {parameter: copy.deepcopy(values) for parameter, values in state.items()}

    def put_back() -> None:
        state.clear()
        state.update({parameter: copy.deepcopy(values) for parameter, values in copied.items()})

    return put_back
