"""PrioritySort: pods of higher priority first; among equals, the pod that has been queued longest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyscheduler.framework import QueueSortPlugin

if TYPE_CHECKING:
    from pyscheduler.framework import QueuedPodInfo

__all__ = ["PrioritySort"]


class PrioritySort(QueueSortPlugin):
    """Order activeQ by priority, then by the time the pod entered the queue."""

    def sort_key(self, info: QueuedPodInfo) -> tuple[int, float]:
        return -info.pod.priority, info.enqueued_at
