"""The state of a scheduling cycle: what plugins set for the case of a failure."""

from __future__ import annotations

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework.cycle_state import AfterFailure


def test_quiet_for_is_the_old_name_of_ignored_by() -> None:
    """Plugins that set `AfterFailure.quiet_for` still work and get a DeprecationWarning."""
    after = AfterFailure()

    def ignores(_pod: Pod) -> bool:
        return True

    with pytest.warns(DeprecationWarning, match="ignored_by"):
        after.quiet_for = ignores
    assert after.ignored_by is ignores
    with pytest.warns(DeprecationWarning, match="ignored_by"):
        assert after.quiet_for is ignores
