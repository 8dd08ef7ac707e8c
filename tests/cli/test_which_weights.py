"""A run with an average: predict, export and evaluate take the weights that its monitored value judges, or those named."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from cli.recorded import trained
from cli.said import BUILD, Instep
from instep.checkpoint.interchange import load_model

X = torch.linspace(-1, 1, 28).reshape(7, 4)


def run_monitoring(monitor: str, instep: Instep) -> Path:
    Path("my.py").write_text(BUILD.replace("seed=seed", f"seed=seed, ema=0.5, monitor={monitor!r}"))
    np.save("x.npy", X.numpy())
    return trained(instep)


def outputs(run: Path, weights: str) -> torch.Tensor:
    model = nn.Linear(4, 3)
    load_model(model, run, weights=weights)  # type: ignore[arg-type]
    with torch.no_grad():
        found: torch.Tensor = model(X)
    return found


@pytest.mark.parametrize(("monitor", "default"), [("valid/ema/loss", "ema"), ("valid/loss", "model")])
def test_predict_and_export_use_what_the_monitor_judges(instep: Instep, monitor: str, default: str) -> None:
    run = run_monitoring(monitor, instep)
    assert not torch.allclose(outputs(run, "model"), outputs(run, "ema"), rtol=1e-3)
    for options, weights in (((), default), (("--weights", "model"), "model"), (("--weights", "ema"), "ema")):
        said = instep("predict", str(run), "x.npy", "-o", "p.npy", *options)
        assert (said.code, ", averaged weights" in said.out) == (0, weights == "ema")
        torch.testing.assert_close(torch.from_numpy(np.load("p.npy")), outputs(run, weights))
        assert instep("export", str(run), "-o", "m.pt2", *options).code == 0
        beside = {"instep.json": ""}
        program = torch.export.load("m.pt2", extra_files=beside)
        torch.testing.assert_close(program.module()(X), outputs(run, weights))
        assert json.loads(beside["instep.json"])["weights"] == weights


def test_evaluate_says_both_kinds_by_name_as_the_run_recorded_them(instep: Instep) -> None:
    run = run_monitoring("valid/ema/loss", instep)
    both = instep("evaluate", str(run), "--json")
    assert (both.code, both.err) == (0, "")
    numbers = json.loads(both.out)
    assert numbers["valid/loss"] != pytest.approx(numbers["valid/ema/loss"], rel=1e-3)
    one = json.loads(instep("evaluate", str(run), "--weights", "ema", "--json").out)
    assert [name for name in one if "/" in name] == ["valid/ema/loss", "valid/ema/accuracy"]
    assert one["valid/ema/loss"] == numbers["valid/ema/loss"]


@pytest.mark.usefixtures("build_file")
def test_a_run_without_an_average_says_so(instep: Instep) -> None:
    said = instep("evaluate", str(trained(instep)), "--weights", "ema")
    assert said.code == 2
    assert 'weights="ema" takes averaged weights, and this run keeps none' in said.err
