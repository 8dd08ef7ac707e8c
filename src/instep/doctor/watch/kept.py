"""What is kept as the best, by name, and is the live one: a second name for the model, a dictionary of its tensors, or a list of
them that is copied back onto itself.

A name counts where it stood for something else before, and stands for the live weights from one evaluation to the next while they
are trained. Who keeps the best of several models, each trained to its end, has a name for one that does not change any more.
"""

import re
import weakref
from dataclasses import field
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.networks_by_name import scopes, tensor_dicts
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call, Calls
from instep.doctor.watch.gradients import Gradients

BEST = re.compile(r"(^|_)(best|kept|snapshot|backup)(_|\d|$)", re.IGNORECASE)
LOOKS = 64  # evaluations before which names are looked at
TIMES = 4  # of those at one step
LIMIT = 64
COPIES = 1024  # into other parameters, whose lines are asked for before any parameter is copied onto itself


@record_class
class KeptName:
    """A name that stands for the live weights."""

    name: str
    model: str
    site: str | None
    taken_step: int
    step: int
    module: bool  # a model, not a dictionary
    siblings: bool = False  # other models are trained: it is one of several


@record_class
class SelfCopy:
    """Parameters that are copied onto themselves from one line."""

    site: str | None
    step: int
    parameters: int = 0
    of: int = 0  # parameters that are optimized
    others: bool = False  # the line also copies into parameters from elsewhere: one of several is sent to all, itself included


@part_class
class Kept:
    """The part of the trace about what is kept."""

    names: dict[str, KeptName] = field(default_factory=dict)
    copies: dict[str | None, SelfCopy] = field(default_factory=dict)


class KeptWatch:
    """Fills `Kept`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._calls = trace.part(Kept), trace.part(Calls)
        self._parameters = trace.part(Gradients).parameters
        self._looks = self._times = 0
        self._step = -1
        self._free: set[str] = set()  # names that have stood for something else
        self._seen: dict[str, tuple[weakref.ref[Any], int, list[float]]] = {}  # name -> a tensor of it, when, its values then
        self._copied: dict[str | None, set[int]] = {}
        self._sent: set[str | None] = set()  # lines that copy into parameters from elsewhere
        self._copies = 0

    def before_call(self, call: Call) -> None:
        steps = self._trace.steps
        if call.grad or not steps or not call.root.parameters or self._looks >= LOOKS:
            return
        self._times = self._times + 1 if steps == self._step else 1
        if self._times > TIMES:
            return
        self._looks += self._times == 1
        self._step = steps
        for place, names in scopes(self._hub.locator):
            for name, value in names.items():
                if BEST.search(name):
                    self._look(f"{place}:{name}", value, call)

    def _look(self, key: str, value: Any, call: Call) -> None:
        """What a name stands for at an evaluation."""
        live = next(call.module.parameters(), None)
        tensor: Tensor | None
        if isinstance(value, nn.Module):
            tensor, used = next(value.parameters(), None), value is call.module
        else:
            tensor, used = _first_of(value), _first_of(value) is live
        if tensor is None:
            if len(self._free) < LIMIT:
                self._free.add(key)  # None, a number: nothing is kept so far
            return
        known = self._seen.get(key)
        is_known = known is not None and known[0]() is tensor
        if known is None or not is_known:
            if not self._is_optimized(tensor):
                self._forget(key)  # a copy
            elif key in self._free and (key in self._seen or len(self._seen) < LIMIT):
                self._seen[key] = (weakref.ref(tensor), self._trace.steps, sample(tensor))
        elif used and known[1] < self._trace.steps and sample(tensor) != known[2]:
            name, model = key.rpartition(":")[2], isinstance(value, nn.Module)
            fact = KeptName(name, call.root.name, call.site, known[1], self._trace.steps, model, self._has_siblings(call))
            self._part.names[name] = fact

    def on_optimizer(self, _: Any, optimizer: torch.optim.Optimizer) -> None:
        """What an optimizer is made for after it was kept is trained on purpose."""
        owned = {id(tensor) for group in optimizer.param_groups for tensor in group["params"]}
        for key, (reference, _step, _values) in list(self._seen.items()):
            if (tensor := reference()) is None or id(tensor) in owned:
                self._forget(key)

    def _forget(self, key: str) -> None:
        self._seen.pop(key, None)
        self._part.names.pop(key.rpartition(":")[2], None)

    def _has_siblings(self, call: Call) -> bool:
        mine = call.root
        others = (root for root in self._calls.roots if root is not mine and root.trained and root.parameters)
        return any(root not in mine.within and mine not in root.within for root in others)

    def _is_optimized(self, tensor: Tensor) -> bool:
        """Whether these are the numbers that an optimizer changes."""
        return _is_plain(tensor) and tensor.data_ptr() in self._places()

    def _places(self) -> set[int]:
        owned = (known.reference() for known in self._parameters.values() if known.optimizers)
        return {tensor.data_ptr() for tensor in owned if tensor is not None and _is_plain(tensor)} - {0}

    def before_copied(self, called: Called) -> None:
        if len(called.args) < 2 or not self._trace.steps:
            return
        one, other = called.args[0], called.args[1]
        if one is other or not _is_plain(one) or not _is_plain(other):
            return
        if one.shape != other.shape or one.numel() < 2:
            return
        if one.data_ptr() != other.data_ptr():
            self._note_sent(one, called)
            return
        places, site = self._places(), called.site
        if one.data_ptr() not in places or (site not in self._copied and len(self._copied) >= LIMIT):
            return
        copied = self._copied.setdefault(site, set())
        copied &= places  # of models that are no more, nothing counts
        copied.add(one.data_ptr())
        fact = self._part.copies.setdefault(site, SelfCopy(site, self._trace.steps))
        fact.others = fact.others or site in self._sent
        if len(copied) * fact.of >= fact.parameters * len(places):
            fact.parameters, fact.of = len(copied), len(places)

    def _note_sent(self, one: Tensor, called: Called) -> None:
        """A copy from elsewhere: whether it goes into a parameter that is optimized."""
        waiting = any(not fact.others for fact in self._part.copies.values())
        if self._copies >= COPIES and not waiting:
            return
        self._copies += 1
        site = called.site
        if site in self._sent or len(self._sent) >= LIMIT or one.data_ptr() not in self._places():
            return
        self._sent.add(site)
        if site in self._part.copies:
            self._part.copies[site].others = True


def _first_of(value: Any) -> Tensor | None:
    """The first tensor of a plain dictionary or list of tensors, as weights are kept in."""
    if type(value) in (list, tuple):
        return value[0] if len(value) > 1 and all(isinstance(each, Tensor) for each in value) else None
    if type(value) is not dict:
        return None
    found = tensor_dicts(value)
    return next(iter(found[0].values()), None) if found else None


def _is_plain(tensor: Any) -> bool:
    """Whether it can be asked where its numbers lie."""
    if type(tensor) not in (Tensor, nn.Parameter) or tensor.layout is not torch.strided:
        return False
    return not tensor.is_meta and not is_functorch_wrapped_tensor(tensor)


PATCHES = [Patch("copied", ("torch:Tensor.copy_",), always=True, outside_steps=True)]
OBSERVERS = [KeptWatch]
