"""Rules about data: what is read, in which order, by whom, and how it is scaled."""

from collections.abc import Iterator, Mapping
from itertools import pairwise

from instep.doctor.finding import Finding
from instep.doctor.label_entropy import entropy, expected_entropy
from instep.doctor.rules import rule
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.loaders import Loader, Loaders
from instep.doctor.watch.optimizers import Optimizers
from instep.doctor.watch.randomness import Randomness
from instep.doctor.watch.repeats import Repeats
from instep.doctor.watch.rows import LoaderRows, Rows
from instep.doctor.watch.scales import Scales
from instep.doctor.watch.target_order import TargetOrders

MISSING = 0.2  # share of the entropy of a shuffled batch: of shuffled ones some hundredths are missing by chance


def roles(trace: Trace) -> tuple[list[Loader], list[Loader]]:
    """The loaders that train, and those whose batches a trained model only looks at."""
    loaders, calls = trace.part(Loaders).all, trace.part(Calls)
    train = [loader for loader in loaders if loader.trained >= 2 and trace.has_share(loader.trained, loader.batches, 0.5)]
    numbers = {
        kind.loader
        for kind in calls.kinds.values()
        if kind.count and not kind.trained and not kind.grad and kind.loader is not None and calls.is_trained(kind.root)
    }
    return train, [loader for loader in loaders if loader.number in numbers and loader.trained == 0]


@rule("not-shuffled")
def not_shuffled(trace: Trace) -> Iterator[Finding]:
    """Training batches in a fixed order; a warning where the classes come one after the other."""
    part = trace.part(Rows)
    for loader in roles(trace)[0]:
        facts = part.loaders.get(loader.number)
        if facts is None or facts.label_batches < 4 or len(facts.label_counts) < 2:
            continue
        firsts = facts.firsts
        if len(firsts) > 1 and firsts[0][2] != firsts[1][2]:
            continue  # the dataset shuffles by itself
        if _takes_turns(facts):
            continue
        declared = loader.sequential and not loader.iterable
        if not declared and (facts.composed or not _begins_alike(facts)):
            continue
        whole, inside = entropy(facts.label_counts), facts.inside / facts.label_batches
        batch = max(loader.sizes, default=0)
        sizes, batches = loader.sizes, sum(loader.sizes.values())
        expected = sum(count * expected_entropy(facts.label_counts, size) for size, count in sizes.items()) / max(batches, 1)
        is_sorted = batch >= 4 and _is_sorted(trace, inside, expected)
        if not is_sorted and (not declared or loader.full_passes < 2 or loader.batches < 8):
            continue
        evidence: dict[str, object] = {"sampler": loader.sampler, "batches": loader.length, "passes": loader.passes}
        if loader.made is not None and loader.made != loader.site:
            evidence["made_at"] = loader.made
        yield _unshuffled(loader.site, inside, whole, is_sorted, evidence)
    yield from _sorted_targets(trace)
    if not trace.part(Loaders).is_training():
        yield from _not_shuffled_by_hand(trace)


def _begins_alike(facts: LoaderRows) -> bool:
    """Whether all passes began with the same batch: a stream, or a sampler of one's own, in a fixed order."""
    rows = [rows for _, rows, _ in facts.firsts]
    return len(rows) >= 2 and len(rows[0]) >= 4 and len(set(rows[0])) > 1 and all(each == rows[0] for each in rows)


def _takes_turns(facts: LoaderRows) -> bool:
    """Whether every pass has other inputs, and labels that take turns: pairs that are drawn, alike and unlike."""
    if len(facts.firsts) < 2:
        return False
    labels = facts.firsts[0][2]
    kinds = len(set(labels))
    if not 2 <= kinds <= len(labels) // 4:
        return False
    for (_, rows, _), (_, others, _) in pairwise(facts.firsts):
        if 4 * sum(one == other for one, other in zip(rows, others, strict=False)) > len(rows):
            return False
    return all(label == before for label, before in zip(labels[kinds:], labels, strict=False))


