"""`instep train [FILE.py[:build]] [options…]`: trains what `build` describes, or the built-in recipe.

A learning rate that --find-lr found is kept in `run.json`: a run that goes on has the same one and searches no more.
"""

import contextlib
import json
import math
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from instep.checkpoint import steps
from instep.cli import aside, script
from instep.cli.border import WrongUse, in_terminal
from instep.cli.options import ParsedOptions, parse_with_build
from instep.cli.target import help_for
from instep.cli.words import words_of
from instep.errors import ChangedRun, InstepError
from instep.integrations.logger_names import find_loggers
from instep.records import Plan
from instep.report import summary
from instep.report.plan import render
from instep.report.summary import Ending
from instep.run.history import NO_COLUMNS, History, Row
from instep.run.run_files import CHECKPOINTS, read_description
from instep.text import PROSE, fold, fold_for, paint_for, rate, terminal_width
from instep.trainer import Trainer

AGAIN = "--new trains again in a new folder, --fresh in this one, after moving the old run aside."
_STARTED = "INSTEP_PROCESSES"  # set in those that were started for --processes
_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff]


@dataclass(frozen=True)
class TrainOptions:
    """Where and how to run; only --find-lr and --allow-changes can change the result (and --processes: see there)."""

    folder: Annotated[
        Path | None, tyro.conf.arg(metavar="PATH", help_behavior_hint="(default: the one that build sets, else runs/<file>)")
    ] = None
    """Where the run is written."""
    fresh: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Start again: an old run in the folder is moved aside, never deleted."""
    new: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Start beside an old run: the folder gets the next free number, like runs/train-2."""
    allow_changes: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME [NAME …]", help_behavior_hint="(default: none)")] = ()
    """Resume the run in the folder although these have changed, like lr."""
    find_lr: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Make a range test first and train with its suggestion: as the peak of a OneCycle, else as the optimizer's lr."""
    dry_run: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Build, show the plan, try two updates and an evaluation; nothing is written."""
    logger: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME", help_behavior_hint="(repeatable)"), tyro.conf.UseAppendAction
    ] = ()
    """Log to tensorboard, mlflow, wandb, trackio or csv as well, beside the loggers of build."""
    progress: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Show progress, whatever build says."""
    no_progress: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Show no progress."""
    processes: Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one, without torchrun)")] = None
    """Train with this many processes on this machine, by torchrun; the same result, except with dropout or BatchNorm."""
    nodes: Annotated[str, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 1)")] = "1"
    """Train on this many machines; give the same command on each."""
    rendezvous: Annotated[str | None, tyro.conf.arg(metavar="HOST:PORT", help_behavior_hint="")] = None
    """With several machines: the address of one of them, the same on all."""
    max_restarts: Annotated[int, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 0)")] = 0
    """When a process dies, restart from the newest checkpoint, at most this many times."""
    json: Annotated[_Flag, tyro.conf.arg(help_behavior_hint="")] = False
    """Print the final numbers as one JSON object on stdout, everything else on stderr."""


def run(arguments: Sequence[str]) -> int:
    """Train; returns the exit code."""
    target, options = split_arguments(arguments)
    found = script.load(target) if target else script.recipe()
    prog = f"instep train {target}" if target else "instep train"
    help_of = help_for("train", found, target)
    given = parse_with_build(TrainOptions, found.build, options, prog=prog, where=str(found), help_of=help_of)
    own: TrainOptions = given.own
    _require_one_place(own)
    if _asks_for_processes(own) and _STARTED not in os.environ:
        return _start_processes(own, arguments)
    with _output_of_rank_0(own):
        trainer = _build(found, given, options)
        _set_lr(trainer, own)
        numbers = _dry_run(trainer) if own.dry_run else _train(trainer, own)
    if own.json and trainer.rank == 0:
        print(json.dumps(numbers))
    return 0


def _require_one_place(own: TrainOptions) -> None:
    if own.new and own.fresh:
        raise WrongUse("--new leaves the old run where it is, --fresh moves it aside; leave one out.")
    if own.new and own.max_restarts:
        raise WrongUse("--new would begin in another folder after each restart; with --max-restarts name one: --folder PATH.")


def _asks_for_processes(own: TrainOptions) -> bool:
    if own.processes is None and (own.nodes != "1" or own.rendezvous is not None or own.max_restarts):
        raise WrongUse("--nodes, --rendezvous and --max-restarts go with --processes, the number of them on each machine.")
    return own.processes is not None


def _start_processes(own: TrainOptions, arguments: Sequence[str]) -> int:
    """The same command in every process, under torchrun."""
    from instep.distributed.launch import Launch, launched

    assert own.processes is not None
    launch = Launch(own.processes, own.nodes, own.rendezvous, own.max_restarts)
    os.environ[_STARTED] = "1"
    try:
        return launched(launch, ["train", *arguments])
    finally:
        del os.environ[_STARTED]


@contextlib.contextmanager
def _output_of_rank_0(own: TrainOptions) -> Iterator[None]:
    """Other processes write to nowhere; with --json everything but the numbers goes to stderr."""
    with contextlib.ExitStack() as stack:
        if os.environ.get("RANK", "0") != "0":
            stack.enter_context(contextlib.redirect_stdout(stack.enter_context(open(os.devnull, "w"))))
        elif own.json:
            stack.enter_context(contextlib.redirect_stdout(sys.stderr))
        yield


def split_arguments(arguments: Sequence[str]) -> tuple[str | None, list[str]]:
    """The FILE and the options. Only options of the command itself may stand before it: build's are not known without it."""
    index = 0
    while index < len(arguments) and (name := arguments[index].replace("_", "-")).startswith("-"):
        if name in _VALUED:
            index += 1  # its value
        elif name not in _FLAGS and name.partition("=")[0] not in _VALUED:
            break
        index += 1
    else:
        if index < len(arguments):
            return arguments[index], [*arguments[:index], *arguments[index + 1 :]]
    for late in arguments[index:]:
        if late.endswith(".py") or ".py:" in late:
            raise WrongUse(f"{late} stands after options of its own; the file comes first: instep train {late} [options…]")
    return None, list(arguments)


