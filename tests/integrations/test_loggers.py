"""TensorBoard, MLflow, W&B, trackio and CSV at once, on a run that was killed: each has the points of the history, once."""

import csv
import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from instep import History, Trainer
from instep.run.history import HistoryFile
from instep.run.loggers import numbers_of
from integrations.killed_run import NAMES
from promises.test_observe_all import LEAN, assert_equal, trainer_of
from run.test_loggers import copy_as_killed, leave_at
from tiny import X, Y, make

pytestmark = [
    pytest.mark.extras,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning", "ignore::FutureWarning"),
]
Curves = dict[str, list[tuple[int, float]]]
SCRIPT = Path(__file__).with_name("killed_run.py")


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder of their own for all stores; nobody asks a network."""
    folder = tmp_path_factory.mktemp("stores")
    before = dict(os.environ)
    os.environ |= {
        "WANDB_MODE": "offline",
        "WANDB_SILENT": "true",
        "TRACKIO_DIR": str(folder / "trackio"),
        "MLFLOW_TRACKING_URI": f"sqlite:///{folder / 'mlflow.db'}",
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "HF_HUB_OFFLINE": "1",
    }
    yield folder
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="module")
def killed(stores: Path) -> Path:
    """The folder of a run that was killed at step 28, after the checkpoint of step 20, and started again."""
    run = stores / "runs" / "killed"
    for arguments, code in (([str(run), "28"], -signal.SIGKILL), ([str(run)], 0)):
        done = subprocess.run([sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, check=False, cwd=stores)
        assert done.returncode == code, done.stderr
    resumed, end = done.stdout.split()
    assert (int(resumed) in (20, 25), end) == (True, "40")
    return run


def curves_of(rows: Any) -> Curves:
    """The points of a history, by curve; what depends on the clock is left out."""
    found: Curves = {}
    for row in rows:
        for name, value in numbers_of(row).items():
            found.setdefault(name, []).append((row["step"], value))
    return without_clock(found)


def without_clock(curves: Curves) -> Curves:
    return {name: sorted(points) for name, points in curves.items() if not name.startswith("clock/")}


def expected(run: Path) -> Curves:
    found = curves_of(HistoryFile.read(run / "history.jsonl").rows)
    assert [step for step, _ in found["loss"]] == list(range(1, 41))
    assert [step for step, _ in found["valid/accuracy"]] == list(range(5, 41, 5))
    return found


# --- What each store has


def in_tensorboard(run: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    read = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "images": 0, "tensors": 0})
    read.Reload()
    return read


def tensorboard_curves(run: Path) -> Curves:
    read = in_tensorboard(run)
    return without_clock({tag: [(one.step, one.value) for one in read.Scalars(tag)] for tag in read.Tags()["scalars"]})


def mlflow_curves(run: Path, run_id: str | None = None) -> Curves:
    from mlflow import MlflowClient

    client, run_id = MlflowClient(), run_id or json.loads((run / "mlflow.json").read_bytes())["id"]
    names = client.get_run(run_id).data.metrics
    return without_clock({name: [(one.step, one.value) for one in client.get_metric_history(run_id, name)] for name in names})


def wandb_curves(run: Path) -> Curves:
    from instep.integrations.wandb import read_history

    run_id = json.loads((run / "wandb.json").read_bytes())["id"]
    found: Curves = {}
    for path in sorted((run / "wandb").glob(f"offline-run-*-{run_id}*/run-{run_id}.wandb")):
        for row in read_history(path):
            for name in [name for name in row if not name.startswith("_")]:
                found.setdefault(name, []).append((row["_step"], row[name]))
    return without_clock(found)


def trackio_curves(run: Path) -> Curves:
    from trackio.sqlite_storage import SQLiteStorage

    found: Curves = {}
    for row in SQLiteStorage.get_logs("instep", json.loads((run / "trackio.json").read_bytes())["id"]):
        for name in [name for name in row if name not in ("step", "timestamp")]:
            found.setdefault(name, []).append((row["step"], row[name]))
    return without_clock(found)


def csv_curves(run: Path) -> Curves:
    found: Curves = {}
    with (run / "metrics.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            named = [name for name, value in row.items() if value and name not in ("kind", "step")]
            for name in named if row["kind"] == "update" else [name for name in named if name != "epoch"]:
                found.setdefault(name, []).append((int(row["step"]), float(row[name])))
    return without_clock(found)


CURVES = {
    "tensorboard": tensorboard_curves,
    "mlflow": mlflow_curves,
    "wandb": wandb_curves,
    "trackio": trackio_curves,
    "csv": csv_curves,
}


def assert_same_points(found: Curves, wanted: Curves, name: str) -> None:
    """The same curves, with the same steps in each: no gap, no double point."""
    if name == "wandb":  # which keeps one row a step
        wanted = {curve: sorted(dict(points).items()) for curve, points in wanted.items()}
    assert found.keys() == wanted.keys()
    for curve, points in wanted.items():
        assert [step for step, _ in found[curve]] == [step for step, _ in points], curve
        for (_, one), (_, other) in zip(found[curve], points, strict=True):
            assert math.isclose(one, other, rel_tol=1e-6 if name == "tensorboard" else 0.0), curve


@pytest.mark.parametrize("name", NAMES)
def test_no_gap_and_no_double_point_after_a_kill(name: str, killed: Path) -> None:
    assert_same_points(CURVES[name](killed), expected(killed), name)


def test_tensorboard_has_the_settings_the_pictures_and_the_graph(killed: Path) -> None:
    from tensorboard.compat.proto.graph_pb2 import GraphDef
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    read = in_tensorboard(killed)
    said = read.SummaryMetadata("_hparams_/session_start_info").plugin_data.content
    settings = HParamsPluginData.FromString(said).session_start_info.hparams
    assert settings["batch_size"].number_value == 16
    assert settings["optimizer"].string_value == "SGD"
    assert settings["optimizer.lr"].number_value == 0.1
    experiment = HParamsPluginData.FromString(read.SummaryMetadata("_hparams_/experiment").plugin_data.content).experiment
    assert [one.name.tag for one in experiment.metric_infos] == ["valid/loss"]
    ended = read.SummaryMetadata("_hparams_/session_end_info").plugin_data.content
    assert HParamsPluginData.FromString(ended).session_end_info.status == 1  # success
    (image,) = read.Images("data/train")
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert (image.width, image.height) >= (8, 8)
    graph = GraphDef.FromString(read.Graph().SerializeToString())
    names = {node.name for node in graph.node}
    assert any(name.startswith("Sequential/1/weight.") for name in names)
    assert all(source in names for node in graph.node for source in node.input)
    assert {"parameter", "input", "result"} & {node.op for node in graph.node}


def test_mlflow_has_one_run_with_its_parameters(killed: Path) -> None:
    from mlflow import MlflowClient

    (run,) = MlflowClient().search_runs(["0"], filter_string="attributes.run_name = 'killed'")
    assert run.info.run_id == json.loads((killed / "mlflow.json").read_bytes())["id"]
    assert run.info.status == "FINISHED"
    assert run.data.params["batch_size"] == "16"
    assert run.data.tags["instep.folder"] == str(killed)
    first, *_, last = sorted(MlflowClient().get_metric_history(run.info.run_id, "loss"), key=lambda one: one.step)
    assert 0 <= last.timestamp - first.timestamp < 600_000  # when they were made


def test_wandb_goes_on_under_one_id(killed: Path) -> None:
    run_id = json.loads((killed / "wandb.json").read_bytes())["id"]
    assert len(list((killed / "wandb").glob(f"offline-run-*-{run_id}"))) == 2
    assert len(list((killed / "wandb").glob("offline-run-*"))) == 2


# --- In this process


def logged(folder: Path, **changes: Any) -> Trainer:
    options: dict[str, Any] = {"valid": (X[:9], Y[:9]), "log_every": 1, "checkpoint_every": 8, "folder": folder}
    return make(**(options | changes))


@pytest.mark.parametrize("name", ["mlflow", "trackio", "wandb"])
def test_a_run_that_is_changed_after_a_kill_gets_a_new_run(name: str, stores: Path, tmp_path: Path) -> None:
    """Its old points would be wrong, and these stores cannot take them back."""
    copy_as_killed(logged(tmp_path / "run", loggers=name), 10, tmp_path / "copy")
    if name == "wandb":  # which writes its files a little later
        shutil.rmtree(tmp_path / "copy" / "wandb")
        shutil.copytree(tmp_path / "run" / "wandb", tmp_path / "copy" / "wandb", symlinks=True)
    before = json.loads((tmp_path / "copy" / f"{name}.json").read_bytes())["id"]
    model = make().model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    changed = {"model": model, "optimizer": optimizer, "allow_changes": ("lr",)}
    trainer = logged(tmp_path / "copy", loggers=name, **changed)
    trainer.fit()
    assert json.loads((tmp_path / "copy" / f"{name}.json").read_bytes())["id"] != before
    assert_same_points(CURVES[name](tmp_path / "copy"), curves_of(trainer.history.rows), name)


@pytest.mark.usefixtures("stores")
def test_all_loggers_change_no_bit_and_a_pause_leaves_no_trace(tmp_path: Path) -> None:
    """Promise 5, with a model that draws from all three generators; and the points of a run that was left in the middle."""
    lean = trainer_of(**LEAN)
    lean.fit()
    watched = trainer_of(folder=tmp_path / "run", loggers=NAMES, log_every=1, **LEAN)
    leave_at(watched, 7)
    watched.fit()
    assert_equal(lean.model.state_dict(), watched.model.state_dict())
    for name in NAMES:
        assert_same_points(CURVES[name](tmp_path / "run"), curves_of(watched.history.rows), name)


@pytest.mark.usefixtures("stores")
def test_two_starts_in_one_second_leave_no_double_point(tmp_path: Path) -> None:
    """TensorBoard reads its files by name, where writer 10 (100, …) of a process stands before writer 9 (99, …)."""
    from torch.utils.tensorboard import SummaryWriter

    from instep.integrations.tensorboard import TensorBoard

    number = 0
    while len(str(number + 1)) == len(str(number + 2)):
        writer: Any = SummaryWriter(str(tmp_path / "others"))
        number = int(Path(writer.file_writer.event_writer._file_name).name.rpartition(".")[2])
        writer.close()
    trainer = logged(tmp_path / "run", loggers=TensorBoard(pictures=False, graph=False))
    time.sleep(1 - time.time() % 1)  # so that both starts are in one second, on a machine that is not very busy
    leave_at(trainer, 7)
    trainer.fit()
    assert_same_points(tensorboard_curves(tmp_path / "run"), curves_of(trainer.history.rows), "tensorboard")


def test_a_mark_is_never_torn(tmp_path: Path) -> None:
    """Who reads it at any moment, as a process after a kill does, finds a whole one."""
    from torch.utils.tensorboard import SummaryWriter

    from instep.integrations.tensorboard import TensorBoard

    logger = TensorBoard(tmp_path)
    logger._folder, logger._writer = tmp_path, SummaryWriter(str(tmp_path))
    logger._flush(0)
    stop = threading.Event()

    def write() -> None:
        for step in itertools.takewhile(lambda _: not stop.is_set(), itertools.count()):
            logger._flush(step)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        assert all(isinstance(json.loads((tmp_path / "tensorboard.json").read_bytes())["step"], int) for _ in range(20_000))
    finally:
        stop.set()
        thread.join()
        logger._writer.close()


@pytest.mark.usefixtures("stores")
def test_wandb_points_of_two_starts_in_one_second_are_found(tmp_path: Path) -> None:
    from instep.integrations.wandb import read_points

    logged(tmp_path, loggers="wandb").fit()
    run_id = json.loads((tmp_path / "wandb.json").read_bytes())["id"]
    before = read_points(tmp_path / "wandb", run_id)
    assert before["loss"] == set(range(1, 13))
    (made,) = (tmp_path / "wandb").glob("offline-run-*")
    made.rename(made.with_name(f"{made.name}-1"))  # as W&B names the second one
    assert read_points(tmp_path / "wandb", run_id) == before


@pytest.mark.usefixtures("stores")
def test_event_files_that_were_deleted_are_written_again(tmp_path: Path) -> None:
    leave_at(logged(tmp_path, loggers="tensorboard"), 6)
    shutil.rmtree(tmp_path / "tensorboard")
    trainer = logged(tmp_path, loggers="tensorboard")
    trainer.fit()
    assert_same_points(tensorboard_curves(tmp_path), curves_of(trainer.history.rows), "tensorboard")


@pytest.mark.usefixtures("stores")
def test_a_run_without_a_folder(tmp_path: Path) -> None:
    from mlflow import MlflowClient

    from instep.integrations.mlflow import MLflow
    from instep.integrations.tensorboard import TensorBoard

    trainer = make(loggers=[TensorBoard(tmp_path / "tensorboard", graph=False), MLflow("without", run_name="a", tags={"b": "c"})])
    leave_at(trainer, 5)
    history: History = trainer.fit()
    assert_same_points(tensorboard_curves(tmp_path), curves_of(history.rows), "tensorboard")
    experiment = MlflowClient().get_experiment_by_name("without")
    (run,) = MlflowClient().search_runs([experiment.experiment_id])
    assert (run.info.run_name, run.data.tags["b"]) == ("a", "c")
    assert_same_points(mlflow_curves(tmp_path, run.info.run_id), curves_of(history.rows), "mlflow")
