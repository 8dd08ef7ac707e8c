"""Subject: the training that is proved. It is built anew for every arrangement: with other arguments, other pieces, in float64.

`build` is the user's own function. Nothing of it has to know that it is being proved.
"""

import contextlib
import functools
import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from instep import keys
from instep.data.inputs import is_several
from instep.data.sources.stream import Stream
from instep.data.structure import entries, map_columns
from instep.errors import DescriptionError
from instep.loop.objective import Objective
from instep.proof.record import Trainer
from instep.run.options import NAMES, Options, arranged
from instep.run.run import Run

# What every arrangement leaves out: a proof writes nothing, shows nothing, and makes all its updates.
BARE: dict[str, Any] = {
    **{"folder": None, "progress": False, "patience": None, "restore_best": False, "test": None, "doctor": False},
    **{"on_out_of_memory": "raise", "keep_best": 1, "num_workers": 0, "allow_changes": (), "shard": False, "loggers": ()},
}
# An evaluation would get float32 data, and says nothing about an update.
UNEVALUATED: dict[str, Any] = {"valid": None, "metrics": None, "monitor": None, "monitor_mode": "auto", "evaluate_every": None}
IN_FLOAT64: dict[str, Any] = UNEVALUATED | {"precision": "fp32", "compile": False, "ema": None}


@dataclass(frozen=True)
class Arrangement:
    """How a training is run, beside its own description."""

    changes: Mapping[str, Any] = field(default_factory=dict)  # of the arguments of the Trainer
    pieces: int | None = None  # micro-batches of a batch, whatever the arguments say
    largest: int | None = None  # samples of a micro-batch, in the same way
    in_float64: bool = False
    initial: str | None = None  # a file with the weights to begin with, where build itself trains and so rounds


@dataclass(frozen=True)
class Origin:
    """How another process can build the same: the arguments of `instep prove`, and values for build beside them."""

    arguments: tuple[str, ...]
    values: Mapping[str, Any] | None = None  # None: the arguments say them
    imports: str = ""  # the statement that imports build, where it stands in a package


@dataclass(frozen=True)
class Subject:
    """A function that builds a Trainer, how many updates are made, and where other processes find it."""

    build: Callable[[], Trainer]
    steps: int
    origin: Origin | None = None
    at: int = 0  # which of the Trainers that build makes is the one that it returns
    whose: str = "build()"
    file: str = ""  # of the user's code

    def trainer(self, arrangement: Arrangement = Arrangement()) -> Trainer:  # noqa: B008  # it is frozen
        """A new Trainer, arranged."""
        changes = {**BARE, "max_steps": self.steps, **(IN_FLOAT64 if arrangement.in_float64 else {}), **arrangement.changes}
        changes = {name: value for name, value in changes.items() if name in NAMES}

        def change(options: Options) -> dict[str, Any]:
            return changes | {"loss": widened_loss(options.loss)} if arrangement.in_float64 else changes

        try:
            with arranged(change, at=self.at):
                trainer = self.build()
        except Exception as error:
            if not is_description_error(error) or changes.get("evaluate_every", "") is not None or "schedule" in changes:
                raise
            changes["schedule"] = None  # one that goes by evaluations, which there are none of here
            with arranged(change, at=self.at):
                trainer = self.build()
        run: Run = trainer.run
        if arrangement.pieces is not None or arrangement.largest is not None:
            run.micro_batches.plan = replace(run.plan, update_cycle=arrangement.pieces or 1, micro_batch_size=arrangement.largest)
            run.plan.require_no_lonely_sample(run.model)
        if arrangement.initial is not None:
            run.model.load_state_dict(torch.load(arrangement.initial, map_location=run.device, weights_only=True))
        if arrangement.in_float64:
            widen(run)
        return trainer


