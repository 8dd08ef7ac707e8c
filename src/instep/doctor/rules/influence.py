"""Rules about influence: samples that reach each other, later positions that reach earlier ones."""

from collections.abc import Iterator

from instep.doctor.batch_statistics import CENTRED
from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.graph_batches import GraphBatches
from instep.doctor.watch.influence import Influences


@rule("batch-mixed")
def batch_mixed(trace: Trace) -> Iterator[Finding]:
    """Outputs of samples that change when another sample does, in a way that depends on where they stand."""
    for fact in trace.part(Influences).roots.values():
        if not fact.reached or fact.symmetric or fact.layer is not None:
            continue
        yield Finding(
            "batch-mixed",
            f"Replacing one of {fact.batch} samples changed the outputs of {fact.reached} others, by up to {fact.moved:.2g} "
            "of their spread (in eval mode; and it matters in which order samples stand)"
            + (f": `{fact.operation}` puts them together." if fact.operation_site else "."),
            evidence={
                "batch": fact.batch,
                "reached": fact.reached,
                "largest_change": round(fact.moved, 4),
                "operation": fact.operation,
                "called_at": fact.site,
            },
            where=fact.operation_site or fact.site,
            since_step=fact.step,
        )
    yield from _by_statistics(trace)
    yield from _by_weights_over_nodes(trace)


def _by_weights_over_nodes(trace: Trace) -> Iterator[Finding]:
    """Batches of graphs or sets whose attention is normalised over the nodes of all samples."""
    for fact in trace.part(GraphBatches).weights.values():
        yield Finding(
            "batch-mixed",
            f"Weights sum to 1 over all {fact.nodes} nodes of the {fact.samples} samples of a batch, not over those of each "
            f"sample: replacing one sample changed the outputs of {fact.reached} others, by up to {fact.moved:.2g} of their "
            "spread.",
            evidence={
                "samples": fact.samples,
                "nodes": fact.nodes,
                "reached": fact.reached,
                "largest_change": round(fact.moved, 4),
                "operation": fact.operation,
                "called_at": fact.site,
            },
            where=fact.operation_site or fact.site,
            since_step=fact.step,
            fix="weights = scores.exp(); weights / zeros.index_add(0, owner, weights)[owner]  # a softmax of each sample",
        )


def _by_statistics(trace: Trace) -> Iterator[Finding]:
    """A normalisation by hand that uses the statistics of the batch in eval mode too, in a model that is evaluated in it."""
    evaluated = {kind.root.number for kind in trace.part(Calls).kinds.values() if not kind.training and not kind.grad}
    for fact in trace.part(Influences).roots.values():
        if fact.statistics is None or fact.layer is not None or fact.root not in evaluated:
            continue
        yield Finding(
            "batch-mixed",
            f"A normalisation by hand takes {fact.statistics_kind} over the samples of the batch, in eval mode "
            f"too: replacing one of {fact.batch} samples changed the outputs of {fact.reached} others, by up to {fact.moved:.2g} "
            "of their spread.",
            evidence={
                "batch": fact.batch,
                "reached": fact.reached,
                "largest_change": round(fact.moved, 4),
                "operation": fact.statistics.operation,
                "called_at": fact.site,
            },
            where=fact.statistics.site or fact.site,
            since_step=fact.step,
            severity="hint" if fact.statistics_kind == CENTRED else "warning",
            fix="keep running averages of them, and use those in eval mode, as nn.BatchNorm does; or take them over another axis",
        )


@rule("batch-first")
def batch_first(trace: Trace) -> Iterator[Finding]:
    """A recurrent or attention layer that runs along the batch."""
    for fact in trace.part(Influences).roots.values():
        layer = fact.layer
        if layer is None or not fact.reached:
            continue
        yield Finding(
            "batch-first",
            f"{layer.name} with batch_first={layer.batch_first} got {layer.shape}, where {layer.batch} is the batch: it "
            "runs over the samples. "
            f"Replacing one sample changed {fact.reached} others.",
            evidence={
                "layer": layer.name,
                "batch_first": layer.batch_first,
                "shape": list(layer.shape),
                "batch": layer.batch,
                "reached": fact.reached,
            },
            where=fact.site,
            since_step=fact.step,
            fix=f"nn.{layer.name}(…, batch_first={not layer.batch_first})   # or transpose its input",
        )


@rule("future-leaks")
def future_leaks(trace: Trace) -> Iterator[Finding]:
    """A model trained to predict the next position, whose outputs change when a later position does."""
    for fact in trace.part(Influences).roots.values():
        if not fact.early:
            continue
        yield Finding(
            "future-leaks",
            "The targets are later positions of the inputs, and replacing position "
            f"{fact.replaced + 1} of {fact.positions} changed the outputs of {fact.early} earlier ones, by up to "
            f"{fact.early_moved:.2g} of their spread.",
            evidence={
                "positions": fact.positions,
                "replaced": fact.replaced,
                "reached": fact.early,
                "largest_change": round(fact.early_moved, 4),
            },
            where=fact.site,
            since_step=fact.step,
        )
