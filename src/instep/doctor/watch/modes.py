"""Modes: in which mode the models that are stepped were called, and calls whose graphs nobody used."""

import weakref
from dataclasses import field
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.dropout import _DropoutNd

from instep.doctor.hub import Hub
from instep.doctor.mode_flags import ModeFlags
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.tallies import Tally
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Sentinel
from instep.doctor.watch.calls import Call, Root
from instep.doctor.watch.loaders import first_tensor
from instep.doctor.watch.optimizers import Step

TRAIN, EVAL = 1, 2
LIMIT = 256
RUN = 3  # steps in eval mode that are more than a slip


@record_class
class Mode(Tally):
    """One model."""

    root: Root
    train_steps: int = 0  # steps after forwards in train mode
    eval_steps: int = 0  # steps after forwards in eval mode alone
    run: int = 0  # of those, since the last step after train mode
    run_first: int = 0  # the step at which they began
    run_site: str | None = None  # of the forward
    run_after_evaluation: bool = False  # whether eval-mode calls that no backward followed came before
    run_by_flag: bool = False  # whether the model says train mode all the same: a flag was written above its layers
    runs: int = 0  # of at least three such steps, after an evaluation
    runs_site: str | None = None  # of the forward in the first of them
    runs_first: int = 0
    partly: bool = False  # some of its dropouts or norms were in train mode all the same
    eval_calls: int = 0  # calls in eval mode
    idle: int = 0  # of those, since the last step and without a backward
    evaluated_first: bool = False  # it was evaluated before its first step
    wasted: int = 0  # eval-mode calls with a graph that nobody used
    wasted_stretches: int = 0  # how many times some of these came in a row
    wasted_site: str | None = None
    wasted_first: int = 0
    wasted_watched: int = 0  # steps that had been watched by then
    pending: int = 0  # eval-mode calls with a graph, until it is seen what becomes of it
    pending_site: str | None = None
    graphs: list[Any] = field(default_factory=list)  # of those, until the next backward: weak references to sentinels


@record_class
class Stretch:
    """Calls in train mode from one line that no backward came of: how they came in rows."""

    root: Root
    site: str | None
    loader: int | None
    grad: bool
    calls: int = 0
    rows: int = 0  # calls between two backwards are a row
    long_rows: int = 0  # of at least two calls
    passes: int = 0  # the most passes over a loader in one row
    row: int = 0
    begun: int = -1  # backwards before the row
    row_passes: list[int] = field(default_factory=list)
    first_step: int = 0
    watched: int = 0  # steps that had been watched by then
    kept: int = 0  # whose output was still there at the next call
    unused: int = 0  # with grad: calls in a pass over a loader in which no backward came
    given_up: int = 0  # with grad: calls whose graph was gone before any backward
    given_up_rows: int = 0  # how many times some of these came between two backwards


@part_class
class Modes:
    """The part of the trace about modes."""

    all: dict[int, Mode] = field(default_factory=dict)  # by number of the root
    stretches: dict[tuple[Any, ...], Stretch] = field(default_factory=dict)


