"""Rows: which samples come in which order, from the loaders and into the models.

A row is known by a number computed from its values. Rows are looked at in the first passes only, up to a limit.
"""

import weakref
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader

from instep.doctor.hub import Hub
from instep.doctor.identities import Identities
from instep.doctor.label_entropy import entropy, expected_entropy
from instep.doctor.loader_rows import base_of, indices, labels_of
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class, record_class
from instep.doctor.row_keys import ROWS, Order, class_numbers, glimpse, is_rich, is_telling, row_keys, telling_rows
from instep.doctor.trace import Trace
from instep.doctor.watch.backwards import Backwards
from instep.doctor.watch.calls import Call
from instep.doctor.watch.loaders import Loaders, Pass, first_tensor, tensors
from instep.doctor.watch.losses import LossKind
from instep.doctor.watch.phases import Phases

FIRST_BATCHES = 32  # passes of which the first batch is compared
SAME = 32  # training calls of a phase that are compared with the one before
CALLS = 128  # training calls whose rows are looked at, one after the other
CHOSEN = 2**40  # seeds below are those of people; torch draws one of 64 bits where nobody sets any
SPARSE, LATEST = 8, 600  # after those every so many, up to the last: samples that come again in the second epoch
PEEKS = 3  # passes of one batch before the one that is counted
TARGETS = 96  # losses whose targets are looked at
BATCHES = 1024  # losses without a loader whose batches are known again
BINARY = ("binary_cross_entropy", "binary_cross_entropy_with_logits")


@dataclass
class LoaderRows:
    """What is known of the samples of one loader."""

    number: int
    base: int = 0  # equal for the same dataset object
    transform: int = 0  # equal for the same transform object
    indices: frozenset[int] | None = None  # which samples of it, where that is known
    rows: Counter[float] = field(default_factory=Counter)  # of one pass
    whole: bool = True  # that pass was looked at from its first to its last batch
    done: bool = False  # and has ended
    pairs: bool = False  # samples hold two tensors of one shape: views, or a noisy and a clean one
    exact: bool = False  # rows are made of more than a few whole numbers
    again: bool = False  # the sampler draws with replacement: rows come again by themselves
    kind: str = ""  # class of the dataset, where it is the user's own
    told: bool = False  # rows are exact, or many whole numbers: equal ones are hardly there by chance
    collate: int = 0  # equal for the same function of the user's that makes batches
    composed: bool = False  # a batch sampler of the user's own puts batches together
    # first batches of passes: (steps at the time, rows, targets)
    firsts: list[tuple[int, list[float], list[float]]] = field(default_factory=list)
    label_counts: Counter[int] = field(default_factory=Counter)
    inside: float = 0.0  # sum over batches of the entropy of their labels
    label_batches: int = 0
    follows: set[int] = field(default_factory=set)  # loaders that were trained on last when a pass of this one began
    singles: int = 0  # passes that were begun anew after one batch
    counted: int = 1  # the pass that `rows` and labels are of: the first, unless that was only a look at one batch

    def count_again(self, number: int) -> None:
        """Count the rows and labels of that pass, and forget what was counted before."""
        self.counted, self.whole = number, True
        self.rows.clear()
        self.label_counts.clear()
        self.inside, self.label_batches = 0.0, 0


@dataclass
class Round:
    """Batches without a loader that come again one after the other, as they came before."""

    followed: int = 0  # batches that came after the same one as before
    departed: int = 0  # batches that came after another one than before
    batches: int = 0  # that were seen until the first one came again
    inside: float = 0.0  # mean entropy of the class numbers of one of those
    whole: float = 0.0  # that of all of them
    expected: float = 0.0  # mean entropy of one of them, were they shuffled


@record_class
class Draw:
    """Random indices that one line draws."""

    choices: int  # to draw from
    values: int  # known by a number
    step: int
    same: int = 0  # steps in a row that drew what the step before had drawn


