"""Evaluator: looks at the models of a run, the raw weights and their averages, and gives numbers by name.

How one pass over a data set goes is in `evaluate`; here is what is looked at: each objective, in the modes that optimizers want
for it, with batch norm statistics that fit the averaged weights.
"""

import contextlib
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

import torch
from torch import nn

from instep import keys
from instep.data.device import is_out_of_memory, said
from instep.data.feed import Feed
from instep.data.inputs import call_model
from instep.data.loading.loader import Batch, Loader, sent_batch
from instep.data.position import Position
from instep.data.sources.stream import Stream
from instep.distributed.processes import Processes
from instep.errors import DescriptionError, ObjectiveError, OutOfMemory
from instep.loop.evaluate import checked_loss, evaluate, evaluating, predict, try_metrics
from instep.loop.first_batch import FEW, can_be_tried, find_mistake
from instep.loop.first_loss import checking_values
from instep.loop.holders import Holders
from instep.loop.left_as_found import LeftAsFound
from instep.loop.metrics import metric as measuring
from instep.loop.metrics.metric import Metric, Table
from instep.loop.objective import Loss, Objective
from instep.loop.out_of_memory import Splitting
from instep.loop.precision import Precision
from instep.optim.average import Average
from instep.optim.averages import Averages
from instep.optim.train_eval import Modes
from instep.optim.which_weights import Weights
from instep.records import SampleLoss

Seen = TypeVar("Seen")

MOST_BATCHES = 32  # of training data, to take statistics of


