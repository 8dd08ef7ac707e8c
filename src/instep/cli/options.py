"""The options of a command, made by tyro from typed parameters: of `build` for `instep train`, of a dataclass for the others.

What tyro has to say about a wrong option becomes one line here; its help is shown as it is.
"""

import contextlib
import difflib
import inspect
import io
import os
import re
import sys
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

import tyro

from instep.cli.border import WrongUse
from instep.text import wants_colour

Options = TypeVar("Options")

# Options that the command has, or will have, itself.
RESERVED = frozenset(
    {
        "allow_changes",
        "doctor",
        "dry_run",
        "file",
        "find_lr",
        "folder",
        "fresh",
        "help",
        "json",
        "logger",
        "max_restarts",
        "new",
        "no_progress",
    }
    | {"nodes", "processes", "progress", "rendezvous", "resume", "version"}
)
_NO_NUMBERS = (
    (r"invalid literal for int\(\) with base 10: '(.*)'", "whole number"),
    (r"could not convert string to float: '(.*)'", "number"),
    (r"no type matching \{None\}\|INT could be instantiated from \['([^']*)'\].*", "whole number"),
    (r"no type matching \{None\}\|FLOAT could be instantiated from \['([^']*)'\].*", "number"),
)
_OWN = "instep_own"  # the parameter that carries the command's own options through tyro


@dataclass(frozen=True)
class ParsedOptions:
    """What stood behind a command: the command's own options, and the values of build's parameters."""

    own: Any
    hyper_parameters: dict[str, Any]


@dataclass(frozen=True)
class Help:
    """How the help of a command begins."""

    usage: str
    description: str


def parse(kind: type[Options], arguments: Sequence[str], *, prog: str) -> Options:
    """The options of a command, as an instance of its dataclass."""
    parsed: Options = _ask(kind, arguments, prog, [field.name for field in fields(kind)])  # type: ignore[arg-type]
    return parsed


def parse_with_build(
    own: type[Options], build: Callable[..., Any], arguments: Sequence[str], *, prog: str, where: str, help_of: Help | None = None
) -> ParsedOptions:
    """The command's own options and the hyper-parameters, of one command line; `where` says in an error whose build it is."""
    parameters = _typed_parameters(build, where)
    annotations = {name: parameter.annotation for name, parameter in parameters.items()}
    # The name only heads their box in the help; the options themselves stand without it.
    annotations[_OWN] = Annotated[own, tyro.conf.arg(name="command"), tyro.conf.OmitArgPrefixes]

    def collected(**values: Any) -> dict[str, Any]:
        return values

    own_parameter = inspect.Parameter(_OWN, inspect.Parameter.KEYWORD_ONLY, default=own(), annotation=annotations[_OWN])
    signature = inspect.Signature([*parameters.values(), own_parameter])
    collected.__signature__ = signature  # type: ignore[attr-defined]
    collected.__annotations__ = annotations
    collected.__doc__ = build.__doc__
    names = [*parameters, *(field.name for field in fields(own))]  # type: ignore[arg-type]
    values: dict[str, Any] = _ask(collected, arguments, prog, names, help_of)
    return ParsedOptions(values.pop(_OWN), values)


def _typed_parameters(build: Callable[..., Any], where: str) -> Mapping[str, inspect.Parameter]:
    """Build's parameters, each with a type and a name that is free."""
    found = inspect.signature(build).parameters
    starred = [p for p in found.values() if p.kind in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
    if starred:
        raise WrongUse(f"{where} takes {starred[0]}; options need parameters that have a name and a type, like lr: float = 1e-3.")
    reserved = sorted(RESERVED & found.keys())
    if reserved:
        names = ", ".join(reserved)
        raise WrongUse(f"{where} has the parameter {names}, which the command itself uses; give it another name.")
    for parameter in found.values():
        if parameter.annotation is parameter.empty:
            raise WrongUse(f"{where} has a parameter without a type: {parameter.name}; write {_with_a_type(parameter)}.")
    types = _types(build, found, where)
    return {name: p.replace(annotation=types[name], kind=p.KEYWORD_ONLY) for name, p in found.items()}


def _types(build: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], where: str) -> dict[str, Any]:
    """The annotations, with those that are text looked up where build was written."""
    annotated = SimpleNamespace(__annotations__={name: p.annotation for name, p in parameters.items()})
    try:
        return typing.get_type_hints(annotated, getattr(inspect.unwrap(build), "__globals__", {}), include_extras=True)
    except NameError as error:
        raise WrongUse(f"{where} has a type that cannot be found: {error}.") from None


