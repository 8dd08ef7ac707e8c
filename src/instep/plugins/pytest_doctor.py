"""The doctor in pytest: `pytest --instep-doctor` watches every test that trains, the fixture `instep_doctor` one test.

pytest imports this file in every project where Instep is installed. It imports neither torch nor the doctor before a test asks.
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
LEVELS = ("error", "warning", "never")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("instep")
    group.addoption(
        "--instep-doctor", action="store_true", help="watch every test that trains with PyTorch, and name its mistakes"
    )
    group.addoption(
        "--instep-doctor-fail-on", metavar="LEVEL", choices=LEVELS,
        help="fail a test with such a finding: error (the default), warning (or worse), never; else from pyproject.toml",
    )  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    words = "ignore=[ids], fail_on='error' | 'warning' | 'never', off=True"
    config.addinivalue_line("markers", f"{MARKER}({words}): what the doctor does in this test")


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
    if item.config.getoption("--instep-doctor") and not _asked(item).get("off"):
        _begin(item)
    return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, Any, Any]:
    """At the end of a test, what was found fails it, or is shown beside its own failure."""
    try:
        result = yield
    except BaseException:
        _show(item, _judge(item))
        raise
    new = _judge(item)
    if new and _settings(item).fails(new):
        pytest.fail(_text(item, new), pytrace=False)
    _show(item, new)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, Any, Any]:
    watcher = item.stash.get(_WATCHER, None)
    if watcher is not None:  # a setup that failed has left it open
        watcher.end()
        del item.stash[_WATCHER]
    return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was found in tests that did not fail."""
    passed = terminalreporter.stats.get("passed", [])
    told = [(report.nodeid, text) for report in passed for name, text in report.sections if SECTION in name]
    if told:
        terminalreporter.write_sep("=", "instep doctor: found in tests that passed")
        for node, text in told:
            terminalreporter.write_line(node)
            terminalreporter.write_line("\n".join(f"  {line}" for line in text.splitlines()))


def _begin(item: pytest.Item) -> "Watcher":
    from instep.doctor.settings import Settings, from_pyproject
    from instep.doctor.watcher import Watcher

    found, asked = from_pyproject(Path(item.path).parent), _asked(item)
    found["ignore"] = (*found.get("ignore", ()), *asked.get("ignore", ()))
    level = asked.get("fail_on") or item.config.getoption("--instep-doctor-fail-on") or found.get("fail_on") or "error"
    if level not in LEVELS:
        raise pytest.UsageError(f"{MARKER}(fail_on={level!r}) can be {', '.join(LEVELS)}")
    found["fail_on"] = None if level == "never" else level
    watcher = Watcher(Settings(**found))
    watcher.begin()
    item.stash[_WATCHER] = watcher
    return watcher


def _asked(item: pytest.Item) -> dict[str, Any]:
    """What the markers of a test say, the nearest last."""
    return {name: value for mark in reversed(list(item.iter_markers(MARKER))) for name, value in mark.kwargs.items()}


def _judge(item: pytest.Item) -> "list[Finding]":
    """End the watch; the findings that are not in the baseline. A test that has ended it has judged them itself."""
    watcher = item.stash.get(_WATCHER, None)
    if watcher is None or not watcher.is_going_on():
        return []
    watcher.end()
    return watcher.settings.split(watcher.findings)[0]


def _settings(item: pytest.Item) -> "Settings":
    return item.stash[_WATCHER].settings


def _text(item: pytest.Item, findings: "list[Finding]") -> str:
    from instep.doctor.report import render

    watcher = item.stash[_WATCHER]
    names = ", ".join(dict.fromkeys(finding.id for finding in findings))
    return f"{names}\n{render(findings, steps=watcher.trace.steps, failed=watcher.hub.failed)}"


def _show(item: pytest.Item, findings: "list[Finding]") -> None:
    """Keep them with the report of the test."""
    if findings:
        from instep.doctor.report import one_line

        item.add_report_section("call", SECTION, "\n".join(one_line(finding) for finding in findings))