def examine(
    build: Callable[[], Trainer], steps: int, origin: Origin | None, whose: str, file: str = ""
) -> tuple[Subject, Trainer]:
    """The subject, and one Trainer of it to look at. What cannot be proved at all is an error here."""
    if not isinstance(steps, int) or isinstance(steps, bool) or steps < 1:
        raise DescriptionError(
            f"steps={steps!r} must be a whole number, 1 or more: so many updates are made in each arrangement."
        )
    quiet = {name: BARE[name] for name in ("folder", "progress", "num_workers")}
    with arranged(quiet) as seen:
        trainer = build()
    run = getattr(trainer, "run", None)
    if not isinstance(run, Run):
        raise DescriptionError(f"{whose} returned a {type(trainer).__name__}; it has to return an instep.Trainer.")
    at = next((place for place, options in enumerate(seen.made) if options is run.options), None)
    if at is None:
        raise DescriptionError(
            f"{whose} returned a Trainer that was made before; it has to make a new one, with a new model, each time."
        )
    if run.processes.are_several:
        raise DescriptionError("prove() starts processes of its own; call it without torchrun.")
    if run.total_steps < 1:
        raise DescriptionError(f"{whose} describes a run without an update; pass epochs= or max_steps= of 1 or more.")
    return Subject(build, min(steps, run.total_steps), origin, at, whose, file), trainer


def is_description_error(error: BaseException) -> bool:
    """Whether an argument does not fit; the command has errors of its own around those."""
    return isinstance(error, DescriptionError) or isinstance(error.__cause__, DescriptionError)


def seeded(build: Callable[..., Trainer], values: Mapping[str, Any]) -> Callable[[], Trainer]:
    """`build` with these values, under the key that `instep train` builds under."""
    seed = values.get("seed")

    def make() -> Trainer:
        keys.seed_all(keys.for_build(keys.check_seed(0 if seed is None else seed)))
        return build(**values)

    return make


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Inside, nothing is printed or warned of: what is wrong stands in the proof. Generators and torch's threads are put back."""
    threads = torch.get_num_threads()
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings(), keys.fork_rng():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            torch.set_num_threads(threads)


@contextlib.contextmanager
def wide(is_wide: bool) -> Iterator[None]:
    """Inside, tensors that a model makes are float64, where the training is."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if is_wide else before)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def widen(run: Run) -> None:
    """The same run in float64: its model, its losses, the state of its optimizers, and each micro-batch."""
    for module in run.splitting.modules:
        module.double()
    for stepper in run.steppers:
        for group in stepper.optimizer.param_groups:
            for parameter in group["params"]:
                if parameter.dtype in (torch.float32, torch.float16, torch.bfloat16):
                    parameter.data = parameter.data.double()
        for entry in stepper.optimizer.state.values():
            entry.update({name: widened(value) for name, value in entry.items() if name != "step"})
        stepper.wrap(lambda objective: functools.partial(_on_widened, objective))


def widened(thing: Any) -> Any:
    """The tensor in float64, where it holds real numbers."""
    return thing.double() if isinstance(thing, Tensor) and thing.is_floating_point() else thing


def is_stream(run: Run) -> bool:
    return isinstance(run.feed.train, Stream)


def split_sizes(samples: int, fewest: int) -> list[int]:
    """Into how many micro-batches a batch is split to see whether that changes anything: evenly, and unevenly."""
    most = samples // fewest
    return [pieces for pieces in (2, 3) if pieces <= most] or ([most] if most > 1 else [])


def rounds_to(number: float) -> str:
    """A difference in one digit: 3e-8, 2e-2; 0.3 is 3e-1."""
    if number == 0 or not math.isfinite(number):
        return "0" if number == 0 else str(number)
    digits, exponent = f"{number:.0e}".split("e")
    return f"{digits}e{int(exponent)}"


def _on_widened(objective: Objective, model: Any, batch: Any) -> Any:
    return objective(model, map_columns(_widen_column, batch) if entries(batch) or is_several(batch) else _widen_column(batch))


def _widen_column(column: Any) -> Any:
    return widened(column)


def widened_loss(loss: Any) -> Any:
    """A loss with its tensors in float64: the class weights of a partial function; a module's own are widened with it."""
    if not isinstance(loss, functools.partial):
        return loss.double() if isinstance(loss, nn.Module) else widened(loss)
    args = [widened_loss(part) for part in loss.args]
    named = {name: widened_loss(part) for name, part in loss.keywords.items()}
    return functools.partial(loss.func, *args, **named)
