"""Capture: the graph of a result, read from its `grad_fn` and from what was noted during the forward."""

import contextlib
import dataclasses
import math
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import UninitializedTensorMixin  # type: ignore[attr-defined]  # torch has it, its stubs do not

from instep.errors import DescriptionError
from instep.loop.graph.record import GraphRecord, Node, Saved, Unused
from instep.loop.graph.trace import Trace


def capture(forward: Callable[[], Any], models: Mapping[str, nn.Module], inputs: Any, title: str) -> GraphRecord:
    """The graph of what `forward` returns. What it changes is the caller's to put back."""
    _require_initialized(models)
    names = {module: name for prefix, model in models.items() for name, module in _modules(model, prefix)}
    with _eager(), torch.enable_grad(), Trace(names) as trace:
        result = forward()
    return read_graph(result, models, inputs, title, trace)


@contextlib.contextmanager
def _eager() -> Iterator[None]:
    """Compiled code records one operation for many and calls no modules; where nothing was compiled, there is nothing to do."""
    if "torch._dynamo" not in sys.modules:
        yield
        return
    with torch.compiler.set_stance("force_eager"), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Using `torch.compile.module.` when there are global hooks")
        yield


def read_graph(
    result: Any, models: Mapping[str, nn.Module], inputs: Any = (), title: str = "", trace: Trace | None = None
) -> GraphRecord:
    """The graph of the tensors in a result, as far as it is still there."""
    roots = [one for one in _all_tensors(result) if one.is_floating_point() or one.is_complex()]
    if not roots:
        raise DescriptionError(f"there is no tensor of floating-point numbers in what was returned, a {type(result).__name__}.")
    reading = _Reading(models, inputs, trace)
    reading.walk([one.grad_fn if one.grad_fn is not None else one for one in roots if one.requires_grad])
    reading.add_cuts(roots)
    reading.add_results(roots)
    return reading.record(title)


class _Reading:
    def __init__(self, models: Mapping[str, nn.Module], inputs: Any, trace: Trace | None) -> None:
        self._parameters = {p: name for prefix, model in models.items() for name, p in _named(model.named_parameters(), prefix)}
        self._trace = trace
        self._held = {_storage(p): name for p, name in self._parameters.items()}
        buffers = [(name, b) for prefix, model in models.items() for name, b in _named(model.named_buffers(), prefix)]
        self._held |= {_storage(buffer): name for name, buffer in buffers}
        self._inputs = {_storage(one): "input" for one in _all_tensors(inputs)}
        self._held = self._inputs | self._held
        self._places: dict[Any, int] = {}  # a grad_fn or a leaf -> its node
        self._nodes: list[Node] = []
        self._when: dict[int, float] = {}  # the sequence numbers of nodes that have one
        self._edges: dict[tuple[int, int], None] = {}
        self._has_slots = self._has_saved = False

    def walk(self, roots: Iterable[Any]) -> None:
        """All that the roots were computed from, in the order of the forward: inputs of an operation before it."""
        pending: list[tuple[Any, bool]] = [(root, False) for root in roots]
        while pending:
            found, is_ready = pending.pop()
            if found in self._places:
                continue
            before = _before(found)
            if not is_ready:
                pending.append((found, True))
                pending += [(one, False) for one in reversed(before) if one not in self._places]
                continue
            self._places[found] = len(self._nodes)
            if not isinstance(found, Tensor):
                self._when[len(self._nodes)] = found._sequence_nr()
            self._nodes.append(self._node(found))
            for one in before:
                self._edges[self._places[one], self._places[found]] = None

    def add_cuts(self, roots: Sequence[Tensor]) -> None:
        """The cuts that something of the graph comes from."""
        if self._trace is None:
            return
        at_result = self._trace.cuts_behind(roots)
        for key, cut in self._trace.cuts.items():
            users = [self._places[one] for one in cut.users if one in self._places]
            if not users and key not in at_result:
                continue
            place = len(self._nodes)
            self._when[place] = cut.number - 0.5
            self._nodes.append(Node("cut", cut.kind, cut.call, cut.shape, cut.dtype, where=cut.where))
            self._places[key] = place
            for source in cut.sources:
                before = self._places.get(source, self._places.get(_leaf_of(source)))
                if before is not None:
                    self._edges[before, place] = None
            self._edges |= dict.fromkeys((place, user) for user in users)

    def add_results(self, roots: Sequence[Tensor]) -> None:
        for number, root in enumerate(roots):
            label = "result" if len(roots) == 1 else f"result {number}"
            place = len(self._nodes)
            self._nodes.append(Node("result", label, None, tuple(root.shape), _dtype(root.dtype)))
            if root.requires_grad:
                self._edges[self._places[root.grad_fn if root.grad_fn is not None else root], place] = None
            elif self._trace is not None:
                for key in self._trace.cuts_behind([root]):
                    self._edges[self._places[key], place] = None

    def record(self, title: str) -> GraphRecord:
        reached = {id(found) for found in self._places if isinstance(found, Tensor)}
        unused = [
            Unused(name, tuple(p.shape), p.numel() * p.element_size(), not p.requires_grad)
            for p, name in self._parameters.items()
            if id(p) not in reached
        ]
        calls = () if self._trace is None else tuple(span.call for span in self._trace.spans)
        is_freed = self._has_slots and not self._has_saved
        order = self._order()
        places = {old: new for new, old in enumerate(order)}
        edges = sorted((places[before], places[after]) for before, after in self._edges)
        return GraphRecord(title, tuple(self._nodes[old] for old in order), tuple(edges), calls, tuple(unused), is_freed)

    def _order(self) -> list[int]:
        """Operations as they were made, each leaf before the first who uses it, results at the end."""
        when = dict(self._when)
        for before, after in self._edges:
            if self._nodes[before].kind in ("parameter", "input"):
                when[before] = min(when.get(before, math.inf), self._when.get(after, math.inf) - 0.25)
        return sorted(range(len(self._nodes)), key=lambda place: (when.get(place, math.inf), place))

    def _node(self, found: Any) -> Node:
        if isinstance(found, Tensor):
            name = self._parameters.get(found)
            kind = "parameter" if name is not None or isinstance(found, nn.Parameter) else "input"
            label = name if name is not None else kind
            return Node(kind, label, None, tuple(found.shape), _dtype(found.dtype))  # type: ignore[arg-type]  # one of two
        label = _label(found)
        call = None if self._trace is None else self._trace.call_of(found._sequence_nr())
        metadata = getattr(found, "_input_metadata", ())  # the gradients that come in are shaped like what came out
        shape, dtype = ((), "") if not metadata else (tuple(metadata[0].shape), _dtype(metadata[0].dtype))
        return Node("operation", label, call, shape, dtype, tuple(self._saved(found, label)))

    def _saved(self, found: Any, label: str) -> Iterator[Saved]:
        for name, tensor in self._kept(found):
            self._has_saved = True
            storage = _storage(tensor)
            held_by = self._held.get(storage, "")
            if not held_by:
                self._held[storage] = label
            yield Saved(name, tuple(tensor.shape), _dtype(tensor.dtype), 0 if held_by else _size(tensor), held_by)

    def _kept(self, found: Any) -> Iterator[tuple[str, Tensor]]:
        """What is really held: not what a hook would compute again, as checkpointing does."""
        for attribute in dir(found):
            if not attribute.startswith("_raw_saved_"):
                continue
            self._has_slots = True
            slots = getattr(found, attribute)
            for slot in slots if isinstance(slots, tuple | list) else (slots,):
                for tensor in _all_tensors(slot.data):
                    yield attribute.removeprefix("_raw_saved_"), tensor


