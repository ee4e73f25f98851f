"""Settings of all tests in this folder: marks slow tests, and checks that no process is left behind."""

from __future__ import annotations

import gc
import signal
from functools import cache
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

import pytest

from tests import forked, leftovers

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

HERE = Path(__file__).parent

#: These tests build or install packages, or run in environments of their own; `make test-packages` runs them.
PACKAGES = (
    HERE / "examples",
    HERE / "deploy" / "test_image.py",
    HERE / "test_kube_pyscheduler.py",
    HERE / "test_packages_alone.py",
)
#: All tests in these folders and files are slow.
ALL_SLOW = (
    HERE / "integration",
    HERE / "benchmarks",
    HERE / "deploy" / "test_chart.py",
    HERE / "deploy" / "test_chart_privileges.py",
    *PACKAGES,
)

#: The garbage collector's thresholds. Each scheduler is a cycle of thousands of objects. With a first threshold of
#: 5,000 or 50,000, the collector takes more CPU time.
COLLECTIONS = (20_000, 20, 100)

#: How long processes may take to end after the last test, in seconds.
ENDING_SECONDS = 60.0


@pytest.fixture
def cluster(pyscheduler_cluster: FakeCluster) -> FakeCluster:
    """Return the fake cluster of the test kit."""
    return pyscheduler_cluster


def pytest_configure(config: pytest.Config) -> None:
    """Have children start with default signal dispositions; mark them, and watch over them, once in each run."""
    for number in signal.valid_signals() - {signal.SIGPIPE, signal.SIGXFSZ}:  # Python ignores these, and restores them
        if signal.getsignal(number) == signal.SIG_IGN:
            # An ignored signal stays ignored in a child, a handled one does not: a shell's background jobs ignore
            # SIGINT, and so would all that tests start.
            signal.signal(number, _ignore)
    if not hasattr(config, "workerinput"):  # workers of xdist inherit the mark
        config.pluginmanager.register(LeftBehind(), "left-behind")


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """End the process from which programs were forked."""
    forked.end()


def pytest_collection() -> None:
    """Collect tests without the garbage collector, which takes a third of the CPU time and finds nothing."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Keep the eleven thousand tests themselves out of garbage collections, which take a seventh of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)
    gc.enable()


def _ignore(number: int, frame: FrameType | None) -> None:
    """Do nothing at a signal."""


class LeftBehind:
    """Fails the run when processes outlive it that were started in it, and ends them."""

    def __init__(self) -> None:
        self._mark, self._watchdog = leftovers.mark_run()
        self._found: list[leftovers.Leftover] = []

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Look for processes, after the workers of xdist have ended."""
        self._found = leftovers.left_behind(self._mark, seconds=ENDING_SECONDS)
        if self._found and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_unconfigure(self) -> None:
        """End the watchdog."""
        self._watchdog.communicate()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Name the processes and the tests that started them."""
        if self._found:
            terminalreporter.section("processes left behind", sep="=", red=True)
            for each in self._found:
                terminalreporter.write_line(str(each))


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out what has only slow tests where no slow test is wanted: importing them takes seconds."""
    return True if config.option.markexpr == "not slow" and collection_path in ALL_SLOW else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests in the folders and files above; long ones are slow.

    Mark the cases of a sampled test as slow, too, but for one of so many.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if _is_in(item.path, PACKAGES):
            item.add_marker(pytest.mark.packages)
        if _is_in(item.path, ALL_SLOW) or item.get_closest_marker("long") is not None:
            item.add_marker(pytest.mark.slow)
        elif item.get_closest_marker("sampled") is not None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        mark = same[0].get_closest_marker("sampled")
        assert mark is not None, "only sampled tests are among these"
        # The suite runs in random order; the sample is the same in each run.
        for number, item in enumerate(sorted(same, key=lambda each: each.nodeid)):
            if number % mark.args[0]:
                item.add_marker(pytest.mark.slow)


@cache
def _is_in(path: Path, places: tuple[Path, ...]) -> bool:
    """Return whether a file is one of these places, or in one; the files of all tests are few."""
    return not {path, *path.parents}.isdisjoint(places)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, in lines of their own, which tests were left out because a program is not on this machine."""
    reasons = [str(one.longrepr) for one in terminalreporter.stats.get("skipped", ())]
    for name in ("kubectl", "helm"):
        count = sum(f"{name} is not on this machine" in reason for reason in reasons)
        if count:
            terminalreporter.section("not tested here", sep="-")
            terminalreporter.write_line(f"{name} is not on this machine: {count} tests that run it were left out")