def _sorted_targets(trace: Trace) -> Iterator[Finding]:
    """Numbers to be predicted that rise, or fall, from batch to batch, and begin anew with the same batch."""
    for order in trace.part(TargetOrders).all.values():
        moves, way = order.batches - 1 - order.restarts, max(order.above, order.below)
        if order.restarts and order.batches >= 24 and moves >= 4 * order.restarts and trace.has_share(way, moves, 0.9):
            verb = "rise" if order.above == way else "fall"
            yield Finding(
                "not-shuffled",
                f"Training batches come in the same order in every pass: the targets {verb} from batch to batch in {way} of "
                f"{moves} cases.",
                evidence={"batches": order.batches, "passes_begun": order.restarts + 1, "in_order": way},
                where=order.site,
                since_step=0,
            )


def _not_shuffled_by_hand(trace: Trace) -> Iterator[Finding]:
    """Slices in a fixed order: the same labels come again after some batches, or the same batches one after the other.

    Classes are compared within one round: tasks that come one after the other are not classes that do.
    """
    part = trace.part(Rows)
    found = part.round
    steady = found.followed >= 8 and trace.has_share(found.followed, found.followed + found.departed, 0.95)
    if steady and found.batches >= 4 and _is_sorted(trace, found.inside, found.expected):
        yield _unshuffled(part.target_site, found.inside, found.whole, True, {"batches": found.batches})
        return
    if part.target_batches < 16 or len(part.target_counts) < 2:
        return
    whole, inside = entropy(part.target_counts), part.target_inside / part.target_batches
    period = _period(part.signatures)
    expected = expected_entropy(part.target_counts, round(part.target_counts.total() / part.target_batches)) if period else 0.0
    if period is not None and expected > 0 and trace.is_below(inside, 0.5 * expected):
        yield _unshuffled(part.target_site, inside, whole, True, {"batches": period})


def _is_sorted(trace: Trace, inside: float, expected: float) -> bool:
    """Whether batches hold far fewer classes than shuffled ones would."""
    return expected > 0 and trace.exceeds(max(1 - inside / expected, 0.0), MISSING)


