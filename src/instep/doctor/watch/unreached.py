"""Outputs that no backward comes to: what an optimizer's networks give takes no part in any loss that it steps on.

In the first steps of a phase the nodes of outputs, and of the layers inside, say when a gradient passes them. A loss that was
detached from the network may still reach all parameters, by a penalty on them.
"""

from dataclasses import field
from functools import partial
from typing import Any

from torch import Tensor, nn

from instep.doctor.hub import Hub
from instep.doctor.loss_terms import SHAPES, children, operation
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import tensors
from instep.doctor.watch.optimizers import Step
from instep.doctor.watch.phases import Phases

LOOKS = 24  # steps of a phase
# What a penalty on weights is made of.
PLAIN = SHAPES | {
    "Pow", "Square", "Sqrt", "Abs", "Sum", "Mean", "Norm", "LinalgVectorNorm", "ForeachNorm", "Stack", "Cat", "Add", "Sub", "Mul",
    "Div", "Neg", "Max", "Maximum", "Clamp", "ClampMin", "Dot", "torch::autograd::AccumulateGrad", "AccumulateGrad",
}  # fmt: skip
NODES = 64  # of one call
GRAPH = 2000  # nodes of a loss that are looked at
LIMIT = 64


@record_class
class Passing:
    """The steps of one optimizer, by what the backwards before them have passed."""

    name: str
    site: str | None  # of the calls
    looks: int = 0  # steps before which its networks were called with gradients, and gave something
    passed: int = 0  # of those: a gradient came to something that they gave
    fed: int = 0  # of those: parameters had new gradients, of losses that look like a penalty on them
    first_step: int = 0


@part_class
class Unreached:
    """The part of the trace about them."""

    optimizers: dict[tuple[int, int], Passing] = field(default_factory=dict)  # by phase and number


class UnreachedWatch:
    """Fills `Unreached`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(Unreached), trace.part(Phases)
        self._called: dict[int, tuple[frozenset[int], str | None]] = {}  # root -> its parameters, by id, and the line
        self._passed: set[int] = set()  # roots
        self._nodes = 0
        self._plain = True  # whether all losses since the last step look like penalties on weights

    def on_wake(self) -> None:
        self._called.clear()
        self._passed.clear()
        self._plain = True

    def on_backward(self, _: Backward, tensor: Tensor) -> None:
        if self._called and self._plain:
            self._plain = _is_plain(tensor.grad_fn)

    def wants_modules(self) -> dict[type, Any]:
        return {nn.Module: self._module_called}

    def before_call(self, call: Call) -> None:
        self._nodes = 0
        call.closely = call.closely or self._is_looked_at(call)

    def _is_looked_at(self, call: Call) -> bool:
        new = self._trace.steps - self._phases.step < LOOKS
        return new and call.grad and bool(call.root.parameters) and not call.root.sharded and not self._hub.compiled

    def _module_called(self, module: nn.Module, _: Any, output: Any, call: Call) -> None:
        if not module._modules and self._is_looked_at(call):
            self._mark(output, call)

    def after_call(self, call: Call) -> None:
        module = call.root.reference()
        if module is None or not self._is_looked_at(call):
            return
        self._mark(call.output, call)
        if self._nodes and len(self._called) < LIMIT:
            self._called[call.root.number] = (frozenset(map(id, module.parameters())), call.site)

    def _mark(self, output: Any, call: Call) -> None:
        for tensor in tensors(output):
            node: Any = tensor.grad_fn
            if node is not None and self._nodes < NODES:
                self._nodes += 1
                node.register_prehook(partial(_note, self._passed, call.root.number))

    def after_step(self, step: Step) -> None:
        if step.inside or step.fact is None or not self._called:
            return
        keys = set(step.record.parameters)
        mine = {number: site for number, (held, site) in self._called.items() if held & keys}
        if not mine:
            return
        known, number = self._part.optimizers, (self._phases.number, step.record.number)
        if number not in known and len(known) < LIMIT:
            known[number] = Passing(step.record.name, next(iter(mine.values())), first_step=self._trace.steps - 1)
        if number in known:
            known[number].looks += 1
            known[number].passed += bool(self._passed & set(mine))
            known[number].fed += step.fact.fresh > 0 and self._plain
        for each in mine:
            del self._called[each]
        self._passed.difference_update(mine)
        self._plain = True


def _is_plain(node: Any) -> bool:
    seen, pending = {node}, [node]
    while pending and len(seen) < GRAPH:
        each = pending.pop()
        if each is None or operation(each) not in PLAIN:
            return False
        new = [child for child in children(each) if child is not None and child not in seen]
        seen.update(new)
        pending += new
    return not pending


def _note(passed: set[int], number: int, _: tuple[Tensor, ...]) -> None:
    """A hook of a node: it changes nothing."""
    passed.add(number)


OBSERVERS = [UnreachedWatch]
