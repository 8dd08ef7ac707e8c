"""What goes wrong, or is stopped, on one process of several; each returns what that process saw."""

import contextlib
import os
import signal
import time
import warnings
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import _set_pg_timeout
from torch.nn.functional import cross_entropy, mse_loss

from distributed.recorded import recorded
from distributed.runs import IN_BUCKETS, VECTORS, dropout, everything_on, trainer, unfreezing, with_dropout
from instep.distributed import chosen_turn
from instep.errors import InstepError, Interrupted

Seen = dict[str, Any]


def raised(do: Callable[[], object]) -> str:
    """What was raised, and said."""
    try:
        do()
    except (InstepError, Interrupted) as error:
        return f"{type(error).__name__}: {error}"
    return "nothing"


def other_data(rank: int, size: int, folder: Path) -> Seen:
    return {"said": raised(trainer(data=VECTORS.draw(45, seed=rank)).fit)}


def other_seed(rank: int, size: int, folder: Path) -> Seen:
    return {"said": raised(trainer(seed=rank, clip_norm=1.0 + rank).fit)}


def other_model(rank: int, size: int, folder: Path) -> Seen:
    model = nn.Sequential(nn.Linear(6, 8 + rank), nn.Linear(8 + rank, 4)).double()
    return {"said": raised(lambda: trainer(model=model))}


def other_weights(rank: int, size: int, folder: Path) -> Seen:
    """Not seeded: all go on with what rank 0 has."""
    torch.manual_seed(rank)
    made = trainer(model=nn.Sequential(nn.Linear(6, 4)).double(), epochs=1)
    return {"notes": made.plan().notes, **recorded(made)}


def too_small(rank: int, size: int, folder: Path) -> Seen:
    return {
        "batch": raised(lambda: trainer(batch_size=size - 1)),
        "cycle": raised(lambda: trainer(batch_size=size, update_cycle=2)),
    }


def refused(rank: int, size: int, folder: Path) -> Seen:
    sparse = nn.Sequential(nn.EmbeddingBag(4, 6, sparse=True), nn.Linear(6, 4)).double()
    norm = nn.Sequential(nn.Linear(6, 4), nn.BatchNorm1d(4)).double()
    return {
        "sparse": raised(lambda: trainer(model=sparse)),
        "batch size": raised(lambda: trainer().find_batch_size()),
        "sync": raised(lambda: trainer(model=norm, sync_batchnorm=True)),
    }


def not_finite(rank: int, size: int, folder: Path) -> Seen:
    """One sample is nan: all processes stop at the same update, and the group is still good."""
    x, y = VECTORS.draw(45, seed=2)
    x[7] = torch.nan
    made = trainer(data=(x, y))
    return {"said": raised(made.fit), "step": made.step, "again": recorded(dropout(1))["step"]}


def batch_norm(rank: int, size: int, folder: Path) -> Seen:
    """Statistics are a process's own while it trains; evaluations and what is left are those of rank 0."""
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).double()
    with torch.random.fork_rng():
        torch.manual_seed(1)
        nn.init.normal_(model[0].weight)  # type: ignore[arg-type]
    made = trainer(model=model, n=48, valid=VECTORS.draw(30, seed=5), ema=0.9)
    between: list[Tensor] = []
    for update in made.updates():
        if update.step == 2:
            before = model[1].running_mean.clone()  # type: ignore[operator]
            numbers = made.evaluate()
            between = [before, model[1].running_mean.clone()]  # type: ignore[operator]
    return {
        "notes": made.plan().notes,
        "numbers": dict(numbers),
        "between": between,
        "weights": dict(model.state_dict()),
    }


def batch_norm_in_legs(rank: int, size: int, folder: Path) -> Seen:
    """A run that never stops, and one that is stopped after two updates and resumed by as many processes."""

    def leg(name: str, last: int) -> dict[str, Tensor]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Linear(8, 4)).double()
        made = trainer(model=model, n=48, valid=VECTORS.draw(30, seed=5), folder=folder / name)
        updates = made.updates()
        for update in updates:
            if update.step == last:
                break
        updates.close()
        return dict(model.state_dict())

    leg("legs", 1)
    return {"whole": leg("never stopped", 99), "legs": leg("legs", 99)}


