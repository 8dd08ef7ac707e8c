"""A player: one optimizer with its objective, its update cycle and its schedule. A plain run has one, a GAN has two.

Several players of a model take turns in every update. While one plays, the parameters of the others take no gradients; gradients
still flow through them.
"""

from collections.abc import Mapping
from typing import Any

from torch import Tensor, nn
from torch.amp import GradScaler
from torch.optim import Optimizer

from instep import keys
from instep.data.loading.loader import Batch
from instep.loop.objective import Loss, Objective, as_loss
from instep.loop.update import UpdateCycle
from instep.records import Done, Update
from instep.schedules.drive import Drive


class Player:
    """Who makes a step in an update: in each, or in every so many of them.

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
        seed_torch: Any,
    ) -> None:
        self.name = name  # "" in a plain run
        self.cycle = cycle
        self.drive = drive
        self.every = every
        self.made = 0
        self._objective = objective
        self._scaler = scaler
        self._index = index  # its turn in an update
        self._seed = seed
        self._seed_torch = seed_torch
        self.step = 0  # of the update that its random draws belong to
        self._model: nn.Module | None = None  # where others play too, whose parameters are to be left alone
        self._switched_off: list[Tensor] = []
        self.is_spread = False  # over several processes, of which most have no micro-batch with the offset 0

    @property
    def optimizer(self) -> Optimizer:
        return self.cycle.optimizer

    def play_beside_others(self, model: nn.Module) -> None:
        """From now on, leave alone what of this model is not its own."""
        self._model = model

    def plays(self, step: int) -> bool:
        """Every fifth time is the updates 5, 10, …: those with the steps 4, 9, …"""
        return (step + 1) % self.every == 0

    def begin(self, step: int) -> None:
        """Before its update cycle."""
        self.step = step
        self.drive.before_update(self.made)
        if self._model is not None:
            own = {p for group in self.optimizer.param_groups for p in group["params"]}
            self._switched_off = [p for p in self._model.parameters() if p.requires_grad and p not in own]
            for parameter in self._switched_off:
                parameter.requires_grad_(False)

    def end(self) -> None:
        """After its update cycle, however that ended."""
        for parameter in self._switched_off:
            parameter.requires_grad_(True)
        self._switched_off = []

    def objective(self, model: nn.Module, micro_batch: tuple[int, Any]) -> Loss:
        """The objective under the key of its step and offset; Python's and NumPy's generators are keyed once an update.

        (Once a micro-batch where several processes share the update: each has its own generators.)
        """
        offset, data = micro_batch
        key = keys.for_step(self._seed, self.step, offset, player=self._index)
        if offset == 0 or self.is_spread:
            keys.seed_host(key)
        self._seed_torch(key)
        loss = self._objective(model, data)
        return loss if isinstance(loss, Loss) else as_loss(loss, data)

    def recorded(self, batch: Batch, done: Done) -> Update:
        """Count what was done, and say it."""
        loss, count, grad_norm, stepped, clipped, penalty, parts = done
        lrs = tuple([float(group["lr"]) for group in self.optimizer.param_groups])
        update = Update(
            self.step, batch.epoch, batch.index, loss, count, batch.samples, lrs, grad_norm, not stepped, clipped, penalty
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

    def touched(self) -> list[Any]:
        """What an update changes beside the model and the optimizer, for who puts it back."""
        return [self.drive, *([] if self._scaler is None else [self._scaler])]
