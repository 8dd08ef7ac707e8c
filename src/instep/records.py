"""What is said: the frozen records that cross rooms, and `record_class`, which makes records quickly.

What is made on every update is a named tuple, which costs a sixth of a frozen dataclass. What every start of a Trainer defines
is a `record_class`: `dataclass(frozen=True)` writes and compiles six methods for each class, which takes four times as long as
`__init__` alone. Records that users get in their hands are frozen dataclasses all the same.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar, dataclass_transform

import torch
from torch import Tensor

from instep.text import number, rate

T = TypeVar("T")


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record_class(kind: type[T]) -> type[T]:
    """A dataclass whose instances are values: equal where all fields are, with a hash, shown with their fields.

    Type checkers forbid to change a field; nothing does at run time.

    >>> @record_class
    ... class Place:
    ...     epoch: int
    ...     batch: int = 0
    >>> Place(2), Place(2) == Place(2, 0), Place(2) == Place(3)
    (Place(epoch=2, batch=0), True, False)
    """
    made: Any = dataclass(eq=False, repr=False)(kind)
    for name, method in (("__eq__", _is_equal_record), ("__hash__", _hash_record), ("__repr__", _show_record)):
        if name not in vars(kind) or vars(kind)[name] is None:
            setattr(made, name, method)
    return kind


def _values(record: Any) -> tuple[Any, ...]:
    return tuple(getattr(record, one.name) for one in fields(record))


def _is_equal_record(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if type(other) is type(self) else NotImplemented


def _hash_record(self: Any) -> int:
    return hash(_values(self))


def _show_record(self: Any) -> str:
    return f"{type(self).__qualname__}({', '.join(f'{one.name}={getattr(self, one.name)!r}' for one in fields(self))})"


class Change(NamedTuple):
    """A value that differs between two descriptions; None where one of them has none."""

    where: str
    before: Any
    now: Any


def differences(before: Any, now: Any, where: str = "") -> Iterator[Change]:
    """Every value that differs, by its dotted path; lists of different lengths as a whole.

    >>> list(differences({"lr": 0.1, "data": {"samples": 5}}, {"lr": 0.1, "data": {"samples": 6}}))
    [Change(where='data.samples', before=5, now=6)]
    """
    path = f"{where}." if where else ""
    before, now = _fill(before, now), _fill(now, before)
    if isinstance(before, Mapping) and isinstance(now, Mapping):
        for name in dict.fromkeys([*before, *now]):
            yield from differences(before.get(name), now.get(name), f"{path}{name}")
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for i, (old, new) in enumerate(zip(before, now, strict=True)):
            yield from differences(old, new, f"{path}{i}")
    elif before != now:
        yield Change(where, before, now)


def _fill(one: Any, other: Any) -> Any:
    """A part that is not there, compared with one that has entries, has none of them."""
    return {} if one is None and isinstance(other, Mapping) else one


class SavedTensors:
    """The values of some tensors. They are put back where they lie, so whoever else holds a tensor sees them too."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        self._tensors = list(tensors)
        self._values = [tensor.detach().clone() for tensor in self._tensors]

    @torch.no_grad()
    def put_back(self) -> None:
        for tensor, value in zip(self._tensors, self._values, strict=True):
            tensor.copy_(value)


class GeneratorState(NamedTuple):
    """Where a generator of a user's own stands: of "torch", "numpy" or "python", and what that calls its state."""

    kind: str
    content: Any


class StepResult(NamedTuple):
    """What one update cycle did.

    `loss` is the mean over all micro-batches, weighted by their counts: a detached 0-dim tensor on the device.
    `grad_norm` is the norm before clipping and is measured where `clip_norm` is given (`clip_norm=math.inf` only measures).
    `stepped` is False where nothing was counted (every target ignored) or a non-finite loss was skipped.

    >>> from instep import UpdateCycle
    >>> weight = torch.nn.Parameter(torch.ones(1))
    >>> cycle = UpdateCycle(torch.optim.SGD([weight], lr=0.1))
    >>> for x in (1.0, 3.0):
    ...     cycle.backward((weight * x).sum(), count=1)
    >>> result = cycle.step()
    >>> float(result.loss), result.count, result.stepped
    (2.0, 2, True)
    """

    loss: Tensor
    count: float | Tensor  # type: ignore[assignment]  # a tuple's own count() is of no use here
    grad_norm: Tensor | None
    stepped: bool
    clipped: Tensor | None = None  # whether clipping changed anything; None where nothing is clipped
    penalty: Tensor | None = None  # l1·Σ|p| + l2·Σp², apart from the loss; None where there is none
    parts: Mapping[str, Tensor] = MappingProxyType({})  # of the loss, by name, where the objective gives them; weighted as it is


