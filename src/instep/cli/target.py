"""The file that a command works on, and the options for it: the command's own, and those of its `build`."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any

from instep.cli import COMMANDS, script
from instep.cli.border import WrongUse
from instep.cli.options import Help, ParsedOptions, parse_with_build


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
    return parse_with_build(own, found.build, options, prog=prog, where=str(found), help_of=help_for(command, found, target))


def help_for(command: str, found: script.Script, target: str | None) -> Help:
    """What the command does, and what the file that it works on describes."""
    described = (inspect.getdoc(found.build) or "").partition("\n\n")[0]
    whose = f"{found}:" if target else "Without a FILE, it is the built-in example:"
    file = target or "[FILE.py[:build]]"
    does = f"{COMMANDS[command].capitalize()}."
    return Help(f"instep {command} {file}", f"{does}\n\n{whose} {described}" if described else does)


def _require_apart(own: type, build: Callable[..., Any], where: str, command: str) -> None:
    both = sorted({field.name for field in fields(own)} & set(inspect.signature(build).parameters))
    if both:
        raise WrongUse(f"{where} has the parameter {both[0]}, which instep {command} itself uses; give it another name.")
