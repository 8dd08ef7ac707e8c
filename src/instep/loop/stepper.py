"""Stepper: one optimizer with its objective, its update cycle and its schedule. A plain run has one, a GAN has two.

Several steppers of a model take turns in every update. While one has its turn, the parameters of the others take no gradients;
gradients still flow through them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from instep import keys
from instep.data.loading.loader import Batch
from instep.errors import InstepError, NonFiniteLoss, ObjectiveError
from instep.loop.error_place import ErrorPlace
from instep.loop.first_loss import look_at_first
from instep.loop.objective import Loss, Objective, as_loss, given_loss
from instep.loop.torch_errors import EXPLAINED
from instep.loop.update import UpdateCycle
from instep.records import StepResult, Update
from instep.schedules.drive import Drive

KEYS_AHEAD = 64

Run = Callable[[Iterable[Any], Callable[..., Loss], Callable[[], float | None]], StepResult]
Pieces = Callable[[Batch], Iterable[tuple[int, Any]]]


class Stepper:
    """What makes a step in an update: in each, or in every so many of them.

        with stepper.turn(batch, step):
            result = stepper.run(stepper.pieces(batch), stepper.objective, partial(stepper.expected_count, batch))

    Its schedule goes by its own steps: `made` counts them, without those that were skipped.
    """

    def __init__(
        self,
        name: str,
        *,
        objective: Objective,
        cycle: UpdateCycle,
        drive: Drive,
        scaler: GradScaler | None,
        every: int,
        index: int,
        seed: int,
        seed_torch: Callable[[int], object],
        run: Run,
        pieces: Pieces,
        is_cut: Callable[[Batch], bool],
        error_place: ErrorPlace,
        beside: nn.Module | None,
        processes: int,
    ) -> None:
        self.name = name  # "" in a plain run
        self.cycle = cycle
        self.run = run  # cycle.run, or the same with a finer split where a micro-batch does not fit in memory
        self.pieces = pieces
        self.drive = drive
        self.every = every
        self.made = 0
        self.step = 0  # of the update that its random draws belong to
        self.error_place = error_place
        self._objective = objective
        self._is_cut = is_cut
        loss = given_loss(objective) if processes == 1 else None  # several processes have a number of their own
        self._counted = None if loss is None else loss[1]
        self._scaler = scaler
        self._index = index  # its turn in an update
        self._seed = seed
        self._seed_torch = seed_torch
        self._beside = beside  # the model, where others train parts of it too, which are to be left alone
        self._switched_off: list[Tensor] = []
        self.keys_each_piece = processes > 1  # of which most have no micro-batch with the offset 0
        self._is_first, self._is_said = False, False
        self._batch: Batch | None = None  # of its present turn, or its last
        self._first_keys: list[int] = []  # of whole batches, for KEYS_AHEAD steps from this one on
        self._first_keyed = 0

    @property
    def optimizer(self) -> Optimizer:
        return self.cycle.optimizer

    @property
    def batch(self) -> Batch | None:
        """Of its present turn, or its last."""
        return self._batch

    def is_due(self, step: int) -> bool:
        """Every fifth time is the updates 5, 10, …: those with the steps 4, 9, …"""
        return (step + 1) % self.every == 0

    def turn(self, batch: Batch, step: int) -> "Stepper":
        """Its part of an update, to be entered: its learning rate is in, what is not its own takes no gradient."""
        self.step = step
        self._batch = batch
        self.drive.before_update(self.made)
        if self._beside is not None:
            self._leave_others(self._beside)
        return self

    @contextmanager
    def looking(self, batch: Batch, step: int) -> Iterator[None]:
        """Inside, its objective may be called as in an update, only to look: the learning rate stays, nothing is counted."""
        before = self.step, self._batch
        self.step, self._batch = step, batch
        if self._beside is not None:
            self._leave_others(self._beside)
        try:
            with self:
                yield
        finally:
            self.step, self._batch = before

    def _leave_others(self, model: nn.Module) -> None:
        own = {p for group in self.optimizer.param_groups for p in group["params"]}
        self._switched_off = [p for p in model.parameters() if p.requires_grad and p not in own]
        for parameter in self._switched_off:
            parameter.requires_grad_(False)

    def __enter__(self) -> "Stepper":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for parameter in self._switched_off:
            parameter.requires_grad_(True)
        self._switched_off = []
        if isinstance(error, (MemoryError, InstepError, *EXPLAINED)) and self._batch is not None:
            placed = self.error_place.find(error, self._batch, self.name, self._objective)
            if placed is not None:
                raise placed from placed.__cause__

    def settle(self) -> None:
        """Look at what was left unread of its updates: raises where a loss or gradients were not finite. Waits."""
        try:
            self.cycle.settle()
        except NonFiniteLoss as error:
            if self._batch is None:
                raise
            raise self.error_place.find_late(error, self._batch, self.every, self.name) from None

    def expected_count(self, batch: Batch) -> float | None:
        """What the micro-batches of a batch should count together; None where nobody knows, or there is one."""
        if self._counted is None or not self._is_cut(batch):
            return None
        return self._counted.expected(batch.data[1]) if isinstance(batch.data, tuple) and len(batch.data) == 2 else None

    def objective(self, model: nn.Module, micro_batch: tuple[int, Any]) -> Loss:
        """The objective under the key of its step and offset; Python's and NumPy's generators are keyed once an update.

        (Once a micro-batch where several processes share the update: each has its own generators.)
        """
        offset, data = micro_batch
        key = keys.for_step(self._seed, self.step, offset, turn=self._index) if offset else self._first_key()
        if offset == 0 or self.keys_each_piece:
            keys.seed_host(key)
        self._seed_torch(key)
        try:
            loss = self._objective(model, data)
        except ObjectiveError as error:
            if error.row is not None:
                error.row += offset
            raise
        loss = loss if isinstance(loss, Loss) else as_loss(loss, data)
        if self._is_first:
            self._is_first = False
            look_at_first(self._objective, loss, is_said=self._is_said)
        return loss

    def _first_key(self) -> int:
        """The key of the offset 0. Many are made at once: between two updates one takes three times as long."""
        ahead = self.step - self._first_keyed
        if not 0 <= ahead < len(self._first_keys):
            steps = range(self.step, self.step + KEYS_AHEAD)
            self._first_keys = [keys.for_step(self._seed, step, turn=self._index) for step in steps]
            self._first_keyed, ahead = self.step, 0
        return self._first_keys[ahead]

    def wrap(self, around: Callable[[Objective], Objective]) -> None:
        """Put something round its objective, for who looks at each micro-batch or changes it."""
        self._objective = around(self._objective)

    def watch_first_loss(self, *, is_said: bool) -> None:
        """Look at the next loss: what is wrong with it is refused, or said where somebody wrote the objective."""
        self._is_first, self._is_said = True, is_said

    def count(self, batch: Batch, result: StepResult) -> Update:
        """Count the step that was made, and give the record of it."""
        loss, units, grad_norm, stepped, clipped, penalty, parts = result
        lrs = tuple([float(group["lr"]) for group in self.optimizer.param_groups])
        update = Update(
            self.step, batch.epoch, batch.index, loss, units, batch.samples, lrs, grad_norm, not stepped, clipped, penalty
        )
        if parts:
            update = update._replace(parts=parts)
        if stepped:
            self.made += 1
            self.drive.after_update()
        return update

    def state(self) -> dict[str, Any]:
        """What a checkpoint keeps, but for the optimizer."""
        return {
            "name": self.name,
            "made": self.made,
            "schedule": self.drive.state_dict(),
            "scaler": None if self._scaler is None else self._scaler.state_dict(),
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.made = state["made"]
        self.drive.load_state_dict(state["schedule"])
        if self._scaler is not None and state["scaler"] is not None:
            self._scaler.load_state_dict(dict(state["scaler"]))

    def stateful(self) -> list[Any]:
        """What an update changes beside the model and the optimizer, for who puts it back."""
        return [self.drive, *([] if self._scaler is None else [self._scaler])]
