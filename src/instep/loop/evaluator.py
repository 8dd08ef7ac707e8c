"""The examiner: looks at the models of a run, the raw weights and their average, and gives numbers by name.

How one pass over a data set goes is in `evaluate`; here is what is looked at: each objective, in the modes that optimizers want
for it, with batch norm statistics that fit the averaged weights.
"""

import functools
import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar

import torch
from torch import nn

from instep import keys
from instep.data.feed import Feed
from instep.data.loading.loader import Loader
from instep.data.memory import clean_up, is_out_of_memory, said
from instep.data.share import Dealt
from instep.data.sources.stream import Stream
from instep.distributed.spread import Spread
from instep.distributed.state import buffers_of_first
from instep.distributed.world import World
from instep.errors import DescriptionError, ObjectiveError, OutOfMemory
from instep.loop.batch_plan import Sizes
from instep.loop.evaluate import evaluate, forward, predict
from instep.loop.metrics import Metric, Table
from instep.loop.objective import Objective
from instep.loop.out_of_memory import Overflow
from instep.loop.precision import Computing
from instep.optim.average import Average
from instep.optim.train_eval import Modes

Seen = TypeVar("Seen")

MOST_BATCHES = 32  # of training data, to take statistics of
FADED = 0.01  # the share of the first weights in an average from which on its own statistics fit


class Examiner:
    """Evaluates and predicts; leaves model, average and generators as they were."""

    def __init__(
        self,
        model: nn.Module,
        computing: Computing,
        objectives: Mapping[str, Objective],
        metrics: Mapping[str, Metric],
        *,
        modes: Modes,
        average: Average | None,
        feed: Feed,
        sizes: Sizes,
        overflow: Overflow,
        seed: int,
        device: torch.device,
        spread: Spread | None = None,
    ) -> None:
        self._model = model
        self._computing = computing
        self._objectives = {name: computing.around(objective) for name, objective in objectives.items()}
        self._metrics = metrics
        self._modes = modes
        self._average = average
        self._feed = feed
        self._size = max(sizes.pieces(min(sizes.batch_size, sizes.samples)))  # batches as large as the largest micro-batch
        self._overflow = overflow
        self.largest: int | None = None  # how many samples go through the model at once, where more did not fit in memory
        self._seed = seed
        self._device = device
        self._spread = spread

    @property
    def parts(self) -> list[str]:
        """What an evaluation says of each data set: "loss", "accuracy", "d/loss", "ema/loss"."""
        own = [f"{name}/{part}".removeprefix("/") for name in self._objectives for part in ("loss", *self._metrics)]
        return own if self._average is None else [*own, *(f"ema/{part}" for part in own)]

    def loader(self, data: Any) -> Loader:
        """Data that somebody passed, to look at in its own order."""
        return self._feed.loader_for(data, batch_size=self._size, device=self._device, share=self._dealt)

    def loaders(self, data: Any) -> dict[str, Loader]:
        """Data that somebody passed, by the names of its sets; "data" where it is one."""
        return {name: self.loader(one) for name, one in self._feed.sets(data).items()}

    def valid_loaders(self) -> dict[str, Loader]:
        """The validation data, by the names of its sets."""
        return self._feed.valid_loaders(batch_size=self._size, device=self._device, share=self._dealt)

    def numbers(self, loaders: Mapping[str, Loader], *, report: bool = False) -> dict[str, float | Table]:
        """All numbers and tables of all data sets; with `report` also a confusion matrix where a model classifies."""
        found: dict[str, float | Table] = {}
        with self._computing.algorithms(), self._one_model():
            with self._modes.evaluating():
                for name, loader in loaders.items():
                    found |= self._of_one(f"{name}/", loader, self._model, self._computing.model, report)
            if self._average is not None:
                with self._averaged(self._average) as module:
                    for name, loader in loaders.items():
                        found |= self._of_one(f"{name}/ema/", loader, module, module, report)
        return found if self._spread is None else self._spread.world.of_first(found)

    def predict(self, loader: Loader) -> Any:
        """The outputs of the raw weights; where there are several processes on rank 0 alone, None on the others."""
        if type(self._model) is nn.ModuleDict:
            raise DescriptionError(
                "predict() does not know which of several models is meant; call the one you want: trainer.model['…']."
            )
        with self._computing.algorithms(), self._modes.evaluating(), self._one_model():
            call = self._computing.around(lambda _, batch: forward(self._computing.model, batch))
            look = functools.partial(
                predict,
                self._model,
                loader,
                seed=self._seed,
                device=self._device,
                call=call,
                world=self._world,
                in_step=self._in_step,
            )
            return self._fitting(loader, look)

    def _fitting(self, loader: Loader, look: Callable[..., Seen]) -> Seen:
        """What `look` gives with no more samples at once than fit in memory. It begins again from the start: sums are exact."""
        while True:
            try:
                return look(largest=self.largest)
            except (RuntimeError, MemoryError) as error:
                self.largest = self._overflow.finer_look(error, self.largest or loader.batch_size)
            clean_up(self._device)  # here, where the error with its frames and all they hold is gone

    @property
    def _world(self) -> World | None:
        return None if self._spread is None else self._spread.world

    @property
    def _in_step(self) -> bool:
        return self._spread is not None and self._spread.is_sharded

    @property
    def _dealt(self) -> Dealt | None:
        return None if self._spread is None else self._spread.dealt

    def _one_model(self) -> AbstractContextManager[None]:
        """All processes look at one model: buffers such as batch norm's statistics are their own while they train."""
        averaged = [] if self._average is None else [self._average.module]
        return nullcontext() if self._spread is None else buffers_of_first(self._model, *averaged)

    def _of_one(self, prefix: str, loader: Loader, model: nn.Module, called: nn.Module, report: bool) -> dict[str, float | Table]:
        several = len(self._objectives) > 1
        found: dict[str, float | Table] = {}
        for name, objective in self._objectives.items():
            look = functools.partial(
                evaluate,
                model,
                loader,
                objective,
                self._metrics,
                seed=self._seed,
                device=self._device,
                called=called,
                output_needed=not several,
                report=report,
                world=self._world,
                in_step=self._in_step,
            )
            numbers = self._fitting(loader, look)
            found |= {f"{prefix}{name}/{part}" if several else f"{prefix}{part}": value for part, value in numbers.items()}
        if several and self._metrics and not any(_is_of_a_metric(name, self._metrics) for name in found):
            raise ObjectiveError(
                "metrics need what a model gave, and no objective tells it; return Loss(value, count, output, target) from one."
            )
        return found

    @contextmanager
    def _averaged(self, average: Average) -> Iterator[nn.Module]:
        """The averaged model; its batch norm statistics are taken anew while the first weights still count."""
        if average.decay**average.count < FADED or isinstance(self._feed.train, Stream):  # a stream is read once
            yield average.module
            return
        with average.recomputed(self._training_batches(), self._run_once) as module:
            yield module

    def _training_batches(self) -> Iterator[Any]:
        """The same ones every time, as training gets them, none smaller than the others."""
        loader = self._feed.train_loader(batch_size=self._size, device=self._device, drop_last=True, workers=0)
        with keys.borrowed(self._device):
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


def _is_of_a_metric(name: str, metrics: Mapping[str, Metric]) -> bool:
    """Whether "valid/d/f1/0" is a number of the metric f1."""
    return any(part in metrics for part in name.split("/"))
