"""The ground of all promises: the same run again, in this process and in a new one, is the same run."""

import ast
import contextlib
from collections.abc import Iterator
from pathlib import Path

from instep.proof import children
from instep.proof.causes import find_causes, of_process, process_calls
from instep.proof.children import ChildFailed
from instep.proof.new_processes import NewProcesses
from instep.proof.record import Record, compare
from instep.proof.result import Cause, Row
from instep.proof.subject import Arrangement
from instep.proof.trial import Trial


def repeat_here(trial: Trial) -> Row | None:
    """The same run twice in this process; None where it is the same."""
    trial.tell("the same run twice")
    found = compare(trial.baseline, trial.train(Arrangement()), history=True)
    if found is None:
        return None
    causes = tuple(find_causes(trial, found))
    return Row("repeat", "twice in one process", "differs", found.size, f"First to differ: {found}.", causes)


def repeat_elsewhere(trial: Trial, processes: NewProcesses) -> Row:
    """And once in a new process."""
    if not processes.has_any:
        return Row("repeat", "twice in one process", "bitwise", meaning="the run depends on nothing but its description.")
    words = "twice here, once in a new process"
    trial.tell(words)
    try:
        other = processes.again()
    except ChildFailed as error:
        return Row("repeat", words, "fails", meaning=f"In a new process: {error}", causes=find_process_causes(trial))
    found = compare(trial.baseline, other, history=True)
    if found is not None:
        meaning = f"Twice here it is the same; in a new process {found} is the first to differ."
        return Row("repeat", words, "differs", found.size, meaning, find_process_causes(trial))
    return Row("repeat", words, "bitwise", meaning="the run depends on nothing but its description.")


def find_process_causes(trial: Trial, *, only_seen: bool = False) -> tuple[Cause, ...]:
    """Whether it is the hash seed: new processes with the same one agree, with others they do not."""
    seeds = ("1", "1", "2", "3")
    started = [
        children.start(trial.subject, trial.folder / f"hash-{place}", [{}], environment={"PYTHONHASHSEED": seed})
        for place, seed in enumerate(seeds)
    ]
    left: list[Record | None] = []
    for child in started:
        with contextlib.suppress(ChildFailed):
            left.append(child.records()[0])
            continue
        left.append(None)
    same = [record is not None and left[0] is not None and compare(left[0], record) is None for record in left[1:]]
    calls, by_hash = process_calls(trial), same[0] and not all(same)
    if not by_hash and not calls and only_seen:
        return ()
    return (of_process(calls, by_hash=by_hash, lines=list(set_lines(trial))),)


def set_lines(trial: Trial) -> Iterator[str]:
    """The lines of the user's file in which the order of a set, or hash(), is used."""
    with contextlib.suppress(OSError, SyntaxError, TypeError):
        file = Path(trial.subject.file)
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if any(_is_set(part) for part in _ordered_by(node)):
                yield f"{file.name}:{node.lineno}"  # type: ignore[attr-defined]


def _ordered_by(node: ast.AST) -> list[ast.AST]:
    """What a node takes in its own order."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        if node.func.id == "hash":
            return [ast.Set(elts=[])]
        return list(node.args) if node.func.id in ("list", "tuple", "enumerate", "iter", "zip") else []
    if isinstance(node, ast.For):
        return [node.iter]
    return [part.iter for part in node.generators] if isinstance(node, ast.ListComp | ast.DictComp | ast.GeneratorExp) else []


def _is_set(node: ast.AST) -> bool:
    is_call = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("set", "frozenset")
    return is_call or isinstance(node, ast.Set | ast.SetComp)