class Evaluator:
    """Evaluates and predicts; leaves model, losses, averages and generators as they were."""

    def __init__(
        self,
        holders: Holders,
        precision: Precision,
        objectives: Mapping[str, Objective],
        metrics: Mapping[str, Metric],
        *,
        modes: Modes,
        averages: Averages,
        feed: Feed,
        splitting: Splitting,
        seed: int,
        device: torch.device,
        processes: Processes,
    ) -> None:
        self._model = holders.model
        self._beside = holders.beside
        self._found = LeftAsFound((*holders.modules, *averages.modules()), holders.objects)
        self._precision = precision
        self._objectives = {name: precision.wrap(objective) for name, objective in objectives.items()}
        self.metrics = metrics
        self._modes = modes
        self._averages = averages
        self._feed = feed
        plan = splitting.micro_batches.plan
        self._size = max(plan.pieces(min(plan.batch_size, plan.samples)))  # batches as large as the largest micro-batch
        self._splitting = splitting
        self._seed = seed
        self._device = device
        self._processes = processes

    @property
    def parts(self) -> list[str]:
        """What an evaluation says of each data set: "loss", "accuracy", "d/loss", "ema/loss"."""
        own = [f"{name}/{part}".removeprefix("/") for name in self._objectives for part in ("loss", *self.metrics)]
        return [*own, *(f"{kind}/{part}" for kind in self._averages.by_name() for part in own)]

    def loader(self, data: Any, *, target_needed: bool = True, name: str = "data") -> Loader:
        """Data that somebody passed, to look at in its own order; predictions need no target."""
        return self._feed.loader_for(
            data, batch_size=self._size, device=self._device, share=self._processes.dealt, target_needed=target_needed, name=name
        )

    def loaders(self, data: Any) -> dict[str, Loader]:
        """Data that somebody passed for an evaluation: `"test"` for what the run keeps as test data, sets by name, or one set."""
        if isinstance(data, str) and data == "test":
            found = self._feed.test_loaders(batch_size=self._size, device=self._device, share=self._processes.dealt)
            if not found:
                raise DescriptionError("there is no test data; pass test= to the Trainer, or data to evaluate().")
            return found
        if isinstance(data, str) and data in ("train", "valid"):
            way = "use evaluate() for the validation data" if data == "valid" else "pass the training data itself, like (x, y)"
            raise DescriptionError(f"evaluate({data!r}) is not known; {way}.")
        return {name: self.loader(part, name=name) for name, part in self._feed.by_name(data).items()}

    def valid_loaders(self, feed: Feed | None = None) -> dict[str, Loader]:
        """The validation data, by the names of its sets; that of another feed for a look at it."""
        return (feed or self._feed).valid_loaders(batch_size=self._size, device=self._device, share=self._processes.dealt)

    def numbers(
        self, loaders: Mapping[str, Loader], weights: Weights | None = None, *, report: bool = False
    ) -> dict[str, float | Table]:
        """All numbers and tables of all data sets, for these weights; None for those of the model and of their averages.

        With `report` also a confusion matrix where a model classifies.
        """
        kinds: list[Weights] = ["model", *self._averages.by_name()]
        found: dict[str, float | Table] = {}
        own: dict[str, float | Table] = {}  # the model's
        with self._precision.algorithms(), self._share_buffers():
            for kind in kinds if weights is None else [weights]:
                if weights is None and kind != "model" and not self._averages.have_begun(kind):
                    found |= {_of_kind(number, kind, loaders): value for number, value in own.items()}
                    continue
                with self._using(kind) as (model, called):
                    for name, loader in loaders.items():
                        prefix = f"{name}/" if kind == "model" else f"{name}/{kind}/"
                        found |= self._of_one(prefix, loader, model, called, report)
                own = own or dict(found)
        return self._processes.world.broadcast_object(found)

    def looking(self, kind: str) -> AbstractContextManager[None]:
        """Around a look of this kind at the run's modules and objectives, which leaves them as they were."""
        return self._found.looking(kind)

    def try_first_batches(self) -> None:
        """Send a few samples of each validation and test set through model, loss and metrics, and leave no trace.

        Raises what is provably wrong with them. Streams are left alone: reading one would use it up.
        """
        if isinstance(self._feed.train, Stream) or not can_be_tried(*self._splitting.modules):
            return
        on_device: Any = {"device": self._device}
        makers = (
            (functools.partial(self._feed.valid_loaders, workers=0, **on_device), self._feed.valid),
            (functools.partial(self._feed.test_loaders, **on_device), self._feed.test),
        )
        sets = [(make, name) for make, named in makers for name, data in named.items() if not isinstance(data, Stream)]
        found, modes = self._found.looking("first batches"), evaluating(self._model, *self._beside)
        with self._precision.algorithms(), keys.fork_rng(self._device), modes, found:
            mistakes = [self._find_mistake(make, name) for make, name in sets]
        measuring.start(self.metrics, self._device)
        for mistake in filter(None, mistakes):
            raise mistake from mistake.__cause__

    def _find_mistake(self, make: Callable[..., dict[str, Loader]], name: str) -> ObjectiveError | None:
        objective = checking_values(next(iter(self._objectives.values())))
        loader, whole = make(batch_size=FEW)[name], make(batch_size=self._size)[name]

        def compute(batch: Batch) -> Loss:
            first = int(batch.indices[0])
            keys.seed_all(keys.for_evaluation(self._seed, first), self._device)
            return checked_loss(objective, self._model, self._model, batch.data, loader, first, batch.samples)

        def measure(batch: Batch) -> None:
            measuring.start(self.metrics, self._device)
            loss = compute(batch)
            if self.metrics:
                try_metrics(self.metrics, loss, loader)

        with contextlib.closing(loader), contextlib.closing(whole):
            mistake = find_mistake(
                functools.partial(_first_batch, loader, FEW),
                functools.partial(_first_batch, whole, self._size),
                self._training_batch,
                compute,
                measure,
            )
        return mistake if mistake is None else _named(mistake, name, loader)

    def _training_batch(self) -> Batch:
        """A batch of training data in the data's own order: samplers of users' own are not asked."""
        source, transform = self._feed.train, self._feed.transforms[1]
        assert not isinstance(source, Stream)
        indices = torch.arange(min(self._size, len(source)))
        data = sent_batch(source.fetch(indices, Position(self._seed, 0, 0)), self._device)
        return Batch(data if transform is None else transform(data), 0, 0, len(indices), indices)

    def averaged_state(self, weights: Weights) -> dict[str, Any]:
        """Averaged weights as the evaluations use them, by the model's own names; copied."""
        with self._precision.algorithms(), self._share_buffers(), self._using(weights) as (module, _):
            return {name: value.clone() for name, value in module.state_dict().items()}

    def largest_losses(self, loaders: Mapping[str, Loader], weights: Weights, count: int, most: int) -> list[SampleLoss]:
        """The samples of these data sets with the largest losses, by the first objective; of each set among the first `most`."""
        from instep.loop.worst import largest_losses  # nobody who trains asks for them

        objective = next(iter(self._objectives.values()))
        with self._precision.algorithms(), self._share_buffers(), self._using(weights) as (model, called):
            look = functools.partial(
                largest_losses,
                model,
                objective=objective,
                seed=self._seed,
                device=self._device,
                called=called,
                count=count,
                most=most,
            )
            found = [one for loader in loaders.values() for one in look(loader)]
        return sorted(found, key=lambda one: -one.loss if math.isfinite(one.loss) else -math.inf)[:count]

    def predict(self, loader: Loader, weights: Weights = "model") -> Any:
        """The outputs of the model with these weights; of several processes on rank 0 alone, None on the others."""
        if type(self._model) is nn.ModuleDict:
            raise DescriptionError(
                "predict() does not know which of several models is meant; call the one you want: trainer.model['…']."
            )
        with self._precision.algorithms(), self._share_buffers(), self._using(weights) as (model, called):
            call = self._precision.wrap(lambda _, batch: call_model(called, self._feed.inputs_of(batch)))
            look = functools.partial(
                predict,
                model,
                loader,
                seed=self._seed,
                device=self._device,
                call=call,
                world=self._processes.world,
                in_step=self._processes.are_sharded,
            )
            return self._splitting.look(loader.batch_size, functools.partial(self._leave_as_found, ("predict", weights), look))

    def _leave_as_found(self, kind: Hashable, look: Callable[..., Seen], *, largest: int | None) -> Seen:
        """Each look, also one that is made again, begins where the one before it began."""
        with self._found.looking(kind):
            return look(largest=largest)

    def _share_buffers(self) -> AbstractContextManager[None]:
        return self._processes.share_buffers(self._model, *self._beside, *self._averages.modules())

    def _of_one(self, prefix: str, loader: Loader, model: nn.Module, called: nn.Module, report: bool) -> dict[str, float | Table]:
        several = len(self._objectives) > 1
        found: dict[str, float | Table] = {}
        for name, objective in self._objectives.items():
            look = functools.partial(
                evaluate,
                model,
                loader,
                objective,
                self.metrics,
                seed=self._seed,
                device=self._device,
                called=called,
                output_needed=not several,
                report=report,
                world=self._processes.world,
                in_step=self._processes.are_sharded,
                beside=self._beside,
            )
            left = functools.partial(self._leave_as_found, ("numbers", name, model is self._model), look)
            try:
                numbers = self._splitting.look(loader.batch_size, left)
            except ObjectiveError as error:
                raise _named(error, prefix.partition("/")[0], loader) from error.__cause__
            found |= {f"{prefix}{name}/{part}" if several else f"{prefix}{part}": value for part, value in numbers.items()}
        if several and self.metrics and not any(_is_of_a_metric(name, self.metrics) for name in found):
            raise ObjectiveError(
                "metrics need what a model gave, and no objective tells it; return Loss(value, count, output, target) from one."
            )
        return found

    @contextmanager
    def _using(self, weights: Weights) -> Iterator[tuple[nn.Module, nn.Module]]:
        """The model with these weights, ready to be looked at, and the form of it that is called."""
        if not self._averages.have_begun(weights):
            with self._modes.evaluating():
                yield self._model, self._precision.model
            return
        with self._averaged(self._averages.by_name()[weights]) as module:
            yield module, module

    @contextmanager
    def _averaged(self, average: Average) -> Iterator[nn.Module]:
        """The averaged model; its batch norm statistics are taken anew where those that were averaged do not fit."""
        if average.has_own_statistics or isinstance(self._feed.train, Stream):  # a stream is read once
            yield average.module
            return
        found, modes = self._found.looking("statistics"), evaluating(*self._beside)
        with found, modes, average.recomputed(self._training_batches(), self._run_once) as module:
            yield module

    def _training_batches(self) -> Iterator[Any]:
        """The same ones every time, as training gets them, none smaller than the others."""
        loader = self._feed.train_loader(batch_size=self._size, device=self._device, drop_last=True, workers=0)
        with keys.fork_rng(self._device):
            for batch in itertools.islice(loader.batches(epoch=0), MOST_BATCHES):
                keys.seed_all(keys.for_evaluation(self._seed, batch.index), self._device)
                yield batch.data

    def _run_once(self, module: nn.Module, batch: Any) -> None:
        try:
            for objective in self._objectives.values():
                objective(module, batch)
        except (RuntimeError, MemoryError) as error:
            if not is_out_of_memory(error):
                raise
            raise OutOfMemory(
                f"a batch of {self._size} samples does not fit in memory while batch norm statistics are taken for the averaged "
                f"weights, and smaller ones would give others; use a smaller micro_batch_size. ({said(error)})"
            ) from error


def _of_kind(number: str, kind: Weights, sets: Iterable[str]) -> str:
    """ "valid/loss" as "valid/swa/loss"; a set's name may have a "/" in it."""
    own = max((name for name in sets if number.startswith(f"{name}/")), key=len)
    return f"{own}/{kind}/{number[len(own) + 1 :]}"


def _first_batch(loader: Loader, most: int) -> Batch:
    batch = next(iter(loader.batches(epoch=0)))
    return batch if batch.samples <= most else batch._replace(data=loader.layout.piece(batch.data, 0, most), samples=most)


def _named(error: ObjectiveError, name: str, loader: Loader) -> ObjectiveError:
    """The same error with the name of the set, where that is a share of the training data, whose samples have its name."""
    if loader.name != "train" or not str(error).startswith("train: "):
        return error
    named = ObjectiveError(f"{name}{str(error).removeprefix('train')}")
    named.__cause__ = error.__cause__
    return named


def _is_of_a_metric(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Whether "valid/d/f1/0" is a number of the metric f1."""
    return any(part in metrics for part in name.split("/"))
