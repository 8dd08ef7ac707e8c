"""What is compared of a run."""

from typing import Any

from instep import Trainer
from instep.distributed.dtensors import whole


def recorded(trainer: Trainer) -> dict[str, Any]:
    """Train, and keep what every process and any number of them must agree on."""
    updates = [
        (
            update.step,
            float(update.loss),
            float(update.count),
            update.samples,
            update.skipped,
            _number(update.grad_norm),
            {name: float(value) for name, value in update.parts.items()},
        )
        for update in trainer.updates()
    ]
    history = trainer.history
    return {
        "weights": {name: whole(value.detach()).clone() for name, value in trainer.model.state_dict().items()},
        "updates": updates,
        "evaluations": [
            {name: value for name, value in row.items() if name != "clock"} for row in history.rows if row["kind"] == "evaluation"
        ],
        "step": trainer.step,
        "logged": [call for logger in trainer.run.options.loggers for call in getattr(logger, "calls", ())],
        "average": {} if trainer.ema is None else dict(trainer.ema.module.state_dict()),
    }


def _number(value: Any) -> float | None:
    return None if value is None else float(value)
