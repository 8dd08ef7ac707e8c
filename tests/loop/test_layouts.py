"""Batches whose samples do not stand first: the promises hold where it is said, and what would be wrong is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from instep import Loss, Trainer
from instep.data import source
from instep.data.batch_layout import BatchLayout
from instep.data.loading.loader import Batch
from instep.errors import DescriptionError, NonFiniteLoss
from instep.loop.batch_plan import BatchPlan
from instep.loop.micro_batches import MicroBatches
from tiny import weights

TIME, FEATURES = 5, 3
DATA = torch.randn(22, TIME, FEATURES, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
SAMPLES = [(x, x.sum()) for x in DATA]
MASK = torch.tril(torch.ones(TIME, TIME, dtype=torch.float64))
SAID: dict[str, Any] = {"batch_dim": {"x": 1}, "shared": ("mask",)}


def time_first(samples: list[Any]) -> dict[str, Tensor]:
    return {
        "x": torch.stack([x for x, _ in samples], 1),
        "mask": MASK,
        "y": torch.stack([y for _, y in samples]),
    }


class Shapes:
    """What was seen, where nobody looks for state."""

    __slots__ = ("_seen",)

    def __init__(self) -> None:
        self._seen: list[tuple[int, ...]] = []

    def append(self, shape: tuple[int, ...]) -> None:
        self._seen.append(shape)

    def clear(self) -> None:
        self._seen.clear()

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return iter(self._seen)

    def __len__(self) -> int:
        return len(self._seen)

    def __getitem__(self, place: Any) -> Any:
        return self._seen[place]


class Summing(nn.Module):
    """Sums what it may see, over time and features."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.head = nn.Linear(FEATURES, 1, dtype=torch.float64)
        self.shapes = Shapes()  # no list, which an evaluation would put back

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        self.shapes.append(tuple(x.shape))
        assert mask.shape == (TIME, TIME)
        seen: Tensor = torch.einsum("st,tbf->sbf", mask, x)
        total: Tensor = self.head(seen).sum((0, 2))
        return total


def objective(model: Any, batch: Any) -> Tensor:
    loss: Tensor = (model(batch["x"], batch["mask"]) - batch["y"]).square().mean()
    return loss


def make(model: nn.Module | None = None, train: Any = SAMPLES, collate_fn: Any = time_first, **changes: Any) -> Trainer:
    model = Summing() if model is None else model
    said = {name: changes.pop(name) for name in ("batch_dim", "shared") if name in changes}
    options: dict[str, Any] = {
        "objective": objective,
        "optimizer": torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9),
        "train": source(train, collate_fn=collate_fn, **said),
        "epochs": 2,
        "batch_size": 8,
        "progress": False,
    }
    return Trainer(model, **(options | changes))


def rows() -> Iterator[Any]:
    yield from SAMPLES


@pytest.mark.parametrize("train", [SAMPLES, rows], ids=["samples", "iterable"])
@pytest.mark.parametrize("split", [{"update_cycle": 3}, {"micro_batch_size": 3}])
def test_any_split_trains_the_same(split: dict[str, int], train: Any) -> None:
    whole, cut = Summing(), Summing()
    make(whole, train, **SAID).fit()
    make(cut, train, **SAID, **split).fit()
    assert whole.shapes[0] == (TIME, 8, FEATURES)
    assert cut.shapes[0] == (TIME, 3, FEATURES)
    torch.testing.assert_close(weights(cut), weights(whole), rtol=1e-12, atol=1e-12)


def test_a_loss_function_of_ones_own_counts_samples_too() -> None:
    """22 samples in batches of 8 and pieces of at most 3: pieces of 3, 3 and 2."""

    def loss(output: Tensor, target: Tensor) -> Tensor:
        return (output - target.sum(0)).abs().mean()

    def collate(samples: list[Any]) -> Any:
        batch = time_first(samples)
        return {"x": batch["x"], "mask": batch["mask"]}, batch["x"].sum(2)

    found = []
    for size in (8, 3):
        model = Summing()
        trainer = make(
            model,
            collate_fn=collate,
            batch_dim={"x": 1, 1: 1},
            shared="mask",
            objective=None,
            loss=loss,
            micro_batch_size=size,
        )
        with pytest.warns(UserWarning, match="loss counts as a mean over samples"):
            trainer.fit()
        found.append(weights(model))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_evaluation_and_prediction_cut_in_the_same_way() -> None:
    trainer = make(valid=SAMPLES, epochs=0, on_out_of_memory="split", **SAID)
    whole = trainer.evaluate()
    trainer.run.micro_batches.evaluation = 3
    model: Any = trainer.model
    model.shapes.clear()
    assert trainer.evaluate()["valid/loss"] == pytest.approx(whole["valid/loss"], rel=1e-12)
    assert {shape[1] for shape in model.shapes} == {3, 2}


def test_a_prediction_is_cut_in_the_same_way() -> None:
    inputs = source(
        [(x,) for x, _ in SAMPLES], collate_fn=lambda samples: {"x": torch.stack([x for (x,) in samples], 1), "mask": MASK}
    )
    trainer = make(epochs=0, **SAID)
    whole = trainer.predict(inputs)
    trainer.run.micro_batches.evaluation = 3
    assert torch.equal(trainer.predict(inputs), whole)
    assert whole.shape == (22,)


