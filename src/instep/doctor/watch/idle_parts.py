"""Parts of a model that are left in eval mode: `evaluate(model.encoder)` puts the encoder into eval mode, the model trains on.

Only a part that was in train mode while the model was trained, was then put into eval mode and called by itself without a
backward, and stays in that mode with nobody asking for it again. A part that training code keeps in eval mode is meant.
"""

import weakref
from dataclasses import field
from typing import Any

from torch import nn

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.modes import acts
from instep.doctor.watch.optimizers import Step

LIMIT = 32


@record_class
class IdlePart:
    """One part, since it was put into eval mode."""

    model: str
    part: str  # class
    reference: Any  # a weak one
    trained: dict[int, int]  # steps of each model until then, by id
    before: int = 0  # of those, the steps of this model
    evaluated: int = 0  # calls of the part by itself, in eval mode
    asked: bool = True  # for eval mode, since the last call or step
    probes: int = 0  # times that it was called by itself right after somebody had asked for eval mode
    steps: int = 0  # of the model, since those
    first_step: int = 0
    site: str | None = None  # of the model's call
    ended: bool = False  # put back into train mode since
    dropouts: int = 0
    batchnorms: int = 0


@part_class
class IdleParts:
    """The part of the trace about parts that are left in eval mode."""

    all: list[IdlePart] = field(default_factory=list)


class IdlePartWatch:
    """Fills `IdleParts`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._part = trace, trace.part(IdleParts)
        self._left: dict[int, IdlePart] = {}  # by id of the part
        self._flags: dict[int, bool] = {}  # the mode of a module before it is set
        self._called: dict[int, tuple[weakref.ref[nn.Module], str | None]] = {}  # models called in train mode since the last step
        self._backed: dict[int, tuple[weakref.ref[nn.Module], str | None]] = {}
        self._steps: dict[int, int] = {}  # steps of a model in train mode, by id

    def before_mode(self, called: Called) -> None:
        self._flags = {id(called.args[0]): called.args[0].training}

    def after_mode(self, called: Called) -> None:
        module, mode = called.args[0], bool(called.argument(1, "mode", True))
        if not self._left and (mode or not self._flags.get(id(module))):
            return
        if not mode and (known := self._left.get(id(module))) is not None and not self._flags.get(id(module)):
            known.evaluated = known.evaluated if known.steps else 0  # asked for again: to evaluate it, or to train it so
            known.asked = True
            return
        for each in module.modules():
            if (part := self._left.pop(id(each), None)) is not None:
                part.ended = True
        if mode or not self._flags.get(id(module)) or len(self._left) >= LIMIT or not any(map(acts, module.modules())):
            return
        self._left[id(module)] = IdlePart("", type(module).__name__, self._reference(module), dict(self._steps))

    def _reference(self, module: nn.Module) -> "weakref.ref[nn.Module]":
        """A weak one; with the module its entry goes, since another may get its id."""
        key, left = id(module), self._left

        def forget(gone: Any) -> None:
            if (part := left.get(key)) is not None and part.reference is gone:
                del left[key]

        return weakref.ref(module, forget)

    def after_call(self, call: Call) -> None:
        part = self._left.get(id(call.module))
        if part is not None and not call.training:
            part.evaluated += 1
            part.probes += part.asked
            part.asked = False
        elif call.training and call.grad and call.root.parameters:
            self._called[id(call.module)] = (weakref.ref(call.module), call.site)

    def on_backward(self, *_: Any) -> None:
        self._backed.update(self._called)
        self._called.clear()

    def after_step(self, step: Step) -> None:
        backed, self._backed = self._backed, {}
        for key, (reference, site) in backed.items():
            model = reference()
            if model is None:
                continue
            for number, part in list(self._left.items()):
                if part.evaluated:
                    self._note(part, model, site, part.trained.get(key, 0), step)
                elif (module := part.reference()) is not None and any(each is module for each in model.modules()):
                    del self._left[number]  # it is trained so, and not for an evaluation
            if key not in self._steps and len(self._steps) < 1024:
                self._steps[key] = 0
                weakref.finalize(model, self._forget, key).atexit = False
            if key in self._steps:
                self._steps[key] += 1

    def _forget(self, key: int) -> None:
        """A model is gone: another that gets its id has made no steps."""
        self._steps.pop(key, None)
        for part in list(self._left.values()):
            part.trained.pop(key, None)

    def _note(self, part: IdlePart, model: nn.Module, site: str | None, before: int, step: Step) -> None:
        module = part.reference()
        if module is None or module is model or module.training or not any(each is module for each in model.modules()):
            return
        if not part.steps:
            owned = {id(tensor) for group in step.optimizer.param_groups for tensor in group["params"]}
            if not any(id(tensor) in owned and tensor.requires_grad for tensor in module.parameters()):
                return
            inner = [each for each in module.modules() if acts(each)]
            if not inner or any(each.training for each in inner):
                return
            part.model, part.before, part.site, part.first_step = type(model).__name__, before, site, self._trace.steps - 1
            part.dropouts = sum(isinstance(each, nn.modules.dropout._DropoutNd) for each in inner)
            part.batchnorms = len(inner) - part.dropouts
            if len(self._part.all) < LIMIT:
                self._part.all.append(part)
        part.steps += 1
        part.asked = False


OBSERVERS = [IdlePartWatch]
