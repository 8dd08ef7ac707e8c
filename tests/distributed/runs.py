"""Runs that are made on several processes and on one: the same functions build both.

Each takes `cycle`, the micro-batches of a batch: one process takes all of them, N processes an N-th each, with the same keys.
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, mse_loss
from torch.utils.data import DataLoader, DistributedSampler, IterableDataset

from feeds import Squares
from instep import Loss, OneCycle, Trainer, freeze
from instep.data import pad, source, weighted
from tiny import CLASSES, FEATURES, IGNORED, TASKS, Task

Build = Callable[[int], Trainer]
VECTORS, IMAGES, SENTENCES, READING = TASKS


def trainer(task: Task = VECTORS, n: int = 45, *, model: nn.Module | None = None, data: Any = None, **options: Any) -> Trainer:
    """SGD with momentum in double precision: it hides no error of scale."""
    model = task.build(seed=1) if model is None else model
    made: dict[str, Any] = {
        "loss": cross_entropy,
        "optimizer": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
        "train": task.draw(n, seed=2) if data is None else data,
        "epochs": 2,
        "batch_size": 12,
        "progress": False,
    }
    if "objective" in options:
        made["loss"] = None
    return Trainer(model, **(made | options))


def with_dropout() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(FEATURES, 8), nn.Dropout(0.4), nn.Tanh(), nn.Linear(8, CLASSES)).double()


def dropout(cycle: int) -> Trainer:
    return trainer(model=with_dropout(), update_cycle=cycle)


def fewer_samples_than_processes(cycle: int) -> Trainer:
    """37 samples in batches of 12: the last one has a single sample."""
    return trainer(n=37, model=with_dropout(), update_cycle=cycle)


def time_first(cycle: int) -> Trainer:
    """Samples in dimension 1, a mask for all of them, and a mean over samples that nobody counts but Instep."""
    torch.manual_seed(3)
    model = nn.LSTM(4, 3).double()
    x = torch.randn(37, 5, 4, dtype=torch.float64)

    def collate(samples: list[Any]) -> Any:
        return {"x": torch.stack([one for (one,) in samples], 1), "mask": torch.tril(torch.ones(5, 5)).double()}

    def objective(model: Any, batch: Any) -> Tensor:
        output: Tensor = model(torch.einsum("st,tbf->sbf", batch["mask"], batch["x"]))[0]
        return output[-1].square().sum(1).mean()

    data = source([(one,) for one in x], collate_fn=collate, batch_dim={"x": 1}, shared="mask")
    return trainer(model=model, data=data, objective=objective, update_cycle=cycle)


def convolution(cycle: int) -> Trainer:
    return trainer(IMAGES, n=31, update_cycle=cycle)


def tokens(cycle: int) -> Trainer:
    """Two of three sentences have no token that counts, so that many micro-batches have none at all."""
    x, y = SENTENCES.draw(40, seed=4)
    y[torch.arange(40) % 3 > 0] = IGNORED
    return trainer(SENTENCES, data=(x, y), update_cycle=cycle, batch_size=6)


def nothing_counts(cycle: int) -> Trainer:
    """Whole batches without a token that counts: no step."""
    x, y = SENTENCES.draw(24, seed=4)
    y[torch.arange(24) % 8 > 0] = IGNORED
    return trainer(SENTENCES, data=(x, y), update_cycle=cycle, batch_size=6)


def hand_written_mean(cycle: int) -> Trainer:
    """Its gradient is 0/0 where nothing counts."""

    def objective(model: nn.Module, batch: Any) -> Loss:
        x, y = batch
        counts = (y != IGNORED).double()
        each = cross_entropy(model(x), y, reduction="none", ignore_index=IGNORED)
        return Loss((each * counts).sum() / counts.sum(), counts.sum())

    x, y = SENTENCES.draw(40, seed=4)
    y[torch.arange(40) % 3 > 0] = IGNORED
    return trainer(SENTENCES, data=(x, y), objective=objective, update_cycle=cycle, batch_size=6)


def class_weights(cycle: int) -> Trainer:
    weight = torch.tensor([0.2, 1.0, 3.0, 0.5], dtype=torch.float64)
    return trainer(
        loss=nn.CrossEntropyLoss(weight=weight, label_smoothing=0.1), update_cycle=cycle, schedule=OneCycle(max_lr=0.2)
    )


class KeptRows:
    """A logger that keeps what it gets."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def start(self, description: Any) -> None:
        self.calls.append("start")

    def log(self, row: Any) -> None:
        self.calls.append(row["kind"])

    def finish(self, state: str) -> None:
        self.calls.append(state)


def everything_on(cycle: int) -> Trainer:
    """Clipping, penalties, an average, validation with a metric, early stopping, a logger."""
    model = VECTORS.build(seed=1)
    return trainer(
        model=model,
        optimizer=torch.optim.AdamW(model.parameters(), lr=0.02),
        update_cycle=cycle,
        clip_norm=0.3,
        l1=1e-3,
        l2=1e-3,
        ema=0.8,
        valid={"a": VECTORS.draw(29, seed=5), "small": VECTORS.draw(2, seed=6)},
        metrics="accuracy",
        epochs=4,
        patience=1,
        restore_best=True,
        monitor="valid/a/loss",
        loggers=KeptRows(),
    )


