"""A replay as text: where it stands and where it came from, what is not finite, the parameters, the batch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from instep.proof.replay_update import ParameterChange, ReplayedUpdate
from instep.report.preview import render as render_preview
from instep.text import Paint, clean, coloured, columns, labelled, listed, number, plain, plural, rate, wrapped

if TYPE_CHECKING:
    from instep.proof.replay import Replay

PARAMETERS = 12  # that are shown: those that moved most
NONFINITE = 12
SAMPLES = 16


def render(replay: "Replay", *, width: int = 80, colour: bool = False) -> str:
    """The last update in full; of several, a row for each before it."""
    paint, last = coloured if colour else plain, replay.last
    parts = [
        _head(replay, width, paint),
        _updates(replay.updates, width, paint) if len(replay.updates) > 1 else [],
        _nonfinite(last, width, paint),
        _operation(last, width, paint),
        _parameters(last, width, paint),
        [render_preview(replay.preview, width=width, colour=colour)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def _head(replay: "Replay", width: int, paint: Paint) -> list[str]:
    last = replay.last
    title = f"{clean(str(replay.path))} at step {last.step:,} (epoch {last.epoch}, batch {last.index})"
    history = str(replay.checked)
    rows = [
        ("replayed", f"from {replay.start}, {plural(last.step - replay.start.step, 'update')} before this one"),
        ("history", history),
        ("loss", _loss(last)),
        *([("stopped", last.error)] if last.error else []),
        ("samples", f"{listed(last.samples.tolist(), most=SAMPLES)} of train"),
        *(("note", note) for note in (*replay.start.reasons, *replay.start.notices, *replay.notes)),
    ]
    lines = labelled(rows, width=width, paint=paint)
    if replay.checked.verdict == "differs":
        lines += [paint(line, "yellow") for line in wrapped(_why_it_may_differ(replay), width)]
    return [*(paint(line, "bold") for line in wrapped(title, width)), *lines]


def _why_it_may_differ(replay: "Replay") -> str:
    changed = f" Here, {'; '.join(replay.start.notices)}." if replay.start.notices else ""
    begun = " It began at the start, with the weights that build() makes now." if replay.start.checkpoint is None else ""
    return (
        "warning: this replay is not what the run did. The run may have had updates changed by a loop of its own, "
        f"nondeterministic operations, or code and data that no description sees.{begun}{changed}"
    )


def _loss(last: ReplayedUpdate) -> str:
    if last.update is None:
        return number(last.loss)
    update = last.update
    said = [number(last.loss), *(f"{name} {number(float(loss))}" for name, loss in update.losses.items())]
    said.append(f"lr {rate(update.lr)}")
    if update.grad_norm is not None:
        said.append(f"gradient norm {number(float(update.grad_norm))}")
    return ", ".join([*said, *(["the update is skipped"] if update.skipped else [])])


def _updates(updates: Sequence[ReplayedUpdate], width: int, paint: Paint) -> list[str]:
    rows = []
    for one in updates:
        mover = one.movers[0] if one.movers else None
        said = "fails" if one.update is None else "skipped" if one.update.skipped else ""
        moved = "" if mover is None else f"{mover.name} {_percent(mover.relative)}"
        rows.append(
            (f"{one.step:,}", number(one.loss), moved, plural(len(one.nonfinite), "thing") if one.nonfinite else "", said)
        )
    head = ("step", "loss", "largest mover", "not finite", "")
    return columns(head, rows, left=("largest mover", ""), width=width, paint=paint)


def _nonfinite(last: ReplayedUpdate, width: int, paint: Paint) -> list[str]:
    if not last.nonfinite:
        return []
    lines = [f"  {line}" for one in last.nonfinite[:NONFINITE] for line in wrapped(clean(one), width - 2)]
    more = [f"  and {len(last.nonfinite) - NONFINITE} more"] if len(last.nonfinite) > NONFINITE else []
    return [paint("not finite", "red"), *lines, *more]


def _operation(last: ReplayedUpdate, width: int, paint: Paint) -> list[str]:
    if last.operation is None:
        return []
    chain = last.operation.chain()
    lines = []
    for count, one in enumerate(chain):
        first, *others = wrapped(clean(("then " if count else "") + str(one)), width - 4)
        lines += [f"  {first}", *(f"    {other}" for other in others)]
    return [paint("where it comes from", "red"), *lines]


def _parameters(last: ReplayedUpdate, width: int, paint: Paint) -> list[str]:
    movers = last.movers
    rows = [_row(one) for one in movers[:PARAMETERS]]
    head = ("parameter", "weights", "gradient", "change", "relative")
    more = [f"and {len(movers) - PARAMETERS:,} more that changed less"] if len(movers) > PARAMETERS else []
    return [*columns(head, rows, left=("parameter",), width=width, paint=paint), *more]


def _row(one: ParameterChange) -> tuple[str, ...]:
    gradient = "none" if one.gradient is None else number(one.gradient)
    return (clean(one.name), number(one.weight), gradient, number(one.change), _percent(one.relative))


def _percent(share: float) -> str:
    return f"{100 * share:.2g} %" if share < 10 else f"{share:.3g} times"
