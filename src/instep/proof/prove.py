"""prove: every promise that applies, tried on a user's own training."""

import functools
import inspect
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from instep.errors import DescriptionError
from instep.proof.at_once import prove_load, prove_observe, prove_tune
from instep.proof.child import task_of_child
from instep.proof.interrupt import prove_interrupt
from instep.proof.new_processes import NewProcesses
from instep.proof.overflow import prove_overflow
from instep.proof.plain import prove_plain
from instep.proof.record import Trainer
from instep.proof.repeat import repeat_elsewhere, repeat_here
from instep.proof.result import BROKEN, Proof, Row, check_allowed, check_promises
from instep.proof.split import own_dtype, prove_split
from instep.proof.spread import prove_spread
from instep.proof.subject import Origin, examine, is_description_error, quiet, seeded
from instep.proof.trial import Trial, first_line
from instep.text import plural

Tell = Callable[[str, str], object]  # the promise, and what is being tried
Done = Callable[[Row], object]

HERE: dict[str, Callable[[Trial], Row]] = {
    "split": lambda trial: prove_split(trial.subject, trial.look, trial.tell),
    "load": prove_load,
    "observe": prove_observe,
    "tune": prove_tune,
    "overflow": prove_overflow,
    "plain": prove_plain,
}
ELSEWHERE: dict[str, Callable[[Trial, NewProcesses], Row]] = {"interrupt": prove_interrupt, "spread": prove_spread}


def prove(
    build: Callable[..., Trainer],
    *,
    options: Mapping[str, Any] | None = None,
    steps: int = 20,
    promises: Sequence[str] | None = None,
    allow: Sequence[str] = (),
) -> Proof:
    """Try on your own training what Instep promises: a row for each promise, and the causes where one does not hold.

    `build` returns a new Trainer each time it is called, with `options` as its arguments. Each promise is tried with `steps`
    updates in two arrangements, some of them in new processes: these find `build` by its file, so it has to be a function of a
    module. Nothing is written, and nothing is kept of the trainings. `promises` names those to try; `allow` names limits (like
    "draws" for dropout, "batchnorm") that are known and meant, so that `ok` does not go by them.

        proof = instep.prove(build, steps=10)
        print(proof)
        assert proof.ok

    >>> import torch
    >>> from instep import Trainer
    >>> def build():
    ...     model, x = torch.nn.Linear(3, 1), torch.ones(40, 3)
    ...     optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    ...     loss = torch.nn.functional.mse_loss
    ...     return Trainer(model, loss=loss, optimizer=optimizer, train=(x, x[:, :1]), epochs=1, batch_size=8)
    >>> proof = prove(build, steps=2, promises=["split", "plain"])
    >>> proof.ok, proof["plain"].verdict
    (True, 'bitwise')
    """
    values = dict(options or {})
    if not callable(build):
        raise DescriptionError(f"build is a {type(build).__name__}; pass a function that returns a new Trainer each time.")
    return prove_subject(
        seeded(build, values),
        origin=origin_of(build, values),
        steps=steps,
        promises=promises,
        allow=allow,
        whose=_name_of(build),
        file=_file_of(build),
    )


def prove_subject(
    build: Callable[[], Trainer],
    *,
    origin: Origin | None,
    steps: int,
    promises: Sequence[str] | None,
    allow: Sequence[str],
    whose: str,
    file: str = "",
    tell: Tell | None = None,
    done: Done | None = None,
) -> Proof:
    """The proof of what `build` gives; `tell` hears what is being tried, `done` gets each row."""
    if task_of_child() is not None:
        raise DescriptionError(
            "prove() was called while its file was loaded by a process of the proof; put the call under "
            'if __name__ == "__main__":'
        )
    asked, allow = check_promises(promises), check_allowed(allow)
    with tempfile.TemporaryDirectory(prefix="instep-proof-") as folder:
        with quiet():
            subject, trainer = examine(build, steps, origin, whose, file)
        name = ["repeat"]
        trial = Trial(subject, trainer.run, Path(folder), lambda words: tell(name[0], words) if tell else None)
        in_others = promises is None or bool({"repeat", *ELSEWHERE} & set(promises))
        processes = NewProcesses(trial, asked, is_wanted=in_others)
        try:
            rows: dict[str, Row] = {}
            for name[0], check in _order(trial, processes, asked):
                row = _try(name[0], check, rows.get("repeat"))
                if row is not None:
                    rows[name[0]] = row
                    if done is not None:
                        done(row)
        finally:
            processes.close()
    return Proof(tuple(rows[promise] for promise in asked), _title(trial, whose), allow)


def _order(trial: Trial, processes: NewProcesses, asked: Sequence[str]) -> Iterator[tuple[str, Callable[[], Row | None]]]:
    """What is tried here comes first, while the new processes are at work."""
    yield "repeat", lambda: repeat_here(trial)
    for promise in asked:
        if promise in HERE:
            yield promise, functools.partial(HERE[promise], trial)
    yield "repeat", lambda: repeat_elsewhere(trial, processes)
    for promise in asked:
        if promise in ELSEWHERE:
            yield promise, functools.partial(ELSEWHERE[promise], trial, processes)


def _try(promise: str, check: Callable[[], Row | None], repeat: Row | None) -> Row | None:
    begun = time.perf_counter()
    if repeat is not None and repeat.verdict in BROKEN:
        if promise == "repeat":
            return None
        return Row(promise, "", "not tried", meaning="the run does not repeat itself: mend that first (see repeat).")
    try:
        with quiet():
            row = check()
            if row is None:
                return None
    except Exception as error:  # of the user's own code too, in an arrangement that it was not written for
        row = Row(promise, "", "fails", meaning=f"{type(error).__name__}: {first_line(error)}")
        if is_description_error(error):
            row = Row(promise, "", "does not apply", meaning=first_line(error))
    row_seconds = time.perf_counter() - begun
    return Row(**{**vars(row), "seconds": row_seconds})


def origin_of(build: Callable[..., Trainer], values: Mapping[str, Any]) -> Origin | None:
    """How a new process finds the function: by its file. None for one of a notebook, a closure, a method."""
    function, file = inspect.unwrap(build), _file_of(build)
    name = getattr(function, "__qualname__", "")
    if not Path(file).is_file() or not name.isidentifier() or Path(file).suffix != ".py":
        return None
    module = getattr(function, "__module__", "")
    is_inside = bool(getattr(sys.modules.get(module), "__package__", ""))  # of a package: it may import relatively
    return Origin(("prove", f"{Path(file).resolve()}:{name}"), dict(values), f"from {module} import {name}" if is_inside else "")


def _file_of(build: Callable[..., Trainer]) -> str:
    try:
        return inspect.getsourcefile(inspect.unwrap(build)) or ""
    except TypeError:
        return ""


def _name_of(build: Callable[..., Trainer]) -> str:
    return f"{getattr(build, '__name__', type(build).__name__)}()"


def _title(trial: Trial, whose: str) -> str:
    run, dtype = trial.look, str(own_dtype(trial.look)).removeprefix("torch.")
    batch = min(run.plan.batch_size, run.plan.samples)
    return f"{whose}: {plural(trial.subject.steps, 'update')} of {plural(batch, 'sample')}, in {dtype} on {run.device.type}"