def _period(signatures: list[int]) -> int | None:
    """How many batches it takes until the same ones come again in the same order; None where they do not."""
    for period in range(3, len(signatures) * 2 // 3):
        if all(a == b for a, b in zip(signatures, signatures[period:], strict=False)):
            return period
    return None


def _unshuffled(site: str | None, inside: float, whole: float, is_sorted: bool, evidence: dict[str, object]) -> Finding:
    made = f" The loader was made at {evidence['made_at']}." if "made_at" in evidence else ""
    tail = f": classes come one after the other (entropy {inside:.2f} within batches, {whole:.2f} over all)" if is_sorted else ""
    return Finding(
        "not-shuffled",
        f"Training batches come in the same order in every pass{tail}.{made}",
        evidence={**evidence, "entropy_within_batches": round(inside, 3), "entropy": round(whole, 3)},
        where=site,
        since_step=0,
        severity=None if is_sorted else "hint",
    )


@rule("repeated-worker-randomness")
def repeated_worker_randomness(trace: Trace) -> Iterator[Finding]:
    """Workers that draw from copies of one generator, or that all set the same seed."""
    for loader in roles(trace)[0]:
        facts = trace.part(Randomness).loaders.get(loader.number)
        if facts is None or not facts.workers:
            continue
        if facts.fixed_seed:
            message = f"{facts.fixed_seed} sets the same seed in all {facts.workers} workers, at the start of every pass."
            evidence: dict[str, object] = {"workers": facts.workers, "function": facts.fixed_seed}
        elif facts.looked >= 8 and trace.has_share(facts.same, facts.looked, 0.5 * (1 - 1 / facts.workers)):
            message = (
                f"{facts.same} of {facts.looked} batches were the same as the one before: each of {facts.workers} workers gives "
                f"the stream of {loader.dataset} from the same seed."
            )
            evidence = {"workers": facts.workers, "batches": facts.looked, "same": facts.same}
        elif facts.generators and not facts.reseeded:
            message = (
                f"{', '.join(facts.generators)} draws the random numbers of samples; each of {facts.workers} workers has a copy "
                f"in the same state."
            )
            evidence = {"workers": facts.workers, "generators": facts.generators}
        else:
            continue
        yield Finding(
            "repeated-worker-randomness", message, evidence=evidence, where=loader.site, since_step=loader.first_step,
        )  # fmt: skip


@rule("inputs-not-scaled")
def inputs_not_scaled(trace: Trace) -> Iterator[Finding]:
    """Numbers far from 1 in the first layer that has weights."""
    for scale in trace.part(Scales).inputs.values():
        if scale.looks < 2 or not trace.has_share(scale.large, scale.looks, 0.8) or trace.steps < 3:
            continue
        yield Finding(
            "inputs-not-scaled",
            f"The first {scale.layer} gets numbers from {scale.lowest:.4g} to {scale.highest:.4g}.",
            evidence={"layer": scale.layer, "lowest": scale.lowest, "highest": scale.highest, "looks": scale.looks},
            where=scale.site,
            since_step=scale.first_step,
        )


@rule("same-batch-every-step", steps=10)
def same_batch_every_step(trace: Trace) -> Iterator[Finding]:
    """A loader begun anew at every step that gives its first batch each time; a sampler that is seeded anew at every step.

    The same input at every step is right where it is all there is; not where indices are drawn for it from far more.
    """
    part = trace.part(Rows)
    findings = [*_repeated_by_index(trace)]
    yield from findings or _repeated(trace)
    for loader in roles(trace)[0]:
        facts = part.loaders.get(loader.number)
        if facts is None or facts.singles < 10 or facts.singles < loader.passes - 2 or (loader.length or 2) < 2:
            continue
        firsts = [rows for _, rows, _ in facts.firsts]
        if len(firsts) >= 10 and firsts[0] and all(rows == firsts[0] for rows in firsts):
            yield _same(loader.site, facts.singles + 1, {"passes": loader.passes, "batches_in_loader": loader.length}, "error")


def _repeated_by_index(trace: Trace) -> Iterator[Finding]:
    """Seeds that torch is given at every step, and indices that come out the same."""
    part = trace.part(Rows)
    if part.same_inputs >= 20 and trace.has_share(part.seeds_in_training, part.same_inputs, 0.8) and not trace.part(Loaders).all:
        yield _same(part.same_site, part.same_inputs + 1, {"seeds_in_training": part.seeds_in_training}, "warning")
    elif part.same_inputs >= 20 and not trace.part(Loaders).is_training():
        for site, draw in part.draws.items():
            few = trace.is_below(part.same_rows, 0.25 * draw.choices)  # else a split, perhaps: all that there is to train on
            if few and draw.same >= 20 and trace.has_share(draw.same, part.same_inputs, 0.8):
                yield _same(site, part.same_inputs + 1, {"drawn_from": draw.choices, "same_draws": draw.same}, "warning")


def _repeated(trace: Trace) -> Iterator[Finding]:
    """Streams that are begun anew at every step, and functions that draw by a seed which they set each time."""
    if trace.part(Loaders).feeds(trace.backwards):
        return
    for repeat in trace.part(Repeats).all.values():
        if repeat.same >= 20 and max(repeat.anew, repeat.seeded) >= 2:
            how = "generator_begun_anew" if repeat.anew >= 2 else "seed_set_anew"
            evidence = {"rows": repeat.rows, "batches_of_a_step": repeat.period, how: repeat.source}
            yield _same(repeat.site, repeat.same // repeat.period + 1, evidence, "warning")


def _same(site: str | None, steps: int, evidence: Mapping[str, object], severity: str) -> Finding:
    return Finding(
        "same-batch-every-step",
        f"{steps} training steps in a row got the same samples, drawn anew each time.",
        evidence={"steps": steps, **evidence},
        where=site,
        since_step=0,
        severity="warning" if severity == "warning" else "error",
    )


@rule("no-seed", revocable=True, steps=10)
def no_seed(trace: Trace) -> Iterator[Finding]:
    """A training that nobody can repeat."""
    optimizers = trace.part(Optimizers).all
    if trace.part(Rows).seeded or trace.steps < 10 or not optimizers:
        return
    yield Finding(
        "no-seed",
        f"{trace.steps} steps were trained and torch.manual_seed was never called.",
        evidence={"steps": trace.steps},
        where=optimizers[0].site,
        since_step=0,
    )
