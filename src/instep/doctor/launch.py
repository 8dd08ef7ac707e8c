"""Launching: a script runs here as if it had been started by `python`, and torch is watched from the moment it is imported.

Nothing of this file imports torch: a script may want to set things up before it does. Processes that the script starts find a
`sitecustomize` on their PYTHONPATH (`child/`) that brings them here too.
"""

import atexit
import builtins
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import io
import os
import runpy
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from multiprocessing.util import Finalize, register_after_fork
from pathlib import Path
from types import ModuleType, TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, SupportsIndex

from instep.doctor.finding import Finding
from instep.doctor.garbage import without_collections
from instep.doctor.journal import Journal
from instep.doctor.margins import Margins
from instep.doctor.report import one_line, render
from instep.doctor.settings import Settings
from instep.text import paint_for

if TYPE_CHECKING:
    from instep.doctor.curves import Curves

FOLDER, PID = "INSTEP_DOCTOR", "INSTEP_DOCTOR_PID"
FAILED_ON, INTERRUPTED = 3, 130
UNWATCHED = "torch was imported in a way that the doctor could not follow: nothing was watched."
_CHILD = Path(__file__).parent / "child"
_SETTINGS = "settings.json"
SECOND_RUN = "remedies.json"  # is in the folder of a run that only tries fixes


class Outcome(NamedTuple):
    """What came of a watched run. `folder` holds what its processes noted, and is gone afterwards."""

    findings: list[Finding]
    steps: int
    folder: Path
    code: int = 0  # the script's own exit code


def run(
    settings: Settings,
    target: str,
    arguments: Sequence[str],
    *,
    module: bool,
    then: Callable[[Outcome], None] = lambda _: None,
) -> int:
    """Run a script or a module under the doctor; returns its exit code, or 3 where `fail_on` is met.

    `then` hears of what was found, when it has been reported.
    """
    output = Output()
    chosen = tempfile.tempdir
    with tempfile.TemporaryDirectory(prefix="instep-doctor-") as folder:
        tempfile.tempdir = chosen  # which asking for a folder has set: the script may want to say where they are
        (Path(folder) / _SETTINGS).write_text(settings.text(), encoding="utf-8")
        os.environ[FOLDER], os.environ[PID] = folder, str(os.getpid())
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (str(_CHILD), os.environ.get("PYTHONPATH"))))
        process_watch = ProcessWatch(Journal(Path(folder), settings), settings, output)
        process_watch.journal.publish()
        process_watch.start()
        try:
            code = _run_module(target, arguments) if module else _run_script(target, arguments)
        finally:
            process_watch.end()
        with output.as_it_was():
            outcome = _close(process_watch, settings)._replace(code=code)
            then(outcome)
        return FAILED_ON if settings.fails(outcome.findings) else code


def _close(process_watch: "ProcessWatch", settings: Settings) -> Outcome:
    journal = process_watch.journal
    journal.publish(complete=True)
    findings = journal.findings()
    with contextlib.suppress(OSError, ValueError, AttributeError):
        sys.stdout.flush()
    failures = journal.failures()
    new, known = settings.split(findings)
    report = render(
        new,
        steps=journal.steps(),
        paint=paint_for(sys.stderr),
        failed=len(failures),
        known=known,
        remarks=journal.remarks(),
    )
    print(report, file=sys.stderr)
    if failures and os.environ.get("INSTEP_DOCTOR_DEBUG"):
        print(*failures, sep="\n", file=sys.stderr)
    return Outcome(findings, journal.steps(), journal.folder)


class Output:
    """stderr and `print` as they were before the script, which may put others in their places: the doctor's words are not its."""

    def __init__(self) -> None:
        self._stderr, self._print = sys.stderr, builtins.print

    @contextlib.contextmanager
    def as_it_was(self) -> Iterator[None]:
        """For the time of a report."""
        theirs = sys.stderr, builtins.print
        sys.stderr, builtins.print = self._stderr, self._print
        if getattr(sys.stderr, "closed", False):  # which leaves the file itself open
            sys.stderr = io.TextIOWrapper(io.FileIO(2, "w", closefd=False), "utf-8", "backslashreplace", write_through=True)
        try:
            yield
        finally:
            sys.stderr, builtins.print = theirs

    def say(self, finding: Finding) -> None:
        with contextlib.suppress(OSError, ValueError, AttributeError):
            self._print(one_line(finding, paint=paint_for(self._stderr)), file=self._stderr, flush=True)


