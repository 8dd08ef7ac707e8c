"""Rules about several processes."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.ranks import Ranks


@rule("sampler-epoch-not-set")
def sampler_epoch_not_set(trace: Trace) -> Iterator[Finding]:
    """A shuffling DistributedSampler that trained several passes with the same epoch, hence in the same order."""
    for sharded in trace.part(Ranks).samplers:
        passes, epochs = len(sharded.epochs), set(sharded.epochs)
        if passes < 2 or len(epochs) > 1:
            continue
        yield Finding(
            "sampler-epoch-not-set",
            f"{passes} passes trained with the epoch of the DistributedSampler at {sharded.epochs[-1]}: each has the same order.",
            evidence={"passes": passes, "epoch": sharded.epochs[-1], "replicas": sharded.replicas},
            where=sharded.site,
            since_step=sharded.first_step,
        )


@rule("ddp-bypassed")
def ddp_bypassed(trace: Trace) -> Iterator[Finding]:
    """Training forwards of a module that DistributedDataParallel wraps, which did not go through the wrapper."""
    part = trace.part(Ranks)
    if not part.wrapped or part.reduced or part.averaged:
        return
    for bypass in part.bypasses.values():
        if bypass.trained < 3 or not trace.has_share(bypass.trained, bypass.trained + part.forwards, 0.3):
            continue
        yield Finding(
            "ddp-bypassed",
            f"{bypass.trained} training forwards called {bypass.module} directly, which DistributedDataParallel wraps; "
            f"{part.forwards} went through the wrapper.",
            evidence={
                "bypassed": bypass.trained,
                "through_wrapper": part.forwards,
                "module": bypass.module,
                "processes": part.world,
            },
            where=bypass.site,
            since_step=bypass.first_step,
            severity="error" if part.world > 1 else "warning",
        )


@rule("ranks-diverge", revocable=True, steps=5)
def ranks_diverge(trace: Trace) -> Iterator[Finding]:
    """Weights that are apart on two ranks of a data-parallel training, and never meet again."""
    part = trace.part(Ranks)
    shared = any(sharded.replicas == part.world for sharded in part.samplers)
    if part.world < 2 or part.separate or part.averaged or not (part.wrapped or part.reduced or shared):
        return
    if part.wrapped and any(bypass.trained >= 3 for bypass in part.bypasses.values()):
        return  # said by another rule
    for divergence in part.divergences.values():
        least = 5 if trace.ended else 24
        if divergence.met_again or divergence.apart < least or not trace.has_share(divergence.apart, divergence.compared, 0.5):
            continue
        yield Finding(
            "ranks-diverge",
            f"The weights of ranks {part.rank} and {divergence.other} differ in {divergence.apart} of "
            f"{divergence.compared} comparisons, "
            f"by up to {divergence.largest:.2g} of their norm (a tensor of {divergence.parameter or 'one number'}).",
            evidence={
                "compared": divergence.compared, "apart": divergence.apart, "relative_difference": divergence.largest,
                "tensor": divergence.parameter, "ranks": [part.rank, divergence.other], "processes": part.world,
                "gradients_reduced_by_hand": part.reduced, "wrapped": part.wrapped,
            },
            where=divergence.site,
            since_step=divergence.since,
            cause=f"{divergence.site}",
        )  # fmt: skip
