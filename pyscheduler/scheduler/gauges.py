"""The gauges of queue and cache, read when somebody scrapes; between two scrapes they cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler.cache.cache import Cache
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.scheduling_queue import SchedulingQueue

__all__ = ["register_gauges"]


def register_gauges(recorder: Recorder, cache: Cache, queue: SchedulingQueue) -> None:
    """Register kube-scheduler's gauges of what is pending, in flight, rejected and cached."""
    recorder.gauge(
        "scheduler_pending_pods",
        lambda: {(("queue", name),): float(count) for name, count in queue.counts().items()},
        description="Number of pending pods, by the queue type.",
    )
    recorder.gauge(
        "scheduler_unschedulable_pods",
        lambda: {
            (("plugin", plugin), ("profile", profile)): float(count)
            for (plugin, profile), count in queue.rejections().items()
        },
        description="The number of unschedulable pods broken down by plugin name.",
    )
    recorder.gauge(
        "scheduler_inflight_events",
        lambda: {(("event", event),): float(count) for event, count in queue.in_flight_events().items()},
        description="Number of events currently tracked in the scheduling queue.",
    )
    recorder.gauge(
        "scheduler_cache_size",
        lambda: {
            (("type", "assumed_pods"),): float(cache.assumed_count),
            (("type", "nodes"),): float(cache.node_count),
            (("type", "pods"),): float(cache.pod_count),
        },
        description="Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
    )
