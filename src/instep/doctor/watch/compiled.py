"""Code that is compiled: inside it the doctor sees nothing, and it says so at the end.

Compiled code is compiled again when the hooks and functions that it met have changed, and with `fullgraph=True` a script ends
when that happens too often. So all of them stay where they are from the first `torch.compile` on.
"""

from dataclasses import field

from instep.doctor.hub import Hub
from instep.doctor.patches import Called, Patch
from instep.doctor.records import part_class
from instep.doctor.trace import Trace

LIMIT = 8


@part_class
class Compiled:
    """The part of the trace about compiled code."""

    sites: list[str] = field(default_factory=list)  # where a model, or a function of the user's, was given to the compiler


class CompileWatch:
    """Fills `Compiled`."""

    def __init__(self, trace: Trace, hub: Hub) -> None:
        self._sites, self._hub = trace.part(Compiled).sites, hub

    def before_compiles(self, called: Called) -> None:
        if self._hub.locator.is_importing():
            return
        if not self._hub.compiled:
            self._hub.say("on_compiles")
            self._hub.compiled = True
        if called.site is not None and called.site not in self._sites and len(self._sites) < LIMIT:
            self._sites.append(called.site)


PATCHES = [Patch("compiles", ("torch:compile", "torch.nn.modules.module:Module.compile"), always=True)]
OBSERVERS = [CompileWatch]
