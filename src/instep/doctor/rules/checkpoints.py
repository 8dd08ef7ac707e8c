"""Rules about checkpoints: what is kept, loaded and saved."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.checkpoints import Checkpoints, Load
from instep.doctor.watch.kept import Kept


@rule("best-weights-aliased", revocable=True)
def best_weights_aliased(trace: Trace) -> Iterator[Finding]:
    """A state dict that was taken earlier, is loaded or saved now, and holds the live tensors, which have changed since.

    Not: `sd = model.state_dict(); sd.update(pretrained); model.load_state_dict(sd)` (nothing has changed), a dictionary that is
    kept on purpose and saved time and again.
    """
    part = trace.part(Checkpoints)
    for load in part.loads.values():
        if load.aliased or load.unchanged:
            when = "taken at" if load.aliased else "taken again and again since"
            loads = load.aliased or load.unchanged
            yield Finding(
                "best-weights-aliased",
                f"{load.model} was loaded at step {load.step} with a state dict {when} step {load.taken_step} that holds its "
                "own live tensors: nothing was restored.",
                evidence={
                    "model": load.model,
                    "taken_step": load.taken_step,
                    "loaded_step": load.step,
                    "loads": loads,
                    "tensors": load.own,
                    "loaded_at": load.site,
                },
                where=load.taken_at or load.site,
                places=_second(load.taken_at, load.site),
                since_step=load.taken_step,
                severity=None if load.aliased else "warning",
            )
    for save in part.saves.values():
        if save.aliased and not save.again:
            yield Finding(
                "best-weights-aliased",
                f"A state dict taken at step {save.taken_step} was saved at step {save.step} with the weights of that "
                "moment: it holds the live tensors.",
                evidence={"taken_step": save.taken_step, "saved_step": save.step, "saves": save.aliased, "saved_at": save.site},
                where=save.taken_at or save.site,
                places=_second(save.taken_at, save.site),
                since_step=save.taken_step,
                severity="warning",
            )
    loaded = {load.site for load in part.loads.values() if load.aliased or load.unchanged}
    yield from _kept_by_name(trace, loaded)


def _second(kept: str | None, used: str | None) -> tuple[str, ...]:
    """The line where kept weights were loaded or saved, where it is another than that where they were kept."""
    return (used,) if kept and used and used != kept else ()


def _kept_by_name(trace: Trace, loaded: set[str | None]) -> Iterator[Finding]:
    """A second name for the model, or for its tensors, taken for a copy. Not where files are written: those are copies.

    `loaded` are lines of loads that are told already: those copy the tensors onto themselves.
    """
    part, checkpoints = trace.part(Kept), trace.part(Checkpoints)
    for kept in part.names.values():
        if kept.siblings or (kept.module and (checkpoints.saves or checkpoints.files)):
            continue
        what = "is the model itself" if kept.module else "holds the live tensors"
        yield Finding(
            "best-weights-aliased",
            f"`{kept.name}` was kept at step {kept.taken_step} or before, and {what}: at step {kept.step} it had the weights of "
            "that moment.",
            evidence={"name": kept.name, "taken_step": kept.taken_step, "used_step": kept.step, "model": kept.model},
            where=kept.site,
            since_step=kept.taken_step,
            severity="warning",
            fix="best_model = copy.deepcopy(model)"
            if kept.module
            else "best = {name: p.detach().clone() for name, p in params.items()}",
        )
    for copy in part.copies.values():
        if copy.site not in loaded and not copy.others and copy.parameters >= 2 and copy.parameters >= 0.5 * copy.of:
            yield Finding(
                "best-weights-aliased",
                f"{copy.parameters} parameters were copied onto themselves at step {copy.step}: what was kept are the live "
                "tensors, and nothing was restored.",
                evidence={"parameters": copy.parameters, "of": copy.of, "step": copy.step},
                where=copy.site,
                since_step=copy.step,
                fix="kept = [p.detach().clone() for p in model.parameters()]",
            )


@rule("silent-partial-load")
def silent_partial_load(trace: Trace) -> Iterator[Finding]:
    """A load that left the model as it was: no name fits, nearly none does, or only its own weights came back.

    Not: a new head, adapters alone, one encoder out of a larger checkpoint.
    """
    for load in trace.part(Checkpoints).loads.values():
        matched, saw = load.own - load.missing, ""
        if not load.strict and load.own and matched == 0 and (load.given or load.files or load.waiting):
            saw = f"none of its {load.own} tensors fit"
        elif (
            not load.strict
            and load.own
            and trace.has_share(load.unexpected, load.given, 0.8)
            and trace.has_share(load.missing, load.own, 0.5)
            and load.unexpected > 1
        ):
            saw = f"only {matched} of its {load.own} tensors fit"
        elif load.own_weights == load.count and (load.files or load.waiting) and not load.aliased and not load.unchanged:
            source = "the file" if load.files else "the weights that were trained before"
            saw = f"all {load.own} tensors it was given are its own: nothing came from {source}"
        if saw:
            yield Finding(
                "silent-partial-load",
                f"{load.model} was loaded with strict={load.strict} and stayed as it was: {saw}{_names(load)}.",
                evidence={
                    "model": load.model,
                    "tensors": load.own,
                    "matched": 0 if load.own_weights else matched,
                    "given": load.given,
                    "unexpected": load.unexpected,
                    "prefix": load.prefix,
                },
                where=load.site,
                since_step=load.step,
                fix=_fix(load),
                severity="warning" if load.own_weights else None,
            )


def _names(load: Load) -> str:
    mine, given = load.examples
    return f" (it has {mine!r}, the file {given!r})" if mine and given else ""


def _fix(load: Load) -> str:
    if load.prefix:
        return f"state = {{k.removeprefix({load.prefix!r}): v for k, v in state.items()}}\nmodel.load_state_dict(state)"
    return "result = model.load_state_dict(state, strict=False)\nassert not result.unexpected_keys, result"


@rule("whole-model-pickled")
def whole_model_pickled(trace: Trace) -> Iterator[Finding]:
    """A module that was saved or pickled as it is."""
    for save in trace.part(Checkpoints).saves.values():
        if save.models:
            yield Finding(
                "whole-model-pickled",
                f"{save.model} was saved whole, as a pickled object, {save.models} times.",
                evidence={"model": save.model, "saves": save.models},
                where=save.site,
                since_step=save.step,
            )
