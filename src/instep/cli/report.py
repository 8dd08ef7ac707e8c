"""`instep report RUN…`: one or several runs as a page that any browser opens."""

import contextlib
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from instep.cli.border import WrongUse
from instep.cli.options import parse
from instep.report.page.document import document
from instep.report.page.html import MARK, page
from instep.run.run_files import find_runs, is_run, read_run
from instep.text import listed, size

_Flag = Annotated[bool, tyro.conf.FlagCreatePairsOff, tyro.conf.arg(help_behavior_hint="")]


@dataclass(frozen=True)
class ReportOptions:
    """Write one run, or several over each other, as one page of HTML: curves, numbers, settings. It needs no network."""

    runs: Annotated[tuple[Path, ...], tyro.conf.Positional, tyro.conf.arg(metavar="RUN [RUN …]")]
    """The folders of the runs, like runs/digits."""
    output: Annotated[
        Path | None,
        tyro.conf.arg(
            aliases=["-o"], metavar="FILE", help_behavior_hint="(default: RUN/report.html; of several runs report.html)"
        ),
    ] = None
    """Where to write the page."""
    samples: _Flag = False
    """Build each run again from its file, and show its data and the samples with the largest losses. Runs the file's code."""
    open: _Flag = False
    """Open the page in a browser."""


def run(arguments: Sequence[str]) -> int:
    """Write the page; returns the exit code."""
    asked = parse(ReportOptions, arguments, prog="instep report")
    if not asked.runs:
        raise WrongUse("say which run: instep report runs/train; `instep runs` lists them.")
    _require_runs(asked.runs)
    runs = [read_run(path) for path in asked.runs]
    output = asked.output or (asked.runs[0] / "report.html" if len(asked.runs) == 1 else Path("report.html"))
    _require_writable(output)
    text = page(document(runs, _samples(asked.runs) if asked.samples else None))
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUse(f"{output} cannot be written: {error.strerror}.") from None
    print(f"report: {output} ({size(output.stat().st_size)})")
    if asked.open:
        import webbrowser

        webbrowser.open(output.resolve().as_uri())
    return 0


def _require_runs(paths: Sequence[Path]) -> None:
    """A folder of runs is not a run; what it holds is said."""
    for path in paths:
        inside = find_runs(path) if path.is_dir() and not is_run(path) else []
        if inside:
            raise WrongUse(f"{path} is not a run, but holds some; name them: instep report {listed(inside, most=4)}")


def _require_writable(output: Path) -> None:
    """Only a page that this command made is replaced."""
    if output.is_dir():
        raise WrongUse(f"{output} is a folder; name a file in it: -o {output / 'report.html'}")
    if not output.parent.is_dir():
        raise WrongUse(f"{output.parent} does not exist, so {output} cannot be written; make that folder first.")
    if output.exists() and not output.read_bytes().startswith(MARK.encode()):
        raise WrongUse(f"{output} exists and is not a report of Instep; name another file with -o.")


def _samples(paths: Sequence[Path]) -> dict[str, Any]:
    from instep.cli import rebuild
    from instep.report.page.samples import samples_of

    found = {}
    with contextlib.redirect_stdout(sys.stderr):  # what the users' files print
        for path in paths:
            rebuilt = rebuild.rebuild(path, None, None, None)
            found[str(path)] = samples_of(rebuilt.trainer.run, rebuilt.weights)
    return found