_VALUED = ("--folder", "--logger", "--processes", "--nodes", "--rendezvous", "--max-restarts")
_FLAGS = ("-h", "--help", "--fresh", "--new", "--find-lr", "--dry-run", "--progress", "--no-progress", "--json")


def _build(found: script.Script, given: ParsedOptions, options: Sequence[str]) -> Trainer:
    """The Trainer that build gives, with its folder, and with what is needed to build it again."""
    own: TrainOptions = given.own
    trainer = script.build_trainer(found, given.hyper_parameters)
    trainer.run.script = found.to_record(options)
    if own.progress and own.no_progress:
        raise WrongUse("--progress and --no-progress say the opposite; leave one out.")
    # In a terminal, `_ending` sums up the run.
    is_terminal = sys.stdout.isatty() and sys.stderr.isatty()
    asked = own.progress if own.progress or own.no_progress else trainer.run.options.progress
    trainer.run.set_progress(asked, says_end=not is_terminal)
    if own.folder is not None or trainer.folder is None:
        trainer.run.set_folder(own.folder or Path("runs") / found.title)
    trainer.run.allow_changes = (*trainer.run.allow_changes, *own.allow_changes)
    trainer.run.loggers.add(find_loggers(name for given in own.logger for name in given.split(",")))
    if own.new:
        _take_new_folder(trainer)
    return trainer


def _take_new_folder(trainer: Trainer) -> None:
    """Rank 0 chooses: another process could look when the folder is made already."""
    before = trainer.folder
    assert before is not None
    folder = trainer.run.world.run_on_rank0(lambda: aside.new_folder(before))
    if folder != before:
        print(fold_for(sys.stdout, f"{before} holds a run already; this one goes to {folder}\n"))
    trainer.run.set_folder(folder)


def _set_lr(trainer: Trainer, own: TrainOptions) -> None:
    """The learning rate that was found for the run in the folder, or is found for it now; without either, build's own."""
    assert trainer.folder is not None
    before = None if own.fresh or own.dry_run else read_description(trainer.folder)
    if before is not None and steps(trainer.folder / CHECKPOINTS):
        found = before.get("found_lr")
        if isinstance(found, dict):
            print(f"going on with lr {rate(found['lr'])}, which --find-lr found for this run\n")
        elif own.find_lr:
            raise WrongUse(
                f"{trainer.folder} holds a run that was begun without --find-lr; leave it out to go on, or start "
                "again: --new or --fresh."
            )
    else:
        found = _find_lr(trainer) if own.find_lr else None
    if found is not None:
        trainer.set_lr(found["lr"])
        trainer.run.remarks["found_lr"] = found


