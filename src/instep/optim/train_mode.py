"""The train mode of a model: somebody who calls `model.eval()` to look at it, and forgets, still trains it afterwards."""

from torch import nn

from instep.errors import give_notice
from instep.optim.freeze import is_frozen


class TrainMode:
    """Puts a model that is in eval mode as a whole back into train mode; single modules in eval mode stay there."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._in_eval: list[nn.Module] = []  # while the model as a whole trains; freeze() holds its own
        self.remember()

    def remember(self) -> None:
        """Take note of the single modules that are in eval mode."""
        if self._model.training:
            self._in_eval = [module for module in self._model.modules() if not module.training and not is_frozen(module)]

    def enter(self) -> None:
        """Before updates."""
        if self._model.training:
            return
        self._model.train()
        for module in self._in_eval:
            module.training = False


def say_in_eval() -> None:
    """What a loop of the user's own is told that goes on training a model in eval mode, which may be meant."""
    give_notice(
        "the model is in eval mode, and this update trains it so: without dropout, with BatchNorm on its running estimates. Call "
        "model.train() after looking at it; trainer.evaluate() and predict() look without changing anything."
    )
