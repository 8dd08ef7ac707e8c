"""Changes: what differs between the description of a run in its folder and the one that wants to go on with it."""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from instep.errors import ChangedRun, InstepError
from instep.records import differences
from instep.run.setting import named
from instep.schedules import Plateau, Schedule
from instep.schedules.scheduler import required_parameters
from instep.text import cut

# What decides the result and must be the same, and what only has to be said.
BY_VALUE = ("hyper_parameters", "settings", "model", "optimizer")
COMPARED = (*BY_VALUE, "data", "modules", "attributes", "code")
HASHES = ("hash", "content", "read")
NOTICED = ("device", "processes", "threads", "versions")
# How long a run is may change where the schedule does not depend on it; that is judged apart.
LENGTHS = ("epochs", "max_steps")
# Settings that an earlier version kept one by one, and those of a data source that hold them now.
MOVED_TO_TRAIN = {
    "transform": "transform",
    "batch_transform": "batch_transform",
    "collate": "collate_fn",
    "sampler": "sampler",
    "target": "target",
    "steps_per_epoch": "steps_per_epoch",
}
MOVED_TO_VALID = {"valid_transform": "transform", "valid_batch_transform": "batch_transform"}

# Settings of earlier versions: by their present names, and those that are no more.
RENAMED = {"every": "update_every"}
GONE = ("channels_last",)


class Difference(NamedTuple):
    """Something that is not as it was: where it stands, which says what allows it, and how it is told."""

    where: str
    text: str


class Compared(NamedTuple):
    """What a comparison found that does not stop the run."""

    notices: list[str]  # what does not decide the result
    is_changed: bool  # whether something that does was allowed to change


def require_same(
    before: Mapping[str, Any],
    now: Mapping[str, Any],
    *,
    allowed: Collection[str],
    folder: object,
    longer_is_fine: bool,
    done: int = 0,
    workers: Collection[str] = (),
) -> Compared:
    """Raises where a run would go on as another one, or end before the updates that are `done`.

    Hyper-parameters that are numbers of `workers` decide nothing.
    """
    before = upgraded(before, now)
    by_value = [one for part in BY_VALUE for one in _by_value(before, now, part)]
    found = [one for one in _once(by_value) if one.where not in [f"hyper_parameters.{name}" for name in workers]]
    found += [*data_differences(before.get("data"), now.get("data")), *_modules(before, now), *_code(before, now)]
    is_too_short = now.get("total_steps", done) < done
    grows = now.get("total_steps", 0) >= before.get("total_steps", 0)
    excused = {*allowed, *(LENGTHS if longer_is_fine and grows else ())}
    # The place of the next batch, and what is restored into, would not be what they were.
    fixed = ("batch_size", "drop_last") if before.get("steps_per_epoch") != now.get("steps_per_epoch") else ()
    fixed = (*fixed, *LENGTHS) if is_too_short else fixed
    wrong = [one for one in found if _is_fixed(one.where, fixed) or not _is_allowed(one.where, excused)]
    if wrong:
        names = () if any(_is_fixed(one.where, fixed) for one in wrong) else _names(wrong)  # what is fixed nothing allows
        way = f"Use another folder, {'' if names else 'or '}move this one away to start again"
        advice = f", or pass allow_changes=({', '.join(map(repr, names))},)" if names else ""
        rows = "\n".join(f"  {one.text}" for one in wrong[:20])
        more = f"\n  and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        changes = f"{folder} holds a run with another description (before -> now):\n{rows}{more}"
        lasting = _about_lengths(wrong, f"{done:,}" if is_too_short else "", longer_is_fine=longer_is_fine)
        raise ChangedRun(
            f"{changes}\n{way}{advice}.{lasting}",
            changes=f"{changes}\n{lasting.strip()}".rstrip(),
            names=names,
        )
    noticed = [change for part in NOTICED for change in differences(before.get(part), now.get(part), part)]
    notices = [f"{where} was {_shown(old)} before, is {_shown(new)} now" for where, old, new in noticed]
    return Compared([*notices, *_not_compared(before, now)], bool(found))


def _by_value(before: Mapping[str, Any], now: Mapping[str, Any], part: str) -> Iterator[Difference]:
    for change in differences(before.get(part), now.get(part), part):
        yield Difference(change.where, _told(*change))


