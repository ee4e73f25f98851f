"""What is computed of a pod once, and for which other objects of the pod it holds."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import PodInfo
from pyscheduler.testing.builders import make_pod

REPORTED = {"containerStatuses": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}


def info_of(**keywords: Any) -> PodInfo:
    """Return the facts about a pod."""
    return PodInfo.of(make_pod("p", uid="uid", **keywords))


@pytest.mark.parametrize(
    ("before", "now", "holds"),
    [
        pytest.param({}, {}, True, id="the same"),
        pytest.param({}, {"labels": {"zone": "1"}}, True, id="labels"),
        pytest.param({}, {"status": {"phase": "Running"}}, True, id="status"),
        pytest.param({}, {"requests": {"cpu": "2"}}, False, id="requests"),
        pytest.param({}, {"node_name": "a"}, False, id="node"),
        pytest.param({}, {"namespace": "other"}, False, id="namespace"),
        pytest.param({}, {"status": REPORTED}, False, id="amounts reported"),
        pytest.param({"status": REPORTED}, {}, False, id="amounts reported no more"),
        pytest.param({"status": REPORTED}, {"status": REPORTED}, True, id="amounts reported as before"),
        pytest.param({}, {"status": {"resources": {"requests": {"cpu": "2"}}}}, False, id="of the pod as a whole"),
    ],
)
def test_facts_that_hold_are_those_computed_anew(before: dict[str, Any], now: dict[str, Any], *, holds: bool) -> None:
    """Where the facts hold for another object, computing them would give the same."""
    known, other = info_of(**before), info_of(**now).pod
    assert known.holds_for(other) is holds
    if holds:
        kept, computed = known.with_pod(other), PodInfo.of(other)
        assert kept.pod is other
        for name in set(PodInfo.__slots__) - {"requests"}:
            assert getattr(kept, name) == getattr(computed, name)
        assert kept.requests.get("cpu") == computed.requests.get("cpu")