class Keeping(nn.Module):
    """A count, the same on all, and a generator that is seeded by the rank."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.linear = with_dropout()
        self.calls = 0
        self.generator = torch.Generator().manual_seed(rank)

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.calls += 1
            torch.rand(1, generator=self.generator)
        scores: Tensor = self.linear(x)
        return scores


class Shifted(nn.Module):
    """A loss whose weight each process draws by itself."""

    def __init__(self, rank: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.full((4,), float(rank), dtype=torch.float64))

    def forward(self, scores: Tensor, target: Tensor) -> Tensor:
        return cross_entropy(scores + self.shift, target)


def own_state(rank: int, size: int, folder: Path) -> Seen:
    """What a model and a loss keep by themselves: stopped, and gone on with by all."""
    found: Seen = {"said": [], "drawn": []}
    for stop in (4, None):
        model, loss = Keeping(rank), Shifted(rank)
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = trainer(model=model, loss=loss, n=48, folder=folder / "own state")
            for update in made.updates():
                if update.step == stop:
                    break
        found["said"] += [str(one.message) for one in told]
        found["drawn"].append(model.generator.get_state())
    return found | {"calls": model.calls, "shift": loss.shift.detach(), "weights": dict(model.state_dict())}


def looked_at(rank: int, size: int, folder: Path) -> Seen:
    """Numbers and predictions over data that does not divide, with torchmetrics, and over less than a batch for each."""
    from torchmetrics import MetricCollection
    from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metrics = {
            "own": "accuracy",
            "area": MulticlassAUROC(4),
            "both": MetricCollection({"micro": MulticlassAccuracy(4, average="micro"), "macro": MulticlassAccuracy(4)}),
        }
        made = trainer(metrics=metrics, model=with_dropout())
        x, y = VECTORS.draw(83, seed=6)
        few = VECTORS.draw(2, seed=6)
        return {
            "numbers": dict(made.evaluate((x, y))),
            "few": dict(made.evaluate(few)),
            "predicted": made.predict(x),
            "predicted few": made.predict(few[0]),
            "stream": made.predict(lambda: iter(x)),
        }


NAMES = [
    "accuracy", "top2", "precision", "recall_micro", "f1", "f1_weighted", "f1_per_class", "iou", "dice", "auroc",
    "auroc_per_class", "average_precision", "perplexity", "confusion_matrix",
]  # fmt: skip


def metrics_by_name(rank: int, size: int, folder: Path) -> Seen:
    """Classes of which some do not count, and numbers; also over less than a batch for each process."""
    x, y = VECTORS.draw(83, seed=6)
    y[::5] = 7
    made = trainer(metrics=NAMES, model=with_dropout(), loss=nn.CrossEntropyLoss(ignore_index=7))
    line = trainer(
        data=(x, x[:, :2]),
        model=nn.Linear(x.shape[1], 2).double(),
        loss=mse_loss,
        metrics=["mae", "mse", "rmse", "r2", mean_error],
    )
    torch.manual_seed(5)
    line.model.reset_parameters()
    found = [made.evaluate((x, y)), made.evaluate((x[:2], y[:2])), line.evaluate((x, x[:, :2]))]
    return {"numbers": [dict(one) for one in found], "tables": [dict(one.tables) for one in found]}


def mean_error(output: Tensor, target: Tensor) -> Tensor:
    return (output - target).mean()


def range_test(rank: int, size: int, folder: Path) -> Seen:
    made = trainer(update_cycle=1, n=60)
    found = made.find_lr()
    return {"losses": list(found.losses), "suggestion": found.suggestion, **recorded(made)}


class Unused(nn.Module):
    """7·4 weights that are used, and 5 that are not."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.layer, self.unused = nn.Linear(6, 4).double(), nn.Parameter(torch.zeros(5, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.layer(x)
        return scores


def waits(rank: int, size: int, folder: Path) -> Seen:
    """What the steps 1 and 2 exchange, beside what DistributedDataParallel does."""
    calls: list[str] = []

    def counted(tensor: Tensor, *args: Any, **options: Any) -> Any:
        calls.append(f"{len(tensor)} numbers")
        return all_reduce(tensor, *args, **options)

    all_reduce, dist.all_reduce = dist.all_reduce, counted
    try:
        made = trainer(n=60, model=Unused())
        for update in made.updates():
            if update.step == 0:
                calls.clear()
            elif update.step == 2:
                return {"calls": list(calls), "unused": made.model.unused.grad}
    finally:
        dist.all_reduce = all_reduce
    raise AssertionError("fewer than three updates")


