"""Two runs side by side: what differs in their descriptions, and their numbers."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from instep.run.run_files import RecordedRun, section
from instep.text import Paint, clean, columns, number, plain, shorten_middle

# What every run has of its own, and does not say how it was trained; options are among the hyper-parameters.
OWN = frozenset({"created", "status", "format", "script.options", "resumed", "paused_at", "paused_after_s"})
WIDTH = 48
MOST = 20  # rows about the model
_NOTHING = object()


def render(one: RecordedRun, other: RecordedRun, weights: list[str], *, width: int | None = None, paint: Paint = plain) -> str:
    """The descriptions, the numbers, and what was found about the weights."""
    runs = (clean(str(one.path)), clean(str(other.path)))
    notes = [
        f"note: {run}: {clean(problem)}" for run, found in zip(runs, (one, other), strict=True) for problem in found.problems
    ]
    parts = [
        notes,
        description_lines(one.description, other.description, runs, width, paint),
        _numbers(one, other, runs, width, paint),
        weights,
    ]
    return "\n\n".join("\n".join(part) for part in parts if part)


def description_lines(
    one: Mapping[str, Any], other: Mapping[str, Any], runs: tuple[str, str], width: int | None, paint: Paint
) -> list[str]:
    """A table of what differs, in what was trained and where; or that nothing does."""
    kept = [part for part in ("modules", "attributes", "code") if part in one and part in other]  # older ones have none
    ours, theirs = dict(leaves(_for_people(one, kept))), dict(leaves(_for_people(other, kept)))
    rows = [
        (name, _text(ours.get(name, _NOTHING)), _text(theirs.get(name, _NOTHING)))
        for name in dict.fromkeys([*ours, *theirs])
        if ours.get(name, _NOTHING) != theirs.get(name, _NOTHING)
    ]
    if not rows:
        return ["the descriptions are the same"]
    of_model = [row for row in rows if row[0].startswith("model.")]
    shown = [row for row in rows if row not in of_model[MOST:]]
    more = [f"and {len(of_model) - MOST} more of the model"] if len(of_model) > MOST else []
    return columns(("description", *runs), shown, left=("description", *runs), width=width, paint=paint) + more


class _Hash(str):
    """What is compared, and says nothing to people."""


def _for_people(description: Mapping[str, Any], kept: Collection[str]) -> dict[str, Any]:
    """The description with modules and their values under "model", code by its owner, and hashes as what they are."""
    told = {name: part for name, part in description.items() if name not in ("modules", "attributes", "code", "moved")}
    if "modules" in kept:
        named = {name or "itself": text for name, text in section(description, "modules").items()}
        told["model"] = {**section(description, "model"), **named, **section(description, "attributes")}
    parts = section(section(description, "code"), "parts") if "code" in kept else {}
    for owner, part in parts.items():
        functions = {name: _Hash(value) for name, value in section(part, "functions").items()}
        told[f"code of {owner}"] = {**functions, **section(part, "values")}
    told["data"] = {
        name: {key: _Hash(value) if key == "hash" else value for key, value in one.items() if key not in ("content", "read")}
        | ({"values": _Hash(one["content"])} if "content" in one else {})
        for name, one in section(description, "data").items()
        if isinstance(one, Mapping)
    }
    return told


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value of a description by where it stands; a list is one value, but for one of parts with names."""
    if isinstance(value, Mapping) and value:
        for name, part in value.items():
            where = f"{path}.{name}" if path else str(name)
            if where not in OWN:
                yield from leaves(part, where)
    elif isinstance(value, list) and any(isinstance(part, Mapping) for part in value):
        for place, part in enumerate(value):
            yield from leaves(part, f"{path}.{place}")
    else:
        yield clean(path), value


def _numbers(one: RecordedRun, other: RecordedRun, runs: tuple[str, str], width: int | None, paint: Paint) -> list[str]:
    """State and step, then the last and the best number of each evaluated column."""
    rows = [("state", one.state, other.state), ("step", _step(one), _step(other))]
    rows += [(f"last {name}", number(ours), number(theirs)) for name, ours, theirs in _both(_last(one), _last(other))]
    rows += [(f"best {name}", number(ours), number(theirs)) for name, ours, theirs in _both(_best(one), _best(other))]
    names = runs if width is None else tuple(shorten_middle(run, max(12, (width - 20) // 2)) for run in runs)
    return columns(("", *names), rows, left=("",), width=width, paint=paint)


def _both(ours: Mapping[str, float], theirs: Mapping[str, float]) -> Iterator[tuple[str, float | None, float | None]]:
    for name in dict.fromkeys([*ours, *theirs]):
        yield clean(name), ours.get(name), theirs.get(name)


def _last(run: RecordedRun) -> dict[str, float]:
    """The numbers of the last evaluation; without one, of the last line of the log."""
    rows = run.history.evaluations or run.history.rows
    return _metrics(rows[-1]) if rows else {}


def _best(run: RecordedRun) -> dict[str, float]:
    """The monitored number where it was best."""
    best = run.history.best
    return {} if best is None else {run.history.monitor: best[run.history.monitor]}


def _metrics(row: Mapping[str, Any]) -> dict[str, float]:
    return {name: value for name, value in row.items() if isinstance(value, float) and name != "lr"}


def _step(run: RecordedRun) -> str:
    return "-" if run.step is None else f"{run.step:,}"


def _text(value: Any) -> str:
    if isinstance(value, _Hash):
        return "differs"
    text = "-" if value is _NOTHING else clean(value if isinstance(value, str) else repr(value))
    return text if len(text) <= WIDTH else f"{text[: WIDTH - 1]}…"