def test_an_evaluation_counts_samples_also_where_nothing_is_said() -> None:
    """Three batches, of 8, 8 and 6 samples, each with 5 times: the mean is over samples."""
    trainer = make(valid=SAMPLES, epochs=0)
    expected = objective(trainer.model, time_first(SAMPLES)).item()
    assert trainer.evaluate()["valid/loss"] == pytest.approx(expected, rel=1e-12)


def test_what_does_not_fit_in_memory_is_split_in_the_same_way() -> None:
    class Tight(Summing):
        def forward(self, x: Tensor, mask: Tensor) -> Tensor:
            if x.shape[1] > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return super().forward(x, mask)

    tight, whole = Tight(), Summing()
    make(tight, on_out_of_memory="split", **SAID).fit()
    make(whole, **SAID).fit()
    torch.testing.assert_close(weights(tight), weights(whole), rtol=1e-12, atol=1e-12)
    with pytest.raises(DescriptionError, match=r"with 8 samples cannot be cut into micro-batches: its entry 'x' has the shape"):
        make(Tight(), on_out_of_memory="split").fit()


def test_a_cut_that_would_be_wrong_is_refused_before_the_first_step() -> None:
    model = Summing()
    before = weights(model)
    with pytest.raises(DescriptionError, match=r"a batch of train with 8 samples cannot be cut.*batch_dim={'x': 1}"):
        make(model, update_cycle=2).fit()
    assert torch.equal(weights(model), before)
    assert not len(model.shapes)
    with pytest.raises(DescriptionError, match=r"its entry 'mask' has the shape \(5, 5\).*shared=\('mask',\)"):
        make(model, update_cycle=2, batch_dim={"x": 1}).fit()


def test_nothing_is_refused_where_nothing_is_cut() -> None:
    make().fit()


def test_a_sample_that_is_not_finite_is_named() -> None:
    bad = [(x.clone(), y) for x, y in SAMPLES]
    bad[7][0][2, 1] = torch.nan
    with pytest.raises(NonFiniteLoss, match=r"Sample 7 of train: element \(2, 1\) of column 'x' is nan"):
        make(train=bad, **SAID).fit()


def test_other_data_has_the_same_layout() -> None:
    with pytest.raises(DescriptionError, match=r"valid has batch_dim=1, and train has batch_dim={'x': 1}; batches look the same"):
        make(valid=source(SAMPLES, batch_dim=1), **SAID)
    with pytest.raises(DescriptionError, match=r"valid has shared='mask', and train has shared=None; batches look the same"):
        make(valid=source(0.2, shared="mask"))
    assert make(valid=source(SAMPLES, **SAID), **SAID)


def test_a_run_is_resumed_with_the_same_layout(tmp_path: Path) -> None:
    first = make(folder=tmp_path, batch_dim={"x": 1}, shared=("mask",))
    for update in first.updates():
        if update.step == 3:
            break
    make(folder=tmp_path, **SAID).fit()
    with pytest.raises(DescriptionError, match="batch_dim"):
        make(folder=tmp_path, shared=("mask",)).fit()


def test_lists_of_things_of_any_size() -> None:
    """As for detection: images in a tuple, targets in another."""
    model = nn.Linear(FEATURES, 1, dtype=torch.float64)
    start = weights(model)
    data = [(torch.ones(1 + i % 3, FEATURES, dtype=torch.float64) * i, {"y": torch.ones(i % 2)}) for i in range(12)]

    def each(model: Any, batch: Any) -> Loss:
        images, targets = batch
        losses = [(model(image).mean() - target["y"].sum()).square() for image, target in zip(images, targets, strict=True)]
        return Loss(torch.stack(losses).mean(), len(images))

    found = []
    for cycle in (1, 3):
        with torch.no_grad():
            nn.utils.vector_to_parameters(start.clone(), model.parameters())
        options: dict[str, Any] = {"objective": each, "update_cycle": cycle, "batch_dim": {0: 0, 1: 0}}
        make(model, data, collate_fn=lambda samples: tuple(zip(*samples, strict=True)), **options).fit()
        found.append(weights(model))
    torch.testing.assert_close(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_several_processes_have_to_count_their_samples() -> None:
    """Nothing is cut where each has one micro-batch, but their gradients are weighted by how many samples each has."""

    class Two:
        are_several = True

        def fill_up(self, pieces: Any, *rest: Any) -> Any:
            return pieces

    def cut(data: Any, layout: BatchLayout) -> list[Any]:
        plan = BatchPlan(16, 8, epochs=1, rank=1, processes=2)
        micro_batches = MicroBatches(plan, Two(), torch.device("cpu"), is_fixed=True, layout=layout)  # type: ignore[arg-type]
        return list(micro_batches.pieces(Batch(data, 0, 0, 8, torch.arange(4, 8))))

    batch = time_first(SAMPLES[4:8])
    with pytest.raises(DescriptionError, match=r"with 4 samples cannot be weighted between processes: its entry .x. has"):
        cut(batch, BatchLayout())
    ((offset, data),) = cut(batch, BatchLayout({"x": 1}))
    assert (offset, data) == (4, batch)
    assert cut({"y": batch["y"], "mask": MASK}, BatchLayout())  # a mask is not counted