def _find_lr(trainer: Trainer) -> dict[str, Any]:
    """What a range test suggests; shown, and an error where that is nothing."""
    test = trainer.find_lr()
    print(in_terminal(test), end="\n\n", flush=True)
    if test.suggestion is None:
        raise InstepError(f"--find-lr found no learning rate to train with: {test.reason}")
    trainer.run.keep_range_test(test.to_record())
    return {"lr": test.suggestion, "reason": test.reason, "confidence": test.confidence}


def _dry_run(trainer: Trainer) -> dict[str, Any]:
    _print_plan(trainer.plan())
    trainer.run.loggers.require(trainer.folder)
    evaluation = trainer.dry_run()
    said = "two updates and an evaluation" if evaluation else "two updates"
    print(fold_for(sys.stdout, f"ok: {said} went through; nothing was written."))
    return {"dry_run": "ok"} | trainer.run.remarks


def _train(trainer: Trainer, own: TrainOptions) -> dict[str, Any]:
    assert trainer.folder is not None
    is_first_start = trainer.rank == 0 and os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"
    if own.fresh and is_first_start and (moved := aside.move_aside(trainer.folder)):
        print(f"the old run is now {moved}\n")
    plan = trainer.plan()
    # Progress says the notes itself. Flushed, so that the plan stands before what progress writes to stderr.
    _print_plan(plan if own.no_progress else replace(plan, notes=()))
    with _words_about(trainer.folder), words_of(TrainOptions):
        history = trainer.fit()
    print(_ending(trainer, plan, history, shows_progress=not own.no_progress and trainer.run.options.progress is not False))
    return as_json(history, trainer.folder) | trainer.run.remarks


def _print_plan(plan: Plan) -> None:
    room = terminal_width(sys.stdout)
    text = render(plan, width=min(room or 80, PROSE), table_width=room, paint=paint_for(sys.stdout))
    print(text, end="\n\n", flush=True)


@contextlib.contextmanager
def _words_about(folder: Path) -> Iterator[None]:
    """A run that is not the one in the folder: which options help."""
    try:
        yield
    except ChangedRun as error:
        allowed = (
            f" To go on with the old run under these changes: --allow-changes {' '.join(error.names)}" if error.names else ""
        )
        raise WrongUse(
            f"{error.changes}\nTrain in a new folder with --new ({aside.new_folder(folder)}) or --folder PATH, or move the old "
            f"run aside with --fresh.{allowed}"
        ) from None


def _ending(trainer: Trainer, plan: Plan, history: History, *, shows_progress: bool) -> str:
    """What was trained and what to do next; of a run that was finished before, how to train again."""
    assert trainer.folder is not None
    width, paint = min(terminal_width(sys.stdout) or 80, PROSE), paint_for(sys.stdout)
    is_old = trainer.resumed_from == trainer.step
    resumed_from = 0 if is_old else trainer.resumed_from or 0
    end = Ending(plan, trainer.folder, trainer.run.state.why_stopped, resumed_from, classifies=trainer.run.classifies)
    said = summary.render(history, end, width=width, paint=paint)
    if not is_old:
        return f"\n{said}"
    is_said = shows_progress and trainer.run.state.step
    return f"{fold(AGAIN if is_said else f'This run was finished already. {AGAIN}', width)}\n\n{said}"


def as_json(history: History, folder: Path) -> dict[str, Any]:
    """What --json prints; inf and nan, for which JSON has no words, are null."""
    last = history.last or {}
    return {
        "folder": str(folder),
        "steps": last.get("step", 0),
        "seconds": last.get("clock", {}).get("seconds", 0.0),
        "final": _finite(last),
        "best": _finite(history.best or {}),
        "test": _finite(history.test or {}),
    }


def _finite(row: Row) -> dict[str, Any]:
    numbers = {name: value for name, value in row.items() if name not in NO_COLUMNS}
    return {name: None if isinstance(value, float) and not math.isfinite(value) else value for name, value in numbers.items()}
