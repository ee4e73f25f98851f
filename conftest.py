"""Settings for the tests of all Python packages in this repository: hypothesis profiles, and the reset of logging."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers

if TYPE_CHECKING:
    from collections.abc import Iterator

# No deadline, and no check of how long data takes to make: on a busy machine a slow example says nothing about the
# code. The pytest timeout still bounds the test.
# The same examples in every run: many tests demand that each rule had its turn, and a search that is lucky only mostly
# would fail changes that have nothing to do with it. `make test-long` runs four times as many, with `thorough`, and
# `search` looks for what nobody has seen yet. Tests that count seeds, steps or histories take multiples of
# `settings.default.max_examples`.
_TIMELESS = hypothesis.settings(deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.register_profile("default", _TIMELESS, max_examples=10, derandomize=True)
hypothesis.settings.register_profile("thorough", _TIMELESS, max_examples=40, derandomize=True)
hypothesis.settings.register_profile("search", _TIMELESS, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))
if hypothesis.settings.default.derandomize:
    # Hypothesis also draws constants that it finds in the source of all modules that are imported. Without them, a test
    # has the same examples alone and in the suite, and after a change elsewhere; and no time is spent on finding them.
    providers._get_local_constants = lambda: providers._local_constants  # noqa: SLF001 - no setting does it


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    """Put logging back as it was: commands that run in this process set it up for themselves."""
    root, kind = logging.getLogger(), logging.getLoggerClass()
    # Of commands that fixtures of modules ran; their streams may be closed.
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
