"""How models are built: layers in several places, misspelt flags, weights that begin equal."""

import linecache
import re
import weakref
from collections.abc import Iterator
from dataclasses import field
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd
from torch.nn.parameter import is_lazy

from instep.doctor.flag_names import FLAG, has_own_flag, is_typo
from instep.doctor.hub import Hub
from instep.doctor.records import part_class, record_class
from instep.doctor.shards import is_sharded
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls, Root
from instep.doctor.watch.gradients import Gradients
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers, Step
from instep.doctor.watch.phases import Phases

FULL = 4_000_000  # elements that are compared whole


@record_class
class Shared:
    """One layer several times in a list of layers."""

    root: int
    container: str
    layer: str
    places: int
    parameters: int


@record_class
class Typo:
    """A flag on a parameter or module that torch does not know."""

    attribute: str
    value: bool
    owner: str  # "Parameter", or the module's class
    count: int
    where: str | None = None


@record_class
class Twin:
    """Two weights that were equal when the model was first called."""

    first: str
    second: str
    root: int
    transposed: bool
    optimized: bool = False
    drift: float = 0.0  # largest difference now
    site: str | None = None  # of the backward, where it is not known by its model
    backwards: int = 0  # before that difference was measured, where there are no steps


@record_class
class Symmetry:
    """A weight whose rows, or columns, were all equal before the first step."""

    name: str
    optimizer: int
    rows: bool
    columns: bool
    shape: tuple[int, ...]
    value: float
    arrivals: int = 0
    spread: float | None = None  # of the rows now, against the largest weight; 0 where everything is zero


@part_class
class Structure:
    """The part of the trace about how models are built."""

    shared: list[Shared] = field(default_factory=list)
    typos: dict[tuple[str, str], Typo] = field(default_factory=dict)
    twins: list[Twin] = field(default_factory=list)
    symmetries: dict[int, Symmetry] = field(default_factory=dict)
    first_sites: dict[int, str | None] = field(default_factory=dict)  # of the first call of each root


