"""A notebook's kernel that is none: what would be displayed is kept."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch


class Outputs:
    """The outputs of a cell, each with all that it has shown, the last of which stays."""

    def __init__(self) -> None:
        self.shown: list[list[dict[str, str]]] = []
        self.is_gone = False

    def display(self, bundle: dict[str, str], *, raw: bool, display_id: bool) -> Any:
        assert raw
        assert display_id
        self.shown.append([])
        place = len(self.shown) - 1
        self._show(place, bundle)
        return SimpleNamespace(update=lambda bundle, *, raw: self._show(place, bundle))

    def _show(self, place: int, bundle: dict[str, str]) -> None:
        if self.is_gone:
            raise RuntimeError("the socket is closed")
        self.shown[place].append(bundle)

    @property
    def html(self) -> str:
        """What stands there in the end."""
        return self.shown[-1][-1]["text/html"]

    @property
    def text(self) -> str:
        return self.shown[-1][-1]["text/plain"]


@contextmanager
def notebook(pause_s: float = 60.0) -> Iterator[Outputs]:
    """In it, this process looks like the kernel of a notebook, which draws every so many seconds."""
    outputs = Outputs()
    modules: dict[str, Any] = {
        "IPython": SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()), version_info=(9, 0)),
        "IPython.display": SimpleNamespace(display=outputs.display),
    }
    with patch.dict(sys.modules, modules), patch("instep.report.notebook.PAUSE_S", pause_s):
        yield outputs
