"""Makes Markdown of docstrings for the site: an extension of griffe, which reads them.

Examples become blocks of code (without this, `>>>` would be a quotation of a quotation of a quotation), and so do indented blocks
that are Python. Arguments under a title, as the Trainer has them, become a list.
"""

import ast
import re
from typing import Any

import griffe

EXAMPLE = re.compile(r"(?:^>>> .*(?:\n(?!\n).+)*\n?)", re.MULTILINE)
SECTION = re.compile(r"^([A-Z][\w ]*):\n((?:    .*(?:\n|\Z))+)", re.MULTILINE)
ARGUMENT = re.compile(r"^    (\w+): ", re.MULTILINE)
INDENTED = re.compile(r"(?<=\n\n)(?:    .*(?:\n|\Z)|\n(?=    ))+")


class Docstrings(griffe.Extension):
    """Makes Markdown of every docstring."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring with its arguments as lists and its examples as fenced blocks."""
    text = SECTION.sub(_list_arguments, text)
    text = INDENTED.sub(_fence_indented, text)
    return EXAMPLE.sub(lambda found: f"```pycon\n{found[0].rstrip()}\n```\n", text)


def _list_arguments(found: re.Match[str]) -> str:
    lines = re.sub(r"\n {8}", " ", found[2])  # an argument that takes several lines
    items = ARGUMENT.sub(r"- `\1`: ", lines)
    return f"\n**{found[1]}**\n\n{items}\n"


def _fence_indented(found: re.Match[str]) -> str:
    code = "\n".join(line[4:] for line in found[0].rstrip().split("\n"))
    try:
        ast.parse(code.replace("…", "..."))
    except SyntaxError:
        return found[0]
    return f"```python\n{code}\n```\n\n"
