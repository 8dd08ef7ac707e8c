"""Where an optimizer of the user's own keeps what low-precision weights cannot hold: masters, compensation, random rounding.

Of torch's optimizers it is known that they keep nothing. Another one is searched: whatever it has of the size of a weight, and
whether its step draws random numbers. What is not found may be elsewhere; so the weights must also have stood still over many
steps.
"""

import gc
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward, Backwards
from instep.doctor.watch.gradients import Gradients, Parameter
from instep.doctor.watch.optimizers import Step

LOW = (torch.bfloat16, torch.float16)
LOOKS = 32  # steps that are looked at, one in four
OBJECTS = 4096
ALL_ALIKE = 16  # numbers that hardly have one sign by chance
ELEMENTS = 4096
OWN = ("param_groups", "state", "defaults")  # what every optimizer has; its state is looked through by itself


@record_class
class Residue:
    """One optimizer that is not torch's, with low-precision weights."""

    looks: int = 0
    clear: int = 0  # of those: nothing was found that could hold the rest of a weight
    steps: int = 0  # between the first look and the last
    stayed: float = 0.0  # share of elements with gradient that were the same at both


@dataclass
class HandResidue:
    """Low-precision weights that are in no optimizer and are updated all the same, by a class or a function of the user's."""

    names: list[str] = field(default_factory=list)
    dtype: str = ""
    site: str | None = None  # of the backwards before the updates
    updates: int = 0  # that were looked at: something has moved
    plain: int = 0  # of those: no random number was drawn between the backward and the next forward
    searches: int = 0  # for something that could hold the rest of a weight
    clear: int = 0  # of those: without result
    unchanged: dict[str, list[float]] = field(default_factory=dict)  # by name, share of elements with gradient that stayed
    backwards: int = 0  # from the first look to the last
    stayed: float = 0.0  # share of elements that were the same at both


@part_class
class Residues:
    """The part of the trace about residues."""

    optimizers: dict[int, Residue] = field(default_factory=dict)  # by number
    by_hand: HandResidue = field(default_factory=HandResidue)


