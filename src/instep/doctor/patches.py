"""Patches: functions and methods that are replaced while the doctor watches, so that calls of them become events.

A patch is data, listed in `PATCHES` of a file in `watch/`. A patched function behaves as before: it passes its arguments on,
returns what the original returns, raises what it raises, and keeps name, signature and source. Only patches that somebody
listens to are installed. Compiled code sees the original alone.
"""

import copy
import functools
import importlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from threading import get_ident
from types import ModuleType
from typing import Any, NamedTuple, SupportsIndex

from torch import Tensor, nn
from torch.compiler import is_compiling

from instep.doctor.hub import Hub
from instep.doctor.warned import UNSEEN, call_builtin, is_builtin, unseen

_MISSING = object()
TRACERS = (
    "torch.jit:script",
    "torch.jit:trace",
    "torch.jit:trace_module",
    "torch.jit._recursive:create_script_module",  # of a ScriptModule of the user's
    "torch.onnx:export",
    "torch.export:export",
    "torch.fx:symbolic_trace",
    "torch.fx:Tracer.trace",
)


@dataclass(frozen=True)
class Patch:
    """Calls of `targets` become the events `before_<event>` and `after_<event>`, each with a `Called`.

    A target is "module:name" or "module:Class.name". With `subclasses`, the method of every subclass that has its own is
    patched too; with `late`, the package may be imported later, or never. Calls inside another call of the same `group` (the
    event, unless said) stay silent: only the outermost is told. What is rare, and must not be missed in a long run, is `always`
    told; the rest only while the doctor is awake (see `step_sampling`). `outside_steps`: not told while an optimizer steps, which
    may call it for every parameter.
    """

    event: str
    targets: tuple[str, ...]
    subclasses: bool = False
    group: str = ""
    always: bool = False
    late: bool = False
    outside_steps: bool = False


class Called:
    """One call of a patched function. `result` is there after it."""

    __slots__ = ("_hub", "_site", "args", "event", "function", "kwargs", "result")

    def __init__(self, event: str, function: str, args: tuple[Any, ...], kwargs: dict[str, Any], hub: Hub) -> None:
        self.event = event
        self.function = function  # its own name, such as "cross_entropy"
        self.args = args
        self.kwargs = kwargs
        self.result: Any = None
        self._hub = hub
        self._site: Any = _MISSING

    @property
    def site(self) -> str | None:
        """`file:line` of the user's. Ask inside the handler: later the stack is gone."""
        if self._site is _MISSING:
            self._site = self._hub.locator.site(2)
        return self._site  # type: ignore[no-any-return]

    def argument(self, index: int, name: str, default: Any = None) -> Any:
        """An argument, by place or by name; `self` of a method is the argument 0."""
        if len(self.args) > index:
            return self.args[index]
        return self.kwargs.get(name, default)

    def listed(self, index: int, name: str) -> list[Any]:
        """What is in an argument that may be one tensor or many of them; the function itself still gets all of it.

        A generator can be read once: the function gets another in its place, which also raises what the first one has raised.
        """
        given = self.argument(index, name)
        if given is None or isinstance(given, Tensor):
            return [] if given is None else [given]
        if not isinstance(given, Iterator):
            return list(given.values() if isinstance(given, Mapping) else given)
        items: list[Any] = []
        error: Exception | None = None
        try:
            items.extend(given)
        except Exception as raised:  # of the user's own
            error = raised
        again = _again(items, error)
        if len(self.args) > index:
            self.args = (*self.args[:index], again, *self.args[index + 1 :])
        else:
            self.kwargs = {**self.kwargs, name: again}
        return items


class Replaced(NamedTuple):
    """A name that stands for a wrapper now."""

    owner: Any
    name: str
    original: Any
    wrapper: Any
    always: bool

    @property
    def stays(self) -> bool:
        """Whether it stays while nobody listens, too. A function that the script keeps is then the one that torch has.

        Built-ins need not: theirs compare and pickle as the originals do.
        """
        return self.always or (isinstance(self.owner, ModuleType) and not is_builtin(self.original))


