"""Checkpoints: state dicts that were taken, loaded and saved, and whether they are still what they were."""

import itertools
import weakref
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import field
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn

from instep.doctor.bare_leaves import sample
from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.trace import Trace
from instep.doctor.watch.gradients import Gradients

LIMIT = 128
OTHERS = 16  # trained models whose weights were taken
PROBES = 4  # tensors from the front and from the back of a state dict whose versions are noted


@record_class
class Load:
    """Calls of `load_state_dict` of one module class from one line."""

    model: str
    site: str | None
    strict: bool
    count: int = 0
    own: int = 0  # tensors of the model
    given: int = 0
    missing: int = 0
    unexpected: int = 0
    prefix: str = ""  # what the names differ by, where that is all
    examples: tuple[str, str] = ("", "")  # a name that the model has, one that it was given
    own_weights: int = 0  # calls that were given the model's own live tensors, all of them, unchanged
    aliased: int = 0  # calls that were given them, after training had changed them since they were taken
    unchanged: int = 0  # … had not changed them, and they were taken elsewhere, where one was taken before in the same training
    taken_step: int = 0
    taken_at: str | None = None  # the line where they were taken
    step: int = 0
    files: int = 0  # files read before
    waiting: bool = (
        False  # trained weights of another model, of the same shapes for the most part, had been taken, and none is here
    )


@record_class
class Save:
    """Calls of `torch.save` from one line."""

    site: str | None
    count: int = 0
    models: int = 0  # with a whole module in it
    model: str = ""
    aliased: int = 0  # with a state dict whose live tensors had changed since it was taken
    again: int = 0  # … for the second time or later: meant to be live
    taken_step: int = 0
    taken_at: str | None = None
    step: int = 0


@part_class
class Checkpoints:
    """The part of the trace about checkpoints."""

    loads: dict[tuple[Any, ...], Load] = field(default_factory=dict)
    saves: dict[str | None, Save] = field(default_factory=dict)
    files: int = 0  # torch.load


class _Taken:
    """A state dict that somebody may still have: weak references to some of its tensors, and their versions then."""

    __slots__ = ("module", "probes", "saved", "site", "step", "time")

    def __init__(self, module: int, tensors: list[Tensor], site: str | None, step: int, time: int) -> None:
        picked = tensors if len(tensors) <= 2 * PROBES else [*tensors[:PROBES], *tensors[-PROBES:]]
        self.module = module
        self.probes = [(weakref.ref(tensor), tensor._version) for tensor in picked if not tensor.is_inference()]
        self.saved = 0
        self.site = site
        self.step = step
        self.time = time  # on the clock of the watch, which counts what is taken and loaded

    def alive(self) -> bool:
        return any(probe() is not None for probe, _ in self.probes)

    def holds(self, ids: set[int]) -> bool:
        return any((tensor := probe()) is not None and id(tensor) in ids for probe, _ in self.probes)

    def changed(self) -> bool:
        """Versions are counted with the storage: a change of the parameter shows here."""
        return any((tensor := probe()) is not None and tensor._version != version for probe, version in self.probes)


