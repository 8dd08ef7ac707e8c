"""Runs whose model is sharded over the processes, and what each process saw of them. One process makes the same ones whole."""

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from distributed.recorded import recorded
from distributed.runs import SENTENCES, VECTORS, Branches, Build, dropout, trainer
from distributed.slips import Seen, raised
from instep import Loss, Trainer, freeze, param_groups
from tiny import CLASSES, FEATURES, IGNORED


class Block(nn.Module):
    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.inner, self.outer = nn.Linear(8, 9), nn.Linear(9, 8)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        moved: Tensor = x + self.dropout(self.outer(self.inner(x).tanh()))
        return moved


class Tower(nn.Module):
    """Blocks between two layers; 9 and 4 rows that two and three processes share unevenly, or not at all."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.stem = nn.Linear(FEATURES, 8)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(2))
        self.scale = nn.Parameter(torch.ones(1))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        scores: Tensor = self.head(x) * self.scale
        return scores


def tower(dropout: float = 0.2) -> nn.Module:
    torch.manual_seed(11)
    return Tower(dropout).double()


def momentum(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9)


def adamw(parameters: Any) -> torch.optim.Optimizer:
    return torch.optim.AdamW(parameters, lr=0.02)


def ragged(cycle: int, *, dropout: float = 0.2, **options: Any) -> Trainer:
    """37 samples in batches of 12: the last one has a single sample. 29 and 2 samples to evaluate on."""
    made = {"shard": True, "clip_norm": 0.3, "update_cycle": cycle} | options
    return trainer(
        n=37,
        model=tower(dropout),
        valid={"a": VECTORS.draw(29, seed=5), "small": VECTORS.draw(2, seed=6)},
        metrics="accuracy",
        monitor="valid/a/loss",
        epochs=2,
        **made,
    )


def penalties(cycle: int, **options: Any) -> Trainer:
    """Penalties, limits on values, the best weights at the end."""
    made: dict[str, Any] = {
        "shard": "blocks.*",
        "optimizer": adamw,
        "l1": 1e-3,
        "l2": 1e-3,
        "clip_value": 0.02,
        "clip_norm": 1.0,
        "dropout": 0.0,
        "checkpoint_every": 2,  # so that the one of step 6 is none of a pause, which would go with the next
    }
    return ragged(cycle, **(made | {"patience": 1, "restore_best": True} | options))


def nothing_in_most(cycle: int) -> Trainer:
    """Two of three sentences have no token that counts; the gradient of a mean over none is 0/0."""

    def objective(model: nn.Module, batch: Any) -> Loss:
        x, y = batch
        counts = (y != IGNORED).double()
        each = cross_entropy(model(x), y, reduction="none", ignore_index=IGNORED)
        return Loss((each * counts).sum() / counts.sum(), counts.sum())

    x, y = SENTENCES.draw(40, seed=4)
    y[torch.arange(40) % 3 > 0] = IGNORED
    return trainer(
        SENTENCES, data=(x, y), objective=objective, update_cycle=cycle, batch_size=6, epochs=1, shard=["layer", "head"]
    )


def rare_branch(cycle: int) -> Trainer:
    """A layer that few samples use, and one that none does: that one must not be decayed."""
    torch.manual_seed(7)
    return trainer(
        model=Branches().double(),
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=0.1),
        update_cycle=cycle,
        batch_size=6,
        shard=True,
    )


def small_pieces(cycle: int) -> Trainer:
    """At most two samples at once; one is not a number, and its update is left out."""
    x, y = VECTORS.draw(45, seed=2)
    x[7] = torch.nan
    return trainer(data=(x, y), model=tower(dropout=0.0), micro_batch_size=2, shard=True, on_nonfinite="skip")


def thawed(cycle: int) -> Trainer:
    model = tower()
    freeze(model, "blocks.0", "stem")
    return trainer(
        model=model,
        optimizer=lambda _: momentum([p for p in model.parameters() if p.requires_grad]),
        unfreeze_at={1: "blocks.0"},
        update_cycle=cycle,
        shard=True,
    )


def in_bfloat16(cycle: int) -> Trainer:
    model = tower(dropout=0.0).float()
    return trainer(
        model=model, data=VECTORS.draw(40, seed=2, dtype=torch.float32), precision="bf16", update_cycle=cycle, shard=True
    )


SHARDED: dict[str, Build] = {
    build.__name__: build for build in (ragged, penalties, nothing_in_most, rare_branch, small_pieces, thawed, in_bfloat16)
}


def shards_saved(rank: int, size: int, folder: Path) -> Seen:
    """The first half of a run, in a folder; the other half is made by one process, and by three."""
    made = penalties(2)
    made.run.set_folder(folder / "shards")
    half_of(made)
    checkpoint = folder / "shards" / "checkpoints" / "step-00000006"
    held = sum(p.to_local().numel() for p in made.model.parameters())
    return {"files": sorted(path.name for path in checkpoint.iterdir()), "held": held, "notes": made.plan().notes}


def half_of(made: Trainer) -> None:
    with contextlib.closing(made.updates()) as updates:
        for update in updates:
            if update.step == 5:
                break


def whole_gone_on_with(rank: int, size: int, folder: Path) -> Seen:
    """The other half of a run that one process began with a whole model."""
    made = penalties(2, keep=None)
    made.run.set_folder(folder / "whole")
    found = recorded(made) | {"from": made.resumed_from}
    made.load(6)
    return found | {"at 6": {name: value.full_tensor() for name, value in made.model.named_parameters()}}


def shards_gone_on_with(rank: int, size: int, folder: Path) -> Seen:
    """The other half of a run of two processes."""
    if rank == 0 and size == 2:
        shutil.copytree(folder / "shards", folder / "shards of two")
    made = penalties(2, shard=True)
    made.run.set_folder(folder / "shards of two")
    return recorded(made) | {"from": made.resumed_from}


def changed(rank: int, size: int, folder: Path) -> Seen:
    """A changed setting is written at once, by all."""
    if rank == 0:
        shutil.copytree(folder / "shards", folder / "changed")
    made = penalties(2, clip_value=0.03, allow_changes=("clip_value",), keep=None)
    made.run.set_folder(folder / "changed")
    before = (folder / "changed" / "checkpoints" / "step-00000006" / "MANIFEST.json").stat().st_mtime_ns
    half_of(made)
    after = (folder / "changed" / "checkpoints" / "step-00000006" / "MANIFEST.json").stat().st_mtime_ns
    return {"from": made.resumed_from, "written": after > before}


def predicted(rank: int, size: int, folder: Path) -> Seen:
    made = ragged(2)
    x, y = VECTORS.draw(83, seed=6)
    return {
        "predicted": made.predict(x),
        "few": made.predict(x[:2]),
        "numbers": dict(made.evaluate((x, y))),
        "stream": made.predict(lambda: iter(x)),
    }


def not_sharded(rank: int, size: int, folder: Path) -> Seen:
    """What cannot be, on several processes."""
    from instep import save_model

    made = ragged(2)
    extra = nn.Parameter(torch.zeros(2))
    return {
        "whole file": raised(lambda: save_model(made.model, folder / f"weights-{rank}.safetensors")),
        "extra": raised(lambda: ragged(2, optimizer=lambda parameters: momentum([*parameters, extra]))),
        "rehearsal": raised(made.find_lr),
        "units": raised(lambda: ragged(2, shard="blocks.*" if rank else "head")),
    }


def not_finite_shards(rank: int, size: int, folder: Path) -> Seen:
    """One sample is nan: all stop at the same update, and the group is still good."""
    x, y = VECTORS.draw(45, seed=2)
    x[7] = torch.nan
    made = trainer(data=(x, y), model=tower(), shard=True)
    return {"said": raised(made.fit), "step": made.step, "again": recorded(ragged(1))["step"]}


def not_finite_gradients(rank: int, size: int, folder: Path) -> Seen:
    """The loss is finite, its gradient is not: the parameters are named on all, with groups made of the sharded model."""

    def objective(model: nn.Module, batch: Any) -> Tensor:
        loss: Tensor = (model(batch[0]) * 0).square().sum().sqrt()
        return loss

    model = tower()
    made = trainer(
        model=model, objective=objective, clip_norm=1.0, shard=True, optimizer=lambda _: adamw(param_groups(model, no_decay=True))
    )
    return {"said": raised(made.fit), "groups": len(made.optimizer.param_groups)}


def shards_unwritable(rank: int, size: int, folder: Path) -> Seen:
    """The folder is gone: all hear of it at once, and another group is good.

    The last of these: a mesh holds on to its group, so that one who closes it is not missed before its process ends.
    """
    made = ragged(2, folder=folder / "no shards", checkpoint_every=2)

    def go() -> None:
        for update in made.updates():
            if update.step == 0 and rank == 0:
                shutil.rmtree(folder / "no shards" / "checkpoints")

    return {"said": raised(go), "again": recorded(dropout(1))["step"]}


def rehearsed(rank: int, size: int, folder: Path) -> Seen:
    """A dry run leaves no trace."""
    made = ragged(2)
    before = {name: value.full_tensor() for name, value in made.model.named_parameters()}
    numbers = made.dry_run()
    after = {name: value.full_tensor() for name, value in made.model.named_parameters()}
    return {"same": all(torch.equal(before[name], after[name]) for name in before), "numbers": dict(numbers or {})}


CASES: dict[str, Callable[[int, int, Path], Seen]] = {
    case.__name__: case
    for case in (
        shards_saved, whole_gone_on_with, shards_gone_on_with, changed, predicted, not_sharded, not_finite_shards,
        not_finite_gradients, rehearsed, shards_unwritable,
    )
}  # fmt: skip
