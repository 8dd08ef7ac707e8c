"""Every example runs as a user runs it, and shows what it claims."""

import difflib
import importlib.util
import json
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from programs import Programs

EXAMPLES = Path(__file__).parent.parent / "examples"
NAMES = sorted(path.name for path in EXAMPLES.glob("*.py"))
DOCTOR = [f"doctor/{path.name}" for path in EXAMPLES.glob("doctor/*")]
# They have more to show than a few changed lines.
LARGER = {
    "gan.py",
    "hugging_face.py",
    "language_model.py",
    "loggers.py",
    "read_run.py",
    "sklearn_search.py",
    "sweep.py",
    "update_cycle.py",
}


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def run_here(name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """The same in this process, where torch is imported already."""
    monkeypatch.setattr(sys, "argv", [name, *arguments])
    runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return capsys.readouterr().out


def numbers(pattern: str, said: str) -> list[float]:
    found = re.search(pattern, said)
    assert found, said
    return [float(number) for number in found.groups()]


def test_the_index_has_all_of_them() -> None:
    index = (EXAMPLES / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| \[(\S+)\]\((\S+)\)", index, re.MULTILINE)
    assert all(name == link and (EXAMPLES / link).is_file() for name, link in rows)
    assert sorted(name for name, _ in rows) == sorted([*NAMES, "notebook.ipynb", *DOCTOR])


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LARGER and name != "base.py"])
def test_an_example_is_a_small_change_of_the_first(name: str) -> None:
    base, other = ((EXAMPLES / one).read_text(encoding="utf-8").splitlines() for one in ("base.py", name))
    build = other[next(i for i, line in enumerate(other) if line.startswith("def build")) :]
    kept = [line for line in difflib.ndiff(base, build) if line.startswith("  ") and line.strip()]
    assert len(kept) >= 10, "the lines of build() that are those of base.py"
    assert len(other) < 85


