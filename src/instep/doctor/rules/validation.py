"""Rules about validation: samples that are trained on as well, and samples that change from one reading to the next."""

from collections.abc import Iterator

from instep.doctor.finding import Finding
from instep.doctor.rules import rule
from instep.doctor.rules.data import roles
from instep.doctor.trace import Trace
from instep.doctor.watch.calls import Calls
from instep.doctor.watch.lineages import Lineages
from instep.doctor.watch.loaders import Loader
from instep.doctor.watch.node_masks import NodeMasks
from instep.doctor.watch.optimizers import Optimizers
from instep.doctor.watch.overlaps import Overlap, Overlaps, Reuse
from instep.doctor.watch.rereads import Rereads
from instep.doctor.watch.rows import LoaderRows, Rows


def _models(trace: Trace, loader: Loader) -> set[int]:
    """Shapes of the trained roots, and of their averages, that its batches went into."""
    calls = trace.part(Calls)
    return {kind.root.shapes for kind in calls.kinds.values() if kind.loader == loader.number and calls.is_trained(kind.root)}


def _follows(part: Rows, train: Loader, valid: Loader) -> bool:
    """Whether evaluation came right after training on that loader: another fold of a cross-validation is another training."""
    facts = part.loaders.get(valid.number)
    return facts is not None and train.number in part.loaders and train.number in facts.follows


def _overlap(train: LoaderRows, valid: LoaderRows) -> tuple[int, int, bool, bool] | None:
    """(shared, of, whether all of the training samples are among them, by index); None where it cannot be told."""
    if train.base == valid.base and train.indices is not None and valid.indices is not None:
        return len(train.indices & valid.indices), len(valid.indices), train.indices <= valid.indices, True
    told = train.whole and valid.whole and train.done and valid.done and train.told and valid.told
    if train.base == valid.base or not told or not train.rows or not valid.rows:
        return None
    once = valid if train.again else train
    if len(once.rows) < 0.95 * once.rows.total() or len(valid.rows) < 10:
        return None  # the same rows come up by themselves
    shared = sum(1 for row in valid.rows if row in train.rows)
    if 0 < shared < max(8, 0.03 * len(valid.rows)):
        return None
    return shared, len(valid.rows), shared == len(train.rows), False


@rule("train-valid-overlap", revocable=True)
def train_valid_overlap(trace: Trace) -> Iterator[Finding]:
    """Evaluation samples that are trained on, in part; all of them only where nothing else is evaluated on."""
    part = trace.part(Rows)
    train, valid = roles(trace)
    yield from _overlap_by_hand(trace)
    yield from _overlap_of_nodes(trace)
    for loader in train:
        models = _models(trace, loader)
        facts = [
            (other, _overlap(part.loaders[loader.number], part.loaders[other.number]))
            for other in valid
            if _follows(part, loader, other) and models & _models(trace, other)
        ]
        # What could not be compared may be a true validation: a loader of another kind, tensors without any loader.
        proper = any(found is None or found[0] == 0 for _, found in facts) or _is_evaluated_elsewhere(
            trace, models, train + valid
        )
        for other, found in facts:
            if found is None or not found[0]:
                continue
            shared, of, covers, certain = found
            within = shared == of
            if proper and (within or covers):
                continue  # the training score, or predictions for everything, besides a true validation
            same = within and covers
            yield Finding(
                "train-valid-overlap",
                f"{shared} of the {of} samples of the evaluation loader ({other.site}) are trained on ({loader.site})"
                + (", and no other evaluation was seen." if within else "."),
                evidence={"shared": shared, "evaluated": of, "by": "index" if certain else "value", "train_loader": loader.site},
                where=other.site,
                since_step=other.first_step,
                severity="hint" if same else None if certain else "warning",
            )
    yield from _overlap_of_phases(trace, train, valid)


def _overlap_of_phases(trace: Trace, train: list[Loader], valid: list[Loader]) -> Iterator[Finding]:
    """Data that are divided anew while the weights are kept: a validation holds samples that an earlier phase has trained on.

    Only where the data are the same: both what is trained on and what is evaluated on hold samples of that phase, and others.
    """
    part = trace.part(Rows)
    for other in valid:
        after = [loader for loader in train if _follows(part, loader, other) and _models(trace, loader) & _models(trace, other)]
        earlier = _earlier_loaders(trace, other) - {loader.number for loader in after}
        found = [
            (shared, loader, of)
            for loader in train
            if loader.number in earlier and any(_is_divided_anew(part, loader, late) for late in after)
            for shared, of, _, _ in [_overlap(part.loaders[loader.number], part.loaders[other.number]) or (0, 0, False, False)]
            if 8 <= shared < of and trace.has_share(shared, of, 0.1)
        ]
        if found:
            shared, loader, of = max(found, key=lambda each: each[0])
            yield Finding(
                "train-valid-overlap",
                f"{shared} of the {of} samples of the evaluation loader ({other.site}) were trained on before ({loader.site}), "
                "by the weights that training went on from: the data were divided anew.",
                evidence={"shared": shared, "evaluated": of, "trained_before_at": loader.site, "since_step": other.first_step},
                where=other.made or other.site,
                since_step=other.first_step,
                severity="warning",
            )


