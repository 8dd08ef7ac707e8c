"""Tallies: what each of several objectives has done since the last line of the log and since the last evaluation, by name.

A plain run has none: its logbook keeps the one window itself.
"""

from collections.abc import Mapping
from typing import Any

from instep.records import Update
from instep.run.window import Mean, Window, mean_states, mean_values, restored_means


class Tally:
    """The window of one objective, and its loss since the last evaluation."""

    def __init__(self) -> None:
        self.window = Window()
        self.since_evaluation = Mean()
        self.parts_since_evaluation: dict[str, Mean] = {}
        self.lr = 0.0  # of its last update

    def numbers(self, name: str) -> dict[str, float]:
        """For a line of the log; nothing where it did not play."""
        window = self.window
        if not window.updates:
            return {}
        found = {
            "loss": window.loss.value(),
            **mean_values(window.parts),
            "lr": self.lr,
            "grad_norm": window.grad_norm.value(),
            "clipped": int(window.clipped.weighted) if window.clipped.count else None,
            "penalty": window.penalty.value(),
            "skipped": window.skipped or None,
        }
        return {f"{what}/{name}": value for what, value in found.items() if value is not None}


class Tallies(dict[str, Tally]):
    """By name, in the order in which they first played."""

    def take_in(self, updates: Mapping[str, Update]) -> None:
        for name, update in updates.items():
            tally = self.setdefault(name, Tally())
            tally.window.unread.append(update)
            tally.lr = update.lr

    def read(self) -> None:
        for tally in self.values():
            tally.window.read(tally.since_evaluation, parts=tally.parts_since_evaluation)

    def line(self) -> dict[str, float]:
        """The numbers for a line of the log, which begins anew."""
        self.read()
        found: dict[str, float] = {}
        for name, tally in self.items():
            found |= tally.numbers(name)
            tally.window.restart()
        return found

    def losses(self) -> dict[str, float]:
        """The training losses since the last evaluation, which begin anew."""
        found: dict[str, float] = {}
        for name, tally in self.items():
            means = {"loss": tally.since_evaluation, **tally.parts_since_evaluation}
            found |= mean_values(means, f"train/{name}/")
            tally.since_evaluation, tally.parts_since_evaluation = Mean(), {}
        return found

    def state(self) -> dict[str, Any]:
        self.read()
        return {
            name: {
                "window": tally.window.state(),
                "since_evaluation": tally.since_evaluation.state(),
                "lr": tally.lr,
                **({"parts": mean_states(tally.parts_since_evaluation)} if tally.parts_since_evaluation else {}),
            }
            for name, tally in self.items()
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        self.clear()
        for name, kept in state.items():
            tally = self[name] = Tally()
            tally.window.restore(kept["window"])
            tally.since_evaluation = Mean(*kept["since_evaluation"])
            tally.parts_since_evaluation = restored_means(kept.get("parts", {}))
            tally.lr = kept["lr"]
