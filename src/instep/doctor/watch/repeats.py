"""The same samples at every step, as new tensors, without a loader: all there is, or the first batches each time.

Where they are the first batch of a stream that is begun anew for every step, a generator gave them and was then thrown away.
Where they are drawn anew by a seed that is set anew, the function that gave them sets one. To see either, the functions that the
script calls between three training calls are listed by `sys.setprofile`, three times in a run, and only in runs of this kind.
"""

import dis
import sys
import weakref
from collections import deque
from dataclasses import field
from functools import lru_cache
from inspect import CO_GENERATOR
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor

from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import is_dense, row_keys
from instep.doctor.sites import Locator
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, tensors
from instep.doctor.watch.phases import Phases

SAME = 40  # training calls of a line that are compared with the one before
LISTED = (8, 16, 24)  # after so many calls with the same samples
PLACES = 32
MICRO = 16  # calls before a step, at most, that are compared with those before the last one
Place = tuple[int, str | None, int]  # root, line and phase
Source = tuple[str, tuple[Any, ...]]  # a line, and a few of the numbers that it gave
DEEP = 256  # calls within calls that are followed
SEEDERS = frozenset({
    "seed", "manual_seed", "default_rng", "RandomState", "Random", "set_state", "setstate", "set_rng_state", "PCG64", "Philox",
    "MT19937", "SeedSequence",
})  # fmt: skip


@record_class
class Repeat:
    """Training calls of one model from one line, in one phase."""

    site: str | None
    first_step: int
    rows: int = 0
    calls: int = 0  # that were compared
    same: int = 0  # in a row that got a new tensor with the rows of as many calls before as a step has
    period: int = 1  # calls for each step
    listed: int = 0  # times that the functions in between were listed
    anew: int = 0  # of those: a generator was begun, gave as many rows, and was thrown away
    seeded: int = 0  # of those: a function that gave as many rows sets a seed
    source: str | None = None  # line of that generator or function
    given: tuple[Any, ...] = ()  # a few of the numbers that it gave first


@part_class
class Repeats:
    """The part of the trace about them."""

    all: dict[Place, Repeat] = field(default_factory=dict)


