"""A plan as text: what `print(trainer)` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instep.text import clean, labelled, wrapped

if TYPE_CHECKING:
    from instep.records import Plan

INDENT = "  "


def render(plan: Plan, *, width: int = 80) -> str:
    """The title, the rows under each other, then the notes; plain text."""
    rows = [INDENT + line for line in labelled(plan.rows, width=width - len(INDENT))]
    return "\n".join([clean(plan.title), *rows, *_notes(plan, width)])


def _notes(plan: Plan, width: int) -> list[str]:
    lines = [""] if plan.notes else []
    for note in plan.notes:
        first, *others = wrapped(clean(note), width - len("note: ")) or [""]
        lines += [f"note: {first}", *[" " * len("note: ") + other for other in others]]
    return lines
