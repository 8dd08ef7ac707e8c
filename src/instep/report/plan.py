"""A plan as text: what `print(trainer)` shows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from instep.text import Paint, clean, columns, labelled, plain, wrapped

if TYPE_CHECKING:
    from instep.records import Plan

INDENT = "  "
LEFT = ("module", "type", "weight")  # columns of the table of modules that are text


def render(plan: Plan, *, width: int = 80, table_width: int | None = None, paint: Paint = plain) -> str:
    """The title, the rows under each other, the table of modules, then the notes.

    Long names in the table are kept, unless `table_width` says how much room there is.
    """
    rows = [INDENT + line for line in labelled(plan.rows, width=width - len(INDENT), paint=paint)]
    return "\n".join([paint(clean(plan.title), "bold"), *rows, *_modules(plan, table_width, paint), *_notes(plan, width)])


def render_html(plan: Plan) -> str:
    """The same as tables, for notebooks."""
    from instep.drawing.html import block, paragraph, table

    rows = table(
        ("", clean(plan.title)), [(clean(label), clean(text)) for label, text in plan.rows], left=("", clean(plan.title))
    )
    head, *modules = [[clean(cell) for cell in row] for row in plan.modules] or [[]]
    shown = table(head, modules, left=LEFT) if modules else ""
    return block(rows, shown, *(paragraph(f"note: {clean(note)}") for note in plan.notes))


def _modules(plan: Plan, width: int | None, paint: Paint) -> list[str]:
    """The table of the model, where there is more than its head."""
    if len(plan.modules) < 2:
        return []
    head, *rows = [[clean(cell) for cell in row] for row in plan.modules]
    room = None if width is None else width - len(INDENT)
    return ["", *(INDENT + line for line in columns(head, rows, left=LEFT, width=room, paint=paint))]


def _notes(plan: Plan, width: int) -> list[str]:
    lines = [""] if plan.notes else []
    for note in plan.notes:
        first, *others = wrapped(clean(note), width - len("note: ")) or [""]
        lines += [f"note: {first}", *[" " * len("note: ") + other for other in others]]
    return lines
