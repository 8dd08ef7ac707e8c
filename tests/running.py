"""Options for long runs of tests: a random order that can be had again, and an end by the clock."""

import random
import time
from typing import Any

import pytest

NO_TIME = "no time left"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("instep")
    group.addoption(
        "--shuffle", metavar="SEED", help="run in the random order of this whole number; `any` draws one, and says it"
    )
    group.addoption("--minutes", type=float, help="start no test after so many minutes; those left are skipped and counted")


def pytest_configure(config: pytest.Config) -> None:
    option = config.option
    option.stops_at_s = float("inf") if option.minutes is None else time.time() + 60 * option.minutes
    if option.shuffle == "any":
        option.shuffle = str(random.SystemRandom().randrange(10**6))
    if option.shuffle is not None and not option.shuffle.isdecimal():
        raise pytest.UsageError(f"--shuffle {option.shuffle} must be a whole number or `any`")
    vars(option).update(getattr(config, "workerinput", {}).get("running", {}))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A worker has the order and the end of all."""
    option = node.config.option
    node.workerinput["running"] = {"shuffle": option.shuffle, "stops_at_s": option.stops_at_s}


def pytest_sessionstart(session: pytest.Session) -> None:
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if session.config.option.shuffle and reporter is not None and not hasattr(session.config, "workerinput"):
        reporter.write_line(order(session.config))


def pytest_collection_modifyitems(items: list[pytest.Item], config: pytest.Config) -> None:
    if config.option.shuffle:
        random.Random(int(config.option.shuffle)).shuffle(items)


@pytest.hookimpl(tryfirst=True)  # before any fixture is made
def pytest_runtest_setup(item: pytest.Item) -> None:
    if time.time() > item.config.option.stops_at_s:
        pytest.skip(NO_TIME)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    stats = terminalreporter.stats
    if config.option.minutes is not None:
        left = sum(NO_TIME in str(report.longrepr) for report in stats.get("skipped", []))
        ran = (
            sum(len(stats.get(outcome, [])) for outcome in ("passed", "failed", "error", "skipped", "xfailed", "xpassed")) - left
        )
        terminalreporter.write_line(f"{ran} tests ran in {config.option.minutes:g} minutes, {left} were left")
    if config.option.shuffle:
        terminalreporter.write_line(order(config))


def order(config: pytest.Config) -> str:
    return f"random order: --shuffle {config.option.shuffle}"
