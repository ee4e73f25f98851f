"""Gauges and counts that are read when somebody scrapes; between two scrapes they cost nothing."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyscheduler.cache.cache import Cache
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.scheduling_queue import SchedulingQueue
    from pyscheduler.runtime.profile import Profile

__all__ = ["register_gauges", "register_profiles"]


def register_gauges(recorder: Recorder, cache: Cache, queue: SchedulingQueue) -> None:
    """Register kube-scheduler's gauges of what is pending, in flight, rejected and cached."""
    recorder.gauge(
        "scheduler_pending_pods",
        lambda: {(("queue", name),): float(count) for name, count in queue.counts().items()},
    )
    recorder.gauge(
        "scheduler_unschedulable_pods",
        lambda: {
            (("plugin", plugin), ("profile", profile)): float(count)
            for (plugin, profile), count in queue.rejections().items()
        },
    )
    recorder.gauge(
        "scheduler_inflight_events",
        lambda: {(("event", event),): float(count) for event, count in queue.in_flight_events().items()},
    )
    recorder.gauge(
        "scheduler_cache_size",
        lambda: {
            (("type", "assumed_pods"),): float(cache.assumed_count),
            (("type", "nodes"),): float(cache.node_count),
            (("type", "pods"),): float(cache.pod_count),
        },
    )


def register_profiles(recorder: Recorder, profiles: Mapping[str, Profile], bindings: Callable[[], int]) -> None:
    """Register kube-scheduler's counts of what plugins were asked, and what runs beside the scheduling cycle.

    Differs from kube-scheduler: scheduler_goroutines shows tasks, for there are no goroutines. What is spread over
    goroutines there is one computation here, over before anybody can look, so it shows 0.
    """

    def evaluations() -> dict[tuple[tuple[str, str], ...], float]:
        return {
            (("plugin", plugin), ("extension_point", point), ("profile", name)): float(count)
            for name, profile in profiles.items()
            for (plugin, point), count in profile.evaluations().items()
        }

    def tasks() -> dict[tuple[tuple[str, str], ...], float]:
        running = Counter({"binding": bindings(), "Filter": 0, "Score": 0})
        for profile in profiles.values():
            running.update(profile.running_tasks())
        return {(("operation", operation),): float(count) for operation, count in running.items()}

    recorder.counter("scheduler_plugin_evaluation_total", evaluations)
    recorder.gauge("scheduler_goroutines", tasks)
