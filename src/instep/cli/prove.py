"""`instep prove [FILE.py[:build]] [options…]`: tries on what a file describes what Instep promises; nothing is kept.

A process that was started by a proof comes through here too, and is told apart by its environment.
"""

import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from instep.cli import script
from instep.cli.border import FAILED, WrongUse, in_terminal
from instep.cli.target import parse_for_file, split_file
from instep.cli.words import words_of
from instep.proof.child import run_child, task_of_child, values_of
from instep.proof.prove import prove_subject
from instep.proof.result import Row
from instep.proof.subject import Origin
from instep.text import paint_for, terminal_width


@dataclass(frozen=True)
class ProveOptions:
    """What to try; nothing is written, and nothing is kept of the trainings."""

    steps: Annotated[int, tyro.conf.arg(metavar="N", help_behavior_hint="(default: 20)")] = 20
    """How many updates each arrangement makes."""
    promises: Annotated[
        tuple[str, ...], tyro.conf.arg(metavar="NAME[,NAME …]", help_behavior_hint="(default: all that apply)")
    ] = ()
    """Which promises to try: split, interrupt, spread, load, observe, tune, overflow, plain; repeat always is."""
    allow: Annotated[tuple[str, ...], tyro.conf.arg(metavar="NAME[,NAME …]", help_behavior_hint="(default: none)")] = ()
    """Limits that are known and meant, like draws (dropout) or batchnorm: what differs by them is shown, and does not fail."""
    json: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None
    """Write all that was found to this file, as JSON; - for stdout, with the table on stderr."""


def run(arguments: Sequence[str]) -> int:
    """Prove and print; returns the exit code: 0 where all hold, 1 where one differs, 2 for wrong use."""
    target, options = split_file(arguments, "prove")
    found = script.load(target) if target else script.recipe()
    task = task_of_child()
    if task is not None and (values := values_of(task)) is not None:
        return run_child(task, lambda: script.build_trainer(found, values))
    given = parse_for_file(ProveOptions, found, options, "prove", target)
    if task is not None:
        return run_child(task, lambda: script.build_trainer(found, given.hyper_parameters))
    own: ProveOptions = given.own
    to_stdout = own.json is not None and str(own.json) == "-"
    if own.json is not None and not to_stdout and not own.json.absolute().parent.is_dir():
        raise WrongUse(f"--json {own.json}: there is no folder {own.json.parent}; make it, or name another file.")
    display = Display()
    with contextlib.redirect_stdout(sys.stderr), words_of(ProveOptions):  # what the user's file prints
        proof = prove_subject(
            lambda: script.build_trainer(found, given.hyper_parameters),
            origin=Origin(("prove", *([target] if target else []), *options)),
            steps=own.steps,
            promises=_names(own.promises) or None,
            allow=_names(own.allow),
            whose=f"{found.title if found.is_recipe else found.path}",
            file=str(found.path),
            tell=display.tell,
            done=display.done,
        )
    display.end()
    print(in_terminal(proof), file=sys.stderr if to_stdout else sys.stdout)
    if own.json is not None:
        _write(own.json, proof.to_record())
    return 0 if proof.ok else FAILED


class Display:
    """What is being tried: one line that changes in a terminal, a line for each promise elsewhere; on stderr."""

    def __init__(self) -> None:
        self._stream = sys.stderr
        self._is_live = self._stream.isatty()

    def tell(self, promise: str, words: str) -> None:
        if self._is_live:
            width = (terminal_width(self._stream) or 80) - 1
            self._stream.write(f"\r\x1b[K{f'{promise}: {words} …'[:width]}")
            self._stream.flush()

    def done(self, row: Row) -> None:
        self.clear()
        paint = paint_for(self._stream)
        seconds = paint(f"{row.seconds:5.1f} s", "dim")
        self._stream.write(f"{seconds}  {row.promise:<10} {row.result}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave a line between this and what follows."""
        self.clear()
        if self._is_live:
            self._stream.write("\n")
            self._stream.flush()

    def clear(self) -> None:
        if self._is_live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()


def _names(given: Sequence[str]) -> tuple[str, ...]:
    """Names apart: `split,load` and `split load` are the same."""
    return tuple(name.strip() for one in given for name in one.split(",") if name.strip())


def _write(path: Path, record: dict[str, Any]) -> None:
    text = json.dumps(_finite(record), indent=2) + "\n"
    if str(path) == "-":
        print(text, end="")
    else:
        path.write_text(text, encoding="utf-8")


def _finite(thing: Any) -> Any:
    """JSON has no words for inf and nan."""
    if isinstance(thing, dict):
        return {name: _finite(value) for name, value in thing.items()}
    if isinstance(thing, list | tuple):
        return [_finite(value) for value in thing]
    return thing if not isinstance(thing, float) or abs(thing) < float("inf") else str(thing)
