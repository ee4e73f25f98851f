"""activeQ: the metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.active import ActiveQueue

if TYPE_CHECKING:
    from tests.queue.conftest import Kit


def test_only_new_pods_are_counted(kit: Kit) -> None:
    """A pod that is sorted again is not counted again."""
    active = ActiveQueue(sort_key=lambda info: info.enqueued_at, recorder=kit.recorder)
    info = QueuedPodInfo(pod_info=kit.info(kit.pod()), enqueued_at=1)
    active.add(info, "BackoffComplete")
    active.put(info)
    assert kit.recorder.incoming == {("active", "BackoffComplete"): 1}
