"""Flags of modules: `model.training = True` after `model.eval()` changes the flag of one module and of none inside it."""

import weakref

from torch import nn

LIMIT = 64


class ModeFlags:
    """Which modules were put into eval mode last, by a call: one whose flag says otherwise later has been written to.

    A call to train() of a module, or of one that it is part of, is what puts it back. A part that is kept in eval mode, as a
    frozen backbone is, has a flag that says so.
    """

    def __init__(self) -> None:
        self._in_eval: dict[int, weakref.ref[nn.Module]] = {}

    def note(self, module: nn.Module, mode: bool) -> None:
        """`module.train(mode)` was called."""
        if not mode:
            if len(self._in_eval) < LIMIT or id(module) in self._in_eval:
                self._in_eval[id(module)] = weakref.ref(module)
        elif self._in_eval:
            self._in_eval.pop(id(module), None)
            if self._written():
                for part in module.modules():
                    self._in_eval.pop(id(part), None)

    def is_eval_in_effect(self, module: nn.Module) -> bool:
        """Whether a model that says train mode has no layer in it, since a flag above them was written."""
        written = self._written()
        if not written or not any(part is each for each in written for part in module.modules()):
            return False
        layers = [part for part in module.modules() if not part._modules or isinstance(part, nn.MultiheadAttention)]
        return not any(layer.training for layer in layers)

    def _written(self) -> list[nn.Module]:
        """Modules that were put into eval mode, and whose own flag says train mode."""
        alive = {key: module for key, reference in self._in_eval.items() if (module := reference()) is not None}
        if len(alive) < len(self._in_eval):
            self._in_eval = {key: self._in_eval[key] for key in alive}
        return [module for module in alive.values() if module.training]
