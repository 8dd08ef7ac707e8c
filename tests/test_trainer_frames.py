"""Tables: columns go by their names, wherever they stand; new rows are predicted without the target."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.data import Dataset

from instep import Trainer
from instep.data import source
from instep.data.feed import Feed
from instep.errors import DataError, DescriptionError, Notice, ObjectiveError

pandas = pytest.importorskip("pandas")

NUMBERS = np.random.default_rng(0).normal(size=(24, 3))


def column_loss(output: Tensor, target: Tensor) -> Tensor:
    return F.mse_loss(output.squeeze(1), target)


def frame(**more: Any) -> Any:
    """b stands for 10 times what a stands for: another order is another prediction."""
    a, b, c = NUMBERS.T
    return pandas.DataFrame({"a": a, "b": b, "c": c, "y": a + 10 * b - c, **more})


def make(train: Any, valid: Any = None, *, folder: Path | None = None, **changes: Any) -> Trainer:
    torch.manual_seed(0)
    model = nn.Linear(3, 1)
    arguments: dict[str, Any] = {
        "loss": column_loss,
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.05),
        "epochs": 2,
        "batch_size": 8,
        "progress": False,
    }
    return Trainer(model, train=train, valid=valid, folder=folder, **(arguments | changes))


pytestmark = pytest.mark.filterwarnings("ignore:.*column_loss counts as a mean over samples")


def said_of(x: Any) -> Trainer:
    trainer = make(source(frame(), target="y"), x)
    trainer.fit()
    return trainer


# --- Names decide


def test_another_order_of_columns_gives_the_same_numbers() -> None:
    trainer = said_of(frame()[["y", "c", "b", "a"]])
    expected = column_loss(trainer.model(torch.tensor(NUMBERS).float()), torch.tensor(frame()["y"].to_numpy()).float()).item()
    assert trainer.evaluate()["valid/loss"] == pytest.approx(expected, rel=1e-5)
    assert trainer.evaluate(frame()[["c", "y", "a", "b"]])["data/loss"] == pytest.approx(expected, rel=1e-5)
    for other in (frame()[["c", "b", "y", "a"]], frame()[["c", "b", "a"]]):
        assert torch.equal(trainer.predict(other), trainer.predict(frame()))


def test_missing_columns_are_named() -> None:
    trainer = said_of(None)
    for bad in (lambda: trainer.predict(frame()[["a", "y"]]), lambda: trainer.evaluate(frame()[["a", "y"]])):
        with pytest.raises(DescriptionError, match="data lacks the columns b, c of the training data; it has a, y"):
            bad()
    with pytest.raises(DescriptionError, match="valid lacks the column b of the training data; it has a, c, y"):
        make(source(frame(), target="y"), frame().drop(columns="b"))
    with pytest.raises(DescriptionError, match=r"data lacks the target y, so no loss can be worked out; predict\(\) needs none"):
        trainer.evaluate(frame()[["a", "b", "c"]])


def test_columns_that_the_training_data_has_not_are_left_out_and_said() -> None:
    trainer = said_of(None)
    with pytest.warns(Notice, match="data has columns that the training data has not, left out: Unnamed: 0, note"):
        more = trainer.predict(frame(**{"Unnamed: 0": range(24), "note": "new"}))
    assert torch.equal(more, trainer.predict(frame()))
    with pytest.warns(Notice, match="valid has a column that the training data has not, left out: d"):
        make(source(frame(), target="y"), frame(d=1.0))


def test_classes_go_by_their_names() -> None:
    """The codes of another frame count the categories that are in it."""
    train = pandas.DataFrame({"x": np.arange(6.0), "kind": pandas.Categorical(list("abcabc"))})
    valid = pandas.DataFrame({"x": np.arange(4.0), "kind": pandas.Categorical(list("cbcb"))})
    feed, sizes = Feed(source(train, target="kind"), valid, seed=0), {"batch_size": 4, "device": torch.device("cpu")}
    (batch,) = feed.valid_loaders(**sizes)["valid"].batches(0)  # type: ignore[arg-type]
    assert batch.data[1].tolist() == [2, 1, 2, 1]
    (batch,) = feed.loader_for(pandas.DataFrame({"x": [0.0], "kind": ["b"]}), **sizes).batches(0)  # type: ignore[arg-type]
    assert batch.data[1].tolist() == [1]
    with pytest.raises(DescriptionError, match=r"target 'kind' of data is 'd' in frame\.iloc\[1\], which is no class of the"):
        feed.loader_for(pandas.DataFrame({"x": [0.0, 1.0], "kind": ["b", "d"]}), **sizes)  # type: ignore[arg-type]


def test_names_are_kept_with_the_run(tmp_path: Path) -> None:
    make(source(frame(), target="y"), 0.25, folder=tmp_path / "run").fit()
    kept = json.loads((tmp_path / "run" / "run.json").read_text())
    assert kept["data"]["train"]["names"] == kept["data"]["valid"]["names"] == ["a", "b", "c"]
    with pytest.raises(DescriptionError, match=r"data\.train\.names\.0: a -> b"):
        make(source(frame()[["b", "a", "c", "y"]], target="y"), 0.25, folder=tmp_path / "run").fit()
    for part in kept["data"].values():
        del part["names"]  # as an earlier version wrote it
    (tmp_path / "run" / "run.json").write_text(json.dumps(kept))
    make(source(frame(), target="y"), 0.25, folder=tmp_path / "run").fit()


# --- New rows


def test_new_rows_are_predicted_in_any_form() -> None:
    trainer = said_of(None)
    expected = trainer.predict(frame())
    x = NUMBERS.astype(np.float32)
    columns = {"c": NUMBERS[:, 2], "a": NUMBERS[:, 0], "b": torch.tensor(NUMBERS[:, 1])}
    for rows in (x, torch.tensor(x), NUMBERS, columns, [*torch.tensor(x)], frame()[["a", "b", "c"]], (x, np.zeros(24))):
        given = source(_Rows(rows)) if isinstance(rows, list) else rows
        torch.testing.assert_close(trainer.predict(given), expected)
    with pytest.raises(DescriptionError, match="data lacks the columns a, b of the training data; it has c"):
        trainer.predict({"c": NUMBERS[:, 2]})


class _Rows(Dataset[Tensor]):
    def __init__(self, rows: list[Tensor]) -> None:
        self.rows = rows

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Tensor:
        return self.rows[index]


def test_transforms_of_a_pair_see_one() -> None:
    """Zeros stand for a target that is not there."""

    def doubled(sample: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        return 2 * sample[0], sample[1]

    trainer = make(source(frame(), target="y"), source(0.25, transform=doubled, batch_transform=doubled))
    trainer.fit()
    with torch.no_grad():
        expected = trainer.model(4 * torch.tensor(NUMBERS).float())
    torch.testing.assert_close(trainer.predict(frame()[["b", "c", "a"]]), expected)


def test_mappings_with_a_target() -> None:
    x, y = torch.tensor(NUMBERS).float(), torch.tensor(frame()["y"].to_numpy()).float()
    trainer = make(source({"x": x, "y": y}, target="y"), {"y": y, "x": x})
    trainer.fit()
    expected = trainer.predict({"x": x, "y": y})
    assert torch.equal(expected, trainer.model(x).detach())
    for rows in ({"x": x}, x, (x, y)):
        assert torch.equal(trainer.predict(rows), expected)
    with pytest.warns(Notice, match="data has entries that the training data has not, left out: id"):
        assert torch.equal(trainer.predict({"id": torch.arange(24), "x": x}), expected)
    with pytest.raises(DataError, match="data lacks x of the training data; it has z"):
        trainer.predict({"z": x})
    with pytest.raises(DataError, match="target='y' names an entry of each batch of data, and this one has x"):
        trainer.evaluate({"x": x})


class Formatted(Dataset[dict[str, Tensor]]):
    """Looks like a data set of Hugging Face: it has columns, and gives those that were asked for."""

    def __init__(self, **columns: Tensor) -> None:
        self.columns = columns
        self.column_names = [*columns, "text"]
        self.format = {"type": "torch", "columns": list(columns)}

    def __len__(self) -> int:
        return 24

    def __getitem__(self, index: int) -> dict[str, Tensor]:
        return {name: column[index] for name, column in self.columns.items()}


def test_data_sets_with_columns() -> None:
    x, y = torch.tensor(NUMBERS).float(), torch.tensor(frame()["y"].to_numpy()).float()
    trainer = make(source(Formatted(x=x, y=y), target="y"), Formatted(y=y, x=x))
    trainer.fit()
    with torch.no_grad():
        expected = trainer.model(x)
    torch.testing.assert_close(trainer.predict(Formatted(x=x)), expected)
    with pytest.warns(Notice, match="data has entries that the training data has not, left out: id"):
        torch.testing.assert_close(trainer.predict(Formatted(id=y, x=x)), expected)
    with pytest.raises(DataError, match="data lacks x of the training data; it has z"):
        trainer.predict(Formatted(z=x))


def test_a_frame_where_no_frame_was_trained_on() -> None:
    trainer = make((torch.tensor(NUMBERS).float(), torch.zeros(24)))
    with pytest.raises(DescriptionError, match="data is a frame, and the training data is none, so its columns have no names"):
        trainer.predict(frame())
    with pytest.raises(DescriptionError, match=r"data is a frame; say with data\.source\(frame, target=…\)"):
        trainer.evaluate(frame())


# --- Types


def test_float64_becomes_the_type_of_the_model(tmp_path: Path) -> None:
    said = "float64 columns of {} are read as float32, the type of the model"
    y = frame()["y"].to_numpy()
    np.save(tmp_path / "x.npy", NUMBERS)
    mapped = (np.load(tmp_path / "x.npy", mmap_mode="r"), y)
    for train in (
        source(frame(), target="y"),
        (NUMBERS, y),
        mapped,
        torch.utils.data.TensorDataset(*map(torch.tensor, (NUMBERS, y))),
    ):
        trainer = make(train, (NUMBERS, y))
        assert said.format("train, valid") in trainer.plan().notes
        trainer.fit()
    assert said.format("valid") in make((NUMBERS.astype(np.float32), y.astype(np.float32)), (NUMBERS, y)).plan().notes
    torch.testing.assert_close(trainer.predict(NUMBERS), trainer.predict(NUMBERS.astype(np.float32)))


def test_a_model_of_float64_gets_float64() -> None:
    model = nn.Linear(3, 1).double()
    for train in (source(frame(), target="y"), (NUMBERS, frame()["y"].to_numpy())):
        trainer = Trainer(
            model, loss=column_loss, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), train=train, epochs=1, progress=False
        )
        trainer.fit()
        assert not [note for note in trainer.plan().notes if "float64" in note]
    assert trainer.predict(NUMBERS).dtype is torch.float64


def test_an_objective_gets_the_batches_as_they_are() -> None:
    seen = set()

    def objective(model: nn.Module, batch: Any) -> Tensor:
        seen.add(batch[0].dtype)
        return F.mse_loss(model(batch[0].float()).squeeze(1), batch[1].float())

    make((NUMBERS, frame()["y"].to_numpy()), loss=None, objective=objective).fit()
    assert seen == {torch.float64}


# --- A frame and its target beside it


def test_a_frame_and_a_series_are_a_frame_with_a_target() -> None:
    whole = frame()
    expected = make(source(whole, target="y"), source(whole, target="y"))
    pair = make((whole[["a", "b", "c"]], whole["y"]), (whole[["c", "b", "a"]], whole["y"]))
    assert pair.fit().rows[-1]["valid/loss"] == expected.fit().rows[-1]["valid/loss"]
    new = whole[["c", "a", "b"]]
    assert torch.equal(pair.predict(new), expected.predict(new))
    assert torch.equal(pair.predict((new, whole["y"])), expected.predict(new))
    assert pair.evaluate((new, whole["y"]))["data/loss"] == expected.evaluate(whole)["data/loss"]
    assert pair.evaluate((new, whole["y"].to_numpy()))["data/loss"] == expected.evaluate(whole)["data/loss"]
    assert pair.evaluate(whole)["data/loss"] == expected.evaluate(whole)["data/loss"]


def test_a_target_of_one_column_is_a_frame_of_one_column() -> None:
    whole = frame()
    trainer = make((whole[["a", "b", "c"]], whole[["y"]]), loss=F.mse_loss)
    trainer.fit()
    assert make(source(whole, target=["y"]), loss=F.mse_loss).fit().rows[-1]["loss"] == trainer.history.rows[-1]["loss"]


def test_what_stands_beside_a_frame_has_to_fit() -> None:
    whole = frame()
    with pytest.raises(DescriptionError, match=r"train is a frame of 24 rows and a target of 23"):
        make((whole[["a", "b", "c"]], whole["y"][1:]))
    with pytest.raises(DescriptionError, match=r"valid is a frame, and the training data is none"):
        make((torch.zeros(4, 3), torch.zeros(4)), (whole[["a", "b", "c"]], whole["y"]))


def test_a_series_beside_an_array_is_a_column() -> None:
    whole = frame(kind=pandas.Categorical(["u", "v"] * 12))
    x = whole[["a", "b", "c"]].to_numpy()
    assert make((x, whole["y"])).fit().rows[-1]["loss"] == make((x, whole["y"].to_numpy())).fit().rows[-1]["loss"]
    train: Any = Feed((x, whole["kind"]), seed=0).train
    assert train.fetch(torch.arange(3), None)[1].tolist() == [0, 1, 0]
    with pytest.raises(DescriptionError, match=r"target 'w' of train holds .*, no numbers; for classes make it categorical"):
        make((x, pandas.Series(["u"] * 24, name="w")))


def test_lists_of_numbers_are_columns() -> None:
    x, y = torch.randn(24, 3), torch.randn(24)
    listed = make((x.tolist(), y.tolist())).fit().rows[-1]["loss"]
    assert listed == make((x, y)).fit().rows[-1]["loss"]


@pytest.mark.parametrize("share", [0, 10, 20, 1.5, 0.0])
def test_a_number_that_is_no_share_is_named(share: float) -> None:
    with pytest.raises(DescriptionError, match=rf"valid={share} .*(a share|between 0 and 1)"):
        make(source(frame(), target="y"), share)


def test_advice_about_the_form_of_a_target_is_for_frames_too() -> None:
    with pytest.raises(ObjectiveError, match=r'with a frame target=\["…"\]'):
        make(source(frame(), target="y"), loss=F.mse_loss).fit()
    model = nn.Linear(3, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = source(frame(k=np.zeros(24)).drop(columns="c"), target="k")
    trainer = Trainer(model, loss=F.cross_entropy, optimizer=optimizer, train=data, epochs=1, progress=False)
    with pytest.raises(ObjectiveError, match=r'or where the target is a column of a table, table\["…"\]\.astype\("int64"\)'):
        trainer.fit()
