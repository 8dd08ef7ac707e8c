"""`instep predict`: arrays in, predictions out, in the same order."""

import importlib.util
import json
import textwrap
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch
from torch import nn

from cli.recorded import KINDS, trained
from cli.said import BUILD, Instep
from instep.checkpoint.interchange import load_model
from instep.cli.export import describe
from instep.cli.rebuild import rebuild

pytestmark = pytest.mark.usefixtures("build_file")
X = torch.linspace(-1, 1, 28).reshape(7, 4)


def expected(run: Path) -> torch.Tensor:
    model = nn.Linear(4, 3)
    load_model(model, run)
    with torch.no_grad():
        found: torch.Tensor = model(X)
    return found


def test_predictions_are_in_the_order_of_the_data(instep: Instep) -> None:
    """Through every format, in and out; seven samples in batches of eight and less."""
    run = trained(instep)
    np.save("x.npy", X.double().numpy())
    np.savez("x.npz", x=X.numpy(), y=np.zeros(7))
    torch.save((X, torch.zeros(7)), "x.pt")
    safetensors.torch.save_file({"inputs": X}, "x.safetensors")
    for data, output in [("x.npy", "p.npy"), ("x.npz", "p.npz"), ("x.pt", "p.pt"), ("x.safetensors", "p.safetensors")]:
        said = instep("predict", str(run), data, "-o", output)
        assert (said.code, said.err) == (0, "")
        assert said.out.startswith(f"wrote {output}: 7 predictions of runs/my at step ")
    written = [
        torch.from_numpy(np.load("p.npy")),
        torch.from_numpy(np.load("p.npz")["predictions"]),
        torch.load("p.pt", weights_only=True),
        safetensors.torch.load_file("p.safetensors")["predictions"],
    ]
    for predictions in written:
        torch.testing.assert_close(predictions, expected(run))


def test_without_a_file_there_is_a_summary(instep: Instep) -> None:
    run = trained(instep)
    np.save("x.npy", X.numpy())
    said = instep("predict", str(run), "x.npy", "--which", "latest")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0] == "runs/my at step 4 on x.npy"
    assert lines[2].startswith("predictions: 7 × float32 (3,), from ")
    assert lines[3].split() == ["sample", "0", "1", "2"]
    assert lines[-1] == "and 2 more"


def test_what_does_not_work_is_one_line(instep: Instep) -> None:
    run = trained(instep)
    np.save("wrong.npy", np.zeros((7, 5)))
    np.savez("several.npz", a=X.numpy(), b=X.numpy())
    np.save("words.npy", np.array(["a", "b"]))
    np.save("objects.npy", np.array([{}, {}]), allow_pickle=True)
    Path("junk.npy").write_bytes(b"junk")
    Path("folder.npy").mkdir()
    torch.save(nn.Linear(1, 1), "model.pt")
    for arguments, code, words in [
        (["none.npy"], 2, "none.npy does not exist; name a file of inputs: .npy, .npz, .safetensors, .pt or .csv."),
        (["folder.npy"], 2, "folder.npy is a folder; name a file of inputs: .npy, .npz, .safetensors, .pt or .csv."),
        (["x.txt"], 2, "x.txt is no file of arrays by its name; use .npy, .npz, .safetensors, .pt or .csv."),
        (["x.csv"], 2, "x.csv does not exist; name a file of rows."),
        (["junk.npy"], 2, "junk.npy cannot be read: "),
        (["words.npy"], 2, "words.npy holds an array of <U1; a model takes numbers."),
        (["objects.npy"], 2, "objects.npy cannot be read: Object arrays cannot be loaded when allow_pickle=False"),
        (["model.pt"], 1, "model.pt is refused: it holds torch.nn.modules.linear.Linear, which only comes back by running code"),
        (["several.npz"], 2, "several.npz has a, b, and the model takes one input; call it x, or leave the others out."),
        (["wrong.npy", "-o", "p.txt"], 2, "p.txt is no file of arrays by its name; use"),
        (["wrong.npy", "-o", "none/p.npy"], 2, "none/p.npy cannot be written: there is no folder none."),
    ]:
        said = instep("predict", str(run), *arguments)
        assert (said.code, said.out) == (code, "")
        assert said.err.startswith(f"instep: {words}")
        assert said.err.count("\n") == 1
    said = instep("predict", str(run), "wrong.npy")
    assert said.code == 2
    last = said.err.splitlines()[-1]
    assert last.startswith(
        "instep: wrong.npy does not go through the model: samples of float32 (5,); it was trained on samples of"
    )
    assert last.endswith("float32 (4,), int64 ().")