def test_base(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("base.py", capsys, monkeypatch)
    assert "OneCycle" in said
    (accuracy,) = numbers(r"accuracy ([\d.]+)%", said)
    assert accuracy > 90


def test_classification(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("classification.py", capsys, monkeypatch)
    valid, test = numbers(r"best valid accuracy ([\d.]+)%, test accuracy ([\d.]+)%", said)
    assert valid > 90
    assert test > 80
    assert re.search(r"the most frequent mistake: \d+ times a \d is taken for a \d", said)
    assert re.search(r"the first three: 0 \(\d+%\), 1 \(", said)


def test_regression(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("regression.py", capsys, monkeypatch)
    r2, price = numbers(r"(?s)r2 ([\d.]+),.* 3 rooms: (\d+) thousand", said)
    assert r2 > 0.9
    assert price == pytest.approx(2.5 * 90 - 1.2 * 10 + 8 * 3, abs=30)


def test_language_model(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("language_model.py", capsys, monkeypatch, "--epochs", "4")
    assert "epoch 4, loss " in said
    (perplexity,) = numbers(r"letters, perplexity ([\d.]+)", said)
    assert perplexity < 16  # by chance it is about 50


def test_fine_tuning(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("fine_tuning.py", capsys, monkeypatch)
    moved = re.findall(r"epoch \d: loss \S+, the body has (not moved|moved)", said)
    assert moved == ["not moved", "not moved", "moved", "moved", "moved"]
    assert numbers(r"accuracy ([\d.]+)%", said)[0] > 70


def test_autoencoder(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    error, nothing = numbers(
        r"error ([\d.]+); the mean image would have ([\d.]+)", run_here("autoencoder.py", capsys, monkeypatch)
    )
    assert error < 0.6 * nothing


def test_contrastive(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("contrastive.py", capsys, monkeypatch)
    first, last = numbers(r"loss from ([\d.]+) to ([\d.]+)", said)
    assert last < 0.5 * first
    before, after = numbers(r"the same digit: (\d+)% before, (\d+)% after", said)
    assert after > before


def test_custom_objective(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("custom_objective.py", capsys, monkeypatch)
    assert said.count("valid/confidence 0.0") == 2
    assert "a split batch gives the same training: True" in said


def test_segmentation(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("segmentation.py", capsys, monkeypatch)
    assert "17% of the pixels have no label" in said
    assert numbers(r"accuracy ([\d.]+)%", said)[0] > 90
    assert "the same weights as with whole batches: True" in said


def test_generator_data(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("generator_data.py", capsys, monkeypatch)
    first, last = numbers(r"loss from ([\d.]+) to ([\d.]+)", said)
    assert last < 0.1 * first
    assert "stopped and resumed at step 41: the same weights: True" in said


def test_cycles(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("cycles.py", capsys, monkeypatch)
    assert "suggestion 0.0" in said
    assert re.search(r"    1     0 to 69  0\.0\d+", said)
    assert numbers(r"accuracy ([\d.]+)%", said)[0] > 90


@pytest.mark.extras
def test_hugging_face(tmp_path: Path) -> None:
    """It learns to write, stops, goes on, and what it saves is a model of theirs."""
    said = run("hugging_face.py", "--folder", str(tmp_path / "run"), "--out", str(tmp_path / "out"))
    assert "epoch 6: loss " in said
    assert re.search(r"the old dog ran and ran (on|under|in) the", said)
    found = re.search(r"perplexity ([\d.]+), accuracy of the next word (\d+)%", said)
    assert found is not None
    assert float(found[1]) < 4
    assert "config.json" in said
    lora = run(
        "hugging_face.py", "--lora", "--epochs", "1", "--folder", str(tmp_path / "lora"), "--out", str(tmp_path / "adapter")
    )
    assert "adapter_model.safetensors" in lora
    sizes = {kind: next((tmp_path / kind).rglob("model.safetensors")).stat().st_size for kind in ("run", "lora")}
    assert sizes["lora"] < 0.2 * sizes["run"]


def test_update_cycle(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    said = run_here("update_cycle.py", capsys, monkeypatch, "--epochs", "4")
    rows = re.findall(r"(SGD|AdamW) +(\d+) +(\d+) +(\d+) +([\d.]+)% +(\S+)", said)
    assert len(rows) == 18
    for _optimizer, batch, size, cycle, naive, ours in rows:
        assert int(size) * int(cycle) == int(batch)
        assert float(ours) < 1e-12
        if batch == "21":  # divides evenly
            assert float(naive) == 0
        if batch == "30":  # the last cycle is never stepped
            assert float(naive) > 2


def test_gan(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Stopped in the middle of an epoch, it ends at the same picture."""
    options = ("--epochs", "3", "--picture", str(tmp_path / "whole.png"), "--folder", str(tmp_path / "whole"))
    said = run_here("gan.py", capsys, monkeypatch, *options)
    assert re.search(r"step 45: loss/d \d\.\d+, loss/g \d\.\d+", said)
    assert said.count("▀") == 30 * 100
    spec = importlib.util.spec_from_file_location("gan", EXAMPLES / "gan.py")
    assert spec is not None
    assert spec.loader is not None
    gan = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(gan)
    for stop in (20, 99):
        trainer = gan.build(epochs=3)
        trainer.run.set_folder(tmp_path / "stopped")
        trainer.run.set_progress(False)
        for update in trainer.updates():
            if update.step == stop:
                break
    gan.write_png(gan.samples(trainer), tmp_path / "stopped.png")
    assert (tmp_path / "stopped.png").read_bytes() == (tmp_path / "whole.png").read_bytes()
    assert (tmp_path / "whole.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


@pytest.mark.extras
def test_sklearn_search() -> None:
    pytest.importorskip("sklearn")
    said = run("sklearn_search.py")
    folds = re.search(r"accuracy in 3 folds: (.*)", said)
    assert folds
    assert all(float(score) > 0.7 for score in folds[1].split(", "))
    rows = re.findall(r"width +(\d+), lr (\S+): (\S+)", said)
    assert len(rows) == 4
    width, lr, _ = max(rows, key=lambda row: float(row[2]))
    assert f"best: {{'classifier__lr': {float(lr)}, 'classifier__model__width': {width}}}" in said


def test_loggers(tmp_path: Path, programs: Programs) -> None:
    """As a user runs it."""
    arguments = ["-W", "error", str(EXAMPLES / "loggers.py"), "--folder", str(tmp_path / "digits")]
    said = programs.run(arguments, check=True).stdout.splitlines()
    rows = [json.loads(line) for line in said[:-1]]
    assert [row["accuracy"] > 0.5 for row in rows[:-1]] == [True] * 3
    assert rows[-1] == {"state": "finished"}
    assert said[-1].startswith("see also checkpoints, history.jsonl, lock, metrics.csv, run.json in ")
