"""Attention: the first steps are watched closely, later ones in bursts, so that a long run of tiny steps costs next to nothing.

While it rests, the doctor counts steps and batches and hears of what is rare: passes over loaders, modes that change, schedulers,
optimizers, checkpoints. Forwards, losses, backwards and clips it does not hear then. Anything rare wakes it for a few steps.
"""

import time
from typing import Any

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.trace import Trace

FIRST = 200  # steps that are watched without rest
BURST = 8  # steps of a burst
EVERY = 512  # steps from one burst to the next
LONG_S = 0.02  # of processor time: steps that take longer are all watched, what it costs does not show there
CALLS = 128  # root calls without a step after which it rests, as in a long evaluation
SHARE = 0.1  # of the steps that may be watched because something rare woke it


class Attention:
    """Decides when the doctor rests: sets `hub.resting` and tells `on_rest()` and `on_wake()`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._until = FIRST
        self._watched = 0
        self._calls = 0
        self._modes: dict[int, bool] = {}
        self._begun_s: float | None = None
        self._long = False

    def after_step(self, _: Any) -> None:
        """While awake; asleep, only `on_alarm` comes."""
        steps = self._trace.steps
        self._watched += 1
        self._calls = 0
        if self._begun_s is None:
            self._begun_s = time.process_time()
        if steps >= self._until and not self._long:
            self._rest(steps)

    def after_call(self, _: Any) -> None:
        self._calls += 1
        if self._calls > CALLS and self._trace.steps >= FIRST:
            self._calls = 0
            self._rest(self._trace.steps)

    def on_alarm(self) -> None:
        steps = self._trace.steps
        if steps % EVERY == 0:
            self._wake()
        else:
            self._hub.alarm = min(self._hub.alarm, (steps // EVERY + 1) * EVERY)

    def on_pass_begins(self, *_: Any) -> None:
        self._stir()

    def on_pass_ends(self, *_: Any) -> None:
        self._stir()

    def on_optimizer(self, *_: Any) -> None:
        """A new phase begins."""
        self._stir()

    def after_optimizer_load(self, _: Called) -> None:
        self._stir()

    def after_mode(self, called: Called) -> None:
        """People call train() in every step; only a change is rare."""
        key, mode = id(called.args[0]), bool(called.argument(1, "mode", True))
        if self._modes.get(key) is not mode:
            if len(self._modes) > 256:
                self._modes.clear()
            self._modes[key] = mode
            self._stir()

    def _stir(self) -> None:
        if self._hub.resting and self._watched < FIRST + SHARE * self._trace.steps:
            self._wake()

    def _wake(self) -> None:
        self._until = self._trace.steps + BURST
        self._calls = 0
        self._hub.resting = False
        self._hub.say("on_wake")

    def _rest(self, steps: int) -> None:
        if steps == FIRST and self._begun_s is not None:
            self._long = (time.process_time() - self._begun_s) / FIRST > LONG_S
        if not self._long:
            self._hub.resting = True
            self._hub.alarm = (steps // EVERY + 1) * EVERY
            self._hub.say("on_rest")
