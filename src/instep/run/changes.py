"""Changes: what differs between the description of a run in its folder and the one that wants to go on with it."""

from collections.abc import Collection, Mapping
from typing import Any

from instep.errors import ChangedRun, InstepError
from instep.records import Change, differences
from instep.schedules import Plateau, Schedule
from instep.schedules.scheduler import required_parameters
from instep.text import cut

# What decides the result and must be the same, and what only has to be said.
COMPARED = ("hyper_parameters", "settings", "model", "optimizer", "data")
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


def require_same(
    before: Mapping[str, Any], now: Mapping[str, Any], *, allowed: Collection[str], folder: object, longer_is_fine: bool
) -> list[str]:
    """Raises where a run would go on as another one; returns notices about what changed and does not decide the result."""
    before = upgraded(before, now)
    found = [change for part in COMPARED for change in differences(before.get(part), now.get(part), part)]
    lengths = [change for change in found if _short(change[0]) in LENGTHS]
    grows = now.get("total_steps", 0) >= before.get("total_steps", 0)
    excused = {*allowed, *(LENGTHS if longer_is_fine and grows else ())}
    fixed = ("batch_size", "drop_last", "model") if before.get("steps_per_epoch") != now.get("steps_per_epoch") else ("model",)
    excused -= set(fixed)  # the place of the next batch, and what is restored into, would not be what they were
    wrong = [change for change in found if not _is_allowed(change[0], excused)]
    if wrong:
        names = tuple(name for name in dict.fromkeys(_short(where) for where, _, _ in wrong) if name not in fixed)
        advice = f", or pass allow_changes=({', '.join(map(repr, names))},)" if names else ""
        rows = "\n".join(f"  {where}: {_shown(old)} -> {_shown(new)}" for where, old, new in wrong[:20])
        more = f"\n  and {len(wrong) - 20} more" if len(wrong) > 20 else ""
        changes = f"{folder} holds a run with another description (before -> now):\n{rows}{more}"
        lasting = _about_lengths(lengths, grows)
        raise ChangedRun(
            f"{changes}\nUse another folder, move this one away to start again{advice}.{lasting}",
            changes=f"{changes}\n{lasting.strip()}".rstrip(),
            names=names,
        )
    noticed = [change for part in NOTICED for change in differences(before.get(part), now.get(part), part)]
    return [f"{where} was {_shown(old)} before, is {_shown(new)} now" for where, old, new in noticed]


def upgraded(description: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """A description as this version would keep it: what an earlier one said of the data in other places is moved.

    The names of a frame's columns were not kept; the hash of its numbers was, so these are as they are now.
    """
    known = {RENAMED.get(name, name): value for name, value in (description.get("settings") or {}).items()}
    settings = {name: value for name, value in known.items() if name not in GONE or value}
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
    allowed = {*allowed, "initial_lr"} if "lr" in allowed else allowed
    return any(part in allowed for part in where.split(".")) or where in allowed


def _short(where: str) -> str:
    """The name that somebody would allow: the last part that is a word, or the whole room for data and model."""
    parts = [part for part in where.split(".") if not part.isdecimal()]
    return parts[0] if parts[0] in ("data", "model") else parts[-1]


def _shown(value: Any) -> str:
    return cut("nothing" if value is None else value)


def _about_lengths(lengths: list[Change], grows: bool) -> str:
    if not lengths:
        return ""
    if not grows:
        return " A run cannot be made shorter than it was described."
    return (
        " This schedule depends on the length of the run, so a longer run is another one: its learning rates would have been"
        " others from the first update on."
    )


def ignores_length(schedule: Any, before: int, now: int) -> bool:
    """Whether a schedule gives the updates of a run of `before` updates the same learning rates where it has `now` updates."""
    if schedule is None or isinstance(schedule, Plateau):
        return True
    if not isinstance(schedule, Schedule):
        # A function of position alone does; what a function builds with total_steps cannot be seen from outside.
        return callable(schedule) and required_parameters(schedule) == 1
    try:
        old, new = schedule.curve(max(before, 1), 1.0), schedule.curve(max(now, 1), 1.0)
    except InstepError:
        return False
    stride = max(1, before // 1000)
    return all(old(position) == new(position) for position in range(0, before, stride))
