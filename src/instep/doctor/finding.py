"""A finding: one thing that the doctor has to say."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from instep.doctor.catalogue import CATALOGUE

Severity = Literal["error", "warning", "hint"]
# Hints that about every other script gets, though nothing is wrong with it: said in one line.
COMMON = frozenset({"no-seed", "not-shuffled", "whole-model-pickled", "loss-summed", "ragged-mean"})
SEVERITIES: tuple[Severity, ...] = ("error", "warning", "hint")


@dataclass(frozen=True)
class Finding:
    """What was seen, and where. Why it matters and what to change stand in the page of its id.

    `severity` left out is the catalogue's; a rule may say less than that where it is less sure. `cause` tells two findings of
    one id apart where they have nothing to do with each other; left out, it is `where`.
    """

    id: str
    message: str  # one sentence with the numbers in it
    evidence: Mapping[str, Any] = field(default_factory=dict)  # counts, shares, values, names: what JSON can hold
    where: str | None = None  # "file:line" in the user's source
    fix: str = ""  # a line or a small diff, where it depends on what was seen; else the page has it
    since_step: int | None = None  # the first that is wrong, counted from 0: so many came before it
    severity: Severity | None = None
    cause: str | None = None
    process: str = ""  # which process of several; filled in by the engine
    places: tuple[str, ...] = ()  # other lines of the same cause
    signals: tuple[str, ...] = ()  # other findings that follow from it: "id (file:line): message"

    def __post_init__(self) -> None:
        if self.id not in CATALOGUE:
            raise ValueError(f"{self.id!r} is not in the doctor's catalogue")

    @property
    def level(self) -> Severity:
        """Its severity, said or from the catalogue."""
        return self.severity or CATALOGUE[self.id].severity

    @property
    def is_common(self) -> bool:
        """Whether it is a hint that many scripts get."""
        return self.level == "hint" and self.id in COMMON

    @property
    def key(self) -> str:
        """Equal for two findings of one cause."""
        return f"{self.id}|{self.cause or self.where or ''}"

    @property
    def why(self) -> str:
        """Why it matters."""
        return CATALOGUE[self.id].why

    @property
    def change(self) -> str:
        """What to change."""
        return self.fix or CATALOGUE[self.id].fix

    @property
    def page(self) -> str:
        """Where the docs explain it."""
        return CATALOGUE[self.id].link

    def of(self, process: str) -> "Finding":
        """The same, found in that process."""
        return replace(self, process=process)

    def as_json(self) -> dict[str, Any]:
        """What `--json` holds of it."""
        return {
            "id": self.id,
            "severity": self.level,
            "message": self.message,
            "evidence": dict(self.evidence),
            "where": self.where,
            "places": list(self.places),
            "signals": list(self.signals),
            "why": self.why,
            "fix": self.change,
            "since_step": self.since_step,
            "process": self.process,
            "page": self.page,
        }

    @classmethod
    def from_json(cls, saved: Mapping[str, Any]) -> "Finding":
        """The finding that `as_json` gave."""
        names = ("id", "message", "evidence", "where", "fix", "since_step", "severity", "process")
        places, signals = tuple(saved.get("places", ())), tuple(saved.get("signals", ()))
        return cls(**{name: saved[name] for name in names if name in saved}, places=places, signals=signals)