class ModeWatch:
    """Fills `Modes`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part = trace.part(Modes)
        self._open: dict[int, int] = {}  # modes of the calls since the last backward, by root
        self._backed: dict[int, int] = {}  # modes of the calls that a backward followed, since the last step
        self._sites: dict[int, str | None] = {}
        self._by_flag: dict[int, bool] = {}
        self._held: dict[tuple[int, int], bool] = {}  # whether an optimizer holds parameters of a root
        self._flags = ModeFlags()
        self._pending = False
        self._output: tuple[weakref.ref[Any], Stretch] | None = None
        self._recorded: list[tuple[weakref.ref[Sentinel], Stretch]] = []  # graphs of calls in train mode since the last backward
        self._grads = 0  # calls of torch.autograd.grad
        self._passes: dict[
            int, tuple[int, int, dict[tuple[Any, ...], int]]
        ] = {}  # of each pass: backwards and steps before, calls in it

    def after_mode(self, called: Called) -> None:
        self._flags.note(called.args[0], bool(called.argument(1, "mode", True)))

    def after_call(self, call: Call) -> None:
        root = call.root
        if not root.parameters or root.is_loss or call.kind is None or call.kind.inside:
            return
        if self._output is not None:
            self._output[1].kept += self._output[0]() is not None
            self._output = None
        mode = self._part.all.get(root.number)
        if mode is None:
            mode = Mode(root)
            if len(self._part.all) < LIMIT:
                self._part.all[root.number] = mode
        training = call.training and not self._flags.is_eval_in_effect(call.module)
        if training:
            if mode.pending:
                self._settle(mode)
            self._note_stretch(call)
        else:
            mode.eval_calls += 1
            mode.idle += 1
            if call.grad:
                output = first_tensor(call.output)
                if output is not None and output.requires_grad:
                    mode.pending += 1
                    self._pending = True
                    mode.pending_site = call.site
                    self._watch_graph(mode, output)
        if call.grad:
            self._open[root.number] = self._open.get(root.number, 0) | (TRAIN if training else EVAL)
            if not training:
                self._sites[root.number], self._by_flag[root.number] = call.site, call.training

    def _watch_graph(self, mode: Mode, output: Tensor) -> None:
        """Of a model that is not trained itself, as an average is not: nothing else tells when its evaluation is over."""
        if mode.train_steps + mode.eval_steps == 0 and output.grad_fn is not None and len(mode.graphs) < 64:
            notes: Any = output.grad_fn.metadata  # a dictionary; torch's stubs call it a method
            sentinel = notes["instep.evaluated"] = Sentinel()
            mode.graphs.append(weakref.ref(sentinel))

    def _note_stretch(self, call: Call) -> None:
        loader = call.batch.loader.number if call.batch is not None else None
        key = (call.root.number, call.site, loader, call.grad)
        stretch = self._part.stretches.get(key)
        if stretch is None:
            if len(self._part.stretches) >= LIMIT:
                return
            stretch = self._part.stretches[key] = Stretch(call.root, call.site, loader, call.grad, first_step=call.step)
            stretch.watched = self._trace.watched
        stretch.calls += 1
        output = first_tensor(call.output)
        self._output = (weakref.ref(output), stretch) if output is not None else None
        if output is not None and output.grad_fn is not None and not (call.root.dropouts or call.root.batchnorms):
            self._record(output, stretch)
        if stretch.begun != self._trace.backwards:
            stretch.begun, stretch.row = self._trace.backwards, 0
            stretch.rows += 1
            stretch.row_passes.clear()
        stretch.row += 1
        stretch.long_rows += stretch.row == 2
        if call.batch is not None:
            if len(stretch.row_passes) < 8 and call.batch.number not in stretch.row_passes:
                stretch.row_passes.append(call.batch.number)
                stretch.passes = max(stretch.passes, len(stretch.row_passes))
            if call.grad and (going_on := self._passes.get(id(call.batch))) is not None:
                going_on[2][key] = going_on[2].get(key, 0) + 1

    def _record(self, output: Tensor, stretch: Stretch) -> None:
        """Of a model that is the same in both modes, and may be evaluated in train mode."""
        notes: Any = output.grad_fn.metadata if output.grad_fn is not None else None
        if notes is not None and len(self._recorded) < LIMIT:
            sentinel = notes["instep.recorded"] = Sentinel()
            self._recorded.append((weakref.ref(sentinel), stretch))

    def _give_up(self) -> None:
        rows: dict[int, Stretch] = {}
        for graph, stretch in self._recorded:
            if graph() is None:
                stretch.given_up += 1
                rows[id(stretch)] = stretch
        for stretch in rows.values():
            stretch.given_up_rows += 1
        self._recorded.clear()

    def on_pass_begins(self, begun: Any, _: Any) -> None:
        if len(self._passes) > 32:
            self._passes.clear()
        self._passes[id(begun)] = (self._trace.backwards + self._grads, self._trace.steps, {})

    def on_pass_ends(self, ended: Any) -> None:
        backwards, steps, calls = self._passes.pop(id(ended), (-1, -1, {}))
        if backwards == self._trace.backwards + self._grads and steps == self._trace.steps and ended.batches >= 2:
            for key, count in calls.items():
                self._part.stretches[key].unused += count

    def on_backward(self, *_: Any) -> None:
        for number, modes in self._open.items():
            self._backed[number] = self._backed.get(number, 0) | modes
            if number in self._part.all:
                self._part.all[number].idle = max(self._part.all[number].idle - 1, 0)
        self._give_up()
        self._used()

    def before_autograd_grad(self, _: Called) -> None:
        self._grads += 1
        self._recorded.clear()
        self._used()

    def _used(self) -> None:
        self._open.clear()
        if self._pending:
            self._pending = False
            for mode in self._part.all.values():
                dead = sum(graph() is None for graph in mode.graphs)
                mode.graphs.clear()
                if dead:  # before any backward came
                    mode.pending = dead
                    self._settle(mode)
                mode.pending = 0

    def _settle(self, mode: Mode) -> None:
        if mode.wasted == 0:
            mode.wasted_site, mode.wasted_first = mode.pending_site, self._trace.steps
            mode.wasted_watched = self._trace.watched
        mode.wasted += mode.pending
        mode.wasted_stretches += 1
        mode.pending = 0
        mode.graphs.clear()

    def after_step(self, step: Step) -> None:
        for number, modes in list(self._backed.items()):
            mode = self._part.all.get(number)
            if mode is None or not self._holds(step, mode.root):
                continue
            del self._backed[number]
            self._note_step(mode, modes)

    def _note_step(self, mode: Mode, modes: int) -> None:
        if modes & TRAIN:
            mode.train_steps += 1
            mode.run = 0
        else:
            if mode.run == 0:
                mode.run_first, mode.run_site = self._trace.steps - 1, self._sites.get(mode.root.number)
                mode.run_by_flag = self._by_flag.get(mode.root.number, False)
                mode.run_after_evaluation = mode.idle > 0 or (mode.run_by_flag and self._is_part_evaluated(mode))
                mode.evaluated_first = mode.evaluated_first or (mode.train_steps + mode.eval_steps == 0 and mode.idle > 0)
            if mode.run < 3:
                module = mode.root.reference()
                mode.partly = mode.partly or (
                    module is not None and any(part.training for part in module.modules() if acts(part))
                )
            mode.eval_steps += 1
            mode.run += 1
            if mode.run == RUN and mode.run_after_evaluation and mode.train_steps > 0:
                if not mode.runs:
                    mode.runs_first, mode.runs_site = mode.run_first, mode.run_site
                mode.runs += 1
        mode.idle = 0

    def _is_part_evaluated(self, mode: Mode) -> bool:
        """Whether a part of the model was called in eval mode by itself: the model inside a module that computes the loss."""
        module = mode.root.reference()
        parts = {id(part) for part in module.modules()} if module is not None else set()
        return any(other.idle > 0 and id(other.root.reference()) in parts for other in self._part.all.values())

    def _holds(self, step: Step, root: Root) -> bool:
        key = (step.record.number, root.number)
        held = self._held.get(key)
        if held is None:
            module = root.reference()
            owned = {id(tensor) for group in step.optimizer.param_groups for tensor in group["params"]}
            held = module is not None and any(id(tensor) in owned for tensor in module.parameters())
            if len(self._held) > 1024:
                self._held.clear()
            self._held[key] = held
        return held

    def on_rest(self) -> None:
        self._recorded.clear()
        self._open.clear()
        self._backed.clear()
        self._used()

    def on_end(self) -> None:
        self._give_up()
        for mode in self._part.all.values():
            if mode.pending:
                self._settle(mode)

    def after_picked(self, called: Called) -> None:
        """`outputs.max(1)` is how many people write argmax."""
        if len(called.args) > 1 or "dim" in called.kwargs or "k" in called.kwargs:
            self._hub.say("on_graded", called.argument(0, "input"))


def acts(part: nn.Module) -> bool:
    """Whether a module does something else in train mode than in eval mode."""
    return (isinstance(part, _DropoutNd) and part.p > 0) or isinstance(part, _BatchNorm)


PATCHES = [Patch("picked", ("torch:Tensor.max", "torch:max", "torch:Tensor.topk", "torch:topk"))]
OBSERVERS = [ModeWatch]
