"""Writes docs/reference/command.md from what the command says of itself: `instep --help`, and `--help` of every command.

`make command-reference` calls it.
"""

import contextlib
import io
import os
import textwrap
from pathlib import Path

PAGE = Path(__file__).parent.parent / "docs" / "reference" / "command.md"
COLUMNS = 92

INTRODUCTION = """\
# The command

What `instep` can do, as `--help` prints it. This page is made by `make command-reference`; a test compares it with the command.

| exit code | meaning |
| --- | --- |
| 0 | all went well |
| 1 | the run failed |
| 2 | the command was used wrongly |
| 130, 143 | Ctrl-C or SIGTERM stopped the run: 128 plus the signal |
| any other | `instep doctor` has that of the script that it ran, or 3 with `--fail-on` |
"""


def render() -> str:
    """The page."""
    from instep.cli import COMMANDS

    parts = [INTRODUCTION, f"```text\n{said('--help')}\n```\n"]
    for name, line in COMMANDS.items():
        parts.append(f"## instep {name}\n\n{line[0].upper()}{line[1:]}.\n\n```text\n{said(name, '--help')}\n```\n")
    return "\n".join(parts)


def said(*arguments: str) -> str:
    """What the command prints, at a fixed width and without colour."""
    from instep.cli import main

    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.suppress(SystemExit):
        main(arguments)
    lines = [line.rstrip() for line in printed.getvalue().strip().splitlines()]
    return "\n".join(textwrap.fill(line, COLUMNS) if len(line) > COLUMNS else line for line in lines)


if __name__ == "__main__":
    os.environ |= {"COLUMNS": str(COLUMNS), "NO_COLOR": "1"}
    PAGE.write_text(render(), encoding="utf-8")
    print(f"{PAGE.name}: {len(PAGE.read_text(encoding='utf-8').splitlines())} lines")