class ProcessWatch:
    """The doctor in this process: comes when torch does, keeps the journal, says errors at once."""

    def __init__(self, journal: Journal, settings: Settings, output: Output) -> None:
        self.journal = journal
        self._settings, self._output = settings, output
        self._watcher: Any = None
        self._inherited = (0, 0)  # backwards and steps of the parent, in a forked child
        self._curves: Curves | None = None

    def start(self) -> None:
        if is_imported():
            self._begin()
        else:
            _put_first(_TorchFinder(self._begin))

    def collect_margins(self) -> Margins:
        """How clearly the rules will have decided; torch must have been imported."""
        assert self._watcher is not None
        margins: Margins = Margins()
        self._watcher.trace.margins = margins
        return margins

    def end(self) -> None:
        """The last judgement of this process."""
        watcher = self._watcher
        if self._curves is not None:
            self._curves.save(self.journal.folder)
        if watcher is None:
            if is_imported():
                self.journal.closed(0, [], [UNWATCHED])
            return
        backwards, steps = watcher.trace.backwards - self._inherited[0], watcher.trace.steps - self._inherited[1]
        if backwards or steps or os.environ.get(PID) == str(os.getpid()):
            watcher.end()
            self.journal.closed(steps, watcher.hub.failures, watcher.remarks)
        else:
            watcher.leave()

    def _begin(self) -> None:
        if self._watcher is not None:
            return
        with without_collections():
            self._watch()

    def _watch(self) -> None:
        from instep.doctor.watcher import Watcher

        self._record_curves()
        watcher = Watcher(self._settings, said=self._said, withdrawn=self.journal.withdrawn)
        try:
            watcher.begin()
        except Exception:  # the script goes on unwatched
            self.journal.closed(0, [traceback.format_exc()], [UNWATCHED])
            return
        self._watcher = watcher
        register_after_fork(self, ProcessWatch._end_with_child)

    def _record_curves(self) -> None:
        """Before the doctor's own patches, so that they stand on top and can be taken away."""
        if not self._settings.curves:
            return
        from instep.doctor.curves import Curves
        from instep.doctor.sites import Locator
        from instep.doctor.treatment import keep_start

        locator = Locator(self._settings.roots)
        self._curves = Curves(locator, evaluations=self._settings.curves == "all")
        self._curves.install()
        if os.environ.get(PID) == str(os.getpid()):
            keep_start(self.journal.folder)

    def _end_with_child(self) -> None:
        """A child of multiprocessing ends without atexit. What its parent has done by now is told by the parent."""
        if self._watcher is not None:
            self._inherited = self._watcher.trace.backwards, self._watcher.trace.steps
        Finalize(self, self.end, exitpriority=0)

    def _said(self, finding: Finding, new: bool) -> None:
        self.journal.found(finding)
        if new and finding.level == "error" and self._settings.split([finding])[0] and self.journal.first_to_say(finding):
            self._output.say(finding)


def is_imported() -> bool:
    """Whether torch is there, and not just on its way."""
    torch = sys.modules.get("torch")
    return torch is not None and not getattr(getattr(torch, "__spec__", None), "_initializing", False)


class _TorchFinder(importlib.abc.MetaPathFinder):
    """Calls `then` right after torch is imported, whoever finds and loads it.

    Stays where it is: others ask for torch's spec without importing it. Where somebody has answered for torch before this one
    was asked, it notices when it is asked for anything else.
    """

    def __init__(self, then: Callable[[], None]) -> None:
        self._then = then
        self._asking = False
        self._done = False

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if self._done or self._asking:
            return None
        if name != "torch":
            if is_imported():
                self._come()
            return None
        self._asking = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self._asking = False
        loader = spec.loader if spec is not None else None
        if spec is None or loader is None or isinstance(loader, _ThenLoader):
            return spec
        try:
            _follow(loader, self._come)
        except (AttributeError, TypeError):  # one that takes no attributes
            spec.loader = _ThenLoader(loader, self._come)
        return spec

    def _come(self) -> None:
        if not self._done:
            self._done = True
            self._then()