def sums(cycle: int) -> Trainer:
    def objective(model: nn.Module, batch: Any) -> Loss:
        return Loss.sum(cross_entropy(model(batch[0]), batch[1], reduction="sum") / 12)

    return trainer(n=38, objective=objective, update_cycle=cycle)


def parts(cycle: int) -> Trainer:
    """A mean over tokens, of which many micro-batches have none: the same for what the loss is made of."""

    def objective(model: nn.Module, batch: Any) -> Loss:
        x, y = batch
        output, count = model(x), (y != IGNORED).sum()
        error = cross_entropy(output, y, reduction="sum", ignore_index=IGNORED) / count.clamp(min=1)
        size = (output.square().mean(1) * (y != IGNORED)).sum() / count.clamp(min=1)
        return Loss(error + 0.01 * size, count, output, y, parts={"error": error, "size": size})

    x, y = SENTENCES.draw(40, seed=4)
    y[torch.arange(40) % 3 > 0] = IGNORED
    valid = SENTENCES.draw(29, seed=5)
    return trainer(SENTENCES, data=(x, y), valid=valid, metrics="accuracy", objective=objective, update_cycle=cycle, batch_size=6)


def sums_with_parts(cycle: int) -> Trainer:
    def objective(model: nn.Module, batch: Any) -> Loss:
        value = cross_entropy(model(batch[0]), batch[1], reduction="sum")
        return Loss.sum(value / 12, parts={"whole": value, "samples": float(len(batch[0]))})

    return trainer(n=37, objective=objective, update_cycle=cycle)


def lstm(cycle: int) -> Trainer:
    return trainer(READING, n=26, update_cycle=cycle)


class Branches(nn.Module):
    """One layer is used where a sample says so, one never: what has no gradient anywhere must not be decayed."""

    def __init__(self) -> None:
        super().__init__()
        self.base, self.rare, self.never = nn.Linear(FEATURES, CLASSES), nn.Linear(FEATURES, CLASSES), nn.Linear(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.base(x)
        chosen = x[:, 0] > 1.0
        return scores + self.rare(x) * chosen[:, None] if chosen.any() else scores


def branches(cycle: int) -> Trainer:
    torch.manual_seed(7)
    model = Branches().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    return trainer(model=model, optimizer=optimizer, update_cycle=cycle, batch_size=6)


def two_players(cycle: int) -> Trainer:
    torch.manual_seed(8)
    models = {"g": nn.Linear(2, FEATURES).double(), "d": nn.Linear(FEATURES, 1).double()}

    def fake(model: Any, batch: Any) -> Tensor:
        noise = torch.rand(len(batch[0]), 2, dtype=torch.float64)
        made: Tensor = model["d"](model["g"](noise))
        return made

    def d(model: Any, batch: Any) -> Tensor:
        return mse_loss(model["d"](batch[0]), torch.ones(len(batch[0]), 1).double()) + fake(model, batch).square().mean()

    def g(model: Any, batch: Any) -> Tensor:
        return (fake(model, batch) - 1).square().mean()

    optimizers = {name: torch.optim.SGD(models[name].parameters(), lr=0.05, momentum=0.5) for name in ("d", "g")}
    return trainer(model=models, objective={"d": d, "g": g}, optimizer=optimizers, update_every={"g": 2}, update_cycle=cycle)  # type: ignore[arg-type]


def unfreezing(cycle: int) -> Trainer:
    model = VECTORS.build(seed=1)
    freeze(model[0])  # type: ignore[index]
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1, momentum=0.9)  # type: ignore[index]
    return trainer(model=model, optimizer=optimizer, unfreeze_at={1: "0"}, update_cycle=cycle)


def lbfgs(cycle: int) -> Trainer:
    return trainer(
        optimizer=lambda parameters: torch.optim.LBFGS(parameters, lr=0.5, max_iter=4, line_search_fn="strong_wolfe"),
        n=30,
        epochs=1,
        update_cycle=cycle,
    )


def augmented(sample: Any) -> Any:
    x, y = sample
    return x + torch.randn(1, dtype=x.dtype), y


def samples_drawn(cycle: int) -> Trainer:
    """Weighted draws and a random transform, keyed by place."""
    weights = torch.arange(1, 46, dtype=torch.float64)
    return trainer(data=source(VECTORS.draw(45, seed=2), sampler=weighted(weights), transform=augmented), update_cycle=cycle)


def balanced_weights(cycle: int) -> Trainer:
    """Class weights from the labels, and the mean of the weights over epochs."""
    return trainer(class_weights="balanced", swa=0, valid=VECTORS.draw(10, seed=5), epochs=3, update_cycle=cycle)