def _before(found: Any) -> list[Any]:
    """What an operation takes: other operations and leaves, each once."""
    if isinstance(found, Tensor):
        return []
    return list(dict.fromkeys(_leaf_of(one) for one, _ in found.next_functions if one is not None))


def _leaf_of(found: Any) -> Any:
    """The leaf in whose gradient it ends; else itself."""
    variable = getattr(found, "variable", None)
    return found if variable is None else variable


def _label(found: Any) -> str:
    """`Addmm` of AddmmBackward0, `CheckpointFunction` of a function of somebody's."""
    name = str(found.name()).rpartition("::")[2].rstrip("0123456789")
    return name.removesuffix("Backward") or name


def _all_tensors(value: Any) -> list[Tensor]:
    """The tensors of nested containers and dataclasses, or the tensor itself."""
    if isinstance(value, Tensor):
        return [value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        value = [getattr(value, field.name) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, tuple | list):
        return [tensor for one in value for tensor in _all_tensors(one)]
    return []


def _storage(tensor: Tensor) -> int:
    """What tells one storage from another; of a tensor without one (a sparse one) it is the tensor itself."""
    try:
        return int(tensor.untyped_storage()._cdata)
    except NotImplementedError:
        return id(tensor)


def _size(tensor: Tensor) -> int:
    """What it keeps alive: its whole storage, also where it is a view of a part."""
    try:
        return tensor.untyped_storage().nbytes()
    except NotImplementedError:
        return sum(_size(part) for part in (tensor._indices(), tensor._values())) if tensor.is_sparse else 0


def _dtype(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _modules(model: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    yield from _named(model.named_modules(), prefix)


def _named(pairs: Iterable[tuple[str, Any]], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in pairs:
        yield (f"{prefix}.{name}" if prefix and name else name or prefix), value


def _require_initialized(models: Mapping[str, nn.Module]) -> None:
    for model in models.values():
        for name, parameter in model.named_parameters():
            if isinstance(parameter, UninitializedTensorMixin):
                raise DescriptionError(
                    f"{name} is a lazy parameter without a shape yet; send one batch through the model first: model(x)."
                )
