"""Calls of modules: the outermost ones (root calls) one by one, the ones inside them by type.

Global hooks, since hooks on single modules would change torch's fast paths. `model.forward(x)` goes past the hook of `model`:
then its children are the roots.
"""

import weakref
from collections import deque
from dataclasses import field
from threading import get_ident
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import is_functorch_wrapped_tensor
from torch._C._functorch import peek_interpreter_stack as is_transformed
from torch.compiler import is_compiling
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.roots import Root as Root
from instep.doctor.roots import nest
from instep.doctor.trace import Trace
from instep.doctor.watch.loaders import Loaders, Pass, first_tensor

LIMIT = 512
NESTED = 64  # roots of which it is known whether they are parts of others
GIVEN = 4  # root calls whose outputs are known again
CHAIN = 3  # root calls before one, through which its output came
_WITH_KWARGS: dict[int, bool] = getattr(torch.nn.modules.module, "_global_forward_hooks_with_kwargs", {})


class Call:
    """One root call, while it goes on. `args` and `output` are the user's own: read them, keep nothing."""

    __slots__ = (
        "args",
        "batch",
        "closely",
        "grad",
        "inference",
        "kind",
        "kwargs",
        "module",
        "number",
        "output",
        "root",
        "site",
        "step",
        "training",
    )  # fmt: skip

    def __init__(self, number: int, module: nn.Module, root: Root, args: tuple[Any, ...], site: str | None, step: int) -> None:
        self.number = number
        self.module = module
        self.root = root
        self.args = args
        self.kwargs: dict[str, Any] = {}
        self.output: Any = None
        self.training = module.training
        self.grad = torch.is_grad_enabled()
        self.inference = torch.is_inference_mode_enabled()
        self.site = site
        self.step = step  # optimizer steps before it
        self.batch: Pass | None = None  # the pass over a loader that last gave a batch
        self.kind: CallKind | None = None
        self.closely = False  # whether somebody wants every module inside it: set that in `before_call`


@record_class
class CallKind:
    """Root calls of one module, in one mode, from one line, on batches of one loader."""

    root: Root
    training: bool
    grad: bool
    inference: bool
    site: str | None
    loader: int | None  # the number of the loader that last gave a batch, None before any
    count: int = 0
    first_step: int = 0
    trained: int = 0  # how many had grad on and were followed by a backward before the next step
    fed: int = 0  # how many had an input as long as the batch that a loader last gave
    repeated: int = 0  # how many had the same input object as the root call before: MC dropout, several heads
    graded: int = 0  # how many outputs went straight into a loss of torch's or an argmax
    compared: int = 0  # how many were subtracted from something that has as many rows, or the other way round
    inside: str = ""  # what it was called by, where that matters: "update_bn", "checkpoint"


class _Grade:
    """One root call, until something grades it."""

    __slots__ = ("given", "kind")

    def __init__(self, kind: CallKind) -> None:
        self.kind, self.given = kind, False


class _Given:
    """What a root call gave; with it are graded those whose outputs it was made from, as an encoder's by a head."""

    __slots__ = ("grades", "output", "rows", "storage")

    def __init__(self, output: Tensor, kind: CallKind, source: "_Given | None") -> None:
        self.output, self.storage = weakref.ref(output), _storage(output)
        self.rows = len(output) if output.dim() and not kind.grad else -1  # where nothing is recorded
        self.grades: tuple[_Grade, ...] = (_Grade(kind), *(source.grades[:CHAIN] if source is not None else ()))


def _storage(tensor: Tensor) -> int:
    """Where its numbers are; 0 where nobody knows."""
    if type(tensor) is not Tensor or tensor.layout is not torch.strided or tensor.is_meta or is_functorch_wrapped_tensor(tensor):
        return 0
    return tensor.untyped_storage().data_ptr()


@part_class
class Calls:
    """The part of the trace about root calls."""

    roots: list[Root] = field(default_factory=list)
    kinds: dict[tuple[Any, ...], CallKind] = field(default_factory=dict)
    recent: deque[CallKind] = field(default_factory=lambda: deque(maxlen=64))
    enclosing: set[str] = field(default_factory=set)  # lines from which a framework runs the user's code: `trainer.fit(…)`

    def is_trained(self, root: Root) -> bool:
        """Whether a module is trained, or is the like of one that is: an average, a copy that is evaluated."""
        return bool(root.trained) or (root.parameters > 0 and any(o.trained and o.shapes == root.shapes for o in self.roots))

    def belongs_to_trained(self, root: Root) -> bool:
        """The same, or whether it is a part of such a module: a method may call the parts of a model one by one."""
        return self.is_trained(root) or any(whole.trained for whole in root.within)


