"""What holds for every test: how hard hypothesis searches, which tests are slow, and that no process is left behind."""

from __future__ import annotations

import gc
import logging
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

from tests import forked, leftovers

HERE = Path(__file__).parent

#: These tests build or install packages, or run in environments of their own; `make test-packages` runs them.
PACKAGES = (
    HERE / "examples",
    HERE / "deploy" / "test_image.py",
    HERE / "test_kube_pyscheduler.py",
    HERE / "test_packages_alone.py",
)
#: All tests in these folders and files are slow.
ALL_SLOW = (HERE / "integration", HERE / "benchmarks", *PACKAGES)

#: The garbage collector's thresholds: with (2000, 10, 50), which is less than Python's own, it takes a sixth of the CPU
#: time.
COLLECTIONS = (50_000, 20, 100)

#: How long processes may take to end after the last test, in seconds.
ENDING_SECONDS = 60.0

# No deadline, and no check of how long data takes to make: on a busy machine a slow example says nothing about the
# code. The pytest timeout still bounds the test.
# The same examples in every run: many tests demand that each rule had its turn, and a search that is lucky only mostly
# would fail changes that have nothing to do with it. `nightly` runs more of these examples. To look for what nobody has
# seen yet there is `thorough`.
_TIMELESS = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("default", _TIMELESS, max_examples=20, derandomize=True)
hypothesis.settings.register_profile("nightly", _TIMELESS, max_examples=60, derandomize=True)
hypothesis.settings.register_profile("quick", _TIMELESS, max_examples=10, derandomize=True)
hypothesis.settings.register_profile("thorough", _TIMELESS, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
if hypothesis.settings.default.derandomize:
    # Hypothesis also draws constants that it finds in the source of all modules that are imported. Without them, a test
    # has the same examples alone and in the suite, and after a change elsewhere; and no time is spent on finding them.
    providers._get_local_constants = lambda: providers._local_constants


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Put logging back as it was: commands that run in this process set it up for themselves."""
    root, kind = logging.getLogger(), logging.getLoggerClass()
    # Of commands that fixtures of modules ran, or tests of plugins; their streams may be closed.
    _forget_levels()
    root.handlers[:] = [each for each in root.handlers if type(each) is not logging.StreamHandler]
    handlers, level = root.handlers[:], root.level
    yield
    if root.handlers != handlers:
        root.handlers[:] = handlers
    logging.setLoggerClass(kind)
    root.setLevel(level)  # also where it is the same: each logger forgets which levels it has found enabled
    _forget_levels()


def _forget_levels() -> None:
    """Take the levels off our own loggers."""
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and logger.level and name.startswith("pyscheduler"):
            logger.setLevel(logging.NOTSET)


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


def pytest_collection_finish() -> None:
    """Keep the eleven thousand tests themselves out of garbage collections, which take a seventh of the CPU time."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTIONS)


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
    """Mark the tests in the folders and files above.

    Mark the cases of a sampled test as slow, too, but for one of so many.
    """
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        places = {item.path, *item.path.parents}
        if not places.isdisjoint(PACKAGES):
            item.add_marker(pytest.mark.packages)
        if not places.isdisjoint(ALL_SLOW):
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


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end, in a line of its own, that what needs kubectl was not tested on a machine without it."""
    skipped = [
        one
        for one in terminalreporter.stats.get("skipped", ())
        if "kubectl is not on this machine" in str(one.longrepr)
    ]
    if skipped:
        terminalreporter.section("not tested here", sep="-")
        terminalreporter.write_line(f"kubectl is not on this machine: {len(skipped)} tests that run it were left out")
