"""The doctor in pytest: `pytest --instep-doctor` watches every test that trains, the fixture `instep_doctor` one test.

pytest imports this file in every project where Instep is installed. It imports neither torch nor the doctor before a test or an
option asks.
"""

from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from instep.doctor.finding import Finding
    from instep.doctor.settings import Settings
    from instep.doctor.watcher import Watcher

SECTION = "found by instep doctor"
MARKER = "instep_doctor"
_WATCHER: "pytest.StashKey[Watcher]" = pytest.StashKey()
_FOUND: "pytest.StashKey[dict[str, list[Finding]]]" = pytest.StashKey()  # in each test that was watched, for a baseline
LEVELS = ("error", "warning", "never")
OPTIONS = ("ignore", "fail_on", "off")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("instep")
    group.addoption(
        "--instep-doctor", action="store_true", help="watch every test that trains with PyTorch, and name its mistakes"
    )
    group.addoption(
        "--instep-doctor-fail-on", metavar="LEVEL", choices=LEVELS,
        help="fail a test with such a finding: error (the default), warning (or worse), never; else from pyproject.toml",
    )  # fmt: skip
    group.addoption(
        "--instep-doctor-write-baseline", action="store_true",
        help="write what is found to the baseline that pyproject.toml names, and fail no test for it",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    words = "ignore=[ids], fail_on='error' | 'warning' | 'never', off=True"
    config.addinivalue_line("markers", f"{MARKER}({words}): what the doctor does in this test")
    config.stash[_FOUND] = {}
    writes = config.getoption("--instep-doctor-write-baseline")
    if writes and (getattr(config.option, "numprocesses", None) or getattr(config.option, "tx", None)):
        raise pytest.UsageError("--instep-doctor-write-baseline needs all tests in one process; leave out -n.")
    if writes or config.getoption("--instep-doctor"):
        _check(config, writes=writes)


def _check(config: pytest.Config, *, writes: bool) -> None:
    """What is wrong with the settings is said once, before any test."""
    from instep.doctor.baseline import read_runs
    from instep.doctor.settings import Settings, from_pyproject
    from instep.errors import DescriptionError

    try:
        found = from_pyproject(config.rootpath)
        Settings(**found)
        path = found.get("baseline")
        if writes and path is None:
            where = f'{config.rootpath / "pyproject.toml"}: [tool.instep.doctor] baseline = ".instep-doctor.json"'
            raise DescriptionError(f"--instep-doctor-write-baseline needs a file to write to; name it in {where}.")
        if path is not None and (not writes or Path(path).exists()):
            read_runs(Path(path))
    except DescriptionError as error:
        raise pytest.UsageError(f"instep doctor: {error}") from None


@pytest.fixture
def instep_doctor(request: pytest.FixtureRequest) -> "Watcher":
    """The doctor, watching this test, which fails at its end where a mistake was found.

    A test may judge itself: after `instep_doctor.end()`, `instep_doctor.findings` holds what was found, and nothing fails.
    """
    watcher: Watcher | None = request.node.stash.get(_WATCHER, None)
    return _begin(request.node) if watcher is None else watcher


@pytest.hookimpl(wrapper=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, Any, Any]:
    """Fixtures may train too."""
    asked = item.config.getoption("--instep-doctor") or item.config.getoption("--instep-doctor-write-baseline")
    if asked and not _asked(item).get("off"):
        _begin(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """At the end of a test, what was found fails it, or is shown beside its own failure."""
    try:
        result = yield
    except BaseException:
        _show(item, *_judge(item))
        raise
    new, known = _judge(item)
    if failing := _settings(item).failing(new) if new else []:
        pytest.fail(_text(item, new, failing), pytrace=False)
    _show(item, new, known)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    watcher = item.stash.get(_WATCHER, None)
    if watcher is not None:  # a setup that failed has left it open
        watcher.end()
        del item.stash[_WATCHER]
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, exitstatus: int, config: pytest.Config) -> None:
    """What was found in tests that did not fail, and what became of the baseline."""
    passed = terminalreporter.stats.get("passed", [])
    told = [(report.nodeid, text) for report in passed for name, text in report.sections if SECTION in name]
    if told:
        terminalreporter.write_sep("=", "instep doctor: found in tests that passed")
        for node, text in told:
            terminalreporter.write_line(node)
            terminalreporter.write_line("\n".join(f"  {line}" for line in text.splitlines()))
    if said := _about_baseline(config, exitstatus):
        terminalreporter.write_line(f"instep doctor: {said}")


def _about_baseline(config: pytest.Config, exitstatus: int) -> str:
    """What was written, or what is gone; tests that fail have not shown everything."""
    writes, found = config.getoption("--instep-doctor-write-baseline"), config.stash[_FOUND]
    if not writes and not found:
        return ""
    if exitstatus != pytest.ExitCode.OK:
        return "the baseline was not written: not all tests passed, or there were none." if writes else ""
    from instep.doctor.baseline import count_gone, gone_text, write_baseline
    from instep.doctor.settings import from_pyproject
    from instep.text import plural

    path = from_pyproject(config.rootpath).get("baseline")
    if path is None:
        return ""
    if writes:
        return f"wrote {plural(write_baseline(Path(path), found), 'finding')} to {path}."
    gone = count_gone(Path(path), found)
    return gone_text(gone) if gone else ""


def _begin(item: pytest.Item) -> "Watcher":
    from instep.doctor.settings import Settings, from_pyproject
    from instep.doctor.watcher import Watcher
    from instep.errors import DescriptionError

    asked = _asked(item)
    try:
        found = from_pyproject(Path(item.path).parent)
        ignored = asked.get("ignore", ())
        found["ignore"] = (*found.get("ignore", ()), *([ignored] if isinstance(ignored, str) else ignored))
        level = asked.get("fail_on") or item.config.getoption("--instep-doctor-fail-on") or found.get("fail_on") or "error"
        if level not in LEVELS:
            raise DescriptionError(f"{MARKER}(fail_on={level!r}) can be {', '.join(LEVELS)}.")
        if item.config.getoption("--instep-doctor-write-baseline"):
            level, found["baseline"] = "never", None
        found["fail_on"] = None if level == "never" else level
        settings = Settings(**found)
        settings.split([])  # reads the baseline, if there is one
    except DescriptionError as error:
        raise pytest.fail.Exception(f"instep doctor: {error}", pytrace=False) from None
    watcher = Watcher(settings)
    watcher.begin()
    item.stash[_WATCHER] = watcher
    return watcher


def _asked(item: pytest.Item) -> dict[str, Any]:
    """What the markers of a test say, the nearest last."""
    asked = {name: value for mark in reversed(list(item.iter_markers(MARKER))) for name, value in mark.kwargs.items()}
    if unknown := [name for name in asked if name not in OPTIONS]:
        pytest.fail(f"the mark {MARKER} has no {unknown[0]!r}; it takes {', '.join(OPTIONS)}.", pytrace=False)
    return asked


def _judge(item: pytest.Item) -> "tuple[list[Finding], list[Finding]]":
    """End the watch; findings that are new and those in the baseline. A test that has ended it has judged them itself."""
    watcher = item.stash.get(_WATCHER, None)
    if watcher is None or not watcher.is_going_on():
        return [], []
    watcher.end()
    item.config.stash[_FOUND][f"pytest {item.nodeid}"] = watcher.findings
    return watcher.settings.split(watcher.findings)


def _settings(item: pytest.Item) -> "Settings":
    return item.stash[_WATCHER].settings


def _text(item: pytest.Item, findings: "list[Finding]", failing: "list[Finding]") -> str:
    from instep.doctor.report import render

    watcher = item.stash[_WATCHER]
    names = ", ".join(dict.fromkeys(finding.id for finding in failing))
    return f"{names}\n{render(findings, steps=watcher.trace.steps, failed=watcher.hub.failed)}"


def _show(item: pytest.Item, findings: "list[Finding]", known: "list[Finding]") -> None:
    """Keep them with the report of the test."""
    if findings or known:
        from instep.doctor.report import one_line

        lines = [*map(one_line, findings), *(f"in the baseline: {one_line(finding)}" for finding in known)]
        item.add_report_section("call", SECTION, "\n".join(lines))
