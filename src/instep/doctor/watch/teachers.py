"""Teachers, targets and averages that are the student: by name, as an attribute, or as a copy with the same memory."""

import operator
import re
from collections import deque
from dataclasses import field
from typing import Any

from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.networks_by_name import Bindings, Swaps, containers_of, scopes, tensor_dicts
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Calls, Root
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.loaders import tensors

TEACHER = re.compile(r"(^|_)(teacher|ema|target|momentum|shadow|slow|average|averaged|avg|key|k|offline)(_|\d|$)", re.IGNORECASE)
AVERAGE = re.compile(r"(^|_)(teacher|ema|shadow|averaged?|avg|target)(_|\d|$)", re.IGNORECASE)  # also of plain tensors
ENOUGH = 4  # steps in which a teacher is asked; one without a teacher's name in as many that follow each other
LOOKS = 6  # training calls of a root at which the caller's names are looked at


@record_class
class Sharing:
    """A teacher that has the student's own parameters."""

    teacher: str
    student: str
    how: str  # "copy", "attribute" or "name"
    parameters: int
    site: str | None = None
    both: int = 0  # steps in which it was called twice: with and without grad, or once more than backwards follow
    scope: str = ""  # where it has both names
    root: int | None = None  # that was called by these names
    named: bool = False  # of a copy: whether it is called a teacher


@record_class
class Asked:
    """Calls of a root that gave no graph."""

    last: int  # step
    steps: int = 1  # in which there were any
    in_a_row: int = 1  # of those, the last ones that follow each other
    longest: int = 1  # such row
    named: bool = False  # whether the caller, or its class, calls it a teacher


@part_class
class Teachers:
    """The part of the trace about them."""

    sharings: dict[str, Sharing] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)  # names that stood for several networks
    swaps: Swaps = field(default_factory=Swaps)