def kept_gradients(rank: int, size: int, folder: Path) -> Seen:
    """Gradients that somebody keeps, and what they were when they were made."""
    made = trainer(n=48, batch_size=12)
    kept, copies = [], []
    for _ in made.updates():
        kept.append([p.grad for p in made.model.parameters()])
        copies.append([p.grad.clone() for p in made.model.parameters()])
    return {"kept": [[gradient.clone() for gradient in one] for one in kept], "copies": copies}


def exchanged_otherwise_later(rank: int, size: int, folder: Path) -> Seen:
    """A layer that is unfrozen makes the gradients too many for one message."""
    made = unfreezing(2)
    few = chosen_turn.FLAT_AT_MOST_BYTES
    chosen_turn.FLAT_AT_MOST_BYTES = sum(p.numel() * 8 for p in made.model[2].parameters())
    try:
        return recorded(made)
    finally:
        chosen_turn.FLAT_AT_MOST_BYTES = few


def saved(rank: int, size: int, folder: Path) -> Seen:
    """The first half of a run, in a folder; the other half is made by one process."""
    made = everything_on(2)
    made.run.set_folder(folder / "half")
    with contextlib.closing(made.updates()) as updates:
        for update in updates:
            if update.step == 2:
                break
    return {"files": sorted(path.name for path in (folder / "half").iterdir())}


def replayable(rank: int, size: int, folder: Path) -> Seen:
    """A run with dropout that draws in every generator, in a folder."""
    made = trainer(model=with_dropout(), update_cycle=2, checkpoint_every=3, keep=None, log_every=1)
    made.run.set_folder(folder / "replayable")
    return recorded(made)


def gone_on_with(rank: int, size: int, folder: Path) -> Seen:
    """The other half of a run that one process began."""
    made = everything_on(2)
    made.run.set_folder(folder / "begun")
    return {**recorded(made), "from": made.resumed_from}


def stopped(rank: int, size: int, folder: Path) -> Seen:
    """Rank 1 alone gets a signal, in its fourth update."""
    seen = []

    def objective(model: nn.Module, batch: Any) -> Tensor:
        seen.append(len(batch[0]))
        if os.environ["RANK"] == "1" and len(seen) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return cross_entropy(model(batch[0]), batch[1])

    made = trainer(objective=objective, epochs=5, folder=folder / "stopped")
    return {"said": raised(made.fit), "step": made.step, "signal": signal.getsignal(signal.SIGTERM) == signal.SIG_DFL}


def folder_in_use(rank: int, size: int, folder: Path) -> Seen:
    """What rank 0 cannot do is raised on all."""
    (folder / "file").write_text("")
    return {"said": raised(trainer(folder=folder / "file").fit), "again": recorded(dropout(1))["step"]}


def checkpoint_error(rank: int, size: int, folder: Path) -> Seen:
    """Rank 0 cannot write: the others hear of it at once."""
    made = trainer(folder=folder / "unwritable", checkpoint_every=2)

    def objective() -> None:
        for update in made.updates():
            if update.step == 0 and rank == 0:
                checkpoints = folder / "unwritable" / "checkpoints"
                checkpoints.rename(folder / "away") if checkpoints.exists() else None
                checkpoints.write_text("no folder")

    return {"said": raised(objective)}


def hung(rank: int, size: int, folder: Path) -> Seen:
    """The last process does not come to its second update."""
    made = trainer()
    begun = time.perf_counter()

    def go() -> None:
        for update in made.updates():
            _set_pg_timeout(timedelta(seconds=5), dist.group.WORLD)  # not before: on a busy machine the first update takes longer
            if rank == size - 1 and update.step == 0:
                while not (folder / "rank-0.heard").exists():
                    time.sleep(0.05)
                return

    said = raised(go)
    (folder / f"rank-{rank}.heard").touch()
    return {"said": said, "seconds": time.perf_counter() - begun, "open": dist.is_initialized()}


LIST: dict[str, Callable[[int, int, Path], Seen]] = {
    case.__name__: case
    for case in (
        other_data, other_seed, other_model, other_weights, too_small, refused, not_finite, batch_norm,
        batch_norm_in_legs, looked_at,
        own_state, metrics_by_name,
        range_test, waits, saved, replayable, gone_on_with, stopped, folder_in_use, kept_gradients, exchanged_otherwise_later,
    )
}  # fmt: skip
BUCKETED = {case.__name__ + IN_BUCKETS: case for case in (not_finite, batch_norm_in_legs, waits, kept_gradients)}
# What loses a process is the end of a world.
LAST: dict[int, Callable[[int, int, Path], Seen]] = {2: checkpoint_error, 3: hung}
