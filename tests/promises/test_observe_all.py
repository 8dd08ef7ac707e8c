"""Promise 5 with everything on: every view of a run at once, and the weights are those of the lean run, bit for bit."""

import contextlib
import io
import os
import random
import sys
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import instep
from instep import OneCycle, Trainer, keys
from instep.cli import main
from instep.errors import Notice
from promises.test_observe import Drawing, Noisy

LEAN: dict[str, Any] = {"progress": False}


def trainer_of(**options: Any) -> Trainer:
    keys.seed_all(keys.for_build(0))
    model, data = Drawing(), Noisy(40)
    return Trainer(
        model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.AdamW(model.parameters(), lr=1e-2),
        schedule=OneCycle(max_lr=0.05),
        train=data,
        epochs=4,
        batch_size=8,
        **options,
    )


class Loud:
    """A logger that draws and seeds when it starts, looks at the data and the graph, and fails at each row."""

    wants = ("preview", "graph")

    def start(self, description: Any) -> int:
        assert description["preview"].sets
        assert description["graph"].nodes
        random.seed(1), np.random.seed(2), torch.manual_seed(3)
        return random.randrange(1)

    def log(self, row: Any) -> None:
        raise OSError("full")

    def finish(self, state: str) -> None: ...


def test_all_views_together_change_no_bit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lean = trainer_of(**LEAN)
    lean.fit()
    data = Noisy(40)
    watched = trainer_of(
        folder=tmp_path / "runs" / "a",
        valid=(data.x[:9], data.y[:9]),
        metrics=["accuracy", "f1_per_class", "confusion_matrix"],
        evaluate_every=3,
        checkpoint_every=2,
        log_every=1,
        doctor=True,
        loggers=["csv", Loud()],
    )
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings(), on_terminal() as written:
        warnings.simplefilter("ignore", Notice)
        for update in watched.updates():
            watched.log(norm=float(random.random()))
            torch.rand(2), np.random.rand()
            if update.step % 7 == 3:
                look(watched, tmp_path)
    assert "\x1b[2K" in written(), "progress was not drawn"
    assert (tmp_path / "runs" / "a" / "report.html").stat().st_size > 10_000
    assert watched.history.evaluations
    assert (tmp_path / "runs" / "a" / "metrics.csv").read_text().count("\n") == 1 + len(watched.history)
    assert_equal(lean.model.state_dict(), watched.model.state_dict())


def look(trainer: Trainer, folder: Path) -> None:
    """What somebody with too many windows open does in the middle of a run."""
    with contextlib.redirect_stdout(io.StringIO()):
        print(instep.preview(trainer), instep.graph(trainer).tree(), trainer, trainer.history)
        instep.graph(trainer).html()
        if hasattr(trainer.history, "plot"):
            with contextlib.suppress(ImportError, instep.errors.DescriptionError):
                trainer.history.plot()
        trainer.evaluate()
        for command in (["report", "runs/a"], ["show", "runs/a"], ["runs"]):
            assert main(command) == 0
    ask_server(folder / "runs")


def ask_server(folder: Path) -> None:
    """The pages of `instep serve`, asked for in this process, where a draw of its own would be felt."""
    pytest.importorskip("starlette", reason="starlette is not installed: instep serve was not tried")
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: instep serve was not tried")
    from report.live.test_app import ask, serving

    assert uvicorn
    with serving(folder) as port:
        for path in ("/", "/report?run=a", "/document?run=a"):
            assert ask(port, path)[0] == 200


@contextlib.contextmanager
def on_terminal() -> Iterator[Any]:
    """stderr is a pseudo terminal; gives a function that says what was written to it, once it is closed."""
    outer, inner = os.openpty()
    pieces: list[bytes] = []

    def read() -> None:
        with contextlib.suppress(OSError):
            while piece := os.read(outer, 65_536):
                pieces.append(piece)

    reader = threading.Thread(target=read)
    reader.start()
    before, sys.stderr = sys.stderr, os.fdopen(inner, "w", encoding="utf-8")
    try:
        yield lambda: b"".join(pieces).decode()
    finally:
        sys.stderr.close()
        sys.stderr = before
        reader.join(timeout=20)
        os.close(outer)


def assert_equal(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name, value in one.items():
        assert torch.equal(value, other[name]), name