@part_class
class Rows:
    """The part of the trace about samples."""

    loaders: dict[int, LoaderRows] = field(default_factory=dict)
    # of a script without loaders
    signatures: list[int] = field(default_factory=list)  # of the class numbers of each training loss
    target_site: str | None = None
    target_counts: Counter[int] = field(default_factory=Counter)
    target_inside: float = 0.0
    target_batches: int = 0
    round: Round = field(default_factory=Round)
    draws: dict[str | None, Draw] = field(default_factory=dict)
    same_rows: int = 0  # in each of those calls
    same_inputs: int = 0  # training calls in a row that got a new tensor with the same rows
    same_site: str | None = None
    seeds: int = 0  # calls of torch.manual_seed
    seeds_in_training: int = 0  # of those after the first step, with the value of the one before
    # root -> pairs of rows that came together twice, in either order: samples, not steps of a sequence
    mixed: dict[int, int] = field(default_factory=dict)
    # root -> training calls after which all rows came again, none before: an epoch
    epochs: dict[int, int] = field(default_factory=dict)
    # root -> of the rows that it was called with in train mode without gradient: how many are known, and how many it trained on
    looked_at: dict[int, tuple[int, int]] = field(default_factory=dict)
    # root -> of those that it had not been trained on until then: how many there are, and how many it was trained on since
    learnt_later: dict[int, tuple[int, int]] = field(default_factory=dict)
    seed_at_start: int = 0
    seeded: bool = False