def _follow(loader: Any, then: Callable[[], None]) -> None:
    """Let `then` come after the loader has executed torch."""
    if "exec_module" in vars(loader):
        return
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        if module.__name__ != "torch":
            execute(module)
            return
        vars(loader).pop("exec_module", None)
        execute(module)
        then()

    loader.exec_module = exec_module


class _ThenLoader(importlib.abc.Loader):
    """Another loader, and what comes after it has executed a module. The module gets the other one for its own."""

    def __init__(self, loader: Any, then: Callable[[], None]) -> None:
        self._loader, self._then = loader, then

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType | None:
        create = getattr(self._loader, "create_module", None)
        module: ModuleType | None = create(spec) if create is not None else None
        return module

    def exec_module(self, module: ModuleType) -> None:
        if module.__spec__ is not None:
            module.__spec__.loader = self._loader
        module.__loader__ = self._loader
        self._loader.exec_module(module)
        self._then()


class _Finders(list[Any]):
    """Finders of which the first stays the first: others that are put before it come right after it."""

    def insert(self, index: SupportsIndex, finder: Any) -> None:
        super().insert(max(range(len(self) + 1)[index:].start, 1), finder)


def _put_first(finder: importlib.abc.MetaPathFinder) -> None:
    """Where torch is looked for first, also when somebody else asks to be."""
    sys.meta_path = _Finders([finder, *sys.meta_path])


def attach() -> None:
    """In a child process: watch it too, if its parent is watched."""
    folder = os.environ.get(FOLDER)
    if folder and (Path(folder) / SECOND_RUN).is_file():
        from instep.doctor.treatment import treat

        sys.meta_path.insert(0, _TorchFinder(lambda: treat(Path(folder))))
        return
    if not folder or os.environ.get(PID) == str(os.getpid()) or not (Path(folder) / _SETTINGS).is_file():
        return
    settings = Settings.from_text((Path(folder) / _SETTINGS).read_text(encoding="utf-8"))
    process_watch = ProcessWatch(Journal(Path(folder), settings), settings, Output())
    process_watch.start()
    atexit.register(process_watch.end)


def _run_script(path: str, arguments: Sequence[str]) -> int:
    """As `python path arguments…` does it."""
    sys.argv = [path, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = str(Path(path).resolve().parent)
    if not Path(path).is_file():  # a folder or an archive with a __main__.py in it
        sys.path[0:1] = []
        return _exit_code(lambda: runpy.run_path(path, run_name="__main__"))
    main = ModuleType("__main__")
    file = os.path.abspath(path)
    loader = importlib.machinery.SourceFileLoader("__main__", file)
    main.__dict__.update(__file__=file, __builtins__=builtins, __cached__=None, __loader__=loader)
    if sys.version_info < (3, 14):
        main.__annotations__ = {}
    main.__spec__ = None
    sys.modules["__main__"] = main  # and there it stays: what the script left behind may look for it

    def execute() -> None:
        with io.open_code(file) as source:
            code = compile(source.read(), file, "exec")
        exec(code, main.__dict__)

    return _exit_code(execute)


def _run_module(name: str, arguments: Sequence[str]) -> int:
    """As `python -m name arguments…` does it."""
    sys.argv = [name, *arguments]
    if not sys.flags.safe_path:
        sys.path[0] = os.getcwd()
    return _exit_code(lambda: runpy.run_module(name, run_name="__main__", alter_sys=True))


def _exit_code(execute: Callable[[], object]) -> int:
    """The exit code that Python would have ended with, after it has said what Python says."""
    try:
        execute()
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 0xFF
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        error.__traceback__ = _users(error.__traceback__)
        sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
        if sys.version_info >= (3, 12):
            sys.last_exc = error
        sys.excepthook(type(error), error, error.__traceback__)
        return INTERRUPTED if isinstance(error, KeyboardInterrupt) else 1
    return 0


def _users(trace: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of the doctor and of runpy's way to the script."""
    kept: list[TracebackType] = []
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        ours = name.startswith((str(Path(__file__).parent), "<instep: ", "<frozen runpy>")) or (
            not kept and name == runpy.__file__
        )
        if not ours:
            kept.append(trace)
        trace = trace.tb_next
    for one, following in pairwise([*kept, None]):
        if one is not None:
            one.tb_next = following
    return kept[0] if kept else None
