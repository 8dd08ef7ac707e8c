"""What a step uses: of each gradient, what no step has used before, what one has, and whose it was."""

from typing import TYPE_CHECKING

from torch import Tensor

from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Backwards
from instep.doctor.watch.gradients import Gradients, Parameter, is_zero

if TYPE_CHECKING:
    from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers, StepFact

USERS = 512  # backwards of which it is known who used them first


class StepUse:
    """What a step uses, while its parameters are looked at one by one."""

    __slots__ = ("apart", "cleared", "fact", "looks", "names", "record")

    def __init__(self, fact: "StepFact", record: "OptimizerRecord") -> None:
        self.fact, self.record = fact, record
        self.looks = record.steps < 24 or record.steps % 8 == 0 or "lost" in record.totals  # at values
        self.cleared: set[int] | None = None  # parameters that a call has cleared since the last step, where somebody asks
        self.apart: dict[tuple[int, int], bool] = {}  # (another optimizer, a backward) -> whether it is the loss of another
        self.names: list[str] = []  # of those that are stale or reused


class GradientUsers:
    """Which optimizer used which backward, and what a step uses of the gradients that are there."""

    def __init__(self, trace: Trace, optimizers: "Optimizers") -> None:
        self._trace, self._optimizers = trace, optimizers
        self._gradients, self._backwards = trace.part(Gradients), trace.part(Backwards)
        self._users: dict[int, tuple[int, int]] = {}  # backward -> (optimizer that used it first, backwards begun then)

    def note(self, use: StepUse, tensor: Tensor, parameter: Parameter) -> None:
        """What the step uses of one parameter's gradient."""
        fact, grad, held = use.fact, tensor.grad, parameter.held
        fact.parameters += 1
        if grad is None:
            fact.missing += 1
            return
        if not held or (use.looks and parameter.device == "cpu" and is_zero(grad)):  # cleared in place since it came
            if parameter.dropped and not parameter.fed and not held and not is_zero(grad):
                parameter.fed += 1  # somebody has written it
            return
        parameter.fed += 1
        if len(held) > parameter.used > 0:  # rare: cleared by a call in between, or not at all
            self._forget_cleared(use, id(tensor), parameter)
        if len(held) > parameter.used:
            self._use_fresh(use, held, parameter)
        elif parameter.version == grad._version:  # else somebody has written to it
            fact.reused += 1
            use.names.append(parameter.name)
        parameter.used, parameter.version = len(held), grad._version
        if len(held) > fact.held:
            fact.held = len(held)

    def _forget_cleared(self, use: StepUse, key: int, parameter: Parameter) -> None:
        """Where a call has cleared the gradient since the last step, it holds only what came after that."""
        if use.cleared is None:
            use.cleared = self._gradients.cleared_since(use.record.time)
        if key in use.cleared:
            del parameter.held[: parameter.used]
            parameter.used = 0

    def _use_fresh(self, use: StepUse, held: list[Backward], parameter: Parameter) -> None:
        """A gradient that holds something which no step has used."""
        fact, used, newest = use.fact, parameter.used, held[-1]
        fact.fresh += 1
        if used:
            fact.stale += 1
            use.names.append(parameter.name)
            fact.used_held = max(fact.used_held, used)
        for backward in held[used:]:
            backward.used += 1
        if len(held) > 1 and (other := self._other_user(use.record, held, used)) is not None:
            fact.foreign += 1
            key = (other, newest.number)
            if key not in use.apart:
                use.apart[key] = self._is_apart(other, newest)
            fact.apart += use.apart[key]
        self._users.setdefault(newest.number, (use.record.number, self._trace.backwards))

    def forget(self) -> None:
        """Keep the newest of those that are known."""
        if len(self._users) > USERS:
            for number in list(self._users)[: USERS // 2]:
                del self._users[number]

    def _other_user(self, record: "OptimizerRecord", held: list[Backward], used: int) -> int | None:
        """The optimizer that has finished with a backward from which an unused part of the gradient comes, if it is another."""
        newest = held[-1].number
        for backward in held[used:-1]:
            user = self._users.get(backward.number)
            if user is not None and user[0] != record.number and user[1] < newest:
                return user[0]
        return None

    def _is_apart(self, other: int, backward: Backward) -> bool:
        """Whether the backward that has just come reaches no parameter of an optimizer: it is the loss of another."""
        if backward is not self._backwards.current:
            return False
        keys = self._optimizers.all[other].parameters if other < len(self._optimizers.all) else ()
        known = [self._gradients.parameters.get(key) for key in keys]
        return bool(known) and all(each is not None and (not each.held or each.held[-1] is not backward) for each in known)