def balanced_samples(cycle: int) -> Trainer:
    return trainer(data=source(VECTORS.draw(45, seed=2), sampler="balanced"), update_cycle=cycle)


def buckets(cycle: int) -> Trainer:
    """Batches of similar lengths; each process pads its part to the longest of it."""
    torch.manual_seed(3)
    samples = [(torch.randn(1 + 7 * i % 19, FEATURES, dtype=torch.float64), i % CLASSES) for i in range(45)]

    def objective(model: nn.Module, batch: Any) -> Loss:
        x, y, mask = batch
        scores = (model(x) * mask[:, :, None]).sum(1) / mask.sum(1, keepdim=True)
        return Loss(cross_entropy(scores, y), len(y))

    return trainer(data=source(samples, collate_fn=pad(), bucket_by=0), objective=objective, update_cycle=cycle)


def workers(cycle: int) -> Trainer:
    return trainer(data=Squares(37), model=line(), objective=_squares, num_workers=1, update_cycle=cycle)


def line() -> nn.Module:
    torch.manual_seed(1)
    return nn.Linear(1, 1).double()


def _squares(model: nn.Module, batch: Any) -> Tensor:
    x, y = batch
    return mse_loss(model(x.double().reshape(-1, 1) / 40), y.double().reshape(-1, 1) / 1600)


class Counting(IterableDataset[Any]):
    def __init__(self, n: int) -> None:
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        x, y = VECTORS.draw(self.n, seed=9)
        return iter(list(zip(x, y, strict=True)))


def stream(cycle: int) -> Trainer:
    return trainer(data=source(Counting(37), transform=augmented), update_cycle=cycle)


def endless_stream(cycle: int) -> Trainer:
    return trainer(data=source(Counting(17), steps_per_epoch=4), update_cycle=cycle, num_workers=1)


def micro_batches(cycle: int) -> Trainer:
    """At most two samples at once."""
    return trainer(micro_batch_size=2)


def skipping(cycle: int) -> Trainer:
    x, y = VECTORS.draw(45, seed=2)
    x[7] = torch.nan
    return trainer(data=(x, y), update_cycle=cycle, on_nonfinite="skip")


def half_precision(cycle: int) -> Trainer:
    model = VECTORS.build(seed=1, dtype=torch.float32)
    return trainer(model=model, data=VECTORS.draw(40, seed=2, dtype=torch.float32), precision="bf16", update_cycle=cycle)


def scaled(cycle: int) -> Trainer:
    model = VECTORS.build(seed=1, dtype=torch.float32)
    return trainer(model=model, data=VECTORS.draw(40, seed=2, dtype=torch.float32), precision="fp16", update_cycle=cycle)


def distributed_sampler(cycle: int) -> Trainer:
    """A DataLoader's batch is the micro-batch of one process; a DistributedSampler says no more than whether to shuffle."""
    x, y = VECTORS.draw(45, seed=2)
    data = torch.utils.data.TensorDataset(x, y)
    rank, size = (dist.get_rank(), dist.get_world_size()) if dist.is_initialized() else (0, 1)
    sampler: Any = DistributedSampler(data, num_replicas=size, rank=rank)
    return trainer(data=DataLoader(data, batch_size=2, sampler=sampler), batch_size=None, update_cycle=cycle)


class TwoDtypes(nn.Module):
    """A layer in double precision, one in single precision, and a gain without an element for some inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.wide, self.narrow = nn.Linear(FEATURES, 8).double(), nn.Linear(8, CLASSES)
        self.none = nn.Parameter(torch.zeros(0))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.narrow(torch.tanh(self.wide(x)).float())
        return scores + self.none.sum()


def two_dtypes(cycle: int) -> Trainer:
    """Gradients of each dtype are a message of their own."""
    torch.manual_seed(3)
    return trainer(model=TwoDtypes(), update_cycle=cycle)


def channels_last(cycle: int) -> Trainer:
    """The fused step reads weights and gradients as they lie in memory."""
    model = IMAGES.build(seed=1).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.02, fused=True)
    return trainer(IMAGES, n=31, model=model, optimizer=optimizer, update_cycle=cycle)


EXACT: dict[str, Build] = {
    build.__name__: build
    for build in (
        dropout, fewer_samples_than_processes, time_first, convolution, tokens, nothing_counts, hand_written_mean, class_weights,
        everything_on, sums, parts, sums_with_parts, lstm, branches, two_players, unfreezing, lbfgs, samples_drawn,
        balanced_weights, balanced_samples, buckets, workers, stream, endless_stream, micro_batches, skipping, half_precision,
        scaled, distributed_sampler, two_dtypes, channels_last,
    )
}  # fmt: skip
# The same once more, exchanged by DistributedDataParallel as the gradients of larger models are.
IN_BUCKETS = " in buckets"
BUCKETED: dict[str, Build] = {name + IN_BUCKETS: build for name, build in EXACT.items()}