class Patches:
    """What is installed now. `remove` puts everything back as it was."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._installed: list[Replaced] = []
        self._late: list[Patch] = []
        self._depths: dict[str, list[int]] = {}
        self._outside: list[list[int]] = []  # depths of what is not told while an optimizer steps

    def install(self, patches: Iterable[Patch]) -> None:
        for patch in patches:
            before, after = (self._hub.listeners(f"{when}_{patch.event}") for when in ("before", "after"))
            if patch.late:
                self._late.append(patch)
            elif before or after:
                self._replace(patch)
        self._install_late()

    def _install_late(self) -> None:
        """Patch the packages that have been imported by now."""
        here = [patch for patch in self._late if all(target.partition(":")[0] in sys.modules for target in patch.targets)]
        for patch in here:
            self._late.remove(patch)
            self._replace(patch)

    def on_root_seen(self, *_: Any) -> None:
        """A model is called for the first time: whatever it is made with has been imported."""
        if self._late:
            self._install_late()

    def rebind(self, is_users: Callable[[str], bool]) -> None:
        """Replace the names that the user's modules have imported already (`from torch.nn.functional import cross_entropy`).

        Those of a notebook stand in `__main__`, which has no file there.
        """
        known = {id(each.original): each for each in self._installed if not isinstance(each.owner, type)}
        for module in list(sys.modules.values()):
            if not isinstance(module, ModuleType) or not _is_users(module, is_users):
                continue
            for name, value in list(vars(module).items()):
                if (each := known.get(id(value))) is not None:
                    setattr(module, name, each.wrapper)
                    self._installed.append(each._replace(owner=module, name=name))

    def suspend(self) -> None:
        """Tracers and compilers of TorchScript read the functions themselves: let them find the originals."""
        for target in TRACERS:
            module, _, path = target.partition(":")
            *classes, name = path.split(".")
            owner: Any = sys.modules.get(module)
            for part in classes:
                owner = getattr(owner, part, None)
            if hasattr(owner, name):
                original = getattr(owner, name)
                wrapper = self._untouched(original)
                setattr(owner, name, wrapper)
                self._installed.append(Replaced(owner, name, original, wrapper, True))

    def _untouched(self, original: Callable[..., Any]) -> Callable[..., Any]:
        hub = self._hub

        looks_up = original.__name__ == "script"  # it reads names in the frame of its caller, which is now one further up

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if looks_up and len(args) < 3:
                kwargs["_frames_up"] = kwargs.get("_frames_up", 0) + 1
            if hub.busy:
                return original(*args, **kwargs)
            others = [each for each in self._installed if vars(each.owner).get(each.name) is each.wrapper]
            others += self._kept_by_user(args)
            hub.close()
            for each in others:
                setattr(each.owner, each.name, each.original)
            try:
                return original(*args, **kwargs)
            finally:
                for each in others:
                    setattr(each.owner, each.name, each.wrapper)
                hub.open()

        return unseen(wrapper)

    def _kept_by_user(self, given: tuple[Any, ...]) -> list[Replaced]:
        """Wrappers that the user's modules have imported by name, and those that a model keeps as attributes."""
        known = {id(each.wrapper): each for each in self._installed if isinstance(each.owner, ModuleType)}
        places: list[Any] = [part for model in given[:1] if isinstance(model, nn.Module) for part in model.modules()]
        modules = [module for module in list(sys.modules.values()) if isinstance(module, ModuleType)]
        places += [module for module in modules if _is_users(module, self._hub.locator.is_users)]
        return [
            known[id(value)]._replace(owner=place, name=name)
            for place in places
            for name, value in list(vars(place).items())
            if id(value) in known
        ]

    def remove(self) -> None:
        for each in reversed(self._installed):
            if vars(each.owner).get(each.name) is each.wrapper:  # else somebody has put theirs on top; ours is silent by now
                setattr(each.owner, each.name, each.original)
            if _is_inherited(each):
                delattr(each.owner, each.name)
        self._installed.clear()

    def on_rest(self) -> None:
        """What is not heard need not be wrapped: even passing a call on costs a microsecond."""
        if self._hub.compiled:
            return
        for each in self._installed:
            if not each.stays and vars(each.owner).get(each.name) is each.wrapper:
                setattr(each.owner, each.name, each.original)

    def before_step(self, step: Any) -> None:
        for depth in self._outside if not step.closure else ():  # a closure is the user's own
            depth[0] = 1

    def after_step(self, _: Any) -> None:
        for depth in self._outside:
            depth[0] = 0

    def on_wake(self) -> None:
        self.after_step(None)  # the last one may have failed
        for each in self._installed:
            if not each.stays and vars(each.owner).get(each.name) is each.original:
                setattr(each.owner, each.name, each.wrapper)

    def _replace(self, patch: Patch) -> None:
        wrappers: dict[int, Any] = {}  # one for all names of a function
        for owner, name in _places(patch):
            original = vars(owner).get(name) or getattr(owner, name)
            if any(done.owner is owner and done.name == name for done in self._installed):
                if patch.subclasses:
                    continue  # a subclass with a patch of its own
                raise ValueError(f"{name} of {owner} is patched twice; listen to the event of the first patch instead")
            wrapper = wrappers.get(id(original))
            if wrapper is None:
                wrapper = self._wrapped(original, name, patch)
                if isinstance(owner, ModuleType) and is_builtin(original):
                    wrapper = PatchedBuiltin(original, wrapper)
                wrappers[id(original)] = wrapper
            setattr(owner, name, wrapper)
            self._installed.append(Replaced(owner, name, original, wrapper, patch.always))

    def _wrapped(self, original: Callable[..., Any], name: str, patch: Patch) -> Callable[..., Any]:
        hub, event = self._hub, patch.event
        before, after = hub.listeners(f"before_{event}"), hub.listeners(f"after_{event}")
        depth = self._depths.setdefault(patch.group or event, [0])
        always, builtin = patch.always, is_builtin(original)
        if patch.outside_steps and not any(depth is each for each in self._outside):
            self._outside.append(depth)

        @functools.wraps(original)
        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or (hub.quiet and not (always and not hub.busy)) or depth[0] or get_ident() != hub.thread:
                return original(*args, **kwargs)
            called = Called(event, name, args, kwargs, hub)
            depth[0] += 1
            try:
                if before:
                    hub.tell(before, called)
                if builtin:
                    result = called.result = call_builtin(original, called.args, called.kwargs, UNSEEN)
                else:
                    result = called.result = original(*called.args, **called.kwargs)
            finally:
                depth[0] -= 1
            if after:
                hub.tell(after, called)
            return result

        return unseen(wrapper)


