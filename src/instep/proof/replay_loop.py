"""The updates of a replay: those of the run, made by the same session, with the batch in hand before each of them."""

from collections.abc import Iterator
from types import TracebackType

from instep.data.loading.loader import Batch
from instep.loop.stepper import Stepper
from instep.records import Update
from instep.run.run import Run


class ReplayLoop:
    """As a loop over `updates()`, in two halves.

    with ReplayLoop(run) as loop:
        for batch in loop.batches():
            update = loop.make_update(batch)
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._session = run.session()
        self.turn: Stepper = run.steppers[0]  # whose turn it is, or was last

    def __enter__(self) -> "ReplayLoop":
        self._session.__enter__()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._session.__exit__(kind, error, trace)

    def batches(self) -> Iterator[Batch]:
        return self._session.batches()

    def make_update(self, batch: Batch) -> Update:
        """Forward, backward and step of every objective that is due; counted, evaluated after where that is due."""
        results = {}
        for stepper in self._session.due():
            self.turn = stepper
            with stepper.turn(batch, self._run.state.step):
                results[stepper.name] = stepper.run(stepper.pieces(batch), stepper.objective)
        return self._session.finish_update(batch, results)