class ResidueWatch:
    """Fills `Residues`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._part = trace.part(Residues)
        self._first: dict[
            int, tuple[int, list[Tensor]]
        ] = {}  # optimizer -> its steps and the beginnings of weights at the first look
        self._draws: tuple[int, Tensor] | None = None
        self._perhaps: list[_Perhaps] | None = None  # what may hold the rest by its size; None where something does for sure

    def before_step(self, step: Step) -> None:
        self._draws = None
        number, count = step.record.number, step.record.steps
        if step.inside or step.closure or count % 4 != 1 or type(step.optimizer).__module__.startswith("torch.optim"):
            return
        weights = [tensor for tensor in _weights(step.optimizer) if tensor.grad is not None]
        residue = self._part.optimizers.get(number)
        if not weights or (residue is not None and residue.looks >= LOOKS) or len(self._part.optimizers) > 32:
            return
        if residue is None:
            residue = self._part.optimizers[number] = Residue()
            self._first[number] = (count, [_beginning(tensor).clone() for tensor in weights])
        residue.looks += 1
        self._perhaps = _holders(step.optimizer, weights)
        self._compare(residue, number, count, weights)
        self._draws = (number, torch.get_rng_state())

    def _compare(self, residue: Residue, number: int, count: int, weights: list[Tensor]) -> None:
        began, first = self._first[number]
        same = total = 0
        for tensor, old in zip(weights, first, strict=False):
            if tensor.grad is not None and tensor.grad.shape == tensor.shape and len(old) == len(_beginning(tensor)):
                pulled = _beginning(tensor.grad) != 0
                same += int(((_beginning(tensor) == old) & pulled).sum())
                total += int(pulled.sum())
        residue.steps, residue.stayed = count - began, same / total if total else 0.0

    def after_step(self, step: Step) -> None:
        draws, self._draws = self._draws, None
        perhaps, self._perhaps = self._perhaps, None
        if draws is None or draws[0] != step.record.number or not torch.equal(draws[1], torch.get_rng_state()):
            return  # rounds by chance, perhaps
        if perhaps is not None and all(each.is_average() for each in perhaps):
            self._part.optimizers[draws[0]].clear += 1


class HandResidueWatch:
    """Fills `Residues.by_hand`: after every fourth backward weights are copied, before the next one they are compared."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._fact = trace, trace.part(Residues).by_hand
        self._parameters, self._backwards = trace.part(Gradients).parameters, trace.part(Backwards)
        self._copies: list[tuple[Parameter, Tensor, Tensor]] = []  # weights and gradients after a backward
        self._state: Tensor | None = None  # of the generator then
        self._plain = True
        self._first: list[tuple[Parameter, Tensor]] = []
        self._began = 0

    def on_wake(self) -> None:
        self._copies = []

    def after_backward(self, _: Called) -> None:
        self._copies = []
        if self._trace.backwards % 4 != 1 or self._fact.updates >= LOOKS:
            return
        for parameter in self._parameters.values():
            if parameter.dtype not in ("bfloat16", "float16") or parameter.optimizers or not parameter.held:
                continue
            tensor = parameter.reference()
            if tensor is not None and parameter.device == "cpu" and tensor.grad is not None and not tensor.grad.is_sparse:
                self._copies.append((parameter, _beginning(tensor).clone(), _beginning(tensor.grad).clone()))
        if self._copies:
            self._state, self._plain = torch.get_rng_state(), True
            self._fact.site = self._backwards.current.site if self._backwards.current is not None else None

    def before_call(self, _: Any) -> None:
        if self._copies and self._state is not None:
            self._plain = torch.equal(self._state, torch.get_rng_state())
            self._state = None

    def on_backward(self, backward: Backward, _: Tensor) -> None:
        copies, self._copies = self._copies, []
        now = [(parameter, tensor, old, grad) for parameter, old, grad in copies if (tensor := parameter.reference()) is not None]
        if not any(not torch.equal(_beginning(tensor), old) for _, tensor, old, _ in now):
            return  # no update came in between
        if self._state is not None:
            self._plain = torch.equal(self._state, torch.get_rng_state())
        fact = self._fact
        fact.updates += 1
        fact.plain += self._plain
        now = [each for each in now if each[1].dim() >= 2 and each[1].numel() >= 16]
        for parameter, tensor, old, grad in now:
            pulled = grad != 0
            if bool(pulled.any()):
                share = float(((_beginning(tensor) == old) & pulled).sum() / pulled.sum())
                fact.unchanged.setdefault(parameter.name, []).append(share)
                fact.dtype = parameter.dtype
        if not self._first:
            self._first, self._began = [(parameter, old) for parameter, _, old, _ in now], backward.number
        self._compare(backward)
        if now and fact.updates & (fact.updates - 1) == 0:  # the first, the second, the fourth, …
            fact.searches += 1
            own = {id(each) for _, *pair in copies for each in pair} | {id(old) for _, old in self._first}
            fact.clear += not _is_kept_somewhere([tensor for _, tensor, _, _ in now[:4]], own)

    def _compare(self, backward: Backward) -> None:
        same = total = 0
        for parameter, old in self._first:
            tensor = parameter.reference()
            if tensor is not None:
                same += int((_beginning(tensor) == old).sum())
                total += len(old)
        self._fact.backwards, self._fact.stayed = backward.number - self._began, same / total if total else 0.0


def _is_kept_somewhere(weights: list[Tensor], own: set[int]) -> bool:
    """Whether any tensor of this process, but for those, may hold what rounding takes from one of these weights."""
    own = own | {id(weight) for weight in weights} | {id(weight.grad) for weight in weights}
    whole = sum(weight.numel() for weight in weights)
    for each in gc.get_objects():
        if not issubclass(type(each), Tensor) or id(each) in own or not each.is_floating_point() or each.device.type != "cpu":
            continue
        if each.layout is not torch.strided:
            continue
        if each.dim() == 1 and each.numel() >= whole and each.dtype not in LOW:
            return True  # a flat copy of all weights, perhaps
        if any(each.numel() == weight.numel() and _is_rest(each, weight) for weight in weights):
            return True
    return False


def _is_rest(each: Tensor, weight: Tensor) -> bool:
    """Whether a tensor of the size of a weight is a master of it, or what is left over from rounding."""
    mine, given = _beginning(weight).float(), _beginning(each).float()
    if torch.equal(given.to(weight.dtype), _beginning(weight)):
        return each.dtype not in LOW  # else a copy
    return bool(given.any()) and bool((given.abs() <= mine.abs() / 64).float().mean() > 0.98)