class RepeatWatch:
    """Fills `Repeats`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._loaders = trace.part(Repeats), trace.part(Loaders)
        self._phases = trace.part(Phases)
        self._last: dict[
            Place, deque[tuple[int, list[float], weakref.ref[Tensor]]]
        ] = {}  # (step, rows, tensor) of the last calls
        self._listing: Listing | None = None

    def remove(self) -> None:
        self._stop()

    def on_rest(self) -> None:
        self._stop()

    def before_call(self, call: Call) -> None:
        listing = self._listing
        if listing is not None and (call.root.number, call.site) == listing.place[:2] and listing.is_over():
            self._stop()

    def after_call(self, call: Call) -> None:
        if not call.grad or not call.training or not call.root.parameters or self._loaders.feeds(self._trace.backwards):
            return
        place = (call.root.number, call.site, self._phases.number)
        repeat = self._part.all.get(place)
        if repeat is None:
            if len(self._part.all) >= PLACES:
                return
            repeat = self._part.all[place] = Repeat(call.site, call.step)
        if repeat.calls >= SAME or (repeat.calls > LISTED[0] + MICRO and not repeat.same):
            return
        given = tensors((call.args, call.kwargs))
        if given and is_dense(given[0]) and given[0].dim() >= 1 and 2 <= len(given[0]) <= 4096:
            self._compare(repeat, place, given, call.step)

    def _compare(self, repeat: Repeat, place: Place, given: list[Tensor], step: int) -> None:
        input, keys, last = given[0], _keys(given), self._last.setdefault(place, deque(maxlen=MICRO))
        periods = [repeat.period] if repeat.same else range(1, len(last) + 1)
        found = next((each for each in periods if _is_again(last, each, keys, input, step)), 0) if keys else 0
        repeat.calls += 1
        repeat.same, repeat.period = (repeat.same + 1, found) if found else (0, 1)
        repeat.rows = len(keys)
        last.append((step, keys, weakref.ref(input)))
        if repeat.same in LISTED and self._listing is None and sys.getprofile() is None and not self._hub.compiled:
            self._listing = Listing(repeat, place, self._hub.locator)
            sys.setprofile(self._listing.hear)

    def _stop(self) -> None:
        listing, self._listing = self._listing, None
        if listing is None:
            return
        if sys.getprofile() == listing.hear:
            sys.setprofile(None)
        repeat, found = listing.repeat, listing.thrown or listing.seeded
        repeat.listed += 1
        if found is not None and found[1] == (repeat.given or found[1]):
            repeat.source, repeat.given = found
            repeat.anew += listing.thrown is not None
            repeat.seeded += listing.seeded is not None


def _keys(given: list[Tensor]) -> list[float]:
    """A number for each sample: by its row in the first tensor, or by what several have at its place, as users and items are."""
    first = given[0]
    if first.dim() >= 2:
        return row_keys(first)
    columns = [each for each in given if each.dim() == 1 and len(each) == len(first) and is_dense(each) and not each.is_complex()]
    same_place = all(each.device.type == "cpu" for each in columns) and len(columns) == len(given) and len(first) >= 8
    return row_keys(torch.stack([each.detach().double() for each in columns], 1)) if same_place else []


def _is_again(
    last: "deque[tuple[int, list[float], weakref.ref[Tensor]]]", period: int, keys: list[float], input: Tensor, step: int
) -> bool:
    """Whether a call so many calls ago, for the step before where it is not the last one, had the same rows in another tensor."""
    if len(last) < period:
        return False
    before, rows, tensor = last[-period]
    return rows == keys and tensor() is not input and (period == 1 or step == before + 1)


class Listing:
    """The functions of the user's that are called from one training call to the next but one; of steps with several calls, from
    one step to the next but one."""

    def __init__(self, repeat: Repeat, place: Place, locator: Locator) -> None:
        self.repeat, self.place = repeat, place
        self.thrown: Source | None = None
        self.seeded: Source | None = None
        self._is_users, self._text = lru_cache(maxsize=None)(locator.is_users), locator.text
        self._calls = 0
        self._stack: list[bool] = []  # of the functions that are called now: whether one of them, or within, sets a seed
        self._open: dict[int, tuple[int, Source]] = {}  # generators that gave rows: frame -> (where it stands, what it gave)

    def is_over(self) -> bool:
        """Called before each training call: that of the second step is the end."""
        self._calls += 1
        if self._calls < 2 * self.repeat.period:
            return False
        for _, source in self._open.values():
            self.thrown = source
        return True

    def hear(self, frame: FrameType, event: str, given: Any) -> None:
        if event == "c_call":
            if self._stack and getattr(given, "__name__", "") in SEEDERS:
                self._stack[-1] = True
            return
        if event not in ("call", "return") or not self._is_users(frame.f_code.co_filename):
            return
        if event == "call":
            self._begin(frame)
        else:
            self._end(frame, given)

    def _begin(self, frame: FrameType) -> None:
        if len(self._stack) < DEEP:
            goes_on = frame.f_code.co_flags & CO_GENERATOR and frame.f_lasti != begins_at(frame.f_code)
            self._stack.append(not goes_on and sets_seed(frame.f_code))
        known = self._open.get(id(frame))
        if known is None:
            return
        if frame.f_lasti == begins_at(frame.f_code):
            self.thrown = self._open.pop(id(frame))[1]  # another one, at the place in memory of one that is gone
        elif frame.f_lasti != known[0]:
            del self._open[id(frame)]  # asked for more; to be closed, it is called where it stands

    def _end(self, frame: FrameType, given: Any) -> None:
        if not self._stack:
            return  # was called before the list began
        seeds = self._stack.pop()
        if self._stack and seeds:
            self._stack[-1] = True
        numbers = _numbers(given, self.repeat.rows) if given is not None else ()
        if not numbers:
            return
        source = self._text(frame.f_code.co_filename, frame.f_lineno), numbers
        if seeds and not _is_part(frame, self.repeat.rows):
            self.seeded = source
        if frame.f_code.co_flags & CO_GENERATOR and self._calls < self.repeat.period and not self._is_all(frame):
            self._open[id(frame)] = frame.f_lasti, source

    def _is_all(self, frame: FrameType) -> bool:
        """Whether a step with several calls takes all that a generator has, which is then begun anew by right."""
        rows = self.repeat.rows * self.repeat.period
        return self.repeat.period > 1 and any(self.repeat.rows < size <= rows for size in _tables(frame))


@lru_cache(maxsize=1024)
def begins_at(code: CodeType) -> int:
    """Where a function stands when it is called for the first time."""
    return next((step.offset for step in dis.get_instructions(code) if step.opname == "RESUME"), -1)


@lru_cache(maxsize=1024)
def sets_seed(code: CodeType) -> bool:
    """Whether a function calls something that sets a seed."""
    if SEEDERS.isdisjoint(code.co_names):
        return False
    steps = [step for step in dis.get_instructions(code) if step.argval in SEEDERS]
    return any(
        step.opname in ("LOAD_METHOD", "LOAD_GLOBAL", "LOAD_NAME") or (step.opname == "LOAD_ATTR" and (step.arg or 0) & 1 == 1)
        for step in steps
    )


def _is_part(frame: FrameType, rows: int) -> bool:
    """Whether a function knows a table of which so many rows are a good part: a split that is made anew, then."""
    return any(rows < size <= 4 * rows for size in _tables(frame))


def _tables(frame: FrameType) -> list[int]:
    """The numbers of rows of the tables that a function knows.

    Whoever profiles must leave `f_locals` as it is: Python writes it back into the function, and a generator goes on with that.
    """
    names = dict(frame.f_locals)
    held = getattr(names.get("self"), "__dict__", {})
    named = (frame.f_globals.get(name) for name in frame.f_code.co_names)
    return [value.shape[0] for value in (*names.values(), *held.values(), *named) if _is_array(value) and len(value.shape)]


def _is_array(value: Any) -> bool:
    kind = type(value)
    return isinstance(value, Tensor) or (kind.__name__ == "ndarray" and kind.__module__ == "numpy")


def _numbers(value: Any, rows: int) -> tuple[Any, ...]:
    """A few numbers of the first tensor or array of so many rows in something; none where there is no such."""
    pending, looked = [value], 0
    while pending and looked < 32:
        part = pending.pop()
        looked += 1
        kind = type(part)
        if _is_array(part):
            is_plain = not isinstance(part, Tensor) or (part.is_cpu and is_dense(part))
            if is_plain and len(part.shape) and part.shape[0] == rows:
                return tuple((part.detach() if isinstance(part, Tensor) else part).reshape(-1)[:8].tolist())
        elif kind in (tuple, list):
            pending += part[:8]
        elif kind is dict:
            pending += list(part.values())[:8]
    return ()


OBSERVERS = [RepeatWatch]
