"""Who owns a parameter: the model that it is registered in, the optimizers that hold it; and who does not, though they should.

Structure is looked at when a module is first called, values when the trace is about to be judged: a step pays nothing.
"""

import weakref
from collections.abc import Iterator
from dataclasses import field

import torch
from torch import Tensor, nn

from instep.doctor.arrivals import Arrivals
from instep.doctor.bare_leaves import NOBODY, BareLeaves, leaves_of, sample, weight_shapes
from instep.doctor.hub import Hub
from instep.doctor.patches import Called
from instep.doctor.records import part_class, record_class
from instep.doctor.scopes import MethodPlace, holder_of, method_place
from instep.doctor.trace import Trace
from instep.doctor.unfed_leaves import UnfedLeaves
from instep.doctor.unused_outputs import why_unused
from instep.doctor.watch.backwards import Backward
from instep.doctor.watch.calls import Call, Calls, Root
from instep.doctor.watch.gradients import Gradients, Parameter, own_parameters
from instep.doctor.watch.loaders import tensors
from instep.doctor.watch.optimizers import OptimizerRecord, Optimizers
from instep.doctor.watch.phases import Phases

WALKS = (2, 6, 20)  # backwards of a phase whose graphs are walked for leaves that nobody registered
IDLE = 8  # backwards without a gradient, while others get theirs
ROOTS = 64
ALONE = 10  # calls of a model, in train mode with grad, that should have led to a gradient


@record_class
class Orphan:
    """A parameter that gets gradients and is in no optimizer."""

    name: str
    owner: str  # class of the module that holds it
    root: int | None  # number of the root that it was called in
    registered: bool
    arrivals: int  # of gradients, since it gets them
    since: int = 0  # backwards before the first of those
    owners: frozenset[int] = frozenset()  # optimizers that had it and are gone
    moved: bool = False  # somebody else updates it
    bare: bool = False  # a plain tensor, kept as an attribute
    shape: tuple[int, ...] = ()
    partial: bool = False  # other parameters of that root are optimized
    through: bool = False  # no module in use has an optimized parameter: an input is what is optimized
    frozen_mode: bool = False  # its root is called in eval mode while others train
    holder: str = ""  # class of a module that keeps the root in a plain list or dictionary, and calls it


@record_class
class Stale:
    """An optimizer that holds what no model uses any more, while the model's own parameters are in none."""

    optimizer: int
    held: int  # parameters that it holds for nobody
    names: list[str]  # of the orphans
    orphans: int
    since_step: int | None  # None where it cannot be told


@record_class
class Dead:
    """A parameter in an optimizer that has never had a gradient."""

    name: str
    optimizer: int
    root: int
    called: bool  # its module has been called
    in_grad: bool  # with grad on, inside a call with grad on: what it gave was cut off later
    bare: bool = False  # no module that is called has it
    in_graph: bool = False  # losses depend on it by their graphs: a function of the user's own gives no gradient back
    unused: str = ""  # why what its layer gives may be left alone on purpose


@record_class
class Starved:
    """An optimizer none of whose parameters has ever had a gradient."""

    optimizer: int
    parameters: int
    names: list[str]


@part_class
class Owners:
    """The part of the trace about who owns what."""

    orphans: dict[int, Orphan] = field(default_factory=dict)
    stale: dict[int, Stale] = field(default_factory=dict)
    dead: dict[int, Dead] = field(default_factory=dict)
    starved: dict[int, Starved] = field(default_factory=dict)  # by number of the optimizer
    unfed: list[str] = field(default_factory=list)  # leaves in no optimizer that graphs lead to, and no gradient ever comes to


