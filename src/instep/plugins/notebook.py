"""The doctor in notebooks: after `%load_ext instep`, a cell that begins with `%%doctor` is watched; findings stand under it."""

import ast
import shlex
import sys
from pathlib import Path
from typing import Any

from instep.doctor.catalogue import CATALOGUE
from instep.doctor.finding import Finding
from instep.doctor.report import render
from instep.doctor.settings import Settings
from instep.errors import DescriptionError
from instep.report.findings.page import piece

USAGE = "it takes --ignore ID (several times) and --strict"


def load(shell: Any) -> None:
    """Give a notebook, or IPython, the magic."""

    def doctor(line: str, cell: str) -> None:
        __tracebackhide__ = True
        run_cell(shell, line, cell)

    doctor.__doc__ = f"Watch the training in this cell, and show what is wrong with it under the cell; {USAGE}."
    shell.register_magic_function(doctor, "cell", "doctor")


def run_cell(shell: Any, line: str, cell: str) -> None:
    """Run the cell as it runs without the magic, watched. What it raises comes out as it would; findings are shown first."""
    from IPython.core.error import UsageError
    from IPython.display import display

    from instep.doctor.watcher import Watcher

    __tracebackhide__ = True  # IPython shows the user's frames alone
    try:
        watcher = Watcher(_settings(line))
    except DescriptionError as error:
        raise UsageError(str(error)) from None
    source = "\n" + shell.transform_cell(cell)  # lines are counted as in the notebook, %%doctor being the first
    name: str = shell.compile.cache(source, shell.execution_count)
    tree = shell.compile.ast_parse(source, filename=name)
    try:
        with watcher:
            _execute(tree, name, shell.user_ns, silent=cell.rstrip().endswith(";"))
    finally:
        display(CellReport(watcher.findings, watcher.trace.steps, name))


def _execute(tree: ast.Module, name: str, names: dict[str, Any], *, silent: bool) -> None:
    """The statements, and then the value of the last one, if it has one, as a cell shows it."""
    __tracebackhide__ = True
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        tree.body.pop()
    exec(compile(tree, name, "exec"), names)
    if isinstance(last, ast.Expr):
        value = eval(compile(ast.Expression(last.value), name, "eval"), names)
        if not silent:
            sys.displayhook(value)


class CellReport:
    """What was found in a cell, as notebooks and terminals show it."""

    def __init__(self, findings: list[Finding], steps: int, cell: str) -> None:
        self.findings = findings
        self._steps, self._cell = steps, cell

    def _repr_html_(self) -> str:
        told = [one.as_json() | {"title": CATALOGUE[one.id].title, "place": self._place(one)} for one in self.findings]
        return piece(told, self._steps, Path.cwd())

    def __repr__(self) -> str:
        return render(self.findings, steps=self._steps)

    def _place(self, finding: Finding) -> str:
        file, _, line = (finding.where or "").rpartition(":")
        if not file:
            return ""
        return f"line {line} of this cell: " if file == self._cell else f"{finding.where}: "


def _settings(line: str) -> Settings:
    words, ignore, strict = shlex.split(line), [], False
    while words:
        word = words.pop(0)
        if word == "--strict":
            strict = True
        elif word == "--ignore" and words:
            ignore.append(words.pop(0))
        else:
            raise DescriptionError(f"%%doctor does not know {word!r}; {USAGE}.")
    return Settings(ignore=tuple(ignore), strict=strict)