class PatchedBuiltin:
    """A patched built-in function: it equals, hashes and pickles as the original, and is no method where a class has it."""

    def __init__(self, original: Callable[..., Any], wrapper: Callable[..., Any]) -> None:
        functools.update_wrapper(self, original)
        self._call = wrapper

    @unseen
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["__wrapped__"], name)

    def __eq__(self, other: object) -> bool:
        return other is self or other is vars(self)["__wrapped__"]

    def __hash__(self) -> int:
        return hash(vars(self)["__wrapped__"])

    def __repr__(self) -> str:
        return repr(vars(self)["__wrapped__"])

    def __deepcopy__(self, _: object) -> "PatchedBuiltin":
        return self

    def __copy__(self) -> "PatchedBuiltin":
        return self

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        told: Any = vars(self)["__wrapped__"].__reduce_ex__(protocol)
        return (copy.copy, (vars(self)["__wrapped__"],)) if isinstance(told, str) else told


def _is_users(module: ModuleType, is_users: Callable[[str], bool]) -> bool:
    """Whether a module is the user's; a notebook's `__main__` has no file."""
    file = getattr(module, "__file__", None) or ""
    if "/torch/" in file and module.__name__.startswith("torch."):
        return False  # more than a thousand
    return is_users(file) or (not file and module.__name__ == "__main__")


def _again(items: list[Any], error: Exception | None) -> Iterator[Any]:
    yield from items
    if error is not None:
        raise error


def _places(patch: Patch) -> Iterator[tuple[Any, str]]:
    """Every (module or class, name) that the patch replaces; a target that this torch does not have is left out."""
    for target in patch.targets:
        module, _, path = target.partition(":")
        try:
            owner: Any = importlib.import_module(module)
        except ImportError:
            continue
        *classes, name = path.split(".")
        for part in classes:
            owner = getattr(owner, part, None)
        if name in vars(owner or object) or (owner is Tensor and hasattr(owner, name)):  # most methods of Tensor are inherited
            yield owner, name
        if patch.subclasses and isinstance(owner, type):
            yield from ((kind, name) for kind in _subclasses(owner) if name in vars(kind))


def _is_inherited(each: Replaced) -> bool:
    """Whether the owner had no such name itself, and has the original now."""
    if not isinstance(each.owner, type) or vars(each.owner).get(each.name) is not each.original:
        return False
    return any(vars(base).get(each.name) is each.original for base in each.owner.__mro__[1:])


def _subclasses(kind: type) -> list[type]:
    found: dict[type, None] = {}
    pending: list[type] = list(kind.__subclasses__())
    while pending:
        each = pending.pop()
        if each not in found:
            found[each] = None
            pending += each.__subclasses__()
    return list(found)
