"""Phases: how the time of an update is spent: on data, forward, backward, the optimizer, and what is left on Instep.

The updates are the run's own. On an accelerator the clock waits for the device at the end of each phase, so that what was begun
in a phase counts there.
"""

import time
from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.profiler import record_function

from instep.data.loading import loader as loading
from instep.loop.objective import Loss
from instep.run.run import Run

DATA, COPY, FORWARD, BACKWARD, OPTIMIZER, REST = "data", "copy", "forward", "backward", "optimizer", "Instep"
PHASES = (DATA, COPY, FORWARD, BACKWARD, OPTIMIZER)
MARK = "instep: "  # how the phases are called in a trace


class PhaseClock:
    """Seconds by phase, over the updates that it has seen. A phase inside another counts alone."""

    def __init__(self, device: torch.device) -> None:
        self.seconds: dict[str, float] = dict.fromkeys(PHASES, 0.0)
        self.total_s = 0.0
        self._device = device
        self._inner_s = [0.0]  # of the phases inside those that are open

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        begun = time.perf_counter()
        self._inner_s.append(0.0)
        try:
            with record_function(f"{MARK}{name}"):
                yield
                self._wait()
        finally:
            taken = time.perf_counter() - begun
            self.seconds[name] += taken - self._inner_s.pop()
            self._inner_s[-1] += taken

    @contextmanager
    def update(self) -> Iterator[None]:
        """A whole update; what is in none of its phases is Instep's."""
        begun = time.perf_counter()
        yield
        self._wait()
        self.total_s += time.perf_counter() - begun

    def forget(self) -> None:
        """Begin again, after a warm-up."""
        self.seconds = dict.fromkeys(PHASES, 0.0)
        self.total_s = 0.0

    def shares(self) -> dict[str, float]:
        """Of the time of all updates, by phase."""
        known = {name: seconds / self.total_s for name, seconds in self.seconds.items()} if self.total_s else {}
        return known | {REST: max(0.0, 1.0 - sum(known.values()))}

    def _wait(self) -> None:
        if self._device.type != "cpu":
            torch.accelerator.synchronize(self._device)


def clocked_updates(run: Run, clock: PhaseClock) -> Generator[None]:
    """The updates of a run, as its Trainer makes them, each under the clock."""
    with ExitStack() as stack:
        stack.enter_context(_clocked_calls(run, clock))
        session = stack.enter_context(run.session())
        batches = session.batches()
        stack.callback(batches.close)  # type: ignore[attr-defined]
        while True:
            with clock.update():
                with clock.phase(DATA):
                    batch = next(batches, None)
                if batch is None:
                    return
                results = {}
                for stepper in session.due():
                    with stepper.turn(batch, run.state.step):
                        pieces, expected = stepper.pieces(batch), partial(stepper.expected_count, batch)
                        results[stepper.name] = stepper.run(pieces, _clocked(stepper.objective, clock), expected)
                session.finish_update(batch, results)
            yield


def _clocked(objective: Any, clock: PhaseClock) -> Any:
    def forward(model: nn.Module, micro_batch: Any) -> Loss:
        with clock.phase(FORWARD):
            return objective(model, micro_batch)  # type: ignore[no-any-return]

    return forward


@contextmanager
def _clocked_calls(run: Run, clock: PhaseClock) -> Iterator[None]:
    """Inside, torch's backward, the steps of the optimizers and copies to the device are phases; afterwards all is as before."""
    backward, sent = Tensor.backward, loading.sent_batch

    def clocked_backward(*given: Any, **named: Any) -> None:
        with clock.phase(BACKWARD):
            backward(*given, **named)  # type: ignore[no-untyped-call]

    def clocked_copy(batch: Any, device: torch.device) -> Any:
        with clock.phase(COPY):
            return sent(batch, device)

    open_steps: list[Any] = []

    def before_step(optimizer: Any, given: Any, named: Any) -> None:
        open_steps.append(clock.phase(OPTIMIZER))
        open_steps[-1].__enter__()

    def after_step(optimizer: Any, given: Any, named: Any) -> None:
        open_steps.pop().__exit__(None, None, None)

    with ExitStack() as stack:
        for stepper in run.steppers:
            stack.callback(stepper.optimizer.register_step_pre_hook(before_step).remove)
            stack.callback(stepper.optimizer.register_step_post_hook(after_step).remove)
        stack.callback(setattr, loading, "sent_batch", sent)
        stack.callback(setattr, Tensor, "backward", backward)
        loading.sent_batch = clocked_copy
        Tensor.backward = clocked_backward  # type: ignore[method-assign]
        yield