def _weights(optimizer: torch.optim.Optimizer) -> list[Tensor]:
    """Some low-precision weights on the CPU: the first and the last matrices."""
    found = [
        tensor
        for group in optimizer.param_groups
        for tensor in group["params"]
        if tensor.dtype in LOW and tensor.dim() >= 2 and tensor.device.type == "cpu" and tensor.numel() >= 16
    ]
    return found if len(found) <= 4 else [*found[:2], *found[-2:]]


def _beginning(tensor: Tensor) -> Tensor:
    return tensor.detach().reshape(-1)[:ELEMENTS]


class _Perhaps:
    """A tensor that is small next to a weight: what is left over from rounding, or an average of small gradients."""

    def __init__(self, each: Tensor, weight: Tensor) -> None:
        self._each, self._before = each, _beginning(each).double()
        grad = weight.grad if weight.grad is not None else torch.zeros_like(weight)
        self._causes = [_beginning(grad).double(), _beginning(weight).double()]

    def is_average(self) -> bool:
        """Whether a step has made it what an average becomes: a share of itself, and some of the gradient, and of the weight.

        Of squares too. What is left over keeps all of itself.
        """
        now = _beginning(self._each).double()
        if len(now) < ALL_ALIKE or bool((now >= 0).all()):
            return len(now) >= ALL_ALIKE
        columns = torch.stack([self._before, *self._causes], 1)
        scale = columns.norm(dim=0).clamp(min=1e-30)
        shares = torch.linalg.lstsq(columns / scale, now[:, None], driver="gelsd").solution[:, 0] / scale
        rest = (columns @ shares - now).norm()
        return bool(rest <= 0.02 * now.norm()) and -0.01 < float(shares[0]) < 0.9995


def _holders(optimizer: torch.optim.Optimizer, weights: list[Tensor]) -> list[_Perhaps] | None:
    """What an optimizer has that may keep what rounding takes from weights, by its size; None where something else may, too."""
    params = [tensor for group in optimizer.param_groups for tensor in group["params"]]
    own, shapes = {id(tensor) for tensor in params}, {tensor.shape for tensor in params}
    others = {name: value for name, value in vars(optimizer).items() if name not in OWN}
    found = []
    for weight in weights:
        for each in (*_inside(optimizer.state.get(weight, {})), *_inside(others)):
            if id(each) in own or (isinstance(each, Tensor) and each.shape != weight.shape and each.shape in shapes):
                continue  # another weight, or what belongs to it
            kind = _kind(each, weight)
            if kind == "holds":
                return None
            found += [_Perhaps(each, weight)] if kind == "perhaps" else []
    return found


def _kind(each: Any, weight: Tensor) -> str:
    """Whether something "holds" the rest of a weight, "perhaps" does, or does not: ""."""
    if isinstance(each, torch.Generator):
        return "holds"
    if not isinstance(each, Tensor) or each is weight or each.numel() < weight.numel():
        return ""
    if each.numel() != weight.numel() or not each.is_floating_point() or each.device != weight.device:
        return "holds"  # a flat copy of all weights, the lower bits of them: who knows
    mine, given = _beginning(weight).float(), _beginning(each).float()
    if not bool(given.any()):
        return "holds"  # nothing so far
    if torch.equal(given.to(weight.dtype), _beginning(weight)):
        return "holds"  # a master
    return "perhaps" if bool((given.abs() <= mine.abs() / 64).float().mean() > 0.98) else ""


def _inside(value: Any) -> Iterator[Any]:
    """Tensors and generators in lists, dictionaries and optimizers, to some depth."""
    pending, seen = [(value, 0)], 0
    while pending and seen < OBJECTS:
        each, depth = pending.pop()
        seen += 1
        if isinstance(each, (Tensor, torch.Generator)):
            yield each
        elif depth < 4:
            inner: Any = ()
            if isinstance(each, dict):
                inner = each.values()
            elif isinstance(each, (list, tuple)):
                inner = each
            elif isinstance(each, torch.optim.Optimizer):
                inner = (each.param_groups, each.state)
            pending += [(part, depth + 1) for part in inner]


OBSERVERS = [ResidueWatch, HandResidueWatch]