def _with_a_type(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return f"{parameter.name}: float (or int, str, …)"
    kind = "str" if parameter.default is None else type(parameter.default).__name__
    return f"{parameter.name}: {kind}{' | None' if parameter.default is None else ''} = {parameter.default!r}"


def _ask(target: Any, arguments: Sequence[str], prog: str, names: Sequence[str], help_of: Help | None = None) -> Any:
    heard = io.StringIO()
    try:
        with contextlib.redirect_stderr(heard), _plain_where_asked():
            answer, unknown = tyro.cli(
                target,
                prog=help_of.usage if help_of else prog,
                description=help_of.description if help_of else None,
                args=list(arguments),
                return_unknown_args=True,
            )
    except SystemExit as stop:
        if not stop.code:  # --help was asked for and shown
            raise
        raise WrongUse(f"{_in_one_line(heard.getvalue())} See {prog} --help.") from None
    if unknown:
        raise WrongUse(_unknown(unknown, prog, names))
    return answer


@contextlib.contextmanager
def _plain_where_asked() -> Iterator[None]:
    """Help without colours where they are not wanted; tyro knows only a dumb terminal."""
    terminal = os.environ.get("TERM")
    if not wants_colour(sys.stdout):
        os.environ["TERM"] = "dumb"
    try:
        yield
    finally:
        os.environ.pop("TERM", None)
        if terminal is not None:
            os.environ["TERM"] = terminal


def _unknown(unknown: Sequence[str], prog: str, names: Sequence[str]) -> str:
    first = next((argument for argument in unknown if argument.startswith("-")), unknown[0]).partition("=")[0]
    if not first.startswith("-"):
        return f"{prog} does not know what to do with {first!r}; see {prog} --help."
    options = ["--" + name.replace("_", "-") for name in names]
    meant = _called_here(first.removeprefix("--").replace("-", "_"))
    close = [f"--{meant.replace('_', '-')}"] if meant in names else []
    close = close or difflib.get_close_matches(first.replace("_", "-"), options, n=1)
    hint = f"did you mean {close[0]}? See" if close else "see"
    return f"{prog} has no option {first}; {hint} {prog} --help."


def _called_here(name: str) -> str:
    """What an argument of another library is called here, by the start of the advice about it: `epochs=`."""
    from instep.run.argument_names import CALLED_HERE

    return "lr" if name == "learning_rate" else CALLED_HERE.get(name, "").partition("=")[0]


def _in_one_line(box: str) -> str:
    """What a box that tyro drew says: its title and the paragraphs between its rules, of which most are advice."""
    paragraphs: list[list[str]] = [[]]
    for line in re.sub(r"\x1b\[[0-9;]*m", "", box).splitlines():
        words = line.strip("│╭╮╰╯─ ")
        is_rule = not words.strip("-")
        if not is_rule:
            paragraphs[-1].append(words)
        if (is_rule and line.strip()) or line.startswith("╭"):
            paragraphs.append([])
    paragraphs += [[], []]
    title, said = paragraphs[0], paragraphs[1]
    if title == ["Required options"]:
        said = ["missing:", ", ".join(line for line in said if line.startswith("--") or line.isupper())]
    elif title == ["Invalid input to tyro.cli()"]:
        said = [" ".join(paragraphs[2]).replace("field", "parameter").split("•")[1].strip()]
    return _of_numbers(" ".join(said).removeprefix("Error parsing ").removesuffix(".")) + "."


def _of_numbers(said: str) -> str:
    """What Python and tyro say of a number that is none, in our words."""
    for pattern, kind in _NO_NUMBERS:
        if found := re.fullmatch(rf"(--\S+): {pattern}", said):
            return f"{found[1]} {found[2]} is no {kind}"
    return said