class StructureWatch:
    """Fills `Structure`: when a root is first called, at an optimizer's first step, and before each judgement."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._calls = trace.part(Structure), trace.part(Calls)
        self._parameters, self._optimizers = trace.part(Gradients).parameters, trace.part(Optimizers)
        self._pairs: list[tuple[Twin, weakref.ref[Tensor], weakref.ref[Tensor]]] = []
        self._weights: dict[int, weakref.ref[Tensor]] = {}
        self._embeddings: set[int] = set()
        self._started: dict[int, int] = {}  # optimizer -> the phase in which its weights were last looked at
        self._phases = trace.part(Phases)

    def on_root_seen(self, module: nn.Module, root: Root) -> None:
        if not root.parameters:
            return
        part = self._part
        part.first_sites[root.number] = self._hub.site()
        if len(part.shared) < 16:
            part.shared += _repeated(module, root.number)
        if not root.sharded:  # of each weight, other rows are here
            self._find_twins(module, root)
        self._embeddings |= {id(each) for _, each in _weights(module, nn.Embedding)}

    # -- weights that begin equal

    def _find_twins(self, module: nn.Module, root: Root) -> None:
        embeddings, linears = _weights(module, nn.Embedding), _weights(module, nn.Linear)
        for first, embedding in embeddings[:8]:
            for second, linear in linears[:64]:
                self._compare(root, first, embedding, second, linear, False)
        kinds = (_weights(module, _ConvNd), _weights(module, _ConvTransposeNd))
        turned = {id(weight) for _, weight in kinds[1]}
        for first, filters in [(name, weight) for name, weight in kinds[0] if id(weight) not in turned][:32]:
            for second, other in kinds[1][:32]:
                self._compare(root, first, filters, second, other, False)
        for index, (first, one) in enumerate(linears[:64]):
            for second, other in linears[index + 1 : 64]:
                if one.dim() == 2 and one.shape[0] != one.shape[1]:
                    self._compare(root, first, one, second, other, True)

    def _compare(self, root: Root, first: str, one: Tensor, second: str, other: Tensor, transposed: bool) -> None:
        if one is other or one.device.type != "cpu" or other.device.type != "cpu" or one.data_ptr() == other.data_ptr():
            return
        a, b = one.detach(), other.detach().t() if transposed else other.detach()
        if a.shape != b.shape or a.dtype != b.dtype or not torch.equal(a[:2, :8], b[:2, :8]) or not torch.equal(a, b):
            return
        if bool((a == a.flatten()[0]).all()):
            return  # constant: equal by chance
        twin = Twin(first, second, root.number, transposed)
        if len(self._part.twins) < 16:
            self._part.twins.append(twin)
            self._pairs.append((twin, weakref.ref(one), weakref.ref(other)))

    # -- weights that are all alike

    def before_step(self, step: Step) -> None:
        record, phase = step.record, self._phases.number
        if self._started.get(record.number) == phase:
            return
        again = record.number in self._started
        self._started[record.number] = phase
        tops = (root.reference() for root in self._calls.roots[:64]) if again else ()
        self._embeddings |= {id(each) for top in tops if top is not None for _, each in _weights(top, nn.Embedding)}
        for group in step.optimizer.param_groups:
            for tensor in group["params"]:
                if tensor.dim() < 2 or is_sharded(tensor):  # where rows are elsewhere, those here may be equal by themselves
                    continue
                if again and ((known := self._parameters.get(id(tensor))) is None or known.fed > 1):
                    continue  # only what has come since: a head for new classes
                if tensor.requires_grad and id(tensor) not in self._embeddings:
                    self._look_at_rows(record, tensor)

    def _look_at_rows(self, record: OptimizerRecord, tensor: Tensor) -> None:
        weight = tensor.detach()
        if weight.shape[0] * weight[0].numel() < 4 or len(self._part.symmetries) >= 64 or weight.layout is not torch.strided:
            return
        corner = weight.flatten(1)[:4, :4]
        if corner.shape[1] < 2 and corner.shape[0] < 2:
            return
        facts = torch.stack([(corner == corner[:1]).all().float(), (corner == corner[:, :1]).all().float(), corner[0, 0].float()])
        self._hub.read(facts, partial(self._note_rows, record, weakref.ref(tensor)))

    def _note_rows(self, record: OptimizerRecord, reference: "weakref.ref[Tensor]", facts: list[float]) -> None:
        tensor = reference()
        if tensor is None:
            return
        rows = bool(facts[0]) and tensor.shape[0] > 1
        columns = bool(facts[1]) and tensor[0].numel() > 1
        if rows or columns:
            known = self._parameters.get(id(tensor))
            name = known.name if known is not None else f"tensor{tuple(tensor.shape)}"
            self._part.symmetries[id(tensor)] = Symmetry(name, record.number, rows, columns, tuple(tensor.shape), facts[2])
            self._weights[id(tensor)] = reference
            self._hub.say("on_equal_rows", record, tensor)

    # -- before the trace is judged

    def on_judge(self) -> None:
        for root in self._calls.roots[:64]:
            top = root.reference()
            if top is not None and root.trained:
                self._find_typos(top)
        for twin, one, other in self._pairs:
            self._measure_twin(twin, one(), other())
        for key, symmetry in self._part.symmetries.items():
            self._measure_rows(symmetry, self._weights[key](), key)

    def _measure_twin(self, twin: Twin, one: Tensor | None, other: Tensor | None) -> None:
        if one is None or other is None:
            return
        records = [self._parameters.get(id(each)) for each in (one, other)]
        twin.optimized = all(record is not None and record.optimizers and record.arrivals for record in records)
        a, b = one.detach(), other.detach().t() if twin.transposed else other.detach()
        if a.shape == b.shape and a.device.type == "cpu" and a.numel() <= FULL:
            twin.drift = float((a - b).abs().max())

    def _measure_rows(self, symmetry: Symmetry, tensor: Tensor | None, key: int) -> None:
        known = self._parameters.get(key)
        if tensor is None or known is None or tensor.numel() > FULL:
            return
        symmetry.arrivals = known.arrivals
        weight = tensor.detach().flatten(1).float()
        starts = [*([weight[:1]] if symmetry.rows else []), *([weight[:, :1]] if symmetry.columns else [])]
        spreads = [(weight - start).abs().amax() for start in starts]
        self._hub.read(torch.stack([*spreads, weight.abs().amax()]), partial(_note_spread, symmetry))

    # -- flags that torch does not know

    def _find_typos(self, top: nn.Module) -> None:
        typos = self._part.typos
        found: dict[tuple[str, str], Typo] = {}
        for tensor in top.parameters():
            for name, value in vars(tensor).items():
                if isinstance(value, bool) and is_typo(name):
                    found.setdefault((name, "Parameter"), Typo(name, value, "Parameter", 0)).count += 1
        for module in top.modules():
            for name, value in vars(module).items():
                if not isinstance(value, bool) or not (name == FLAG or is_typo(name)) or has_own_flag(module, name):
                    continue
                flags = {tensor.requires_grad for tensor in module.parameters()}
                if flags == {not value}:
                    found.setdefault((name, type(module).__name__), Typo(name, value, type(module).__name__, 0)).count += 1
        for key, typo in found.items():
            if key not in typos and len(typos) < 8:
                typo.where = self._line_of(typo.attribute, typo.value)
                typos[key] = typo

    def _line_of(self, attribute: str, value: bool) -> str | None:
        """The line that writes the flag, searched in the files that are known to be the user's."""
        pattern = re.compile(rf"\.{attribute}\s*=\s*(?!=)")
        sites = [site for site in self._part.first_sites.values() if site] + [
            record.site for record in self._optimizers if record.site
        ]
        for file in dict.fromkeys(site.rpartition(":")[0] for site in sites):
            for number, line in enumerate(linecache.getlines(file), 1):
                if pattern.search(line) and str(value) in line:
                    return f"{file}:{number}"
        return sites[0] if sites else None


def _note_spread(symmetry: Symmetry, values: list[float]) -> None:
    *spreads, largest = values
    symmetry.spread = min(spreads) / largest if largest else 0.0
    if symmetry.columns and spreads[-1] == min(spreads):
        symmetry.rows = symmetry.rows and len(spreads) == 2 and spreads[0] == spreads[1]


def _weights(module: nn.Module, kind: type[nn.Module]) -> list[tuple[str, Tensor]]:
    """Names and weights of the parts of a kind. Not those that are computed when asked for: asking counts as a use there
    (spectral norm)."""
    parts = ((name, part._parameters.get("weight")) for name, part in module.named_modules() if isinstance(part, kind))
    return [(f"{name}.weight", weight) for name, weight in parts if weight is not None and not is_lazy(weight)]


def _repeated(module: nn.Module, root: int) -> Iterator[Shared]:
    for part in module.modules():
        if not isinstance(part, (nn.Sequential, nn.ModuleList, nn.ModuleDict)):
            continue
        counts: dict[int, int] = {}
        for child in part._modules.values():
            counts[id(child)] = counts.get(id(child), 0) + 1
        for child in {id(each): each for each in part._modules.values() if each is not None}.values():
            count = sum(1 for _ in child.parameters())
            if counts[id(child)] > 1 and count and not isinstance(child, nn.PReLU):
                yield Shared(root, type(part).__name__, type(child).__name__, counts[id(child)], count)


OBSERVERS = [StructureWatch]
