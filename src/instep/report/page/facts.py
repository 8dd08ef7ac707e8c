"""Facts: what a run says of itself, in groups of rows, with the default of what was set otherwise."""

import inspect
import math
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import MISSING, fields
from typing import Any

from instep.run.run_files import RecordedRun, section

# name, value, and the default where the value is another one.
Fact = tuple[str, str, str | None]
# Options of `instep train` that say where and how to run, not what: another run may have others.
_PLACES = {"--folder": 1, "--fresh": 0, "--new": 0, "--json": 0, "--progress": 0, "--no-progress": 0, "--allow-changes": 9}


def facts_of(run: RecordedRun) -> dict[str, list[Fact]]:
    """By group, as they are shown; groups that the description does not have are left out."""
    said = run.description
    groups = {
        "Hyper-parameters": _hyper_parameters(said),
        "Trainer": list(_settings(section(said, "settings"))),
        "Optimizer": list(_optimizers(section(said, "optimizer"))),
        "Model": _model(said),
        "Data": list(_data(said)),
        "Environment": _environment(run),
    }
    return {name: rows for name, rows in groups.items() if rows}


def command(description: Mapping[str, Any]) -> str | None:
    """What trains the same again, in a new folder; None where no command made the run."""
    script = section(description, "script")
    if not script:
        return None
    file, function = script.get("file"), script.get("function")
    target = [] if file is None else [str(file) if function in (None, "build") else f"{file}:{function}"]
    return shlex.join(["instep", "train", *target, *_without_places(_options(script)), "--new"])


def as_text(value: Any) -> str:
    """A value of the description, as one would write it in Python; what JSON cannot hold is restored."""
    if isinstance(value, Mapping):
        if value.keys() == {"$float"}:
            return str(value["$float"])
        inner = ", ".join(f"{name}={as_text(part)}" for name, part in value.items() if name != "class" and part is not None)
        return f"{value['class']}({inner})" if "class" in value else f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{', '.join(map(as_text, value))}]"
    return value if isinstance(value, str) else repr(value)


def parameter_count(description: Mapping[str, Any]) -> int:
    shapes = section(section(description, "model"), "parameters").values()
    return sum(math.prod(shape) for shape in shapes if isinstance(shape, list))


def _options(script: Mapping[str, Any]) -> list[str]:
    options = script.get("options")
    return [str(option) for option in options] if isinstance(options, list) else []


def _without_places(options: list[str]) -> Iterator[str]:
    left = 0
    for option in options:
        if option.startswith("--"):
            name, _, value = option.replace("_", "-").partition("=")
            left = -1 if name not in _PLACES else 0 if value else _PLACES[name]
            if name in _PLACES:
                continue
        elif left > 0:
            left -= 1
            continue
        yield option


def _hyper_parameters(said: Mapping[str, Any]) -> list[Fact]:
    typed = {option.lstrip("-").partition("=")[0].replace("-", "_") for option in _options(section(said, "script"))}
    typed |= {name.removeprefix("no_") for name in typed}
    return [
        (name, as_text(value), "given on the command line" if name in typed else None)
        for name, value in section(said, "hyper_parameters").items()
    ]


def _settings(settings: Mapping[str, Any]) -> Iterator[Fact]:
    from instep.run.options import Options
    from instep.run.setting import as_setting  # brings torch

    defaults = {f.name: as_setting(f.default) for f in fields(Options) if f.default is not MISSING}
    for name, value in settings.items():
        is_other = name not in defaults or value != defaults[name]
        yield name, as_text(value), f"default {as_text(defaults.get(name))}" if is_other else None


def _optimizers(optimizer: Mapping[str, Any]) -> Iterator[Fact]:
    """One, or several by the names of their objectives."""
    named = {"": optimizer} if "groups" in optimizer else optimizer
    for name, one in named.items():
        if isinstance(one, Mapping):
            defaults = _defaults(str(one.get("class")))
            prefix = f"{name}: " if name else ""
            yield f"{prefix}class", str(one.get("class")), None
            groups = [group for group in one.get("groups") or [] if isinstance(group, Mapping)]
            for number, group in enumerate(groups):
                own = f"{prefix}{group.get('name', f'group {number}')} · " if len(groups) > 1 else prefix
                yield from ((f"{own}{key}", as_text(value), _other(key, value, defaults)) for key, value in group.items())


def _defaults(name: str) -> dict[str, Any]:
    """What torch's optimizer of this name has for its arguments; empty for others."""
    import torch

    found = getattr(torch.optim, name, None)
    if not inspect.isclass(found):
        return {}
    parameters = inspect.signature(found).parameters.values()
    return {
        p.name: list(p.default) if isinstance(p.default, tuple) else p.default for p in parameters if p.default is not p.empty
    }


def _other(key: str, value: Any, defaults: Mapping[str, Any]) -> str | None:
    return f"default {as_text(defaults[key])}" if key in defaults and defaults[key] != value else None


def _model(said: Mapping[str, Any]) -> list[Fact]:
    model = section(said, "model")
    if not model:
        return []
    return [
        ("class", str(model.get("class", "")), None),
        ("parameters", f"{parameter_count(said):,} in {len(section(model, 'parameters')):,} tensors", None),
    ]


def _data(said: Mapping[str, Any]) -> Iterator[Fact]:
    for name, one in {**section(said, "data"), **section(said, "test")}.items():
        if isinstance(one, Mapping):
            samples = one.get("samples")
            count = f"{samples:,} samples" if isinstance(samples, int) else "an unknown number of samples"
            rest = ", ".join(f"{key} {as_text(value)}" for key, value in one.items() if key != "samples")
            yield name, ", ".join(filter(None, (count, rest))), None


def _environment(run: RecordedRun) -> list[Fact]:
    said = run.description
    rows = [
        ("device", said.get("device")),
        ("machine", said.get("machine")),
        ("processes", said.get("processes")),
        ("threads", said.get("threads")),
        *section(said, "versions").items(),
        ("git commit", said.get("git")),
        ("file", section(said, "script").get("file")),
        ("folder", str(run.path)),
    ]
    return [(name, as_text(value), None) for name, value in rows if value is not None]
