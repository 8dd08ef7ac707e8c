"""Rules about graphs that live longer than they should."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.graphs import AGE, SPARSE, GraphPlace, Graphs
from instep.doctor.watch.kept_parts import PILED, KeptPart, KeptParts
from instep.doctor.watch.phases import by_phase


def _is_kept(trace: Trace, place: GraphPlace) -> bool:
    return place.old >= 4 and trace.has_share(place.old, place.count, 0.15) and place.most >= AGE and not place.created


def _is_retained(place: GraphPlace) -> bool:
    return place.count >= 8 and place.retained >= 0.9 * place.count


def _grows(place: GraphPlace) -> bool:
    """Whether each doubling of the backwards has made the graph much larger."""
    sizes = [nodes for _, nodes in place.sizes[-3:]]
    return len(sizes) == 3 and sizes[1] > 1.5 * sizes[0] and (sizes[2] > 1.5 * sizes[1] or sizes[2] >= 5000)


@rule("graph-kept", steps=10)
def graph_kept(trace: Trace) -> Iterator[Finding]:
    """Losses or outputs whose graphs are still alive several backwards later."""
    part = trace.part(Graphs)
    losses = [place for place in by_phase(trace, part.backwards.values()) if _is_kept(trace, place)]
    if any(_is_retained(place) for place in losses):
        return  # graph-retained says it
    for place in losses:
        yield _kept(place, "losses", "total += loss.item()  # or loss.detach()")
    if losses or any(_grows(place) for place in part.backwards.values()):
        return
    outputs = [place for place in by_phase(trace, part.outputs.values()) if _is_kept(trace, place)]
    for place in outputs:
        yield _kept(place, "outputs", "outputs.append(out.detach())")
    parts = [] if outputs else [each for each in trace.part(KeptParts).all.values() if _is_piling_up(each)]
    for site in dict.fromkeys(each.site for each in parts):
        yield _piled_up(max((each for each in parts if each.site == site), key=lambda each: each.alive))
    if not outputs and not parts and not part.created:
        yield from _activations(part)


def _is_piling_up(part: KeptPart) -> bool:
    return part.rises >= PILED and part.alive >= 6 and not part.created


def _piled_up(part: KeptPart) -> Finding:
    return Finding(
        "graph-kept",
        f"losses, or what they are made of, are kept together with their graphs: after {part.count} backwards, {part.alive} of "
        "them were still alive, and their number grew.",
        evidence={"backwards": part.count, "most_alive": part.alive},
        where=part.site,
        since_step=part.first_step,
        fix="history.append(part.item())  # or part.detach()",
    )


def _activations(part: Graphs) -> Iterator[Finding]:
    """Outputs of layers inside a model, gathered by a hook or by the model itself, of ever more steps."""
    kept = [layer for layer in part.inner.values() if layer.grown >= 5 and layer.alive >= 5]
    for site in dict.fromkeys(layer.site for layer in kept):
        mine = [layer for layer in kept if layer.site == site]
        layer = max(mine, key=lambda layer: layer.alive)
        yield Finding(
            "graph-kept",
            f"outputs of layers ({', '.join(dict.fromkeys(each.name for each in mine))}) are kept together with their graphs: "
            f"of {layer.samples} that were looked at, one in {SPARSE} steps, {layer.alive} were still alive.",
            evidence={"looked_at": layer.samples, "alive": layer.alive, "layers": [each.name for each in mine][:8]},
            where=site,
            since_step=layer.first_step,
            fix="activations.append(output.detach())",
        )


def _kept(place: GraphPlace, what: str, fix: str) -> Finding:
    return Finding(
        "graph-kept",
        f"{what} are kept together with their graphs: at {place.old} of {place.count} backwards the graph of {AGE} "
        "backwards ago was still alive, "
        f"up to {place.most} at once.",
        evidence={"backwards": place.count, "old_graph_alive": place.old, "most_alive": place.most},
        where=place.site,
        since_step=place.first_old,
        fix=fix,
    )


@rule("graph-retained", steps=10)
def graph_retained(trace: Trace) -> Iterator[Finding]:
    """Backwards that all retain their graphs, while old graphs stay alive or are walked through again."""
    for place in by_phase(trace, trace.part(Graphs).backwards.values()):
        if not _is_retained(place) or not (_grows(place) or _is_kept(trace, place)):
            continue
        if _grows(place):
            seen = f"the graph has grown from {place.sizes[0][1]} to {place.sizes[-1][1]} nodes"
            fix = "state = state.detach()  # before the next forward\nloss.backward()  # without retain_graph"
        else:
            seen = f"up to {place.most} old graphs were alive at once"
            fix = "history.append(loss.detach())\nloss.backward()  # retain_graph only where a second backward follows"
        yield Finding(
            "graph-retained",
            f"{place.retained} of {place.count} backwards retain their graph, and {seen}.",
            evidence={"backwards": place.count, "retained": place.retained, "most_alive": place.most, "nodes": dict(place.sizes)},
            where=place.site,
            cause="retained",
            since_step=place.first_old,
            fix=fix,
        )