def test_a_model_with_names_and_several_outputs(instep: Instep) -> None:
    """Trained on a mapping, it takes its inputs by name, and gives its outputs by name."""
    net = """
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(2, 3)

    def forward(self, left, right, y=None):
        out = self.a(left) + self.b(right)
        return {"loss": nn.functional.cross_entropy(out, y), "out": out} if y is not None else {"out": out, "top": out.argmax(1)}


def objective(model, batch):
    return model(**batch)["loss"]

"""
    text = BUILD.replace("\n\ndef build", net + "\n\ndef build").replace("nn.Linear(4, 3)\n    return", "Net()\n    return")
    text = text.replace("loss=nn.functional.cross_entropy", "objective=objective").replace('metrics="accuracy",', "")
    text = text.replace("train=(x, y)", 'train={"left": x, "right": x[:, :2].clone(), "y": y}')
    Path("my.py").write_text(text)
    run = trained(instep)
    safetensors.torch.save_file({"left": X, "right": X[:, :2].contiguous()}, "x.safetensors")
    assert instep("predict", str(run), "x.safetensors", "-o", "p.safetensors").code == 0
    written = safetensors.torch.load_file("p.safetensors")
    assert {name: tuple(value.shape) for name, value in written.items()} == {"out": (7, 3), "top": (7,)}
    said = instep("predict", str(run), "x.safetensors", "-o", "p.npy")
    assert said.err == "instep: the model has 2 outputs, out, top, and p.npy has room for one; use .npz.\n"
    assert "\ntop: 7 × int64, from 1.000 to" in instep("predict", str(run), "x.safetensors").out


TABLE = """
import numpy as np
import pandas
import torch
from torch import nn

from instep import Trainer, data


def build() -> Trainer:
    a, b = np.random.default_rng(0).normal(size=(2, 20))
    frame = pandas.DataFrame({"a": a, "b": b, "y": (a > b).astype(int)})
    model = nn.Linear(2, 2)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train=data.source(frame, target="y"),
        valid=0.2,
        epochs=1,
        batch_size=8,
    )
"""


def test_rows_of_a_table_go_by_the_names_that_the_run_kept(instep: Instep) -> None:
    pandas = pytest.importorskip("pandas")
    Path("table.py").write_text(TABLE)
    run = trained(instep, file="table.py", folder="runs/table")
    rows = pandas.DataFrame({"y": ["?", "?", ""], "b": [1.0, 2.0, 3.0], "a": [4.0, 5.0, 6.0]})
    rows.to_csv("rows.csv", index=False)
    rows[["a", "y"]].to_csv("few.csv", index=False)
    model = nn.Linear(2, 2)
    load_model(model, run)
    with torch.no_grad():
        expected = model(torch.tensor([[4.0, 1.0], [5.0, 2.0], [6.0, 3.0]]))
    said = instep("predict", str(run), "rows.csv", "-o", "p.npy")
    assert (said.code, said.err) == (0, "")
    torch.testing.assert_close(torch.from_numpy(np.load("p.npy")), expected)
    said = instep("predict", str(run), "few.csv")
    assert (said.code, said.err) == (2, "instep: few.csv lacks the column b of the training data; it has a, y.\n")
    Path("gaps.csv").write_text('a,y,b\n1,"two\nlines",2\n\n3,x,\n')  # the gap is in line 5 of the file
    said = instep("predict", str(run), "gaps.csv")
    words = "column 'b' of gaps.csv has no value in line 5; fill it (frame.fillna) or drop the row."
    assert (said.code, words in " ".join(said.err.split())) == (2, True), said.err
    if importlib.util.find_spec("pyarrow") is None:
        Path("rows.parquet").write_bytes(b"PAR1")
        said = instep("predict", str(run), "rows.parquet")
        words = "rows.parquet is read by pandas with pyarrow, which is not installed: pip install pyarrow"
        assert (said.code, said.err) == (2, f"instep: {words}\n")
    else:
        rows.to_parquet("rows.parquet")
        said = instep("predict", str(run), "rows.parquet", "-o", "same.npy")
        assert said.code == 0
        assert np.array_equal(np.load("same.npy"), np.load("p.npy"))
    Path("none.csv").write_text("")
    said = instep("predict", str(run), "none.csv")
    assert (said.code, said.err) == (2, "instep: none.csv cannot be read: No columns to parse from file\n")


