"""What a run has learned: its model, the state of its optimizers, the average of the weights; captured and put back.

Where an optimizer has modes, a checkpoint's `model` holds the weights that are meant to be used, `training` those to go on from.
"""

import copy
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from instep.checkpoint import capture_optimizer, restore_model, restore_optimizer
from instep.errors import CheckpointError
from instep.loop.stepper import Player
from instep.optim.average import Average
from instep.optim.train_eval import Modes
from instep.run.buffers import passing_buffers, restore_passing_buffers


class Learned:
    """The parts of a checkpoint that hold tensors."""

    def __init__(
        self,
        model: nn.Module,
        players: Sequence[Player],
        *,
        modes: Modes,
        average: Average | None,
        losses: Sequence[nn.Module] = (),
    ) -> None:
        self._losses = losses  # those that are modules, and may have a state of their own
        self._model = model
        self._players = players
        self._modes = modes
        self._average = average

    @property
    def used(self) -> list[str]:
        """The parts that `use` takes."""
        return ["model"] if self._average is None else ["model", "ema"]

    def parts(self) -> dict[str, Any]:
        """By the names that they have in a checkpoint; the tensors are the run's own where that is enough."""
        captured = {player.name: self._captured(player) for player in self._players}
        parts: dict[str, Any] = {"model": self._model.state_dict(), "optimizer": captured.get("", captured)}
        if self._modes.any:
            with self._modes.evaluating():
                parts["model"] = _cloned(self._model.state_dict())
            with self._modes.training():
                parts["training"] = _cloned(self._model.state_dict())
        if passing := passing_buffers(self._model):
            parts["buffers"] = passing
        if self._average is not None:
            parts["ema"] = self._average.state_dict()
        if others := self._others():
            parts["others"] = others
        return parts

    def buffers(self) -> list[Tensor]:
        """What is not the same on several processes while they train."""
        averaged = [] if self._average is None else list(self._average.module.buffers())
        return [*self._model.buffers(), *averaged]

    def standing(self) -> dict[str, Any]:
        """What somebody may have changed in a loop of their own: what takes no gradient, and what is in eval mode."""
        return {
            "frozen": [name for name, parameter in self._model.named_parameters() if not parameter.requires_grad],
            "eval": [name for name, module in self._model.named_modules() if not module.training],
        }

    def stand(self, standing: Mapping[str, Any]) -> None:
        """Put the model as it stood."""
        frozen, in_eval = set(standing["frozen"]), set(standing["eval"])
        for name, parameter in self._model.named_parameters():
            parameter.requires_grad_(name not in frozen)
        for name, module in self._model.named_modules():
            module.training = name not in in_eval

    def restore(self, parts: Mapping[str, Any], *, leave: Collection[str]) -> None:
        """Go on from these parts; options of the optimizers that are named in `leave` keep the values they have now.

        Who leaves lr leaves what a schedule starts from.
        """
        leave = (*leave, "initial_lr") if "lr" in leave else leave
        restore_model(self._model, parts.get("training", parts["model"]))
        restore_passing_buffers(self._model, parts.get("buffers", {}))
        self._restore_others(parts.get("others", {}))
        for player in self._players:
            captured = parts["optimizer"][player.name] if player.name else parts["optimizer"]
            restore_optimizer(player.optimizer, captured, self._model.named_parameters(), leave=leave)
        self._modes.train()  # what was restored is the train mode's
        self._load_average(parts)

    def use(self, parts: Mapping[str, Any]) -> None:
        """Give the model, and the average, the weights of these parts; the optimizers stay as they are."""
        with self._modes.replacing():
            restore_model(self._model, parts["model"])
        self._load_average(parts)

    def copy(self) -> dict[str, Any]:
        """What `use` takes, copied."""
        with self._modes.evaluating():
            parts: dict[str, Any] = {"model": copy.deepcopy(self._model.state_dict())}
        if self._average is not None:
            parts["ema"] = _cloned(self._average.state_dict())
        return parts

    def touched(self) -> list[Any]:
        """What an update changes beside the model and the first optimizer, for who puts it back."""
        others = [player.optimizer for player in self._players[1:]]
        own = [thing for player in self._players for thing in player.touched()]
        return [*others, *own, self._modes, *([] if self._average is None else [self._average])]

    def _captured(self, player: Player) -> dict[str, Any]:
        """With the parameters in the order of the groups: the optimizer has those that were unfrozen last at the end."""
        captured = capture_optimizer(player.optimizer, self._model.named_parameters())
        names = [name for group in captured.get("groups", ()) for name in group["parameters"]]
        for kind in ("state", "on_host") if names else ():
            captured[kind] = {name: captured[kind][name] for name in names if name in captured[kind]}
        return captured

    def _others(self) -> dict[str, Any]:
        """Tensors outside the model that a run changes: further parameters of its optimizers, and losses with a state."""
        own = set(self._model.parameters())
        found: dict[str, Any] = {}
        for player in self._players:
            free = [p for group in player.optimizer.param_groups for p in group["params"] if p not in own]
            found |= {f"{player.name}/parameter {i}": p.detach() for i, p in enumerate(free)}
        for i, module in enumerate(self._losses):
            named = (*module.named_parameters(), *module.named_buffers())
            found |= {f"loss {i}/{name}": value.detach() for name, value in named}
        return found

    def _restore_others(self, kept: Mapping[str, Any]) -> None:
        now = self._others()
        if now.keys() != kept.keys():
            raise CheckpointError(
                f"the checkpoint has {', '.join(kept) or 'nothing'} beside the model, this run has {', '.join(now) or 'nothing'}."
            )
        for name, tensor in now.items():
            tensor.copy_(kept[name])

    def _load_average(self, parts: Mapping[str, Any]) -> None:
        if self._average is not None and "ema" in parts:
            self._average.load_state_dict(parts["ema"])


def _cloned(state: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value) for name, value in state.items()}