class RowWatch:
    """Fills `Rows`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._trace, self._hub = trace, hub
        self._part, self._loaders, self._backwards = trace.part(Rows), trace.part(Loaders), trace.part(Backwards)
        self._phases, self._phase = trace.part(Phases), 0
        self._begun = 0  # training calls before this phase
        self._last: list[float] = []
        self._last_input: weakref.ref[Tensor] | None = None
        self._given: tuple[float, ...] = ()  # how many rows the last training call got, and a few numbers of them
        self._is_led = False  # whether it got more, perhaps the state of a stream, which has to be read in order
        self._batches: list[Counter[int]] = []  # the class numbers of each, where there is no loader
        self._numbers: dict[int, int] = {}  # batch -> when it came first
        self._next: dict[int, int] = {}  # batch -> the one that came after it
        self._before: int | None = None  # the batch that came last
        self._orders: dict[int, Order] = {}
        self._calls = 0
        self._seed: Any = None
        self._current: dict[int, Pass] = {}
        self._identities = Identities()
        self._looked_at: dict[int, set[float]] = {}
        self._fresh: dict[int, set[float]] = {}

    def install(self, _: list[object]) -> None:
        self._part.seed_at_start = torch.initial_seed()
        self._part.seeded = self._part.seed_at_start < CHOSEN  # before the doctor came, as in an earlier cell of a notebook

    def on_judge(self) -> None:
        for number, keys in self._looked_at.items():
            order = self._orders.get(number)
            self._part.looked_at[number] = len(keys), sum(key in order.places for key in keys) if order is not None else 0
            fresh = self._fresh.get(number, set())
            self._part.learnt_later[number] = len(fresh), sum(key in order.places for key in fresh) if order is not None else 0
        self._part.seeded = self._part.seeded or self._part.seeds > 0 or torch.initial_seed() != self._part.seed_at_start

    def order(self, root: int) -> Order | None:
        """Where the rows stood that a root was trained on; None where some were not looked at."""
        return self._orders.get(root) if self._calls <= CALLS else None

    def seen(self, root: int) -> Order | None:
        """The same, of those that were looked at."""
        return self._orders.get(root)

    def before_seed(self, called: Called) -> None:
        value = called.argument(0, "seed")
        self._part.seeds += 1
        if self._trace.steps and value == self._seed:
            self._part.seeds_in_training += 1
        self._seed = value

    def on_wake(self) -> None:
        self._before = None

    def after_draw(self, called: Called) -> None:
        """Random indices, drawn during training."""
        drawn = called.result
        if (
            not self._trace.steps
            or self._loaders.is_training()
            or not isinstance(drawn, Tensor)
            or drawn.dim() != 1
            or len(drawn) < 4
        ):
            return
        choices = len(drawn) if called.function == "randperm" else _span(called)
        if drawn.device.type == "cpu" and choices:
            self._note_draw(called.site, choices, hash(tuple(drawn[:64].tolist())))

    def after_pick(self, called: Called) -> None:
        """The same by Python's `random.Random(seed).sample(population, k)`."""
        population, picked = called.argument(1, "population"), called.result
        if not self._trace.steps or self._loaders.is_training() or not isinstance(population, (range, list)) or len(picked) < 4:
            return
        if all(isinstance(each, int) for each in picked[:64]):
            self._note_draw(called.site, len(population), hash(tuple(picked[:64])))

    def _note_draw(self, site: str | None, choices: int, values: int) -> None:
        draws, step = self._part.draws, self._trace.steps
        known = draws.get(site)
        if known is None:
            if len(draws) < 64:
                draws[site] = Draw(choices, values, step)
            return
        if (values, choices) != (known.values, known.choices):
            known.same = 0
        else:
            known.same += step > known.step
        known.values, known.choices, known.step = values, choices, step

    # -- what loaders give

    def on_pass_begins(self, begun: Pass, dataloader: DataLoader[Any]) -> None:
        number = begun.loader.number
        facts = self._part.loaders.get(number)
        if facts is None:
            if len(self._part.loaders) >= 64:
                return
            facts = self._part.loaders[number] = LoaderRows(number)
            base = base_of(dataloader.dataset)
            facts.base, facts.indices = self._identities.number(base, dataloader), indices(dataloader)
            facts.again = bool(getattr(getattr(dataloader.batch_sampler, "sampler", dataloader.sampler), "replacement", False))
            module = type(base).__module__
            facts.kind = "" if module.startswith("torch.") else f"{module}.{type(base).__qualname__}"
            given = [getattr(base, name, None) for name in ("transform", "transforms")]
            transform = next((each for each in given if each is not None), None)
            facts.transform = self._identities.number(transform, dataloader) if transform is not None else 0
            collate = dataloader.collate_fn
            if not str(getattr(collate, "__module__", None) or type(collate).__module__).startswith("torch."):
                facts.collate = self._identities.number(collate, dataloader)
            facts.composed = dataloader.batch_sampler is not None and type(dataloader.batch_sampler) is not BatchSampler
        trained = self._backwards.current.loader if self._backwards.current is not None else None
        if trained is not None:
            facts.follows.add(trained)
        before = self._current.get(number)
        if before is not None and before.batches == 1:
            facts.singles += 1
            if not facts.done and facts.counted == before.number <= PEEKS:
                facts.count_again(begun.number)
        self._current[number] = begun

    def on_batch(self, going_on: Pass, batch: Any) -> None:
        facts = self._part.loaders.get(going_on.loader.number)
        if facts is None:
            return
        first = going_on.batches == 1 and len(facts.firsts) < FIRST_BATCHES
        counting = going_on.number == facts.counted and len(facts.rows) < ROWS
        if not first and not counting:
            if going_on.number == facts.counted:
                facts.whole = False
            return
        found = tensors(batch)
        if not found or not found[0].dim():
            return
        keys = row_keys(found[0])
        labels = labels_of(found)
        if first:
            rest = found[-1] if len(found) > 1 else None
            facts.firsts.append((going_on.begun_step, keys, row_keys(rest) if rest is not None else []))
        if counting:
            facts.pairs = facts.pairs or (len(found) > 1 and found[0].dim() > 1 and found[0].shape == found[1].shape)
            facts.exact = facts.exact or is_rich(found[0])
            facts.told = facts.told or facts.exact or is_telling(found[0])
            facts.rows.update(keys)
            if labels is not None:
                self._note_labels(facts, labels)
            facts.done = facts.done or going_on.batches == going_on.loader.length  # who counts batches need not ask for more

    def on_pass_ends(self, going_on: Pass) -> None:
        facts = self._part.loaders.get(going_on.loader.number)
        if facts is not None and going_on.number == facts.counted:
            facts.done = True

    def _note_labels(self, facts: LoaderRows, labels: Tensor) -> None:
        counts = Counter(int(value) for value in labels.tolist())
        if len(facts.label_counts) > 512:
            return
        facts.label_counts.update(counts)
        facts.inside += entropy(counts)
        facts.label_batches += 1

    # -- what models and losses get

    def after_call(self, call: Call) -> None:
        if call.training and not call.grad and call.root.trained:
            self._note_looked_at(call)
        if not call.grad or not call.training or not call.root.parameters:
            return
        if self._calls >= LATEST and (self._loaders.is_training() or len(self._batches) >= BATCHES):
            return
        input = first_tensor(call.args) if call.args else first_tensor(call.kwargs)
        if input is None or input.dim() < 2 or not 2 <= len(input) <= 4096:
            return
        self._given = () if self._loaders.is_training() else glimpse(input)
        self._is_led = len(tensors((call.args, call.kwargs))) > 1
        if self._calls >= LATEST:
            return
        self._calls += 1
        if self._phase != self._phases.number:
            self._phase, self._begun, self._last = self._phases.number, self._calls - 1, []
        compared = self._calls - self._begun <= SAME
        if self._calls > CALLS and self._calls % SPARSE and not compared:
            return
        keys = row_keys(input)
        if not keys:
            return
        if compared:
            self._note_same(call, input, keys)
        number = call.root.number
        order = self._orders.setdefault(number, Order())
        if self._calls > CALLS:
            order.is_new = False  # some calls are not looked at
        self._part.mixed[number] = order.add(input, keys)
        if order.epoch:
            self._part.epochs[number] = order.epoch

    def _note_looked_at(self, call: Call) -> None:
        input = first_tensor(call.args) if call.args else first_tensor(call.kwargs)
        keys = self._looked_at.setdefault(call.root.number, set())
        if input is not None and input.dim() >= 2 and len(keys) < 1024:
            new = [key for key, told in zip(row_keys(input), telling_rows(input), strict=False) if told and key not in keys]
            order = self._orders.get(call.root.number)
            keys.update(new)
            self._fresh.setdefault(call.root.number, set()).update(key for key in new if order is None or key not in order.places)

    def _note_same(self, call: Call, input: Tensor, keys: list[float]) -> None:
        part = self._part
        fresh = self._last_input is None or self._last_input() is not input
        part.same_inputs = part.same_inputs + 1 if keys == self._last and fresh else 0
        part.same_site, part.same_rows = call.site, len(keys)
        self._last, self._last_input = keys, weakref.ref(input)

    def on_loss(self, kind: LossKind, _: Called, input: Tensor, target: Any) -> None:
        part = self._part
        if len(self._batches) >= BATCHES or not input.requires_grad or self._loaders.is_training():
            return
        if not isinstance(target, Tensor) or target.dim() not in (1, 2) or not 4 <= len(target) <= 4096:
            return
        binary = target.is_floating_point() or target.dim() == 2
        if binary and (kind.function not in BINARY or self._is_led):
            return
        classes = class_numbers(target)
        if classes is None:
            return
        values = classes.tolist()
        counts: Counter[int] = Counter(values)
        self._note_round(values, counts)
        if binary:
            # Of these only rounds of the same samples count: those of a critic, all real and all generated, come in turns.
            part.target_site = part.target_site or kind.site
            return
        if len(part.signatures) >= TARGETS:
            return
        part.signatures.append(hash(tuple(values)))
        part.target_site = kind.site
        part.target_counts.update(counts)
        part.target_inside += entropy(counts)
        part.target_batches += 1

    def _note_round(self, values: list[int], counts: "Counter[int]") -> None:
        """Whether this batch, by its class numbers and a few numbers of its input, came after the same one before."""
        if not self._given or self._given[0] != len(values):
            return
        key = hash((*values, *self._given))
        found, before = self._part.round, self._before
        self._before = key
        if before is not None:
            expected = self._next.setdefault(before, key)
            if key in self._numbers:
                found.followed += expected == key
                found.departed += expected != key
        if key not in self._numbers:
            self._numbers[key] = len(self._batches)
        elif not found.batches:
            passed = self._batches[self._numbers[key] :]
            together = sum(passed, Counter())
            found.batches, found.whole = len(passed), entropy(together)
            found.expected = sum(expected_entropy(together, each.total()) for each in passed) / len(passed)
            found.inside = sum(map(entropy, passed)) / len(passed)
        self._batches.append(counts)


def _span(called: Called) -> int:
    """How many numbers `randint(high, size)` or `randint(low, high, size)` draws from; 0 where that is not plain."""
    numbers = [value for value in called.args if isinstance(value, int)]
    low, high = numbers if len(numbers) == 2 else (0, *numbers) if len(numbers) == 1 else (0, 0)
    return int(called.kwargs.get("high", high)) - int(called.kwargs.get("low", low))


PATCHES = [
    Patch("seed", ("torch:manual_seed", "torch.random:manual_seed"), always=True),
    Patch("draw", ("torch:randperm", "torch:randint")),
    Patch("pick", ("random:Random.sample", "random:Random.choices")),
]
OBSERVERS = [RowWatch]
