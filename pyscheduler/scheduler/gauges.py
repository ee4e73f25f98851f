"""Metrics whose values are read from the scheduler at each scrape: the gauges, and some counters."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.scheduler.scheduler import Scheduler

    #: Label pairs to value.
    _Values = dict[tuple[tuple[str, str], ...], float]

__all__ = ["register_gauges"]

#: Plugins that spread their work over goroutines in kube-scheduler, and so have a row in scheduler_goroutines there.
_PARALLEL: Final = frozenset({"DefaultPreemption", "InterPodAffinity", "PodTopologySpread"})


def register_gauges(scheduler: Scheduler) -> None:
    """Register kube-scheduler's gauges of pods and tasks, and its count of plugin evaluations."""
    recorder, cache, queue = scheduler.recorder, scheduler.cache, scheduler.queue
    recorder.gauge(
        "scheduler_pending_pods",
        lambda: {(("queue", name),): float(count) for name, count in queue.sub_queues.counts().items()},
    )
    recorder.gauge(
        "scheduler_unschedulable_pods",
        _with_zeros(
            lambda: {
                (("plugin", plugin), ("profile", profile)): float(count)
                for (plugin, profile), count in queue.sub_queues.rejections.items()
            }
        ),
    )
    recorder.gauge(
        "scheduler_inflight_events",
        lambda: {
            (("event", event),): float(count)
            for event, count in (dict.fromkeys(queue.in_flight.seen_labels, 0) | queue.in_flight.counts()).items()
        },
    )
    recorder.gauge(
        "scheduler_cache_size",
        lambda: {
            (("type", "assumed_pods"),): float(cache.assumed_count),
            (("type", "nodes"),): float(cache.node_count),
            (("type", "pods"),): float(cache.pod_count),
        },
    )
    recorder.counter("pyscheduler_kubelet_rejections_total", scheduler.handlers.rejections.values)
    _register_profiles(recorder, scheduler)


def _with_zeros(read: Callable[[], _Values]) -> Callable[[], _Values]:
    """Keep each series that was shown once, with 0, as Prometheus' client does: an alert needs the zero."""
    seen: _Values = {}

    def values() -> _Values:
        found = read()
        seen.update(dict.fromkeys(found, 0.0))
        return seen | found

    return values


def _register_profiles(recorder: Recorder, scheduler: Scheduler) -> None:
    """Register kube-scheduler's counts of what plugins were asked, and what runs beside the scheduling cycle.

    Differs from kube-scheduler: scheduler_goroutines shows tasks, for there are no goroutines. What is spread over
    goroutines there is one computation here, over before anybody can look, so it shows 0.
    """
    profiles = scheduler.profiles

    def evaluations() -> _Values:
        return {
            (("plugin", plugin), ("extension_point", point), ("profile", name)): float(count)
            for name, profile in profiles.items()
            for (plugin, point), count in profile.evaluations().items()
        }

    parallel = {name: 0 for profile in profiles.values() for name in profile.plugins if name in _PARALLEL}

    def tasks() -> _Values:
        running = Counter({"binding": scheduler.binding_count, "Filter": 0, "Score": 0, **parallel})
        if scheduler.extenders is not None:
            running["prioritizing_extender"] = scheduler.extenders.prioritizing
        for profile in profiles.values():
            running.update(profile.running_tasks())
        return {(("operation", operation),): float(count) for operation, count in running.items()}

    def failures() -> _Values:
        return {
            (("plugin", plugin), ("extension_point", point)): float(count)
            for (plugin, point), count in scheduler.plugin_failures.counts.items()
        }

    def restarts() -> _Values:
        return {
            (("plugin", plugin), ("profile", name)): float(found.count)
            for name, profile in profiles.items()
            for plugin, found in profile.handle.background.restarts.items()
        }

    recorder.counter("scheduler_plugin_evaluation_total", evaluations)
    recorder.counter("pyscheduler_plugin_failures_total", failures)
    recorder.counter("pyscheduler_plugin_run_restarts_total", restarts)
    recorder.gauge("scheduler_goroutines", tasks)