class CallWatch:
    """Keeps the stack of modules and tells of root calls: `before_call(call)`, `after_call(call)`.

    `on_module_seen(module, root)` comes once for each module, at the end of its first call. An observer that wants every call
    of some kind of module has a method `wants_modules() -> dict[type, method]`; the method gets (module, args, output, call). One
    for `nn.Module` itself is asked only inside calls that are watched `closely`.
    """

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Calls)
        self._loaders = trace.part(Loaders)
        self._stack: list[nn.Module] = []
        self._call: Call | None = None
        self._wanted: list[tuple[type, Any]] = []
        self._every: list[Any] = []  # that want all modules, where a call is watched closely
        self._by_type: dict[type, list[Any]] = {}
        self._seen: dict[int, weakref.ref[nn.Module]] = {}
        self._roots: dict[int, Root] = {}
        self._before, self._after = hub.listeners("before_call"), hub.listeners("after_call")
        self._handles: list[Any] = []
        self._open: deque[CallKind] = deque(maxlen=64)  # calls that a backward may follow
        self._last_site: str | None = None  # of the last call with grad
        self._last_input: weakref.ref[Any] | None = None
        self._given: deque[_Given] = deque(maxlen=GIVEN)
        self._source: _Given | None = None  # that the call that goes on has for its input

    def install(self, observers: list[object]) -> None:
        for observer in observers:
            wants = getattr(observer, "wants_modules", None)
            if wants is not None:
                self._wanted += [(kind, method) for kind, method in wants().items() if kind is not nn.Module]
                self._every += [method for kind, method in wants().items() if kind is nn.Module]
        self.on_wake()

    def on_wake(self) -> None:
        """Hooks are taken off while the doctor rests: torch has a quicker way without them."""
        if self._handles:
            return  # they were left on
        self._handles.append(register_module_forward_pre_hook(self._begins))
        self._handles.append(register_module_forward_hook(self._ends, with_kwargs=True, always_call=True))

    def on_rest(self) -> None:
        self._stack.clear()
        self._open.clear()
        self._call = None
        if not self._hub.compiled:
            self.remove()

    def remove(self) -> None:
        for handle in self._handles:
            handle.remove()
            _WITH_KWARGS.pop(handle.id, None)  # which torch leaves there, and then takes for a hook when it compiles
        self._handles.clear()

    def _begins(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        if is_compiling() or is_transformed() is not None or self._hub.quiet or get_ident() != self._hub.thread:
            return
        stack, hub, trace = self._stack, self._hub, self._trace
        if stack:
            stack.append(module)
            return
        if hub.fallen and self in hub.fallen:
            return
        try:
            if _is_symbolic(args):
                return
            stack.append(module)
            root = self._roots.get(id(module)) or self._new_root(module)
            trace.calls += 1
            call = self._call = Call(trace.calls, module, root, args, hub.locator.site(2), trace.steps)
            call.batch = self._loaders.last
            self._count(call)
        except Exception:
            hub.stand_down(self)
            return
        hub.tell(self._before, call)

    def _ends(self, module: nn.Module, args: tuple[Any, ...], *rest: Any) -> None:
        if is_compiling() or self._hub.quiet or get_ident() != self._hub.thread:
            return
        stack = self._stack
        if not any(each is module for each in reversed(stack)):
            return
        while stack.pop() is not module:
            pass
        hub = self._hub
        if hub.fallen and self in hub.fallen:
            return
        try:
            self._tell_end(module, args, rest)
        except Exception:
            hub.stand_down(self)

    def _tell_end(self, module: nn.Module, args: tuple[Any, ...], rest: tuple[Any, ...]) -> None:
        call, output = self._call, rest[-1]
        if call is None:
            return
        if id(module) not in self._seen:
            self._see(module)
        handlers = self._by_type.get(type(module))
        if handlers is None:
            handlers = self._by_type[type(module)] = [h for kind, h in self._wanted if isinstance(module, kind)]
        if handlers:
            self._hub.tell(handlers, module, args, output, call)
        if call.closely:
            self._hub.tell(self._every, module, args, output, call)
        if not self._stack:
            call.output = output
            if len(rest) == 2:
                call.kwargs = rest[0]
            self._hub.tell(self._after, call)
            self._call = None

    def _see(self, module: nn.Module) -> None:
        key, seen = id(module), self._seen

        def forget(_: Any) -> None:
            seen.pop(key, None)

        seen[key] = weakref.ref(module, forget)
        root = self._call.root if self._call is not None else None
        self._hub.tell(self._hub.listeners("on_module_seen"), module, root)

    def _new_root(self, module: nn.Module) -> Root:
        key, roots = id(module), self._roots
        root = roots[key] = Root(len(self._part.roots), module)
        self._hub.sharded = self._hub.sharded or root.sharded
        weakref.finalize(module, roots.pop, key, None).atexit = False
        if len(self._part.roots) < NESTED:
            nest(module, root, self._part.roots)
        if len(self._part.roots) < LIMIT:
            self._part.roots.append(root)
        self._hub.tell(self._hub.listeners("on_root_seen"), module, root)
        return root

    def _count(self, call: Call) -> None:
        loader = call.batch.loader.number if call.batch is not None else None
        key = (call.root.number, call.training, call.grad, call.inference, call.site, loader)
        kind = self._part.kinds.get(key)
        if kind is None:
            kind = CallKind(call.root, call.training, call.grad, call.inference, call.site, loader)
            kind.first_step, kind.inside = call.step, self._inside()
            if len(self._part.kinds) < LIMIT:
                self._part.kinds[key] = kind
                self._part.enclosing.update(self._hub.locator.outer_sites())
        kind.count += 1
        call.kind = kind
        call.root.in_train += call.training
        self._part.recent.append(kind)

    def _inside(self) -> str:
        """Whether torch itself called: reentrant checkpointing runs its first forward under no_grad, update_bn in train mode."""
        for frame in self._hub.locator.frames():
            if frame.f_globals.get("__name__") == "torch.utils.checkpoint":
                return "checkpoint"
            if frame.f_code.co_name == "update_bn":
                return "update_bn"
        return ""

    def before_call(self, call: Call) -> None:
        kind, first = call.kind, first_tensor(call.args)
        self._source = self._find(first)
        if kind is None or first is None:
            return
        kind.repeated += self._last_input is not None and self._last_input() is first
        self._last_input = weakref.ref(first)
        if call.batch is not None and first.dim() and len(first) == call.batch.size:
            kind.fed += 1

    def after_call(self, call: Call) -> None:
        if call.grad and call.kind is not None and call.root.parameters:
            self._open.append(call.kind)
            self._last_site = call.site
        output = first_tensor(call.output)
        if output is not None and call.kind is not None and not call.root.is_loss:
            self._given.append(_Given(output, call.kind, self._source))

    def _find(self, tensor: Any) -> _Given | None:
        """The call that gave this tensor, or one of which it is a view: `output.data`, `output.view(-1, classes)`."""
        if not self._given or not isinstance(tensor, Tensor):
            return None
        storage = _storage(tensor)
        for place, given in enumerate(reversed(self._given)):
            output = given.output()
            if output is tensor or (storage and given.storage == storage and (output is not None or not place)):
                return given  # of the last one a view may be all that is left
        return None

    def on_graded(self, tensor: Any) -> None:
        """A loss or an argmax was given this tensor: that grades the call that gave it, and those that it was made from."""
        self._grade(self._find(tensor))

    def _grade(self, given: _Given | None) -> None:
        for grade in given.grades if given is not None else ():
            if given is not None and given.grades[0].kind.grad and not grade.kind.grad:
                break  # what a head that learns is given is no evaluation
            grade.kind.graded += not grade.given
            grade.given = True

    def on_loss(self, _: Any, __: Called, input: Tensor, ___: Any) -> None:
        """Where nothing is recorded, nobody knows what a loss was computed from: right after a call, on as many rows, or on a
        view of what it gave, it is that."""
        given = self._given[-1] if self._given else None
        if given is None or given.rows < 0 or torch.is_grad_enabled() or not input.dim():
            return
        if len(input) == given.rows or self._find(input) is given:
            self._grade(given)

    def on_compared(self, tensor: Any) -> None:
        """A metric by hand, perhaps; None for the last output, which may be gone."""
        given = self._find(tensor) if tensor is not None else self._given[-1] if self._given else None
        if given is not None and not given.grades[0].given:
            given.grades[0].kind.compared += 1

    def on_backward(self, *_: Any) -> None:
        for kind in self._open:
            kind.trained += 1
            kind.root.trained += 1
        self._open.clear()

    def after_argmax(self, called: Called) -> None:
        self.on_graded(called.argument(0, "input"))

    def after_step(self, step: Any) -> None:
        self._open.clear()
        if step.site is None or step.site != self._last_site or step.site in self._part.enclosing:
            return
        if not self._hub.locator.is_called_by_user():  # several statements may share a line
            self._part.enclosing.add(step.site)  # forward and step from one line: a framework's

    def on_judge(self) -> None:
        """Of a loader that a framework reads, the user's line is that where it was made."""
        for loader in self._loaders.all:
            if loader.site in self._part.enclosing and loader.made is not None:
                loader.site = loader.made


def _is_symbolic(args: tuple[Any, ...]) -> bool:
    """Whether only shapes are computed: on torch's meta device, or with Keras' symbols."""
    first = first_tensor(args)
    if first is None:
        return bool(args) and type(args[0]).__module__.startswith("keras.")
    return first.device.type == "meta"


PATCHES = [
    Patch("mode", ("torch.nn.modules.module:Module.train",), subclasses=True, always=True),
    Patch("argmax", ("torch:Tensor.argmax", "torch:argmax")),
]
OBSERVERS = [CallWatch]
