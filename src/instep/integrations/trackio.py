"""trackio: the curves and settings of a run in trackio's store on this machine; `trackio show` draws them."""

import contextlib
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from instep.integrations.kept_run import KeptRun, Points, new_numbers
from instep.integrations.packages import require_package
from instep.run.loggers import settings_of


class Trackio:
    """Logs to a project of trackio. The run keeps its name in `trackio.json` of the run folder, and goes on under it.

    Trainer(…, loggers="trackio")
    Trainer(…, loggers=Trackio("digits"))
    """

    name = "trackio"

    def __init__(self, project: str = "instep", *, run_name: str | None = None) -> None:
        self._project = project
        self._run_name = run_name
        self._kept = KeptRun("trackio.json")
        self._run: Any = None
        self._points: Points = {}

    def require(self, folder: Path | None) -> None:
        require_package('loggers="trackio"', "trackio", extra="trackio")

    def start(self, description: Mapping[str, Any]) -> int:
        import trackio

        name = self._kept.find(description)
        self._points = {} if name is None else read_points(self._project, name)
        if name is None or not self._kept.fits(self._points, description):
            # trackio finds a run by its name, which another folder may have too
            name, self._points = f"{self._run_name or description['name']}-{secrets.token_hex(2)}", {}
        self._kept.keep(name, description)
        with _quietly():
            self._run = trackio.init(
                project=self._project, name=name, config=settings_of(description), resume="allow", embed=False
            )
        return 0

    def log(self, row: Mapping[str, Any]) -> None:
        if numbers := new_numbers(dict(row), self._points):
            self._run.log(numbers, step=row["step"])

    def finish(self, state: str) -> None:
        with _quietly():
            self._run.finish()


def read_points(project: str, name: str) -> Points:
    """The points that trackio has of a run."""
    from trackio.sqlite_storage import SQLiteStorage

    points: Points = {}
    for row in SQLiteStorage.get_logs(project, name):
        for key in row:
            points.setdefault(key, set()).add(row["step"])
    return points


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Without what trackio prints, which would stand in the middle of a progress bar; others print as before."""
    import trackio.run
    import trackio.utils

    modules: list[Any] = [trackio, trackio.run, trackio.utils]
    for module in modules:
        module.print = lambda *words, **options: None
    try:
        yield
    finally:
        for module in modules:
            vars(module).pop("print", None)