def _once(found: list[Difference]) -> list[Difference]:
    """Without what a hyper-parameter of the same name has changed in the same way: it would say the same again."""
    said = {_last(one) for one in found if one.where.startswith("hyper_parameters.")}
    return [one for one in found if one.where.startswith("hyper_parameters.") or _last(one) not in said]


def _last(one: Difference) -> str:
    """`lr: 0.1 -> 0.2` of `optimizer.groups.0.lr: 0.1 -> 0.2`."""
    return one.text.removeprefix(f"{one.where.rpartition('.')[0]}.")


def data_differences(before: Mapping[str, Any] | None, now: Mapping[str, Any] | None) -> Iterator[Difference]:
    """Lengths and shapes as they are; values by whose they are, since a hash says nothing to anybody."""
    before, now = before or {}, now or {}
    for name in dict.fromkeys([*before, *now]):
        old, new = before.get(name) or {}, now.get(name) or {}
        ours, theirs = ({key: value for key, value in one.items() if key not in HASHES} for one in (old, new))
        told = [Difference(change.where, _told(*change)) for change in differences(ours, theirs, f"data.{name}")]
        yield from told or _values(name, old, new)


def _values(name: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Difference]:
    where, shapes = f"data.{name}", new.get("columns", [])
    ours, theirs = old.get("content"), new.get("content")
    if ours is None or theirs is None or ours == theirs:
        if old.get("hash") != new.get("hash"):
            yield Difference(where, f"{where}: the samples that were looked at have other values")
        return
    if ours.get("picks") != theirs.get("picks"):
        yield Difference(where, f"{where}: other samples of the same data")
    pairs = zip(ours["columns"], theirs["columns"], strict=False)
    other = [number for number, (one, another) in enumerate(pairs) if one != another]
    if other and len(theirs["columns"]) != len(shapes):
        yield Difference(where, f"{where}: has other values")
    for number in other if len(theirs["columns"]) == len(shapes) else ():
        yield Difference(where, f"{where}: column {number}, {shapes[number]}, has other values")