class TeacherWatch:
    """Fills `Teachers`: when a root is first called, at its first calls, and before each judgement."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._hub = hub
        self._part, self._calls = trace.part(Teachers), trace.part(Calls)
        self._parameters = trace.part(Gradients).parameters
        self._modes: deque[tuple[int, int, bool]] = deque(maxlen=32)  # (root, step, grad)
        self._looked: dict[int, int] = {}
        self._asked: dict[int, Asked] = {}
        self._learners: set[int] = set()  # roots that gave an output with a graph
        self._bindings = Bindings(self._part.loose)

    def on_root_seen(self, module: nn.Module, root: Root) -> None:
        if not root.parameters:
            return
        names: dict[int, list[str]] = {}
        kept: dict[int, nn.Module] = {}
        for name, part in module.named_modules(remove_duplicate=False):
            kept[id(part)] = part
            names.setdefault(id(part), []).append(name)
        for key, places in names.items():
            if len(places) > 1:
                self._note_alias(kept[key], [place.rpartition(".")[2] for place in places], "attribute")

    def _note_alias(self, module: nn.Module, names: list[str], how: str, scope: str = "", root: int | None = None) -> None:
        teachers = [name for name in names if TEACHER.search(name)]
        students = [name for name in names if not TEACHER.search(name) and f"{scope}:{name}" not in self._part.loose]
        count = sum(1 for _ in module.parameters())
        if teachers and students and count:
            key = f"{teachers[0]}={students[0]}"
            sharing = Sharing(teachers[0], students[0], how, count, self._hub.locator.site(1), scope=scope, root=root)
            self._part.sharings.setdefault(key, sharing)

    def after_call(self, call: Call) -> None:
        """Two names for one module in the caller's own scope, one of them a teacher's."""
        if not call.root.parameters:
            return
        number = call.root.number
        self._modes.append((number, call.step, call.grad))
        if call.grad and _has_graph(call.output):
            self._learners.add(number)
        else:
            self._note_asked(call)
        looked = self._looked.get(number, 0)
        if looked < LOOKS and call.step >= 1:
            self._part.swaps.note(number, call.step, call.grad, call.module)
            if self._is_called_twice(call):
                self._looked[number] = looked + 1
                self._look_at_names(call)
        elif any(sharing.root == number for sharing in self._part.sharings.values()):
            self._part.swaps.note(number, call.step, call.grad, call.module)

    def _note_asked(self, call: Call) -> None:
        asked = self._asked.get(call.root.number)
        if asked is None:
            named = TEACHER.search(_underscored(call.root.name)) is not None
            asked = self._asked[call.root.number] = Asked(call.step, named=named)
        elif call.step > asked.last:
            asked.in_a_row = asked.in_a_row + 1 if call.step == asked.last + 1 else 1
            asked.longest = max(asked.longest, asked.in_a_row)
            asked.last, asked.steps = call.step, asked.steps + 1
        if not asked.named and asked.steps <= LOOKS:
            found = (scope for _, scope in scopes(self._hub.locator))
            asked.named = any(TEACHER.search(name) for scope in found for name, value in scope.items() if value is call.module)

    def _is_called_twice(self, call: Call) -> bool:
        return sum(number == call.root.number and step == call.step for number, step, _ in self._modes) > 1

    def _look_at_names(self, call: Call) -> None:
        learns = self._learns(call.module)
        for place, scope in scopes(self._hub.locator):
            self._bindings.note(place, scope)
            names = [name for name, value in scope.items() if value is call.module]
            if len(names) > 1 and learns:
                self._note_alias(call.module, names, "name", place, call.root.number)
            for container, names in containers_of(call.module, scope):
                if learns or self._learns(container):
                    self._note_alias(container, names, "name", place, call.root.number)
            if call.grad:  # without, an average may stand in the model for a while
                self._look_at_tensors(call, scope)
        for sharing in self._part.sharings.values():
            sharing.both += 1

    def _learns(self, module: nn.Module) -> bool:
        """Whether a gradient has come to any of its parameters; where none has, the student is another network."""
        known = (self._parameters.get(id(tensor)) for tensor in module.parameters())
        return any(parameter is not None and parameter.arrivals for parameter in known)

    def _look_at_tensors(self, call: Call, scope: dict[str, Any]) -> None:
        """A teacher that is a dictionary of tensors, for functional_call, and has the memory of the student's."""
        live = {tensor.data_ptr() for tensor in call.module.parameters()} - {0}
        for name, value in scope.items():
            if not AVERAGE.search(name) or isinstance(value, nn.Module) or value is scope:
                continue
            for weights in tensor_dicts(value):
                count = sum(tensor.data_ptr() in live for tensor in weights.values())
                if count and count >= 0.5 * len(live):
                    key = f"{name}={call.root.name}"
                    self._part.sharings.setdefault(key, Sharing(name, call.root.name, "name", count, self._hub.locator.site(1)))

    def on_judge(self) -> None:
        """A module that has the memory of a student's every parameter, is of its class, and is neither inside the other."""
        known = [(root, top) for root in self._calls.roots[:64] if root.parameters and (top := root.reference()) is not None]
        students: dict[tuple[type, tuple[int, ...]], tuple[Root, nn.Module]] = {}
        for root, top in sorted(known, key=lambda each: -each[0].trained):
            memory = _memory(top)
            if root.trained and root.number in self._learners and 0 not in memory[1]:  # as of weights that are elsewhere
                students.setdefault(memory, (root, top))
        for root, top in known:
            if root.number not in self._asked or len(self._part.sharings) > 8:
                continue
            for part in [top] if root.number in self._learners else top.modules():
                if any(type(part) is kind for kind, _ in students) and (student := students.get(_memory(part))) is not None:
                    self._note_copy(root, part, *student)

    def _note_copy(self, teacher: Root, part: nn.Module, student: Root, top: nn.Module) -> None:
        """Not where both are made of the same parts: these share on purpose."""
        if student is teacher or any(each is top for each in part.modules()) or any(each is part for each in top.modules()):
            return
        is_shallow = part._modules is top._modules and part._parameters is top._parameters
        if not is_shallow and part._modules and all(map(operator.is_, part.children(), top.children())):
            return
        asked = self._asked[teacher.number]
        if (asked.steps if asked.named else asked.longest) < ENOUGH:
            return
        name = f"{teacher.name} (copy)" if teacher.name == student.name else teacher.name
        site = next((kind.site for kind in self._calls.kinds.values() if kind.root is teacher), None)
        sharing = Sharing(name, student.name, "copy", student.parameters, site, named=asked.named)
        self._part.sharings.setdefault(f"{student.number}|{teacher.number}", sharing)


def _has_graph(output: Any) -> bool:
    """Of an output that is no tensor, its first tensors tell; where there are none, nobody knows that it has none."""
    found = [output] if isinstance(output, Tensor) else tensors(output)
    return not found or any(tensor.requires_grad for tensor in found)


def _underscored(name: str) -> str:
    """MomentumEncoder -> Momentum_Encoder."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name)


def _memory(module: nn.Module) -> tuple[type, tuple[int, ...]]:
    return type(module), tuple(tensor.data_ptr() for tensor in module.parameters())


OBSERVERS = [TeacherWatch]
