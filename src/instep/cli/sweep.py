"""`instep sweep FILE.py[:build] lr=log:1e-4..1e-1 width=8,16,32 [options…]`: many runs, whose parameters Optuna chooses."""

import contextlib
import inspect
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro

from instep.cli import script
from instep.cli.aside import move_aside
from instep.cli.border import WrongUse
from instep.cli.target import parse_for_file, split_file
from instep.cli.words import words_of
from instep.integrations.optuna import FILE
from instep.integrations.sweep.result import REPORT, SweepResult
from instep.integrations.sweep.space import EXAMPLES, Space, as_plain, read_space
from instep.integrations.sweep.sweeping import SweepOptions as Asked
from instep.integrations.sweep.sweeping import run_sweep
from instep.text import PROSE, fold_for, paint_for, terminal_width
from instep.trainer import Trainer

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]
_SPEC = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)


@dataclass(frozen=True)
class SweepOptions:
    """What to try stands after the file: lr=log:1e-4..1e-1 width=8,16,32; the same command goes on with a stopped sweep."""

    trials: int = 20
    """How many runs to make in all; more than before extends a sweep."""
    metric: Annotated[
        str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: what the Trainer monitors, like valid/loss)")
    ] = None
    """The number of an evaluation to go by, at its best over a run."""
    metric_mode: Literal["auto", "min", "max"] = "auto"
    """Whether less or more of it is better; auto goes by the metric and its name."""
    pruner: Literal["none", "median", "halving", "hyperband"] = "none"
    """Stop runs that are behind; they go on where they stopped when later runs show that they were not."""
    sampler: Literal["tpe", "random"] = "tpe"
    """How Optuna chooses the parameters."""
    sampler_seed: int = 0
    """With one job, the same seed gives the same sweep."""
    jobs: int = 1
    """How many runs at a time, each in a process."""
    folder: Annotated[Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: runs/<file>-sweep)")] = None
    """Where the sweep is written, each run in a folder of its own."""
    fresh: _Flag = False
    """Start again: an old sweep in the folder is moved aside, never deleted."""
    json: _Flag = False
    """Print the result as one JSON object on stdout, everything else on stderr."""


class FileBuild:
    """Builds the Trainer of a trial from a file, in whichever process; its run says with which options it can be built again."""

    def __init__(self, target: str | None, options: Sequence[str], searched: Sequence[str]) -> None:
        self._target, self._options, self._searched = target, list(options), list(searched)
        self._found: script.Script | None = None  # loaded once in each process

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_found": None}

    @property
    def found(self) -> script.Script:
        if self._found is None:
            self._found = script.load(self._target) if self._target else script.recipe()
        return self._found

    def __call__(self, values: Mapping[str, Any]) -> Trainer:
        with contextlib.redirect_stdout(sys.stderr):  # what the user's file prints
            trainer = script.build_trainer(self.found, values)
        trainer.run.script = self.found.to_record(self.options_for(values))
        return trainer

    def options_for(self, values: Mapping[str, Any]) -> list[str]:
        """What to type after `instep train FILE.py` to have the same run."""
        return [*self._options, *as_options({name: values[name] for name in self._searched}, self.found.build)]


def run(arguments: Sequence[str]) -> int:
    """Train, print the table, write the page; returns the exit code."""
    is_without_file = bool(arguments) and _SPEC.fullmatch(arguments[0]) is not None
    target, rest = (None, arguments) if is_without_file else split_file(arguments, "sweep")
    specs, options = split_specs(rest)
    make = FileBuild(target, without_own(options), list(specs))
    own, space = parse(make.found, target, specs, options)
    folder = own.folder or Path("runs") / f"{make.found.title}-sweep"
    if own.fresh and (moved := move_aside(folder, what="sweep", file=FILE)):
        print(f"the old sweep is now {moved}\n", file=sys.stderr)
    with words_of(SweepOptions):
        asked = Asked(own.trials, own.metric, own.metric_mode, own.pruner, own.sampler, own.jobs, own.sampler_seed)
        result = run_sweep(make, space, folder, asked, show=lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(as_json(result)) if own.json else f"\n{ending(result, make, space, target)}")
    return 0


