"""Steps of Keras' optimizers, which are none of torch's: `apply(gradients, variables)` is told like a step of torch's.

Keras' layers, losses and loaders on torch are torch's own and are watched as such.
"""

import weakref
from typing import Any

from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.trace import Trace
from instep.doctor.watch.optimizers import OptimizerWatch


class KerasOptimizer:
    """An optimizer of Keras', in the form that torch's have."""

    def __init__(self) -> None:
        self.param_groups: list[dict[str, Any]] = [{"params": [], "lr": 0.0}]
        self.state: dict[Tensor, Any] = {}
        self.kept: dict[str, Any] = {}  # what the optimizer itself has


class KerasWatch:
    """Tells of the steps of Keras' optimizers."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._steps: OptimizerWatch | None = None
        self._views: dict[int, KerasOptimizer] = {}
        self._open: KerasOptimizer | None = None

    def install(self, observers: list[object]) -> None:
        self._steps = next(observer for observer in observers if isinstance(observer, OptimizerWatch))

    def remove(self) -> None: ...

    def before_keras_step(self, called: Called) -> None:
        assert self._steps is not None
        optimizer = called.args[0]
        self._open = view = self._view(optimizer)
        if self._hub.resting:
            return
        given = called.argument(2, "trainable_variables")
        variables = optimizer._trainable_variables if given is None else called.listed(2, "trainable_variables")
        weights = [_tensor(variable) for variable in variables]
        gradients = called.listed(1, "grads")
        if not _are_own(gradients, weights):
            self._open = None  # gradients from elsewhere: what they hold is not known
            return
        view.param_groups = [{"params": weights, "lr": _rate(optimizer)}]
        self._steps.step_begins(view, False, called.site)

    def after_keras_step(self, called: Called) -> None:
        view, self._open = self._open, None
        if view is None or self._steps is None:
            return
        if not self._hub.resting:
            self._steps.step_ends(view)
            return
        self._steps.count_unwatched(view)
        if self._trace.steps >= self._hub.alarm:
            self._hub.alarm = 1 << 62
            self._hub.say("on_alarm")

    def _view(self, optimizer: Any) -> KerasOptimizer:
        view = self._views.get(id(optimizer))
        if view is None:
            view = self._views[id(optimizer)] = type(type(optimizer).__name__, (KerasOptimizer,), {})()
            weakref.finalize(optimizer, self._views.pop, id(optimizer), None).atexit = False
        return view


def _tensor(variable: Any) -> Any:
    """The tensor that a variable of Keras' holds."""
    return getattr(variable, "_value", variable)


def _are_own(gradients: list[Any], weights: list[Any]) -> bool:
    """Whether the gradients are those that the weights hold."""
    return len(gradients) == len(weights) and all(
        isinstance(weight, Tensor) and weight.grad is gradient for gradient, weight in zip(gradients, weights, strict=True)
    )


def _rate(optimizer: Any) -> float:
    """Its learning rate, where nobody has to wait for it."""
    rate = _tensor(optimizer.learning_rate)
    if isinstance(rate, Tensor) and rate.device.type != "cpu":
        return 0.0
    return float(rate)


PATCHES = [Patch("keras_step", ("keras.src.optimizers.base_optimizer:BaseOptimizer.apply",), always=True, late=True)]
OBSERVERS = [KerasWatch]
