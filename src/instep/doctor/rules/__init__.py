"""Rules: from trace to findings. One file a family; a rule is a pure function that reads the trace and yields findings.

How to add a rule
-----------------
In `rules/<family>.py`::

    from collections.abc import Iterator
    from instep.doctor.finding import Finding
    from instep.doctor.rules import rule
    from instep.doctor.trace import Trace
    from instep.doctor.watch.optimizers import Optimizers

    @rule("missing-zero-grad")
    def missing_zero_grad(trace: Trace) -> Iterator[Finding]:
        for optimizer in trace.part(Optimizers):
            ...
            yield Finding("missing-zero-grad", "what was seen", evidence={"steps": 12}, where=fact.site)

Files are found by themselves. The id must be in `catalogue.py` (its severity there is the most a finding of it can be; pass
`severity="hint"` to say less). Rules are called after steps 3, 5, 10, 20, 50, 100, …, when a pass over a loader ends, and at
the end (`trace.ended`): each must have a minimum count and a share, and say nothing below it; where that is more than a few
steps, `@rule(id, steps=30)` says so, and a script that is too short for it is told at the end. A finding is kept once it was
said, unless the rule is `@rule(id, revocable=True)`: then it must be found at every later judgement too. Findings of one id
with the same `where` (or `cause`, if given) are one; the newest evidence is shown. `where` is always a `site` from the trace.
A rule touches no tensor and no module, draws no random number, keeps no state. `trace.strict` is True under `--strict`:
minimum counts may be lower then.

How to add an observer
----------------------
In a new file `watch/<area>.py`: a part (dataclass with defaults; bounded; no tensors, modules or loaders in it, weak
references at most) and a class that is made with `(trace, hub)`, listed in `OBSERVERS`. Its methods named after events are
called::

    class NormWatch:
        def __init__(self, trace, hub): self._part, self._hub = trace.part(Norms), hub
        def wants_modules(self): return {_BatchNorm: self.norm_called}    # every call of such a module, inside any root call
        def norm_called(self, module, args, output, call): ...
        def after_step(self, step): ...
        def install(self, observers): ...   # optional, once, when the watch begins; with `remove(self)` at the end

    OBSERVERS = [NormWatch]

Events of the core (handlers run with the doctor itself unwatched and without warnings; what they raise is caught, and fails a
case in the tests: the observer hears nothing more, and rules that ask for its part, or for one that needs it, are not asked
again. An argument that may be a generator is read with `called.listed`):

    before_call(call) after_call(call)           root calls: watch/calls.py, Call (module, args, output, root, kind, grad, …)
    on_root_seen(module, root)                   a module is called from outside for the first time
    on_module_seen(module, root)                 any module, at the end of its first call
    on_graded(tensor)                            a loss or an argmax was given this tensor
    on_scored(tensor)                            what was chosen in an evaluation is compared with this: watch/comparisons.py
    after_mode(called)                           train()/eval(): called.args = (module, mode)
    on_backward(backward, tensor)                before each backward: watch/backwards.py, Backward
    before_backward(called) after_backward(called), before_autograd_grad(called) after_autograd_grad(called)
    on_discard(discard), after_clear(called)     watch/gradients.py
    on_grown(parameters), after_registered(called)  a model in training has got parameters; any module has got one: the same file
    on_clip(clip, tensors), before_clip/after_clip(called)                                               watch/clipping.py
    before_step(step) after_step(step)           watch/optimizers.py: step.optimizer, .record, .fact (with a closure: None before)
    on_optimizer(record, optimizer)              an optimizer is seen for the first time
    on_pass_begins(pass, dataloader) on_batch(pass, batch) on_pass_ends(pass)                            watch/loaders.py
    on_loss(kind, called, input, target)         after any loss function of torch's: watch/losses.py
    on_schedule(record, scheduler), after_scheduler_init(called)                                         watch/schedulers.py
    on_judge(), on_end()                         before each judgement; before the last one

Sampling: the first 128 steps are watched one by one, 8 out of 16 up to step 200. After that the events above come in bursts
of 8 steps, after steps 256 and 512 and then out of 1,024 (out of 128 where steps are large), and around anything rare (a pass
that begins or ends, a mode that changes): see `step_sampling.py`.
`on_rest()` and `on_wake()` tell; an observer that compares one step with the next forgets what it holds at `on_wake`. Counts
named `all_…` (and `trace.steps`, `trace.batches`) include what was not watched, all others do not, so that shares stay right. A
patch with `always=True` is told also while resting: for what is rare (load_state_dict, torch.save), not for what happens in
every step.

How to add an event
-------------------
List a patch in `PATCHES` of your `watch/` file, and listen::

    PATCHES = [Patch("softmax", ("torch.nn.functional:softmax", "torch:softmax", "torch:Tensor.softmax"))]
    def before_softmax(self, called): called.args, called.kwargs, called.argument(1, "dim"), called.site
    def after_softmax(self, called): called.result

A function can be patched once: if the core or another area has the event already, listen to that. Only the outermost of
nested calls of one event (or `group=`) is told. A package that may be imported later is patched by `late=True`, when
the first model is called after that (`watch/keras.py`). From the first `torch.compile` on (`hub.compiled`) nothing is put on or
taken off any more: compiled code would be compiled again.

Rules of conduct for observers
------------------------------
No random numbers, no in-place writes, no change of modes or flags, no strong references to the user's tensors. Use
`tensor.detach()` before any arithmetic. Read values with `hub.read(tensor, then)`, never `.item()`: on an accelerator it
waits a step. What costs more than a few microseconds is done at the first few occasions and then every 16th or 64th.
`called.site` and `hub.site()` are cheap (about 1 us). A site in `Calls.enclosing` is one from which a framework runs the user's
code (`trainer.fit(…)`): prefer the line where the thing was made. Of a DTensor, an observer gets the part that is held here
(`shards.py`); its `shape` is that of the whole.

How to add a page and cases
---------------------------
`pages/<id>.md` with the sections `## What`, `## Why it matters`, `## Wrong`, `## Right`, `## When it is fine`. Its head says
the fix (`Fix:` and a block indented by four), unless that depends on what was seen: then the rule passes `fix=`. Cases are
plain scripts in `tests/doctor/cases/<family>/`, listed in its `expected.toml`: `[cases]` maps a file name to the ids that
must be found there (`[]` for a correct look-alike), `[hints]` to the hints that may be. `python tests/doctor/try_case.py
FILE…` shows what is found."""

import importlib
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import Finding
from instep.doctor.trace import Trace

Judge = Callable[[Trace], Iterator[Finding]]


@dataclass(frozen=True)
class Rule:
    """A judge and the id that it judges."""

    id: str
    judge: Judge
    revocable: bool
    steps: int = 0  # or backwards, below which it is not asked


_RULES: dict[str, Rule] = {}


def rule(id: str, *, revocable: bool = False, steps: int = 0) -> Callable[[Judge], Judge]:
    """Register a rule. One function an id; a finding of it may be withdrawn by a later judgement where `revocable`.

    `steps` are those that the rule needs to say anything; a script that has fewer is told so at its end.
    """
    if id not in CATALOGUE:
        raise ValueError(f"{id!r} is not in the doctor's catalogue")

    def register(judge: Judge) -> Judge:
        _RULES[id] = Rule(id, judge, revocable, steps)
        return judge

    return register


def all_rules() -> list[Rule]:
    """Every rule of every family."""
    for info in pkgutil.iter_modules(__path__):
        importlib.import_module(f"{__name__}.{info.name}")
    return list(_RULES.values())