def _is_divided_anew(part: Rows, early: Loader, late: Loader) -> bool:
    """Whether a later training set has samples of an earlier one, and others."""
    found = _overlap(part.loaders[early.number], part.loaders[late.number]) if late.number in part.loaders else None
    return found is not None and 0.3 * found[1] <= found[0] < found[1]


def _earlier_loaders(trace: Trace, valid: Loader) -> set[int]:
    """The loaders on which the weights that are evaluated with a loader had been trained, by this model or by one that they were
    loaded from. Where another optimizer was made since, a model may have been begun anew."""
    calls, lineages, part = trace.part(Calls), trace.part(Lineages), trace.part(Rows)
    roots = {kind.root.number for kind in calls.kinds.values() if kind.loader == valid.number and kind.root.trained}
    made = max((record.made_step for record in trace.part(Optimizers)), default=0)
    found: set[int] = set()
    for number in roots:
        found |= lineages.inherited.get(number, frozenset())
        gone = lineages.given_up.get(number, frozenset())
        for kind in calls.kinds.values():
            own = kind.root.number == number and kind.trained and made <= kind.first_step <= valid.first_step
            if own and kind.loader is not None and kind.loader not in gone:
                found.add(kind.loader)
    return found & set(part.loaders)


def _overlap_by_hand(trace: Trace) -> Iterator[Finding]:
    """Without loaders: evaluations that mix samples of the training with others.

    Not: those of the training alone, and those of everything, which are no validation; a call whose output nobody grades, as
    it warms up the state of a recurrent model, before another one on other samples.
    """
    for found in trace.part(Overlaps).all.values():
        if found.evaluated < 16 or found.shared < 8 or found.mixed < 0.5 * found.calls:
            continue
        if not 0.03 * found.evaluated <= found.shared <= 0.9 * found.evaluated or found.shared > 0.8 * found.trained:
            continue
        if _is_clean_elsewhere(trace, found) and not _is_graded(trace, found):
            continue
        yield Finding(
            "train-valid-overlap",
            f"{found.shared} of the {found.evaluated} samples that are evaluated on are trained on as well.",
            evidence={"shared": found.shared, "evaluated": found.evaluated, "by": "value", "trained": found.trained},
            where=found.site,
            since_step=found.first_step,
            severity="warning",
        )
    for reuse in trace.part(Overlaps).drawn.values():
        if _is_reused(trace, reuse):
            yield Finding(
                "train-valid-overlap",
                f"{reuse.shared} of the {reuse.evaluated} samples that are evaluated on, in {reuse.evaluations} evaluations, had "
                "been drawn for training before, and no other evaluation was seen.",
                evidence={"shared": reuse.shared, "evaluated": reuse.evaluated, "by": "value", "trained": reuse.trained},
                where=reuse.site,
                since_step=reuse.first_step,
                severity="warning",
            )


def _overlap_of_nodes(trace: Trace) -> Iterator[Finding]:
    """Masks of one graph that have nodes in common. Not where another is clean: then those are groups, or a training score."""
    for nodes in trace.part(NodeMasks).all.values() if trace.ended else ():
        if nodes.looked < 3 or not nodes.steady or nodes.unseen or not nodes.hangs():
            continue
        mixed = [rows for rows in nodes.evaluated if rows - nodes.trained and nodes.trained - rows]
        for rows in mixed[:1]:
            shared = len(rows & nodes.trained)
            if shared >= 8 and trace.has_share(shared, len(rows), 0.05) and trace.is_below(shared, 0.9 * len(rows)):
                yield Finding(
                    "train-valid-overlap",
                    f"{shared} of the {len(rows)} nodes that are evaluated on are among the {len(nodes.trained)} that are "
                    f"trained on{', in the evaluations that were watched' if nodes.rested else ''}.",
                    evidence={"shared": shared, "evaluated": len(rows), "by": "mask", "trained": len(nodes.trained)},
                    where=nodes.site,
                    since_step=nodes.first_step,
                    severity="hint" if nodes.rested else "warning",  # an evaluation that nobody saw may be clean
                )


def _is_clean_elsewhere(trace: Trace, found: Overlap) -> bool:
    """Whether another line evaluates the same model on samples that are not trained on."""
    others = (other for other in trace.part(Overlaps).all.values() if other is not found and other.root == found.root)
    return any(other.evaluated >= 16 and other.shared <= 0.03 * other.evaluated for other in others)


def _is_graded(trace: Trace, found: Overlap) -> bool:
    kinds = [kind for kind in trace.part(Calls).kinds.values() if kind.root.number == found.root and kind.site == found.site]
    return any(not kind.grad and (kind.graded or kind.compared) for kind in kinds)


