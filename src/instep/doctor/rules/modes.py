"""Rules about modes: train() and eval(), gradients on and off."""

from collections.abc import Iterator
from typing import Any

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.byhand import ByHand
from instep.doctor.watch.calls import CallKind, Calls, Root
from instep.doctor.watch.idle_parts import IdleParts
from instep.doctor.watch.loaders import Loader, Loaders
from instep.doctor.watch.modes import RUN, Modes, Stretch
from instep.doctor.watch.phases import by_phase
from instep.doctor.watch.rows import Rows


@rule("evaluated-in-train-mode", revocable=True)
def evaluated_in_train_mode(trace: Trace) -> Iterator[Finding]:
    """Forwards in train mode that nothing is learnt from, of a model that is trained, on held-out batches or graded.

    Not: MC dropout (the same input, or the same pass, again and again), update_bn (also by hand:
    nobody looks at the output), checkpointing, forwards inside a training step
    (pseudo-labels, the choice of an action), samples of a generator.
    """
    loaders, modes, calls = trace.part(Loaders).all, trace.part(Modes), trace.part(Calls)
    graded = _in_train_mode(trace)
    for key, stretch in modes.stretches.items():
        kind, root = graded.get(key), stretch.root
        if kind is None or kind.inside or not (root.dropouts or root.batchnorms) or stretch.calls < 2:
            continue
        if not calls.belongs_to_trained(root):
            continue
        if kind.repeated > 0.2 * kind.count or stretch.passes >= 3:
            continue
        held_out = _held_out(stretch, loaders) and kind.fed > 0.5 * kind.count
        if stretch.grad:
            sure = held_out and stretch.unused >= 2 and stretch.unused > 0.8 * stretch.calls and kind.graded > 0.5 * kind.count
        else:
            kept = stretch.kept if root.trained else 0  # of a part, or a copy, it may be samples
            sure = held_out and kind.graded + kind.compared + kept > 0
            by_hand = kind.compared if _is_unknown_to_training(trace, root) else 0
            apart = _apart(stretch, trace.watched) if root.trained else _is_in_rows(stretch, trace.watched)
            apart = apart and not _learns_from_them(trace, root)
            sure = sure or (kind.graded + by_hand > 0.5 * kind.count and apart)
        if not sure:
            continue
        how = "with a graph that nobody used" if stretch.grad else "without gradient"
        yield Finding(
            "evaluated-in-train-mode",
            f"{root.name} with {_parts(root)} was called {stretch.calls} times {how}, in train mode.",
            evidence={
                "model": root.name,
                "calls": stretch.calls,
                "dropouts": root.dropouts,
                "batchnorms": root.batchnorms,
                "held_out_loader": held_out,
                "graded": kind.graded,
                "with_graph": stretch.grad,
            },
            where=stretch.site,
            since_step=stretch.first_step,
        )


def _in_train_mode(trace: Trace) -> dict[tuple[Any, ...], CallKind]:
    """Calls in train mode, by what stretches of them go by."""
    kinds = (kind for kind in trace.part(Calls).kinds.values() if kind.training)
    return {(kind.root.number, kind.site, kind.loader, kind.grad): kind for kind in kinds}


def _held_out(stretch: Stretch, loaders: list[Loader]) -> bool:
    """Whether the calls came on batches of a loader that never trains."""
    return stretch.loader is not None and loaders[stretch.loader].trained == 0


def _is_unknown_to_training(trace: Trace, root: Root) -> bool:
    """Whether none of the rows is one that the model was seen to train on: what an agent tries, it learns from later."""
    known, trained = trace.part(Rows).looked_at.get(root.number, (0, 0))
    return known > 0 and not trained


def _learns_from_them(trace: Trace, root: Root) -> bool:
    """Whether many of the rows are new to the model, and it is trained on them later: an agent that acts by what it chooses."""
    fresh, later = trace.part(Rows).learnt_later.get(root.number, (0, 0))
    return later >= 8 and later >= 0.3 * fresh


def _apart(stretch: Stretch, watched: int) -> bool:
    """Whether the calls come in rows, or now and then: not once in every training step that was watched."""
    return stretch.long_rows >= 0.5 * stretch.rows or stretch.rows <= 0.34 * (watched - stretch.watched + 1)


def _is_in_rows(stretch: Stretch, watched: int) -> bool:
    """The same of a copy of the model, which training may ask for targets: several calls at a time, now and then."""
    return stretch.long_rows >= 0.5 * stretch.rows and stretch.rows <= 0.34 * (watched - stretch.watched + 1)


def _parts(root: Root) -> str:
    return " and ".join(
        f"{count} {name}" for count, name in ((root.dropouts, "Dropout"), (root.batchnorms, "BatchNorm")) if count
    )


def _of_the_watched(trace: Trace) -> str:
    """Said where a long run was watched in bursts: counts of steps are of those."""
    return f" (of {trace.watched:,} steps that were watched)" if trace.watched < trace.steps else ""


