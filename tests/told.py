"""Records and folders as a run would leave them: 10 epochs of 120 updates, with round numbers."""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from instep.records import Evaluation, Logged, Pace, Plan
from instep.run.history import History, HistoryFile

STEPS_PER_EPOCH, EPOCHS = 120, 10
CREATED = datetime(2026, 1, 5, 10, 0, tzinfo=UTC)


def plan(**changes: object) -> Plan:
    told: dict[str, object] = {
        "title": "digits",
        "rows": (("model", "MLP"),),
        "total_steps": STEPS_PER_EPOCH * EPOCHS,
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epochs": EPOCHS,
        "metrics": ("valid/accuracy", "valid/loss"),
    }
    return Plan(**(told | changes))  # type: ignore[arg-type]


def logged(
    step: int,
    loss: float | None = 0.5,
    *,
    grad_norm: float | None = None,
    skipped: int = 0,
    extra: Mapping[str, float] | None = None,
    waiting: float = 0.03,
) -> Logged:
    pace = Pace(samples_per_s=12_345.0, waiting=waiting, seconds=step / 100)
    return Logged(step, (step - 1) // STEPS_PER_EPOCH, loss, 0.003, grad_norm, None, None, skipped, extra or {}, pace)


def evaluation(step: int, loss: float = 0.25, accuracy: float = 0.75) -> Evaluation:
    return Evaluation({"valid/loss": loss, "valid/accuracy": accuracy}, step, (step - 1) // STEPS_PER_EPOCH)


def run_folder(folder: Path, *, state: str = "finished", epochs: int = 3, **changes: object) -> Path:
    """A run with 12 lines of the log and an evaluation an epoch, each better than the one before."""
    folder.mkdir(parents=True)
    description = {
        "title": "handwritten digits",
        "created": CREATED.isoformat(),
        "settings": {"batch_size": 64, "clip_norm": None, "schedule": "OneCycle(max_lr=0.003)"},
        "hyper_parameters": {"lr": 0.003, "hidden": [128, 64]},
        "versions": {"torch": "2.13.0"},
        "threads": 2,
        "device": "cpu",
        "monitor": "valid/accuracy",
        "monitor_mode": "max",
        "total_steps": STEPS_PER_EPOCH * EPOCHS,
        "steps_per_epoch": STEPS_PER_EPOCH,
        "epochs": EPOCHS,
        "status": {"state": state, "step": STEPS_PER_EPOCH * epochs},
    }
    (folder / "run.json").write_text(json.dumps(description | changes), encoding="utf-8")
    history, file = History(), HistoryFile(folder / "history.jsonl")
    file.path.touch()
    for step in range(10, STEPS_PER_EPOCH * epochs + 1, 10):
        file.append(history.add_update(logged(step, 2.0 - step / 1000)))
        if step % STEPS_PER_EPOCH == 0:
            file.append(history.add_evaluation(evaluation(step, 1.0 - step / 2000, 0.5 + step / 4000), seconds=1.0))
    return folder