def _modules(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    """Module by module, where the parameters are the same; where they are not, that says it. Of another module no values."""
    ours, theirs = before.get("modules"), now.get("modules")
    if ours is None or theirs is None or before.get("model") != now.get("model"):
        return
    other = [name for name in _differing(ours, theirs) if not _has_moved(before, f"modules.{name}")]
    for name in other:
        where = f"model.{name}" if name else "model"
        yield Difference(where, _told(where, ours.get(name), theirs.get(name)))
    ours, theirs = before.get("attributes") or {}, now.get("attributes") or {}
    for name in _differing(ours, theirs):
        if name.rpartition(".")[0] not in other and not _has_moved(before, f"attributes.{name}"):
            yield Difference(f"model.{name}", _told(f"model.{name}", ours.get(name), theirs.get(name)))


def _code(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[Difference]:
    ours, theirs = before.get("code"), now.get("code")
    if ours is None or theirs is None:
        return
    for owner in [owner for owner in theirs["parts"] if owner in ours["parts"]]:
        where = owner if owner.split(".")[0] in ("data", "model") else f"settings.{owner}"
        old, new = ours["parts"][owner], theirs["parts"][owner]
        for name in _differing(old["functions"], new["functions"]) if ours["python"] == theirs["python"] else ():
            said = "has another body" if name in old["functions"] and name in new["functions"] else "is new"
            yield Difference(where, f"code of {owner}: {name} {said if name in new['functions'] else 'is gone'}")
        for name in _differing(old["values"], new["values"]):
            if not _has_moved(before, f"code.parts.{owner}.values.{name}"):
                shown = _told(f"{name} of {owner}", old["values"].get(name), new["values"].get(name))
                yield Difference(where, shown)


def _differing(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    return [name for name in dict.fromkeys([*old, *new]) if old.get(name) != new.get(name) or (name in old) != (name in new)]


def _has_moved(before: Mapping[str, Any], path: str) -> bool:
    """Whether training itself changed this in the process before: then it may stand anywhere."""
    return any(one == path or one.startswith(f"{path}.") for one in before.get("moved") or ())


def _not_compared(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    ours, theirs = before.get("code"), now.get("code")
    if ours is None or theirs is None or ours["python"] == theirs["python"] or not theirs["parts"]:
        return []
    return [f"the code of {', '.join(theirs['parts'])} cannot be compared: Python {ours['python']} compiled it before"]


def _is_fixed(where: str, fixed: Collection[str]) -> bool:
    return where.startswith("model.parameters.") or _short(where) in fixed


def upgraded(description: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """A description as this version would keep it: what an earlier one said of the data in other places is moved.

    The names of a frame's columns were not kept; the hash of its numbers was, so these are as they are now.
    """
    known = {RENAMED.get(name, name): value for name, value in (description.get("settings") or {}).items()}
    settings = {name: named(value) for name, value in known.items() if name not in GONE or value}
    sets = [name for name in description.get("data") or {} if name != "train"]
    for moved, owners in ((MOVED_TO_TRAIN, ["train"]), (MOVED_TO_VALID, sets)):
        for old, new in moved.items():
            value = settings.pop(old, None)
            for owner in owners if value is not None else ():
                settings[owner] = {**(settings.get(owner) or {}), new: value}
    data = {
        name: {key: value for key, value in (now.get("data") or {}).get(name, {}).items() if key in ("names", "classes")} | kept
        for name, kept in (description.get("data") or {}).items()
    }
    return {**description, "settings": settings, "data": data}


def _is_allowed(where: str, allowed: Collection[str]) -> bool:
    """A name allows a change of that name anywhere: "lr" the one of every group and its start, "data" all of the data."""
    allowed = {*allowed, "initial_lr"} if "lr" in allowed or "schedule" in allowed else allowed
    return any(part in allowed for part in where.split(".")) or where in allowed


def _short(where: str) -> str:
    """The name that somebody would allow: the argument, the last part that is a word, or all of the data or the model."""
    parts = [part for part in where.split(".") if not part.isdecimal()]
    if parts[0] == "settings" and parts[1].split("/")[0] not in ("train", "valid", "test"):
        return parts[1]
    return parts[0] if parts[0] in ("data", "model") else parts[-1]


def _names(differences: Collection[Difference]) -> tuple[str, ...]:
    """What to allow for these, by names that somebody wrote: the start of the learning rate is its schedule's, or its own."""
    names = [_short(one.where) for one in differences]
    start = "schedule" if "schedule" in names else "lr"
    return tuple(dict.fromkeys(start if name == "initial_lr" else name for name in names))


def _told(name: str, old: Any, new: Any) -> str:
    if isinstance(old, Mapping) and isinstance(new, Mapping) and "hash" in old and "hash" in new:
        return f"{name}: other values"
    return f"{name}: {_shown(old)} -> {_shown(new)}"


def _shown(value: Any) -> str:
    return cut("nothing" if value is None else value)


def _about_lengths(wrong: Collection[Difference], done: str, *, longer_is_fine: bool) -> str:
    """Why another length is refused; `done` are the updates of a run that is longer than it should be."""
    if not any(_short(one.where) in LENGTHS for one in wrong):
        return ""
    if done:
        return f" The run has made {done} updates already, and cannot be made shorter than that."
    if longer_is_fine:
        return ""
    return (
        " This schedule depends on the length of the run, so a run of another length is another one: its learning rates would"
        " have been others from the first update on."
    )


def ignores_length(schedule: Any, before: int, now: int) -> bool:
    """Whether a schedule gives the updates of a run of `before` updates the same learning rates where it has `now` updates."""
    if schedule is None or isinstance(schedule, Plateau):
        return True
    if isinstance(schedule, Mapping):
        return all(ignores_length(one, before, now) for one in schedule.values())
    if not isinstance(schedule, Schedule):
        # A function of position alone does; what a function builds with total_steps cannot be seen from outside.
        return callable(schedule) and required_parameters(schedule) == 1
    try:
        old, new = schedule.curve(max(before, 1), 1.0), schedule.curve(max(now, 1), 1.0)
    except InstepError:
        return False
    stride, shared = max(1, before // 1000), min(before, now)
    return all(old(position) == new(position) for position in range(0, shared, stride))