class Update(NamedTuple):
    """One update cycle of a run, as `updates()` yields it.

    `loss`, `count` and `grad_norm` may be tensors on the device: reading them (`float(update.loss)`) waits for it.

    With several objectives it is the update of the first one that runs in every update; `by_objective` holds the updates of all
    that ran, by name.

    >>> from instep import Trainer
    >>> model = torch.nn.Linear(2, 1)
    >>> x = torch.ones(10, 2)
    >>> trainer = Trainer(
    ...     model,
    ...     loss=torch.nn.functional.mse_loss,
    ...     optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
    ...     train=(x, x[:, :1]),
    ...     epochs=1,
    ...     batch_size=4,
    ...     progress=False,
    ... )
    >>> [(update.step, update.samples, update.lr) for update in trainer.updates()]
    [(0, 4, 0.1), (1, 4, 0.1), (2, 2, 0.1)]
    """

    step: int  # update cycles begun before this one, over the whole run
    epoch: int
    index: int  # type: ignore[assignment]  # of the batch in its epoch
    loss: Tensor
    count: float | Tensor  # type: ignore[assignment]
    samples: int
    lrs: tuple[float, ...]  # of each parameter group, as it was during this update
    grad_norm: Tensor | None
    skipped: bool
    clipped: Tensor | None = None
    penalty: Tensor | None = None
    by_objective: "Mapping[str, Update]" = MappingProxyType({})
    parts: Mapping[str, Tensor] = MappingProxyType({})  # of the loss, where the objective gives them

    @property
    def losses(self) -> dict[str, Tensor]:
        """The loss of each objective by its name; empty in a plain run, where it is `loss`."""
        return {name: update.loss for name, update in self.by_objective.items()}

    @property
    def lr(self) -> float:
        """The learning rate of the first parameter group."""
        return self.lrs[0]

    def __repr__(self) -> str:
        """One line; reads the tensors, which waits for the device."""
        losses = [f"loss {name} {number(float(loss))}" for name, loss in self.losses.items()]
        said = ["skipped"] if self.skipped else losses or [f"loss {number(float(self.loss))}"]
        said.append(f"lr {rate(self.lr)}")
        if self.grad_norm is not None:
            said.append(f"grad norm {number(float(self.grad_norm))}")
        return f"step {self.step} (epoch {self.epoch}, batch {self.index}): {', '.join(said)}"


@dataclass(frozen=True)
class Evaluation(Mapping[str, float]):
    """The numbers of one evaluation by name, `{"valid/loss": …, "valid/accuracy": …}`, and when it was made.

    What is not one number stands in `tables`: in a confusion matrix, row i and column j count samples of class i that were
    classified as j.

    >>> found = Evaluation({"valid/loss": 0.25, "valid/accuracy": 0.9}, step=120, epoch=1)
    >>> found["valid/accuracy"], found.step
    (0.9, 120)
    >>> found
    Evaluation(valid/loss 0.25, valid/accuracy 0.9 at step 120)
    """

    values_by_name: Mapping[str, float]
    step: int = 0  # update cycles begun before it
    epoch: int = 0
    tables: Mapping[str, list[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, found: Mapping[str, Any], step: int = 0, epoch: int = 0) -> "Evaluation":
        """Numbers and tables as they were found, by name."""
        tables = {name: value for name, value in found.items() if isinstance(value, list)}
        return cls({name: value for name, value in found.items() if name not in tables}, step, epoch, tables)

    def __getitem__(self, name: str) -> float:
        return self.values_by_name[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_by_name)

    def __len__(self) -> int:
        return len(self.values_by_name)

    def __repr__(self) -> str:
        numbers = ", ".join(f"{name} {value:.4g}" for name, value in self.items())
        return f"Evaluation({numbers} at step {self.step})"

    def _repr_html_(self) -> str:
        from instep.drawing.html import block, confusion_matrix, paragraph, table

        numbers = table(("", "value"), [(name, number(value)) for name, value in self.items()], left=("",))
        matrices = [confusion_matrix(name, matrix) for name, matrix in self.tables.items()]
        return block(numbers, *matrices, paragraph(f"epoch {self.epoch}, step {self.step:,}"))


class SampleLoss(NamedTuple):
    """One sample of a data set, its own loss, and what the model made of it; batches of one."""

    source: str  # the name of the data that was passed; a share of train is in train
    index: int  # type: ignore[assignment]  # in that data
    loss: float
    data: Any
    output: Any  # None where the objective tells none
    target: Any


@record_class
class Pace:
    """What depends on the clock: how fast a stretch of the run went."""

    samples_per_s: float
    waiting: float  # the share of the time spent waiting for data, 0 to 1
    seconds: float  # since this process began to train
    memory_bytes: int | None = None  # that are taken; of an accelerator the most so far; None where nobody knows


@record_class
class Logged:
    """One line of the log: the mean over the updates since the line before."""

    step: int  # update cycles begun so far
    epoch: int
    loss: float | None  # None where every update of the window was skipped
    lr: float
    grad_norm: float | None
    clipped: int | None  # how many of the updates were clipped; None where nothing is clipped
    penalty: float | None  # the mean penalty; None where there is none
    skipped: int
    extra: Mapping[str, float]  # what the user logged
    pace: Pace
    parts: Mapping[str, float] = field(default_factory=dict)  # of the loss
    momentum: float | None = None  # of the last update; None where no schedule moves it


@dataclass(frozen=True)
class Plan:
    """A run before its first step, as `print(trainer)` shows it."""

    title: str
    rows: tuple[tuple[str, str], ...]  # (what, how); a reason for an automatic choice is part of how
    notes: tuple[str, ...] = ()
    total_steps: int = 0
    steps_per_epoch: int = 0
    epochs: int = 0
    metrics: tuple[str, ...] = field(default=())  # names that an evaluation will have, the monitored one first
    modules: tuple[tuple[str, ...], ...] = ()  # a table of the model, its head first