class CheckpointWatch:
    """Fills `Checkpoints`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._gradients = trace.part(Checkpoints), trace.part(Gradients)
        self._clock = itertools.count()
        self._loaded: dict[int, tuple[int, int]] = {}  # when a module was loaded last: step, time
        self._taken: deque[_Taken] = deque(maxlen=64)
        self._first: dict[tuple[int, str | None], int] = {}  # the step at which a module's state was first taken at a line
        self._others: dict[int, list[tuple[tuple[int, ...], list[float]]]] = {}  # trained models: shapes and values when taken
        self._last: dict[int, _Taken] = {}  # of a module, by its parameters: also where only what was made of it is kept

    def after_state_taken(self, called: Called) -> None:
        state = called.result
        self._note_trained(called.args[0])
        if isinstance(state, dict):
            tensors = [value for value in state.values() if isinstance(value, Tensor) and value.is_floating_point()]
            if any(isinstance(tensor, nn.Parameter) for tensor in tensors):
                return  # with keep_vars: the parameters themselves, which say nothing about when they were taken
            while self._taken and not self._taken[-1].alive():
                self._taken.pop()  # most die at once
            if tensors:
                taken = _Taken(id(called.args[0]), tensors, called.site, self._trace.steps, next(self._clock))
                self._taken.append(taken)
                if len(self._first) < LIMIT:
                    self._first.setdefault((taken.module, taken.site), taken.step)
                if len(self._last) < LIMIT or taken.module in self._last:
                    live = list(called.args[0].parameters())
                    self._last[taken.module] = _Taken(taken.module, live, taken.site, taken.step, taken.time)

    def before_state_loaded(self, called: Called) -> None:
        module, state = called.args[0], called.argument(1, "state_dict")
        if not isinstance(state, Mapping) or len(self._part.loads) >= LIMIT:
            return
        load = self._load(called)
        load.count += 1
        load.step, load.files = self._trace.steps, self._part.files
        own = dict(_live(module))
        load.own, load.given = len(own), len(state)
        missing, unexpected = [name for name in own if name not in state], [str(name) for name in state if name not in own]
        load.missing, load.unexpected = len(missing), len(unexpected)
        load.examples = (missing[0] if missing else "", unexpected[0] if unexpected else "")
        load.prefix = _prefix(missing, unexpected)
        load.waiting = load.count == 1 and not self._trained_here(module) and self._is_waiting(module, own)
        if own and not missing and all(_same(own[name], state[name]) for name in own):
            self._note_own(load, self._find(state, id(module)), module, called.site)
        self._loaded[id(module)] = self._trace.steps, next(self._clock)

    def _note_own(self, load: Load, taken: _Taken | None, module: nn.Module, site: str | None) -> None:
        """The model is given its own tensors, into which somebody may have written on purpose (soft updates), or training did."""
        if taken is None or not taken.changed():
            load.own_weights += 1
        if taken is None:  # a dictionary of views, as {name: value.detach() for …} makes it
            last = self._last.get(id(module))
            taken = last if last is not None and last.changed() else None
        if taken is None or not any(self._is_optimized(tensor) for tensor in module.parameters()):
            return
        began = self._first.get((taken.module, taken.site), taken.step)
        since = taken.step < self._trace.steps or self._loaded.get(id(module), (0, -1))[1] > taken.time
        if taken.changed() and since:
            load.aliased += 1
            load.taken_step, load.taken_at = taken.step, taken.site
        elif not taken.changed() and began < taken.step and taken.site != site:
            load.unchanged += 1
            load.taken_step, load.taken_at = began, taken.site

    def _note_trained(self, module: nn.Module) -> None:
        """Remember the shapes and some values of a trained model whose weights somebody takes."""
        if not self._trained_here(module):
            return
        self._others.pop(id(module), None)
        while len(self._others) >= OTHERS:
            self._others.pop(next(iter(self._others)))  # the oldest: the module may be long gone
        self._others[id(module)] = [(tuple(tensor.shape), sample(tensor)) for tensor in module.parameters()]

    def _trained_here(self, module: nn.Module) -> bool:
        known = (self._gradients.parameters.get(id(tensor)) for tensor in module.parameters())
        return any(each is not None and each.optimizers and each.arrivals for each in known)

    def _is_waiting(self, module: nn.Module, own: dict[str, Tensor]) -> bool:
        """Whether the weights of another model would fit here for the most part, and none of them has come."""
        mine = [(tuple(tensor.shape), sample(tensor)) for tensor in own.values()]
        shapes = [shape for shape, _ in mine]
        for key, others in self._others.items():
            theirs = [shape for shape, _ in others]
            fits = sum(min(shapes.count(shape), theirs.count(shape)) for shape in set(theirs))
            if key != id(module) and fits > 1 and fits >= 0.5 * len(shapes):
                told = [each for each in mine if len(set(each[1])) > 1]  # not what is constant, or cannot be read here
                return bool(told) and any(values for _, values in others) and not any(each in others for each in told)
        return False

    def _is_optimized(self, tensor: Tensor) -> bool:
        known = self._gradients.parameters.get(id(tensor))
        return known is not None and bool(known.optimizers)

    def _load(self, called: Called) -> Load:
        module = called.args[0]
        key = (type(module).__name__, called.site)
        if key not in self._part.loads:
            self._part.loads[key] = Load(type(module).__name__, called.site, bool(called.argument(2, "strict", True)))
        return self._part.loads[key]

    def _find(self, state: Mapping[str, Any], module: int | None) -> _Taken | None:
        """The state dict that these tensors come from; failing that, the last one of the module."""
        ids = {id(value) for value in state.values()}
        found = next((taken for taken in reversed(self._taken) if taken.holds(ids)), None)
        if found is None and module is not None:
            found = next((taken for taken in reversed(self._taken) if taken.module == module and taken.alive()), None)
        return found

    def after_file_loaded(self, _: Called) -> None:
        self._part.files += 1

    def before_pickled(self, called: Called) -> None:
        if any(isinstance(part, nn.Module) for part in _parts(called.argument(0, "obj"))):
            self.before_saved(called)

    def before_saved(self, called: Called) -> None:
        saves, site = self._part.saves, called.site
        if site not in saves and len(saves) >= LIMIT:
            return
        save = saves.setdefault(site, Save(site))
        save.count += 1
        save.step = self._trace.steps
        for part in _parts(called.argument(0, "obj")):
            if isinstance(part, nn.Module):
                if not isinstance(part, torch.jit.ScriptModule) and next(part.parameters(), None) is not None:
                    save.models += 1
                    save.model = type(part).__name__
            elif (taken := self._find(part, None)) is not None and taken.changed() and taken.step < self._trace.steps:
                taken.saved += 1
                save.aliased += 1
                save.again += taken.saved > 1
                save.taken_step, save.taken_at = taken.step, taken.site


def _live(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """What the module's state dict would hold, by name: without asking it, since that may be somebody's own function."""
    yield from module.named_parameters(remove_duplicate=False)
    for prefix, part in module.named_modules(remove_duplicate=False):
        for name, tensor in part._buffers.items():
            if tensor is not None and name not in part._non_persistent_buffers_set:
                yield f"{prefix}.{name}" if prefix else name, tensor


def _same(live: Tensor, given: Any) -> bool:
    if given is live:
        return True
    return (
        isinstance(given, Tensor)
        and given.layout == live.layout == torch.strided
        and given.device == live.device
        and given.numel() > 0
        and given.data_ptr() == live.data_ptr()
    )


def _prefix(missing: list[str], unexpected: list[str]) -> str:
    """What stands before the names of one side and not of the other: "module."."""
    if not missing or not unexpected:
        return ""
    for longer, shorter in ((unexpected, missing), (missing, unexpected)):
        wanted = set(shorter)
        prefix = next((name[: -len(shorter[0])] for name in longer if name.endswith(shorter[0])), "")
        if prefix and sum(name.startswith(prefix) and name[len(prefix) :] in wanted for name in longer) >= 0.8 * len(longer):
            return prefix
    return ""


def _parts(saved: Any) -> Iterator[Any]:
    """Modules and dictionaries of tensors in what is saved, two levels deep."""
    pending = [(saved, 0)]
    while pending:
        part, depth = pending.pop()
        if isinstance(part, nn.Module):
            yield part
        elif isinstance(part, Mapping):
            if any(isinstance(value, Tensor) for value in part.values()):
                yield part
            if depth < 2:
                pending += [(value, depth + 1) for value in list(part.values())[:64]]
        elif isinstance(part, (list, tuple)) and depth < 2:
            pending += [(value, depth + 1) for value in part[:64]]
        elif (
            depth < 2 and hasattr(part, "__dict__") and not isinstance(part, (Tensor, type, ModuleType))
        ):  # a trainer of one's own
            pending += [(value, 2) for value in list(vars(part).values())[:64] if isinstance(value, nn.Module)]


PATCHES = [
    Patch("state_taken", ("torch.nn.modules.module:Module.state_dict",), always=True),
    Patch("state_loaded", ("torch.nn.modules.module:Module.load_state_dict",), always=True),
    Patch("file_loaded", ("torch:load", "torch.serialization:load"), always=True),
    Patch("saved", ("torch:save", "torch.serialization:save"), always=True),
    Patch("pickled", ("pickle:dump", "pickle:dumps"), group="saved", always=True),
]
OBSERVERS = [CheckpointWatch]