def split_specs(arguments: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """What to try, by name, and the options; an option of the file that has a value like a=b is written --option=a=b."""
    specs: dict[str, str] = {}
    for one in arguments:
        if _SPEC.fullmatch(one):
            name, _, text = one.partition("=")
            if name in specs:
                raise WrongUse(f"{name} is there twice, as {name}={specs[name]} and {one}; use one.")
            specs[name] = text
    return specs, [one for one in arguments if not _SPEC.fullmatch(one)]


def parse(
    found: script.Script, target: str | None, specs: Mapping[str, str], options: Sequence[str]
) -> tuple[SweepOptions, Space]:
    """The command's own options, and the space with the values of build's other parameters."""
    if not specs and not {"-h", "--help"} & set(options):
        raise WrongUse(f"say what to try, after the file: {EXAMPLES}. See instep sweep{f' {target}' if target else ''} --help.")
    named = {one.partition("=")[0].removeprefix("--").removeprefix("no-").replace("-", "_") for one in options}
    both = [name for name in specs if name in named]
    if both:
        raise WrongUse(f"{both[0]} is searched ({both[0]}={specs[both[0]]}) and given as an option as well; leave one out.")
    where = str(found)
    parameters = {}
    if specs:
        # What has no default may stand among the options, which are read after this.
        others = {name: None for name, p in inspect.signature(found.build).parameters.items() if p.default is p.empty}
        others = {name: None for name in others if name not in specs}
        parameters = dict(read_space(found.build, specs, others, where=where).parameters)
    first = as_options({name: one.value_of(one.first) for name, one in parameters.items()}, found.build)
    given = parse_for_file(SweepOptions, found, [*options, *first], "sweep", target)
    fixed = {name: value for name, value in given.hyper_parameters.items() if name not in parameters}
    return given.own, read_space(found.build, parameters, fixed, where=where)


def as_options(values: Mapping[str, Any], build: Any) -> list[str]:
    """Values of build's parameters as options of the command.

    >>> def build(lr: float, deep: bool = False): ...
    >>> as_options({"lr": 0.1, "deep": True}, build)
    ['--lr=0.1', '--deep']
    """
    known = inspect.signature(build).parameters
    found = []
    for name, value in values.items():
        option = name.replace("_", "-")
        if isinstance(value, bool) and isinstance(known[name].default, bool):
            found.append(f"--{'' if value else 'no-'}{option}")
        else:
            found.append(f"--{option}={as_plain(value)}")
    return found


def without_own(options: Sequence[str]) -> list[str]:
    """The options of build alone."""
    own = {field.name for field in fields(SweepOptions)}
    flags = {"fresh", "json"}
    left, skips = [], False
    for one in options:
        name = one.removeprefix("--").partition("=")[0].replace("-", "_") if one.startswith("--") else ""
        if skips:
            skips = False
        elif name in own:
            skips = name not in flags and "=" not in one
        else:
            left.append(one)
    return left


def ending(result: SweepResult, make: FileBuild, space: Space, target: str | None) -> str:
    """The table, and what to type next."""
    width = terminal_width(sys.stdout)
    told = [result.render(width=width and min(width, PROSE), paint=paint_for(sys.stdout)), ""]
    if result.best is not None:
        values = {**space.fixed, **result.best.parameters}
        again = ["instep", "train", *([target] if target else []), "--new", *make.options_for(values)]
        told += [f"train the best again  {shlex.join(again)}"]
        told += [f"look at it            instep show {shlex.quote(str(result.best.folder))}"]
    told.append(f"all trials            {result.folder / REPORT}")
    return fold_for(sys.stdout, "\n".join(told))


def as_json(result: SweepResult) -> dict[str, Any]:
    """What --json prints."""
    rows = [{name: as_plain(value) for name, value in row.items()} for row in result.to_dicts()]
    best = None if result.best is None else rows[result.rows.index(result.best)]
    return {
        "folder": str(result.folder),
        "metric": result.metric,
        "metric_mode": result.metric_mode,
        "best": best,
        "importances": dict(result.importances),
        "trials": rows,
    }
