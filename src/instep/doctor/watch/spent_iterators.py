"""Iterators of parameters that an optimizer has read to their end, and that clipping by hand is given again at every step.

Nobody hears a loop over nothing. But the code around a step names the function that clips, on a way that every step comes by; and
that function is given the iterator, bound to it by functools.partial, has it in its closure or as an attribute of its object.
Functions that ran while the optimizer was made may name it for that reason, and are left out.
"""

import dis
from collections.abc import Iterator
from dataclasses import field
from functools import lru_cache, partial
from types import CodeType, FrameType, FunctionType, MethodType
from typing import Any

from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.scopes import local_names
from instep.doctor.trace import Trace
from instep.doctor.watch.optimizers import Step

LOOKS = (2, 3, 16)  # steps before which it is looked, after the last iterator was read
FRAMES = 3  # functions of the user's that go on around a step
KEPT = 8
IN_PLACE = frozenset({"mul_", "div_", "clamp_", "clip_", "copy_", "_foreach_mul_", "_foreach_div_", "_foreach_clamp_max_"})


@record_class
class SpentClip:
    """A function that clips the gradients of an iterator that has come to its end."""

    function: str
    iterator: str  # its class
    site: str | None  # where the optimizer was made that has read it
    first_step: int


@part_class
class SpentClips:
    """The part of the trace about iterators that are spent."""

    found: dict[tuple[str, str | None], SpentClip] = field(default_factory=dict)


class SpentIteratorWatch:
    """Fills `SpentClips`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(SpentClips)
        self._spent: list[tuple[Any, str | None, set[CodeType]]] = []  # and the line, and what ran around it
        self._since = 0

    def before_optimizer_init(self, called: Called) -> None:
        given = called.argument(1, "params")
        groups = given if isinstance(given, (list, tuple)) else ()
        inside = [group.get("params") for group in groups if isinstance(group, dict)]
        read = [each for each in (given, *inside) if isinstance(each, Iterator)]
        if read and len(self._spent) < KEPT:
            codes = {frame.f_code for frame in self._hub.locator.frames()}
            self._spent += [(each, called.site, codes) for each in read]
            self._since = self._trace.steps

    def before_step(self, step: Step) -> None:
        after = self._trace.steps - self._since
        if after > LOOKS[-1]:
            self._spent = []  # a filter may hold more than what it has given
        if not self._spent or step.inside or after not in LOOKS:
            return
        locator = self._hub.locator
        for frame in [frame for frame in locator.frames() if locator.is_users(frame.f_code.co_filename)][:FRAMES]:
            for function, held in _functions(frame):
                self._look(function, held)

    def _look(self, function: FunctionType, held: list[Any]) -> None:
        for iterator, site, codes in self._spent:
            if function.__code__ in codes or not any(each is iterator for each in held) or not _clips(function):
                continue
            fact = SpentClip(function.__name__, type(iterator).__name__, site, self._trace.steps)
            self._part.found.setdefault((fact.function, site), fact)


def _functions(frame: FrameType) -> Iterator[tuple[FunctionType, list[Any]]]:
    """The functions that a frame has called on its way to where it is, and what each of them holds."""
    local = local_names(frame)
    owner = local.get("self")
    attributes = getattr(owner, "__dict__", {})
    for name, given in _passed(frame.f_code, frame.f_lasti):
        method = next((vars(each)[name] for each in type(owner).__mro__ if name in vars(each)), None)
        bound = MethodType(method, owner) if isinstance(method, FunctionType) else None
        for value in (local.get(name, frame.f_globals.get(name)), attributes.get(name), bound):
            for function, held in _held_by(value):
                yield function, [*held, *(local.get(each, frame.f_globals.get(each)) for each in given)]


@lru_cache(maxsize=64)  # the same steps are looked at again
def _passed(code: CodeType, until: int) -> tuple[tuple[str, list[str]], ...]:
    """Names that are loaded before a place in some code, which no jump to that place leaves out; and what else is on the line."""
    loads: list[tuple[int, str, int | None]] = []
    jumps: list[tuple[int, int]] = []
    for each in dis.get_instructions(code):
        line = each.positions.lineno if each.positions is not None else None
        if each.offset < until and each.opname.startswith("LOAD_"):
            names = each.argval if isinstance(each.argval, tuple) else (each.argval,)
            loads += [(each.offset, name, line) for name in names if isinstance(name, str)]
        elif each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            jumps.append((each.offset, int(each.argval)))
    return tuple(
        (name, [other for later, other, same in loads if later >= offset and same == place])
        for offset, name, place in loads
        if not any(begin < offset < end <= until for begin, end in jumps)
    )


def _held_by(value: Any) -> Iterator[tuple[FunctionType, list[Any]]]:
    if isinstance(value, partial) and isinstance(value.func, FunctionType):
        yield value.func, [*value.args, *value.keywords.values()]
    elif isinstance(value, MethodType) and isinstance(value.__func__, FunctionType):
        attributes = getattr(value.__self__, "__dict__", {})
        yield value.__func__, [attributes[name] for name in value.__func__.__code__.co_names if name in attributes]
    elif isinstance(value, FunctionType):
        yield value, [content for cell in value.__closure__ or () if (content := _content(cell)) is not None]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not filled yet
        return None


def _clips(function: FunctionType, depth: int = 1) -> bool:
    """Whether a function, or one that it calls, writes into gradients."""
    names = _names(function.__code__)
    if "grad" in names and names & IN_PLACE:
        return True
    called = [function.__globals__.get(name) for name in names]
    return depth > 0 and any(_clips(each, depth - 1) for each in called if isinstance(each, FunctionType))


def _names(code: CodeType) -> set[str]:
    found = set(code.co_names)
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            found |= _names(inner)
    return found


OBSERVERS = [SpentIteratorWatch]
