"""What plugins write into the cycle state."""

from __future__ import annotations

import pytest

from pyscheduler.framework.cycle_state import AfterFailure


def test_the_old_name_of_ignored_by_still_works() -> None:
    """`quiet_for` reads and writes `ignored_by`, with a warning."""
    after = AfterFailure()
    with pytest.deprecated_call(match="ignored_by"):
        after.quiet_for = bool
    assert after.ignored_by is bool
    with pytest.deprecated_call(match="ignored_by"):
        assert after.quiet_for is bool