class OwnerWatch:
    """Fills `Owners`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._phases = trace.part(Owners), trace.part(Phases)
        self._parameters = trace.part(Gradients).parameters
        self._optimizers, self._calls = trace.part(Optimizers), trace.part(Calls)
        self._reachable: dict[int, set[int]] = {}  # root number -> ids of its modules
        self._owner: dict[int, tuple[weakref.ref[Tensor], str, int | None, bool, bool]] = {}
        self._places: dict[
            int, MethodPlace
        ] = {}  # where the layer of each parameter is called, in the order of their first calls
        self._arrivals = Arrivals(trace, self._parameters)
        self._frozen: dict[int, Parameter] = {}  # seen without requires_grad
        self._bare = BareLeaves(hub.locator)
        self._walked: list[weakref.ref[Tensor]] = []  # the leaves of the graph whose backward goes on
        self._unfed = UnfedLeaves(self._parameters)
        self._call_grad = False
        self._holders: dict[int, tuple[str, str]] = {}  # root number -> who keeps it in a plain list or dictionary, and where
        self._stepping: dict[int, weakref.ref[torch.optim.Optimizer]] = {}
        self._records: dict[int, Parameter] = {}  # of what was found at the last judgement

    def before_call(self, call: Call) -> None:
        self._call_grad = call.grad
        if self._trace.backwards + 1 - self._phases.backwards in WALKS:
            self._bare.note_inputs(tensors(call.args))

    def before_autograd_grad(self, called: Called) -> None:
        if self._trace.backwards - self._phases.backwards <= WALKS[-1]:
            self._bare.note_inputs(called.listed(1, "inputs"))

    def on_module_seen(self, module: nn.Module, root: Root | None) -> None:
        if root is not None and root.sharded:
            return
        own = [tensor for _, tensor in own_parameters(module)]
        if not own:
            return
        registered = root is None or self._is_registered(module, root)
        in_grad = self._call_grad and torch.is_grad_enabled()
        place = method_place(self._hub.locator)
        for tensor in own:
            if place is not None:
                self._places[id(tensor)] = place
            number = root.number if root is not None else None
            self._owner[id(tensor)] = (weakref.ref(tensor), type(module).__name__, number, registered, in_grad)

    def on_grown(self, parameters: list[Parameter]) -> None:
        for parameter in parameters:
            self._arrivals.begin(parameter)

    def _is_registered(self, module: nn.Module, root: Root) -> bool:
        known = self._reachable.get(root.number)
        if known is None or id(module) not in known:
            top = root.reference()
            known = self._reachable[root.number] = set() if top is None else {id(part) for part in top.modules()}
        return not known or id(module) in known

    def on_root_seen(self, module: nn.Module, root: Root) -> None:
        kept = holder_of(module, self._hub.locator) if root.parameters and not root.sharded else None
        if kept is not None:
            self._holders[root.number] = kept

    def on_optimizer(self, record: OptimizerRecord, optimizer: torch.optim.Optimizer) -> None:
        self._stepping[record.number] = weakref.ref(optimizer)
        self._note_frozen()

    def _note_frozen(self) -> None:
        for key, parameter in self._parameters.items():
            tensor = parameter.reference()
            if tensor is not None and not tensor.requires_grad:
                self._frozen[key] = parameter

    # -- leaves that no module and no optimizer knows

    def on_backward(self, backward: Backward, tensor: Tensor) -> None:
        self._walked = []
        if backward.number - self._phases.backwards not in WALKS or tensor.grad_fn is None:
            return
        tops = [(root.number, top) for root in self._calls.roots[:ROOTS] if (top := root.reference()) is not None]
        shapes = weight_shapes(known.shape for known in self._parameters.values() if known.optimizers)
        for leaf in leaves_of(tensor.grad_fn):
            self._walked.append(weakref.ref(leaf))
            if id(leaf) not in self._parameters:
                self._bare.see(leaf, backward.number, tops, shapes)

    def after_backward(self, called: Called) -> None:
        """Look for leaves of the graph just walked that have got no gradient: a function of the user's own gave None for them."""
        walked, self._walked = self._walked, []
        if called.argument(4, "inputs") is None:
            self._unfed.note(walked)

    # -- before the trace is judged

    def on_judge(self) -> None:
        self._part.unfed = list(self._unfed.names())
        if self._trace.ended:
            self._keep_what_holds()
            return
        self._note_frozen()
        part, live = self._part, self._live_roots()
        reachable = {key for keys in live.values() for key in keys}
        part.orphans = dict(self._find_orphans(live))
        part.stale = {fact.optimizer: fact for fact in self._find_stale(reachable)}
        part.dead = dict(self._find_dead(live))
        part.starved = {fact.optimizer: fact for fact in self._find_starved()}
        self._arrivals.note()
        self._records = {key: self._parameters[key] for key in (*part.orphans, *part.dead) if key in self._parameters}

    def _keep_what_holds(self) -> None:
        """At the end models may be dead already; what was seen of them last stands, unless it has changed since."""
        part, records = self._part, self._records
        part.dead = {key: fact for key, fact in part.dead.items() if key in records and not records[key].arrivals}
        for key, orphan in part.orphans.items():
            if key in records:
                orphan.arrivals = records[key].arrivals - self._arrivals.before_gradients(records[key])[0]
                orphan.moved = orphan.moved or records[key].optimizers != orphan.owners
        for number in list(part.starved):
            record = next((record for record in self._optimizers if record.number == number), None)
            if record is None or record.arrivals or record.totals.get("empty", 0) < record.steps:
                del part.starved[number]

    def _live_roots(self) -> dict[int, list[int]]:
        """The parameters of the roots that were called of late, by number."""
        recent = {kind.root.number: kind.root for kind in self._calls.recent}
        found = {}
        for number, root in list(recent.items())[:ROOTS]:
            top = root.reference()
            if top is not None:
                found[number] = [id(tensor) for tensor in top.parameters()]
        return found

    def _find_orphans(self, live: dict[int, list[int]]) -> Iterator[tuple[int, Orphan]]:
        homes = {key: number for number, keys in live.items() for key in keys}
        optimized = {number for number, keys in live.items() if any(self._is_optimized(key) for key in keys)}
        gone = {record.number for record in self._optimizers if not record.alive}
        for key, parameter in list(self._parameters.items()):
            tensor = parameter.reference()
            if tensor is None or not parameter.optimizers <= gone:
                continue
            arrivals, since = self._arrivals.before_gradients(parameter)
            if not parameter.arrivals > arrivals or not tensor.requires_grad:
                continue
            if parameter.optimizers and self._frozen.get(key) is not parameter:
                continue  # trained, and left as it is now: only who unfreezes means to train on
            owner = self._owner.get(key)
            if owner is not None and owner[0]() is not tensor:
                owner = None
            home = homes.get(key, owner[2] if owner is not None else None)
            registered = key in homes or owner is None or owner[3]
            orphan = Orphan(parameter.name, owner[1] if owner else "", home, registered, parameter.arrivals - arrivals, since)
            orphan.shape, orphan.owners = parameter.shape, frozenset(parameter.optimizers)
            if home in self._holders:
                orphan.registered, orphan.holder = False, self._holders[home][0]
                orphan.name = f"{self._holders[home][1]}.{orphan.name}"
            orphan.moved = self._arrivals.has_moved(parameter)
            orphan.partial = home in optimized or not orphan.registered
            orphan.through = not optimized
            orphan.frozen_mode = home is not None and self._in_eval(home)
            yield key, orphan
        for key, bare in self._bare.all.items():
            tensor = bare.reference()
            if tensor is None or key in self._parameters or not bare.is_left():
                continue
            moved, alone = not bare.values or sample(tensor, wait=True) != bare.values, bare.root == NOBODY
            if alone and tensor.grad is None:
                continue
            orphan = Orphan(bare.name, bare.owner, bare.root, alone, self._trace.backwards, moved=moved, bare=True, partial=True)
            orphan.shape = tuple(tensor.shape)
            orphan.frozen_mode = alone  # perhaps a constant: nobody says that it belongs to what is trained
            yield key, orphan

    def _is_optimized(self, key: int) -> bool:
        parameter = self._parameters.get(key)
        return parameter is not None and bool(parameter.optimizers)

    def _in_eval(self, number: int) -> bool:
        """Whether that root is only ever called in eval mode."""
        return any(root.number == number and root.in_train == 0 for root in self._calls.roots)

    def _find_stale(self, reachable: set[int]) -> Iterator[Stale]:
        orphans = [
            (key, orphan)
            for key, orphan in self._part.orphans.items()
            if orphan.registered and not orphan.moved and key in reachable
        ]
        if not orphans:
            return
        homes = {orphan.root for _, orphan in orphans}
        shapes = sorted(orphan.shape for _, orphan in orphans)
        for record in self._optimizers:
            members = [self._parameters.get(key) for key in record.parameters]
            known = [member for member in members if member is not None]
            held = [member for member in known if member.key not in reachable and self._is_idle(member)]
            if not held or not record.alive or record.steps < 5:
                continue
            shared = any(member.key in reachable and member.arrivals and self._home(member) in homes for member in known)
            same = sorted(member.shape for member in held) == shapes
            if shared or same:
                used = max(member.arrivals for member in held)
                since = self._stale_since(used, max(orphan.arrivals for _, orphan in orphans))
                yield Stale(record.number, len(held), [orphan.name for _, orphan in orphans], len(orphans), since)

    def _stale_since(self, before: int, after: int) -> int | None:
        """The step from which on gradients came to new parameters, by how many the old and the new ones have had.

        None where other backwards came in between, or a step has several.
        """
        is_one_a_step = abs(self._trace.backwards - self._trace.steps) <= 1
        is_all = abs(before + after - self._trace.backwards) <= 1
        return before if not before or (is_one_a_step and is_all) else None

    def _is_idle(self, parameter: Parameter) -> bool:
        tensor = parameter.reference()
        if tensor is None or not tensor.requires_grad:
            return False
        return (parameter.arrivals == 0 and self._trace.backwards >= 5) or self._arrivals.idle_for(parameter) >= IDLE

    def _home(self, parameter: Parameter) -> int | None:
        owner = self._owner.get(parameter.key)
        return owner[2] if owner is not None else None

    def _find_starved(self) -> Iterator[Starved]:
        for record in self._optimizers:
            known = [self._parameters.get(key) for key in record.parameters]
            members = [(member, member.reference()) for member in known if member is not None]
            if not members or len(members) < len(known) or not record.alive or record.totals.get("empty", 0) < record.steps:
                continue
            waiting = [(member, tensor) for member, tensor in members if tensor is not None and tensor.requires_grad]
            if not waiting or any(
                member.arrivals or tensor.grad is not None or self._has_state(record.number, tensor) for member, tensor in waiting
            ):
                continue
            yield Starved(record.number, len(waiting), [member.name for member, _ in waiting])

    def _find_dead(self, live: dict[int, list[int]]) -> Iterator[tuple[int, Dead]]:
        homes: dict[int, list[int]] = {}
        for number, keys in live.items():
            for key in keys:
                homes.setdefault(key, []).append(number)
        for record in self._optimizers:
            if not record.alive or record.totals.get("fresh", 0) < 5:
                continue
            yield from self._dead_of(record, homes)

    def _dead_of(self, record: OptimizerRecord, homes: dict[int, list[int]]) -> Iterator[tuple[int, Dead]]:
        known = {key: self._parameters[key] for key in record.parameters if key in self._parameters}
        trained = {home for key, parameter in known.items() if parameter.arrivals for home in homes.get(key, ())}
        for key in record.parameters:
            parameter = self._parameters.get(key)
            if parameter is None or parameter.arrivals:
                continue
            if key not in homes:
                if (bare := self._bare_dead(record, parameter)) is not None:
                    yield key, bare
                continue
            home = next((home for home in homes[key] if home in trained), None)
            if home is None and self._is_called_alone(key):
                home = homes[key][0]
            if home is None:
                continue
            tensor = parameter.reference()
            if tensor is None or not tensor.requires_grad or tensor.grad is not None or self._has_state(record.number, tensor):
                continue  # frozen, given a gradient by hand, or used by a step that was not watched
            owner = self._owner.get(key)
            called = owner is not None and owner[0]() is tensor
            in_grad = called and owner is not None and owner[4]
            dead = Dead(parameter.name, record.number, home, called, in_grad, in_graph=self._unfed.has(tensor))
            if called and not dead.in_graph:
                top = next((root.reference() for root in self._calls.roots if root.number == home), None)
                dead.unused = why_unused(parameter, known, self._places, top)
            yield key, dead

    def _bare_dead(self, record: OptimizerRecord, parameter: Parameter) -> Dead | None:
        """A tensor that no module in use has, in an optimizer whose other tensors are of that sort and get gradients."""
        tensor = parameter.reference()
        if tensor is None or not tensor.requires_grad or tensor.grad is not None or self._has_state(record.number, tensor):
            return None
        if not self._unfed.has(tensor):
            unused = type(tensor) is Tensor and self._trace.backwards > WALKS[-1]
            return Dead(parameter.name, record.number, NOBODY, called=False, in_grad=False, bare=True) if unused else None
        return Dead(parameter.name, record.number, NOBODY, called=True, in_grad=True, bare=True, in_graph=True)

    def _is_called_alone(self, key: int) -> bool:
        """Whether its model, a head perhaps, is called by itself to train, and what it gives is cut off later."""
        owner = self._owner.get(key)
        if owner is None or owner[2] is None or not owner[4]:
            return False
        kinds = [kind for kind in self._calls.kinds.values() if kind.root.number == owner[2]]
        return sum(kind.count for kind in kinds if kind.grad and kind.training) >= ALONE

    def _has_state(self, number: int, tensor: Tensor) -> bool:
        """Whether an optimizer keeps something for a parameter: then a step has had a gradient of it. (Adagrad's begins at 0.)"""
        reference = self._stepping.get(number)
        optimizer = reference() if reference is not None else None
        state = optimizer.state[tensor] if optimizer is not None and tensor in optimizer.state else {}
        count = state.get("step") if isinstance(state, dict) else None
        begun = not (isinstance(count, Tensor) and count.device.type == "cpu" and count.numel() == 1 and not count.any())
        return bool(state) and begun


OBSERVERS = [OwnerWatch]