@rule("trained-in-eval-mode", revocable=True)
def trained_in_eval_mode(trace: Trace) -> Iterator[Finding]:
    """Steps after forwards in eval mode alone, since an evaluation, of a model that was trained in train mode before.

    Where train mode comes back, as at the next epoch, it has to happen twice. Not: fine-tuning in eval mode from the first step
    on; models of which some parts are put into train mode by hand. Where it was evaluated before its first step and never trained
    in train mode, a hint.
    """
    for mode in trace.part(Modes).all.values():
        root = mode.root
        if mode.partly or not (root.dropouts or root.batchnorms):
            continue
        switched = mode.train_steps > 0 and mode.run >= RUN and mode.run_after_evaluation
        again = mode.runs >= 2
        if not switched and not again and not (mode.train_steps == 0 and mode.evaluated_first and mode.run >= 10):
            continue
        steps, first, where = (mode.run, mode.run_first, mode.run_site)
        since, before = "since it was evaluated", f"after {mode.train_steps} in train mode"
        if again:
            steps, first, where = (mode.eval_steps, mode.runs_first, mode.runs_site)
            since, before = f"after evaluations, {mode.runs} times", f"and {mode.train_steps} in train mode"
        elif not switched:
            before = "and none in train mode"
        yield Finding(
            "trained-in-eval-mode",
            f"{root.name} with {_parts(root)} made {steps} steps in eval mode {since}, {before}{_of_the_watched(trace)}.",
            evidence={"model": root.name, "eval_steps": steps, "train_steps": mode.train_steps, "first": first},
            where=where,
            since_step=first,
            severity=None if switched or again else "hint",
        )
    yield from _part_left_in_eval_mode(trace)


def _part_left_in_eval_mode(trace: Trace) -> Iterator[Finding]:
    """A part that was evaluated by itself. Where it is put back later on, it has to happen twice.

    A hint where eval mode was asked for once: a second stage with fixed statistics may be meant, and an evaluation before it.
    """
    found = [part for part in trace.part(IdleParts).all if part.before >= RUN and part.steps >= 2 * RUN]
    for part in found:
        again = sum(other.part == part.part for other in found) >= 2
        if part.ended and not again:
            continue
        yield Finding(
            "trained-in-eval-mode",
            f"A part of {part.model} ({part.part}, with {part.dropouts} Dropout and {part.batchnorms} BatchNorm) was evaluated "
            f"by itself and left in eval mode: the model made {part.steps} steps so, after {part.before} in train mode.",
            evidence={"model": part.model, "part": part.part, "eval_steps": part.steps, "train_steps": part.before},
            where=part.site,
            since_step=part.first_step,
            severity=None if again or part.probes >= 2 else "hint",
        )


@rule("evaluated-with-grad")
def evaluated_with_grad(trace: Trace) -> Iterator[Finding]:
    """Calls in eval mode that recorded a graph which no backward and no autograd.grad used, of a model that is trained."""
    for mode in by_phase(trace, trace.part(Modes).all.values()):
        trained = mode.train_steps + mode.eval_steps
        in_rows = mode.wasted >= 2 * mode.wasted_stretches
        apart = mode.wasted_stretches <= 0.34 * (max(trace.watched, trace.backwards) - mode.wasted_watched + 1)
        if not trained and in_rows and apart and trace.part(Calls).belongs_to_trained(mode.root):
            trained = trace.steps  # an average of what is trained
        if not trace.steps and in_rows and trace.part(ByHand).moved:
            trained = mode.root.trained  # updates by hand
        if trained < 3 or mode.wasted < 4 or mode.wasted < 0.5 * (mode.eval_calls - mode.eval_steps):
            continue
        yield Finding(
            "evaluated-with-grad",
            f"{mode.root.name} was called {mode.wasted} times in eval mode with a graph that nobody used.",
            evidence={
                "model": mode.root.name,
                "calls": mode.wasted,
                "times": mode.wasted_stretches,
                "eval_calls": mode.eval_calls,
            },
            where=mode.wasted_site,
            since_step=mode.wasted_first,
            severity=None if in_rows else "hint",
        )
    yield from _recorded_in_train_mode(trace)


def _recorded_in_train_mode(trace: Trace) -> Iterator[Finding]:
    """The same of a model that is the same in both modes, and is never put into eval mode: batches of a loader that never trains;
    without a loader, graphs that were given up before any backward, several at a time, and a hint."""
    calls, kinds = trace.part(Calls), _in_train_mode(trace)
    for key, stretch in trace.part(Modes).stretches.items():
        kind, root = kinds.get(key), stretch.root
        if kind is None or kind.inside or not stretch.grad or root.dropouts or root.batchnorms or trace.steps < 3:
            continue
        if not calls.belongs_to_trained(root) or kind.graded <= 0.5 * kind.count:
            continue
        if any(
            other.grad and other.unused and other.root.dropouts + other.root.batchnorms and other.loader == stretch.loader
            for other in trace.part(Modes).stretches.values()
        ):
            continue  # the mode is what is wrong there
        held_out = _held_out(stretch, trace.part(Loaders).all) and kind.fed > 0.5 * kind.count
        wasted = stretch.unused if held_out else stretch.given_up
        if wasted < 4 or wasted <= 0.8 * stretch.calls:
            continue
        apart = stretch.given_up >= 2 * stretch.given_up_rows and stretch.given_up_rows <= 0.34 * (trace.watched + 1)
        if not held_out and not apart:
            continue
        yield Finding(
            "evaluated-with-grad",
            f"{root.name} was called {wasted} times with a graph that nobody used.",
            evidence={"model": root.name, "calls": wasted, "of": stretch.calls, "held_out_loader": held_out},
            where=stretch.site,
            since_step=stretch.first_step,
            severity=None if held_out else "hint",
        )
