"""The words of the command: errors name arguments as Python has them; where the command has an option for one, it is named."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields

from instep.errors import InstepError


@contextmanager
def words_of(own: type) -> Iterator[None]:
    """Errors inside the block name the options of this command: `margin=2.0` is `--margin 2.0`, `folder=` is `--folder`."""
    try:
        yield
    except InstepError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (with_options(error.args[0], [field.name for field in fields(own)]), *error.args[1:])
        raise


def with_options(text: str, names: list[str]) -> str:
    """A message with arguments of these names written as options.

    >>> with_options("margin=2.0 is no share; use margin=, or another folder=.", ["margin", "folder"])
    '--margin 2.0 is no share; use --margin, or another --folder.'
    """
    known = "|".join(map(re.escape, names))

    def option(found: re.Match[str]) -> str:
        return f"--{found[1].replace('_', '-')}{' ' if found[2] else ''}"

    return re.sub(rf"(?<![\w.])({known})=(?![=])(?=(\w|[-+.]\d|[\"'(\[])?)", option, text)
