"""Every example runs as a user runs it, and shows what it claims."""

import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    command = [sys.executable, "-W", "error", str(EXAMPLES / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


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


def test_update_cycle() -> None:
    rows = re.findall(r"(SGD|AdamW) +(\d+) +(\d+) +(\d+) +([\d.]+)% +(\S+)", run("update_cycle.py"))
    assert len(rows) == 18
    for _optimizer, batch, size, cycle, naive, ours in rows:
        assert int(size) * int(cycle) == int(batch)
        assert float(ours) < 1e-12
        if batch == "21":  # divides evenly
            assert float(naive) == 0
        if batch == "30":  # the last cycle is never stepped
            assert float(naive) > 2


def test_gan(tmp_path: Path) -> None:
    """As a user runs it; and stopped in the middle of an epoch, it ends at the same picture."""
    said = run("gan.py", "--epochs", "3", "--picture", str(tmp_path / "whole.png"), "--folder", str(tmp_path / "whole"))
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


def test_loggers(tmp_path: Path) -> None:
    said = run("loggers.py", "--folder", str(tmp_path / "digits")).splitlines()
    rows = [json.loads(line) for line in said[:-1]]
    assert [row["accuracy"] > 0.5 for row in rows[:-1]] == [True] * 3
    assert rows[-1] == {"state": "finished"}
    assert said[-1].startswith("see also checkpoints, history.jsonl, lock, metrics.csv, run.json in ")
