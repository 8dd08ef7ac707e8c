"""`instep train --processes`: real torchrun, real processes, and one that is killed in the middle."""

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
import torch

from distributed.conftest import forked
from distributed.forking import Forking
from instep.checkpoint import read_newest
from instep.distributed.launch import Launch
from instep.errors import DescriptionError
from programs import Programs

SOURCES = Path(__file__).resolve().parents[2] / "src"
BUILD = """\
import os, signal
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from instep import Trainer

seen = 0


def objective(model, batch):
    global seen
    seen += 1
    here = os.environ.get("RANK"), os.environ.get("TORCHELASTIC_RESTART_COUNT")
    if os.path.exists("kill") and here == ("1", "0") and seen == 8:
        os.kill(os.getpid(), signal.SIGKILL)
    return cross_entropy(model(batch[0]), batch[1])


def build(lr: float = 0.1) -> Trainer:
    x, y = torch.randn(21, 4), torch.randint(3, (21,))
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.3), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
    return Trainer(model, objective=objective, optimizer=optimizer, train=(x, y), valid=(x, y), epochs=4, batch_size=6,
                   checkpoint_every=3, seed=1)
"""


def command(programs: Programs, folder: Path, *options: str) -> "subprocess.CompletedProcess[str]":
    """The agent of torchrun is forked; the processes that it starts, and starts again, are new ones."""
    code = "import sys; from instep.cli import main; sys.exit(main())"
    environment = os.environ | {"PYTHONPATH": str(SOURCES), "OMP_NUM_THREADS": "1"}
    return programs.run(["-c", code, "train", "my.py", *options], cwd=folder, env=environment)


@pytest.fixture(scope="module")
def restarted(tmp_path_factory: pytest.TempPathFactory, programs: Programs) -> tuple[Path, "subprocess.CompletedProcess[str]"]:
    """The folder of a run by torchrun, one process of which was killed once, and what the command said."""
    folder = tmp_path_factory.mktemp("restarted")
    (folder / "my.py").write_text(BUILD)
    (folder / "kill").touch()
    said = command(programs, folder, "--processes", "2", "--max-restarts", "1", "--json", "--progress")
    assert said.returncode == 0, said.stderr
    return folder, said


def weights(folder: Path) -> dict[str, torch.Tensor]:
    checkpoint, _ = read_newest(folder / "runs" / "my" / "checkpoints")
    assert checkpoint is not None
    found: dict[str, torch.Tensor] = checkpoint.parts["model"]
    return found


def test_rank_0_alone_speaks_and_writes(restarted: tuple[Path, "subprocess.CompletedProcess[str]"]) -> None:
    folder, said = restarted
    told = json.loads(said.stdout)  # one object: nobody else wrote a word
    assert told["steps"] == 16
    described = json.loads((folder / "runs" / "my" / "run.json").read_text())
    assert described["processes"] == 2
    assert described["status"] == {"state": "finished", "step": 16}
    rows = [json.loads(line) for line in (folder / "runs" / "my" / "history.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if row["kind"] == "evaluation"] == [4, 8, 12, 16]


def test_a_killed_process_is_started_again_from_the_newest_checkpoint(
    restarted: tuple[Path, "subprocess.CompletedProcess[str]"], forking: list[Forking], tmp_path: Path
) -> None:
    folder, said = restarted
    assert re.search(r"going on from step [1-9]", said.stderr + said.stdout)
    (tmp_path / "my.py").write_text(BUILD)
    assert forked(forking, 2, tmp_path, "instep.cli", ["train", "my.py", "--json"]) == [0, 0]  # undisturbed
    assert (tmp_path / "said-1.txt").read_text() == ""
    expected = weights(tmp_path)
    assert all(torch.equal(value, expected[name]) for name, value in weights(folder).items())
    histories = [
        [
            {k: v for k, v in json.loads(line).items() if k != "clock"}
            for line in (at / "runs/my/history.jsonl").read_text().splitlines()
        ]
        for at in (folder, tmp_path)
    ]
    assert histories[0] == histories[1]


def test_what_torchrun_is_told() -> None:
    assert "--standalone" in Launch(2).arguments()
    told = Launch(8, "2:4", "head:29500", 3).arguments()
    assert told[:6] == ["--nproc-per-node", "8", "--nnodes", "2:4", "--max-restarts", "3"]
    assert told[6:10] == ["--rdzv-backend", "c10d", "--rdzv-endpoint", "head:29500"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"processes": 0}, "--processes 0 must be"),
        ({"processes": 2, "max_restarts": -1}, "--max-restarts -1 must be"),
        ({"processes": 2, "nodes": 2}, "--nodes 2 needs --rendezvous HOST:PORT"),
    ],
)
def test_a_launch_that_cannot_be(options: dict[str, int], words: str) -> None:
    with pytest.raises(DescriptionError, match=words):
        Launch(**options)  # type: ignore[arg-type]
