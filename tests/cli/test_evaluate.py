"""`instep evaluate`: the recorded run, built again, gives the recorded numbers."""

import json
import re
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from cli.recorded import KINDS, describe, described, trained
from cli.said import BUILD, Instep
from instep import load_model

pytestmark = pytest.mark.usefixtures("build_file")


def evaluations(run: Path) -> list[dict[str, float]]:
    rows = [json.loads(line) for line in (run / "history.jsonl").read_text().splitlines()]
    return [row for row in rows if row["kind"] == "evaluation"]


def test_the_numbers_are_those_that_the_run_recorded(instep: Instep) -> None:
    run = trained(instep, "--lr", "0.5", "--deep", "--epochs", "4")
    recorded = {int(row["step"]): row for row in evaluations(run)}
    best = min(recorded.values(), key=lambda row: row["valid/loss"])
    said = instep("evaluate", str(run), "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    matrix, reported = found.pop("tables")["valid/confusion_matrix"], found.pop("reports")["valid"]
    assert found == {
        "run": "runs/my",
        "step": best["step"],
        "valid/loss": best["valid/loss"],
        "valid/accuracy": best["valid/accuracy"],
    }
    samples = sum(map(sum, matrix))
    assert sum(matrix[i][i] for i in range(len(matrix))) / samples == best["valid/accuracy"]
    assert reported["macro"]["support"] == samples
    for which, step in (("latest", 8), ("2", 2)):  # the first of all is written at once
        numbers = json.loads(instep("evaluate", str(run), "--which", which, "--json").out)
        assert (numbers["step"], numbers["valid/loss"]) == (step, recorded[step]["valid/loss"])
    text = instep("evaluate", str(run), "--which", "latest").out
    assert re.match(r"runs/my at step 8\n  valid/loss      [\d.]+\n  valid/accuracy  [\d.]+\n\nvalid: precision, recall", text)
    assert "valid: confusion matrix (rows: true, columns: predicted)\n" in text


def test_what_was_recorded_counts_and_not_what_the_file_says_now(instep: Instep) -> None:
    """A default that was changed after the training does not change what is built; a new parameter has its default."""
    run = trained(instep, "--epochs", "3")
    Path("my.py").write_text(BUILD.replace("deep: bool = False", "deep: bool = True, extra: int = 3"))
    said = instep("evaluate", str(run))
    assert (said.code, said.err) == (0, "")


def test_nothing_in_the_run_is_touched(instep: Instep) -> None:
    run = trained(instep)
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert instep("evaluate", str(run)).code == 0
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before


def test_other_data_and_other_numbers_are_noted(instep: Instep) -> None:
    run = trained(instep)
    Path("my.py").write_text(BUILD.replace("torch.randn(20, 4)", "torch.randn(20, 4) + 1"))
    said = instep("evaluate", str(run))
    assert said.code == 0
    words = r"^note: this is not the data of the run \(before -> now\): data\.train: .*has other values$"
    assert re.search(words, said.err, re.MULTILINE)
    assert "note: the run recorded other numbers at this step; have the data, the file or the versions changed?\n" in said.err
    assert re.search(r"^ +now +recorded\nvalid/loss +[\d.]+ +[\d.]+$", said.err, re.MULTILINE)


def test_a_file_that_was_moved_can_be_named(instep: Instep) -> None:
    run = trained(instep)
    Path("elsewhere").mkdir()
    Path("my.py").rename("elsewhere/other.py")
    said = instep("evaluate", str(run))
    assert said.code == 2
    assert re.fullmatch(
        r"instep: runs/my was built by /.*/my\.py, which is not there any more; say where it is: --file FILE\.py\n", said.err
    )
    assert instep("evaluate", str(run), "--file", "elsewhere/other.py").code == 0


def test_the_recipe_needs_no_file(instep: Instep) -> None:
    run = trained(instep)
    recipe = described(run)["script"] | {"file": None, "options": ["--epochs", "1", "--width", "2"]}
    hyper_parameters = {"epochs": 1, "width": 2}
    describe(run, script=recipe, hyper_parameters=hyper_parameters, data=None)
    said = instep("evaluate", str(run))
    assert said.code == 1  # the weights are those of another model; that it was built is what counts here
    assert "the model is not that of the checkpoint" in said.err


def test_what_is_missing_is_one_line(instep: Instep) -> None:
    run = trained(instep)
    told = described(run)

    def says(words: str, *options: str, **changes: object) -> None:
        describe(run, **{**told, **changes})
        said = instep("evaluate", str(run), *options)
        assert (said.code, said.out) == (2, "")
        assert re.fullmatch(f"instep: {words}\n", said.err), said.err

    says(r"runs/my does not say what built it, as runs of `instep train` do; name a file .*: --file FILE\.py", script=None)
    says(r"--which worst is not known; use best, latest, or a step: 2, 4\.", "--which", "worst")
    says(r"runs/my has no checkpoint 3; use latest, or a step that is there: 2, 4\.", "--which", "3")
    says(
        r"runs/my was trained with depth=3, a parameter that build\(\) of /.*/my\.py has no more\.",
        hyper_parameters=told["hyper_parameters"] | {"depth": 3},
    )
    says(
        r"build\(\) of /.*/my\.py has another default for lr than the run was trained with, {'a': 1}; put that back\.",
        hyper_parameters=told["hyper_parameters"] | {"lr": {"a": 1}},
    )
    says(
        r"runs/my was trained with --depth 3, now build\(\) of /.*/my\.py says: instep train has no option --depth; .*",
        script=told["script"] | {"options": ["--depth", "3"]},
    )
    says(r"runs/my was built by my\.py, which is not there any more; .*", script=told["script"] | {"file": "my.py"})
    says(r"runs/my was built by 3, which is not there any more; .*", script={"file": 3, "options": 3})
    (run / "checkpoints").rename(run / "away")
    says(r"runs/my has no checkpoints, so there are no weights to use\.")


def test_a_run_that_was_never_evaluated(instep: Instep) -> None:
    """Its latest checkpoint is taken, as it has no best; but there is nothing to evaluate it on."""
    Path("my.py").write_text(BUILD.replace("valid=0.2", "valid=None").replace('metrics="accuracy",', ""))
    run = trained(instep)
    said = instep("evaluate", str(run), "--which", "best")
    assert (said.code, said.err) == (2, "instep: runs/my has no checkpoint best; use latest, or a step that is there: 3, 6.\n")
    said = instep("evaluate", str(run))
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("instep: there is nothing to evaluate on; pass valid= to the Trainer")


def test_a_script_that_cannot_be_built_shows_the_users_traceback(instep: Instep) -> None:
    run = trained(instep)
    Path("my.py").write_text(BUILD.replace("    x, y =", '    {}["data"]\n    x, y ='))
    said = instep("evaluate", str(run))
    assert said.code == 2
    assert said.err.splitlines()[-2:] == ["KeyError: 'data'", f"instep: build() of {Path('my.py').resolve()} raised KeyError."]
    assert "/instep/" not in said.err


def test_prints_of_the_file_leave_stdout_to_the_numbers(instep: Instep) -> None:
    run = trained(instep)
    Path("my.py").write_text(BUILD.replace("    x, y =", "    print('loading')\n    x, y ="))
    said = instep("evaluate", str(run), "--json")
    assert json.loads(said.out)["step"] in (2, 4)
    assert said.err == "loading\n"


def test_test_data_is_evaluated_at_the_end_and_where_one_asks(instep: Instep) -> None:
    """In --json of train, in show, and again by evaluate --test: the same number everywhere."""
    Path("my.py").write_text(BUILD.replace("valid=0.2,", "valid=0.2, test=(x * 2, y),"))
    said = instep("train", "my.py", "--folder", "runs/my", "--no-progress", "--json")
    numbers = json.loads(said.out)["test"]
    assert list(numbers) == ["step", "epoch", "test/loss", "test/accuracy"]
    assert f"  test     test/loss {numbers['test/loss']:#.4g}, test/accuracy" in said.err
    shown = instep("show", "runs/my").out
    assert f"test: test/loss {numbers['test/loss']:#.4g}, test/accuracy" in shown
    again = instep("evaluate", "runs/my", "--test", "--which", "latest", "--json")
    assert json.loads(again.out)["test/loss"] == pytest.approx(numbers["test/loss"])
    assert again.err == ""


def test_new_samples_in_a_file_of_arrays(instep: Instep) -> None:
    run = trained(instep)
    x, y = np.random.default_rng(0).normal(size=(7, 4)), np.arange(7) % 3
    np.savez("new.npz", x=x, y=y)
    model = nn.Linear(4, 3)
    load_model(model, run)
    with torch.no_grad():
        scores = model(torch.from_numpy(x).float())
    said = instep("evaluate", str(run), "new.npz", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert found["new/loss"] == pytest.approx(nn.functional.cross_entropy(scores, torch.from_numpy(y)).item())
    assert found["new/accuracy"] == pytest.approx((scores.argmax(1).numpy() == y).mean())
    assert instep("evaluate", str(run), "new.npz").out.startswith("runs/my at step 4 on new.npz\n  new/loss ")
    torch.save((torch.from_numpy(x), torch.from_numpy(y)), "new.pt")
    assert json.loads(instep("evaluate", str(run), "new.pt", "--json").out) == found


def test_arrays_that_cannot_be_evaluated(instep: Instep) -> None:
    run = trained(instep)
    np.save("x.npy", np.zeros((7, 4)))
    arrays: dict[str, dict[str, Any]] = {
        "names": {"a": np.zeros((7, 4)), "b": np.zeros(7)},
        "wide": {"x": np.zeros((7, 5)), "y": np.zeros(7, dtype=int)},
        "classes": {"x": np.zeros((7, 4)), "y": np.full(7, 3)},
        "halves": {"x": np.zeros((7, 4)), "y": np.full(7, 0.5)},
        "lengths": {"x": np.zeros((7, 4)), "y": np.zeros(6, dtype=int)},
        "empty": {"x": np.zeros((0, 4)), "y": np.zeros(0, dtype=int)},
    }
    for name, named in arrays.items():
        np.savez(f"{name}.npz", **named)
    for name, words in {
        "x.npy": "x.npy holds one array, and a sample of the training data is 2 arrays; call them x and y in an .npz or "
        ".safetensors.",
        "names.npz": "names.npz has a, b, and an evaluation needs inputs and targets; call them x and y in an .npz or "
        ".safetensors.",
        "wide.npz": "wide.npz does not go through the model: samples of float32 (5,), int64 (); it was trained on samples of "
        "float32 (4,), int64 ().",
        "classes.npz": "sample 0 of classes: label 3 is none of the 3 classes",
        "halves.npz": "halves.npz has float64 where the run was trained on int64, and they are no whole numbers.",
        "lengths.npz": "the columns of lengths have different lengths: 7, 6.",
        "empty.npz": "empty holds no sample",
        "none.npz": "none.npz does not exist; name a file of inputs: .npy, .npz, .safetensors, .pt or .csv.",
        "rows.csv": "rows.csv does not exist; name a file of rows.",
    }.items():
        said = instep("evaluate", str(run), name)
        assert (said.code, said.out) == (2, ""), name
        assert words in " ".join(said.err.split())
    said = instep("evaluate", str(run), "wide.npz", "--test")
    assert said.err == "instep: evaluate either wide.npz or --test, the test data of the file; leave one out.\n"
    said = instep("evaluate", str(run), "classes.npz", "--weights", "ema")
    assert "takes averaged weights, and this run keeps none" in " ".join(said.err.split())


def test_whole_numbers_may_be_written_as_others(instep: Instep) -> None:
    run = trained(instep)
    x, y = np.random.default_rng(0).normal(size=(7, 4)), np.arange(7) % 3
    np.savez("new.npz", x=x, y=y)
    np.savez("floats.npz", x=x, y=y.astype(float), weight=np.ones(7))
    found = json.loads(instep("evaluate", str(run), "new.npz", "--json").out)
    said = instep("evaluate", str(run), "floats.npz", "--json")
    assert said.err == "note: floats.npz has arrays that are not used: weight\n"
    assert json.loads(said.out)["floats/loss"] == found["new/loss"]


@pytest.mark.parametrize("options", [[], ["--pair"]])
def test_new_rows_of_a_table_go_by_the_names_and_classes_of_the_training_data(instep: Instep, options: list[str]) -> None:
    pytest.importorskip("pandas")
    Path("kinds.py").write_text(textwrap.dedent(KINDS))
    run = trained(instep, *options, file="kinds.py", folder="runs/kinds")
    Path("rows.csv").write_text("kind,b,a\nused,1,-1\nused,0.5,2\nnew,-2,0\n")  # no old: its codes would be others
    said = instep("evaluate", str(run), "rows.csv", "--json")
    assert (said.code, said.err) == (0, "")
    model = nn.Linear(2, 3)
    load_model(model, run)
    expected = nn.functional.cross_entropy(model(torch.tensor([[-1.0, 1.0], [2.0, 0.5], [0.0, -2.0]])), torch.tensor([2, 2, 0]))
    found = json.loads(said.out)
    assert found["rows/loss"] == pytest.approx(expected.item())
    assert [sum(row) for row in found["tables"]["rows/confusion_matrix"]] == [1, 0, 2]
    assert list(found["reports"]["rows"]["classes"]) == ["new", "old", "used"]
    Path("odd.csv").write_text("kind,b,a\nnew,1,1\n\nlost,2,2\n")
    said = instep("evaluate", str(run), "odd.csv")
    words = "target 'kind' of odd.csv is 'lost' in line 4, which is no class of the training data; it has new, old, used."
    assert (said.code, " ".join(said.err.split())) == (2, f"instep: {words}")
    Path("few.csv").write_text("a,b\n1,1\n")
    said = instep("evaluate", str(run), "few.csv")
    assert said.err == "instep: few.csv lacks the target kind, so no loss can be worked out; predict() needs none.\n"
    np.savez("new.npz", x=np.zeros((2, 2)), y=np.array([0, 1]))
    assert instep("evaluate", str(run), "new.npz").code == 0


def test_a_table_for_a_run_without_names(instep: Instep) -> None:
    pytest.importorskip("pandas")
    run = trained(instep)
    Path("rows.csv").write_text("a,b,c,d,y\n1,2,3,4,0\n")
    said = instep("evaluate", str(run), "rows.csv")
    words = "rows.csv has columns by name, and the run was trained on data without such names; use .npz."
    assert (said.code, " ".join(said.err.split())) == (2, f"instep: {words}")


NUMBERS = """
    import pandas, torch
    from torch import nn
    from instep import Trainer
    from instep.data import source

    def build():
        model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)).double()
        large = [1.7e9 + place for place in range(16)]
        table = pandas.DataFrame({"a": large, "b": [0.5] * 16, "y": [place + 0.5 for place in range(16)]})
        return Trainer(model, loss=nn.functional.mse_loss, optimizer=torch.optim.SGD(model.parameters(), lr=1e-20),
                       train=source(table, target="y"), epochs=1, batch_size=8)
"""


def test_a_target_of_numbers_makes_no_classes_and_doubles_are_not_rounded(instep: Instep) -> None:
    pytest.importorskip("pandas")
    Path("numbers.py").write_text(textwrap.dedent(NUMBERS))
    run = trained(instep, file="numbers.py", folder="runs/numbers")
    Path("rows.csv").write_text("y,b,a\n3,1,1700000001\n-2,1,1700000003\n")  # whole, and more digits than float32 has
    model = nn.Sequential(nn.Linear(2, 1), nn.Flatten(0)).double()
    load_model(model, run)
    with torch.no_grad():
        output = model(torch.tensor([[1700000001.0, 1.0], [1700000003.0, 1.0]], dtype=torch.float64))
    said = instep("evaluate", str(run), "rows.csv", "--json")
    found = json.loads(said.out)
    expected = nn.functional.mse_loss(output, torch.tensor([3.0, -2.0], dtype=torch.float64)).item()
    assert found["rows/loss"] == pytest.approx(expected, rel=1e-9)
    assert "tables" not in found


def test_classes_are_those_of_the_run_as_they_are_written(instep: Instep) -> None:
    """Names that pandas takes for numbers, truth values and gaps; and training data that has another class by now."""
    pytest.importorskip("pandas")
    text = textwrap.dedent(KINDS).replace('["new", "old", "used", "old"]', '["0", "NA", "True", "NA"]')
    Path("kinds.py").write_text(text)
    run = trained(instep, file="kinds.py", folder="runs/kinds")
    Path("rows.csv").write_text("kind,b,a\nTrue,1,-1\nNA,0.5,2\n0,-2,0\n")
    said = instep("evaluate", str(run), "rows.csv", "--json")
    assert (said.code, said.err) == (0, "")
    found = json.loads(said.out)
    assert [sum(row) for row in found["tables"]["rows/confusion_matrix"]] == [1, 1, 1]
    Path("kinds.py").write_text(
        text.replace('["0", "NA", "True", "NA"] * 8', '["0", "NA", "True", "NA"] * 8, ["-", "0", "NA", "True"]')
    )
    said = instep("evaluate", str(run), "rows.csv", "--json")
    assert "this is not the data of the run" in said.err
    assert json.loads(said.out) == found
    Path("none.csv").write_text("kind,b,a\n")
    said = instep("evaluate", str(run), "none.csv")
    assert said.err.endswith("instep: none.csv has no rows.\n")


NAMED = """
    import torch
    from torch import nn
    from instep import Trainer
    from instep.data import source

    class Pair(nn.Module):
        def __init__(self):
            super().__init__()
            self.line = nn.Linear(3, 2)

        def forward(self, p, q):
            return self.line(torch.cat([p, q], dim=1))

    def build(jitter: bool = False):
        model = Pair()
        columns = {"p": torch.randn(16, 1), "q": torch.randn(16, 2), "label": torch.arange(16) % 2}
        return Trainer(model, loss=nn.functional.cross_entropy, optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
                       train=source(columns, target="label", batch_transform=(lambda batch: batch) if jitter else None),
                       epochs=1, batch_size=8)
"""


def test_several_inputs_go_by_their_names(instep: Instep) -> None:
    Path("named.py").write_text(textwrap.dedent(NAMED))
    run = trained(instep, file="named.py", folder="runs/named")
    named: dict[str, Any] = {"p": np.zeros((4, 1)), "q": np.ones((4, 2)), "label": np.array([0, 1, 1, 0])}
    for file in ("new", "p", "label"):  # also a file of the name of an entry
        np.savez(f"{file}.npz", **named)
    found = json.loads(instep("evaluate", str(run), "new.npz", "--json").out)
    for file in ("p", "label"):
        numbers = json.loads(instep("evaluate", str(run), f"{file}.npz", "--json").out)
        assert found["new/loss"] in numbers.values()
    assert instep("predict", str(run), "new.npz").code == 0  # the target is left alone, the inputs are float64
    np.savez("few.npz", p=named["p"], label=named["label"])
    said = instep("evaluate", str(run), "few.npz")
    words = "few.npz has p, label, and an evaluation needs inputs and targets; call them p, q and the target in an .npz or"
    assert (said.code, " ".join(said.err.split())) == (2, f"instep: {words} .safetensors.")


def test_a_transform_that_new_samples_do_not_go_through_is_said(instep: Instep) -> None:
    Path("named.py").write_text(textwrap.dedent(NAMED))
    run = trained(instep, "--jitter", file="named.py", folder="runs/named")
    np.savez("new.npz", p=np.zeros((4, 1)), q=np.ones((4, 2)), label=np.array([0, 1, 1, 0]))
    said = instep("evaluate", str(run), "new.npz")
    words = "note: new.npz does not go through the batch_transform of the training data; it must hold what comes out"
    assert (said.code, " ".join(said.err.split())) == (0, words)
