"""The file that a command works on, and the options for it: the command's own, and those of its `build`."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from instep.cli import script
from instep.cli.border import WrongUse
from instep.cli.options import ParsedOptions, parse_with_build


def split_file(arguments: Sequence[str], command: str) -> tuple[str | None, list[str]]:
    """The FILE, where the first argument is one, and the options."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], list(arguments[1:])
    for late in arguments:
        if late.endswith(".py") or ".py:" in late:
            raise WrongUse(f"{late} stands after options; the file comes first: instep {command} {late} [options…]")
    return None, list(arguments)


def parse_for_file(own: type, found: script.Script, options: Sequence[str], command: str, target: str | None) -> ParsedOptions:
    """The command's own options and build's; one name cannot be both."""
    _require_apart(own, found.build, str(found), command)
    prog = f"instep {command} {target}" if target else f"instep {command}"
    return parse_with_build(own, found.build, options, prog=prog, where=str(found))


def _require_apart(own: type, build: Callable[..., Any], where: str, command: str) -> None:
    both = sorted({field.name for field in fields(own)} & set(inspect.signature(build).parameters))
    if both:
        raise WrongUse(f"{where} has the parameter {both[0]}, which instep {command} itself uses; give it another name.")
