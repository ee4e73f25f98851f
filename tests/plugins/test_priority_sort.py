"""PrioritySort: the order in which pods leave the queue."""

from __future__ import annotations

import pytest

from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler.framework import PodInfo, QueuedPodInfo
from pyscheduler.plugins.priority_sort import PrioritySort


def queued(name: str, priority: int | None, enqueued_at: float) -> QueuedPodInfo:
    """Make a queued pod."""
    pod = Pod(metadata=ObjectMeta(name=name), spec=PodSpec(priority=priority))
    return QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=enqueued_at)


@pytest.mark.parametrize(
    ("pods", "order"),
    [
        pytest.param([("low", 1, 0.0), ("high", 2, 9.0)], ["high", "low"], id="priority comes first"),
        pytest.param([("late", 5, 2.0), ("early", 5, 1.0)], ["early", "late"], id="among equals the first to come"),
        pytest.param([("none", None, 1.0), ("below", -1, 0.0)], ["none", "below"], id="no priority is 0"),
        pytest.param([("zero", 0, 2.0), ("none", None, 1.0)], ["none", "zero"], id="and equals 0"),
    ],
)
def test_order(pods: list[tuple[str, int | None, float]], order: list[str]) -> None:
    """The smallest key pops first."""
    infos = sorted((queued(*pod) for pod in pods), key=PrioritySort().sort_key)
    assert [info.pod.name for info in infos] == order