def test_a_table_for_a_run_without_names(instep: Instep) -> None:
    pytest.importorskip("pandas")
    run = trained(instep)
    Path("rows.csv").write_text("a,b,c,d\n1,2,3,4\n")
    said = instep("predict", str(run), "rows.csv")
    assert said.code == 2
    assert said.err.startswith("instep: rows.csv has columns by name, and the run was trained on data without such names; use")


@pytest.mark.skipif(importlib.util.find_spec("pandas") is None, reason="needs pandas")
@pytest.mark.parametrize("options", [(), ("--pair",)])
def test_classes_have_their_names(instep: Instep, options: tuple[str, ...]) -> None:
    Path("kinds.py").write_text(textwrap.dedent(KINDS))
    assert instep("train", "kinds.py", "--no-progress", *options).code == 0
    said = instep("evaluate", "runs/kinds")
    assert "valid/f1_per_class/used" in said.out
    assert [line.split()[0] for line in said.out.splitlines() if line.strip()].count("used") == 2  # in both tables
    assert set(json.loads(instep("evaluate", "runs/kinds", "--json").out)["reports"]["valid"]["classes"]) == {
        "new",
        "old",
        "used",
    }
    Path("rows.csv").write_text("b,a\n0.5,-1\n1,2\n")
    assert instep("predict", "runs/kinds", "rows.csv", "-o", "p.csv").code == 0
    head, *rows = [line.split(",") for line in Path("p.csv").read_text().splitlines()]
    assert head == ["new", "old", "used", "predicted"]
    assert len(rows) == 2
    for *scores, predicted in rows:
        assert predicted == head[max(range(3), key=lambda place: float(scores[place]))]
    assert "used" in instep("predict", "runs/kinds", "rows.csv").out.splitlines()[3]
    assert instep("report", "runs/kinds", "--samples").code == 0
    page = Path("runs/kinds/report.html").read_text()
    assert '"names":["new","old","used"]' in page.replace(", ", ",").replace(": ", ":")
    assert "[0] is a, b" in page
    described = json.loads(describe(rebuild(Path("runs/kinds"), None, None, None), {}))
    assert (described["columns"], described["classes"]) == (["a", "b"], ["new", "old", "used"])


def test_a_csv_without_names_of_classes(instep: Instep) -> None:
    run = trained(instep)
    np.save("x.npy", X.numpy())
    assert instep("predict", str(run), "x.npy", "-o", "p.csv").code == 0
    lines = Path("p.csv").read_text().splitlines()
    assert lines[0] == "predictions_0,predictions_1,predictions_2"
    found = torch.tensor([[float(cell) for cell in line.split(",")] for line in lines[1:]])
    assert torch.equal(found, expected(run))


def test_inputs_of_another_width_are_one_line(instep: Instep) -> None:
    run = trained(instep)
    np.save("bad.npy", X[:, :3].numpy())
    said = instep("predict", str(run), "bad.npy")
    assert said.code == 2
    assert said.err.strip().count("\n") == 0
    assert "bad.npy does not go through the model: samples of float32 (3,); it was trained on samples of float32 (4,)" in said.err
    assert "or .csv" in instep("predict", str(run), "nope.npy").err