def _is_reused(trace: Trace, reuse: Reuse) -> bool:
    """Whether a fixed set of samples is graded now and then that training draws as well, among many others.

    Not: most of what is trained on, which is a training score; samples drawn anew each time; where some evaluation is clean.
    """
    kinds = [kind for kind in trace.part(Calls).kinds.values() if kind.root.shapes == reuse.shapes and not kind.grad]
    graded = reuse.labelled or any(kind.graded or kind.compared for kind in kinds)
    if not reuse.drawn or reuse.blind or reuse.clean or not graded:
        return False
    if reuse.evaluations < 2 or reuse.evaluated < 16 or reuse.evaluated > 0.6 * reuse.given:
        return False
    return trace.has_share(reuse.shared, reuse.evaluated, 0.2) and trace.is_below(reuse.shared, 0.5 * reuse.trained)


def _is_evaluated_elsewhere(trace: Trace, models: set[int], loaders: list[Loader]) -> bool:
    """Whether those models are called without gradient on something else than batches of these loaders."""
    known = {loader.number for loader in loaders}
    return any(
        kind.count and not kind.grad and kind.root.shapes in models and (kind.loader not in known or kind.fed < 0.5 * kind.count)
        for kind in trace.part(Calls).kinds.values()
    )


@rule("augmented-validation")
def augmented_validation(trace: Trace) -> Iterator[Finding]:
    """Evaluation batches that change from pass to pass, through a transform that training uses too."""
    part = trace.part(Rows)
    train, valid = roles(trace)
    trained = [part.loaders[loader.number] for loader in train if loader.number in part.loaders]
    for loader in valid:
        facts = part.loaders.get(loader.number)
        if facts is None or facts.pairs or not loader.sequential or loader.iterable:
            continue
        shared = any(facts.base == other.base or (facts.transform and facts.transform == other.transform) for other in trained)
        collated = facts.exact and facts.collate and any(facts.collate == other.collate for other in trained)
        like = facts.exact and facts.kind and any(facts.kind == other.kind for other in trained)
        if not shared and not collated and not like:
            continue
        pairs = [
            (a, b)
            for a, b in zip(facts.firsts, facts.firsts[1:], strict=False)
            if a[0] != b[0] and a[2] == b[2] and a[1] and b[1]
        ]
        repeats = len(facts.firsts) - 1 - sum(1 for a, b in zip(facts.firsts, facts.firsts[1:], strict=False) if a[0] != b[0])
        changed = [(a, b) for a, b in pairs if sum(x != y for x, y in zip(a[1], b[1], strict=False)) >= 0.2 * len(a[1])]
        if not changed or len(changed) < 0.5 * len(pairs) or repeats > len(pairs):
            continue
        first, second = changed[-1]
        rows = sum(x != y for x, y in zip(first[1], second[1], strict=False))
        yield Finding(
            "augmented-validation",
            f"The same {len(first[1])} evaluation samples were read twice and {rows} of them differed: "
            + _source(bool(shared), bool(collated), loader.dataset)
            + f" is applied to them too ({len(changed)} of {len(pairs)} passes).",
            evidence={"samples": len(first[1]), "changed": rows, "passes": len(pairs) + 1, "dataset": loader.dataset},
            where=loader.site,
            since_step=loader.first_step,
            severity=None if shared else "warning",  # two datasets of one class: noise may be what it is about
            fix="" if shared or collated else "# no random transform in the dataset that is evaluated on",
        )
    yield from _changed_by_hand(trace)


def _source(shared: bool, collated: bool, dataset: str) -> str:
    if shared:
        return "the random transform of the training data"
    return "what the collate function draws for training" if collated else f"what {dataset} draws for training"


def _changed_by_hand(trace: Trace) -> Iterator[Finding]:
    """Without loaders: evaluation samples that are other ones each time, and still changed copies of the same."""
    overlaps = trace.part(Overlaps)
    for reread in trace.part(Rereads).all.values():
        if not trace.ended or reread.same or reread.compared < 3 or reread.compared < reread.pairs:
            continue
        again = overlaps.again.get(reread.shapes, 1.0) if reread.again is None else reread.again
        if not trace.is_below(again, 0.4):
            continue  # training reads the same in every epoch: it is not the transform of the training
        strength = reread.likeness / reread.compared**0.5
        if not trace.exceeds(strength, 5.0):
            continue
        yield Finding(
            "augmented-validation",
            f"{reread.samples} evaluation samples were read {reread.compared + 1} times, with the same class numbers and other "
            f"values each time, and are changed copies of each other ({strength:.0f} standard errors).",
            evidence={"samples": reread.samples, "readings": reread.compared + 1, "standard_errors": round(strength, 1)},
            where=reread.site,
            since_step=reread.first_step,
            severity="hint" if reread.in_place >= 0.3 * reread.compared else "warning",  # noise may be what it is about
        )
