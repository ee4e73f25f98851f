"""kube-scheduler's metrics, with its names, labels and buckets.

Histograms are `FastHistogram`s; counts are kept in plain dictionaries that observable counters and gauges of the
OpenTelemetry SDK read when somebody scrapes. Between two scrapes a measurement is a dictionary look-up and an addition.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.telemetry.histograms import FastHistogram

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from pyscheduler.framework.recorder import Recorder

__all__ = ["Metrics"]


def _exponential(start: float, factor: float, count: int) -> list[float]:
    """Return `count` bounds, each `factor` times the one before, multiplied up as Prometheus' client does."""
    bounds = []
    for _ in range(count):
        bounds.append(start)
        start *= factor
    return bounds


_ATTEMPT_BOUNDS: Final = _exponential(0.001, 2, 15)
_POINT_BOUNDS: Final = _exponential(0.0001, 2, 12)
_PLUGIN_BOUNDS: Final = _exponential(0.00001, 1.5, 20)
_SLI_BOUNDS: Final = _exponential(0.01, 2, 20)
_ATTEMPTS_BOUNDS: Final = _exponential(1, 2, 5)
#: From so many attempts on, a pod is counted in one group.
_MANY_ATTEMPTS: Final = 15


class _Reader(PrometheusMetricReader):
    """The Prometheus reader, which also takes our histograms."""

    def __init__(self, registry: CollectorRegistry, histograms: list[FastHistogram]) -> None:
        super().__init__(disable_target_info=True, scope_info_enabled=False, registry=registry)
        self._histograms = histograms

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> None:
        metrics = [metric for histogram in self._histograms if (metric := histogram.metric()) is not None]
        scope = ScopeMetrics(scope=InstrumentationScope("pyscheduler"), metrics=metrics, schema_url="")
        ours = ResourceMetrics(resource=Resource.get_empty(), scope_metrics=[scope], schema_url="")
        given = list(metrics_data.resource_metrics) if metrics_data is not None else []
        super()._receive_metrics(MetricsData(resource_metrics=[*given, ours]), timeout_millis, **kwargs)


class Metrics:
    """The recorder of a running scheduler. `also` is told everything too (the demo's summary)."""

    def __init__(self, *, also: Recorder | None = None) -> None:
        self._also = also if also is not None else NullRecorder()
        self._histograms: list[FastHistogram] = []
        self._attempt_seconds = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds", "result", "profile",
            bounds=_ATTEMPT_BOUNDS,
            description="Scheduling attempt latency in seconds (scheduling algorithm + binding)",
        )  # fmt: skip
        self._algorithm_seconds = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            bounds=_ATTEMPT_BOUNDS,
            description="Scheduling algorithm latency in seconds",
        )
        self._point_seconds = self._histogram(
            "scheduler_framework_extension_point_duration_seconds", "extension_point", "status", "profile",
            bounds=_POINT_BOUNDS,
            description="Latency for running all plugins of a specific extension point.",
        )  # fmt: skip
        self._plugin_seconds = self._histogram(
            "scheduler_plugin_execution_duration_seconds", "plugin", "extension_point", "status",
            bounds=_PLUGIN_BOUNDS,
            description="Duration for running a plugin at a specific extension point.",
        )  # fmt: skip
        self._permit_seconds = self._histogram(
            "scheduler_permit_wait_duration_seconds", "result",
            bounds=_ATTEMPT_BOUNDS,
            description="Duration of waiting on permit.",
        )  # fmt: skip
        self._attempts_per_pod = self._histogram(
            "scheduler_pod_scheduling_attempts",
            bounds=_ATTEMPTS_BOUNDS,
            description="Number of attempts to successfully schedule a pod.",
        )
        self._sli_seconds = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds", "attempts",
            bounds=_SLI_BOUNDS,
            description="E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue "
            "and might involve multiple scheduling attempts.",
        )  # fmt: skip
        self._event_seconds = self._histogram(
            "scheduler_event_handling_duration_seconds", "event",
            bounds=_POINT_BOUNDS,
            description="Event handling latency in seconds.",
        )  # fmt: skip
        self._hint_seconds = self._histogram(
            "scheduler_queueing_hint_execution_duration_seconds", "plugin", "event", "hint",
            bounds=_POINT_BOUNDS,
            description="Duration for running a queueing hint function of a plugin.",
        )  # fmt: skip
        self._queue_seconds = self._histogram(
            "pyscheduler_queue_wait_duration_seconds",
            bounds=_SLI_BOUNDS,
            description="Time a pod spent in the scheduling queue before it was popped.",
        )
        self._registry = CollectorRegistry()
        provider = MeterProvider(
            metric_readers=[_Reader(self._registry, self._histograms)],
            resource=Resource.get_empty(),
            shutdown_on_exit=False,
        )
        self._meter = provider.get_meter("pyscheduler")
        self._attempts = self._counter(
            "scheduler_schedule_attempts_total", "result", "profile",
            description="Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
        )  # fmt: skip
        self._incoming = self._counter(
            "scheduler_queue_incoming_pods_total", "event", "queue",
            description="Number of pods added to scheduling queues by event and queue type.",
        )  # fmt: skip
        self._warnings = self._counter(
            "pyscheduler_warnings_total", "kind",
            description="Things that were wrong at run time and were passed over, by kind.",
        )  # fmt: skip

    # Recorder

    def attempt(self, *, result: str, profile: str, seconds: float) -> None:
        """Count a finished attempt and its time."""
        self._attempts[result, profile] += 1
        self._attempt_seconds.record(seconds, result, profile)
        self._also.attempt(result=result, profile=profile, seconds=seconds)

    def pod_scheduled(self, *, attempts: int, sli_seconds: float) -> None:
        """Note a bound pod."""
        self._attempts_per_pod.record(attempts)
        group = str(attempts) if attempts < _MANY_ATTEMPTS else f"{_MANY_ATTEMPTS}+"
        self._sli_seconds.record(sli_seconds, group)
        self._also.pod_scheduled(attempts=attempts, sli_seconds=sli_seconds)

    def queue_wait(self, seconds: float) -> None:
        """Note the time a pod was in the queue."""
        self._queue_seconds.record(seconds)
        self._also.queue_wait(seconds)

    def algorithm(self, seconds: float) -> None:
        """Note the time of filtering and scoring."""
        self._algorithm_seconds.record(seconds)
        self._also.algorithm(seconds)

    def extension_point(self, point: str, *, status: str, profile: str, seconds: float) -> None:
        """Note one run of an extension point."""
        self._point_seconds.record(seconds, point, status, profile)
        self._also.extension_point(point, status=status, profile=profile, seconds=seconds)

    def plugin(self, plugin: str, point: str, *, status: str, seconds: float) -> None:
        """Note one plugin's run."""
        self._plugin_seconds.record(seconds, plugin, point, status)
        self._also.plugin(plugin, point, status=status, seconds=seconds)

    def permit_wait(self, *, result: str, seconds: float) -> None:
        """Note a wait at Permit."""
        self._permit_seconds.record(seconds, result)
        self._also.permit_wait(result=result, seconds=seconds)

    def incoming_pod(self, *, queue: str, event: str) -> None:
        """Count a pod that entered a queue."""
        self._incoming[event, queue] += 1
        self._also.incoming_pod(queue=queue, event=event)

    def event_handling(self, event: str, *, seconds: float) -> None:
        """Note the time to handle a cluster event."""
        self._event_seconds.record(seconds, event)
        self._also.event_handling(event, seconds=seconds)

    def queueing_hint(self, *, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Note one hint call."""
        self._hint_seconds.record(seconds, plugin, event, hint)
        self._also.queueing_hint(plugin=plugin, event=event, hint=hint, seconds=seconds)

    def warning(self, kind: str) -> None:
        """Count something that was wrong and was passed over."""
        self._warnings[(kind,)] += 1
        self._also.warning(kind)

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Register a gauge that is read when scraped."""

        def observe(_options: CallbackOptions) -> Iterator[Observation]:
            for labels, value in read().items():
                yield Observation(value, dict(labels))

        self._meter.create_observable_gauge(name, callbacks=[observe], description=description)
        self._also.gauge(name, read, description=description)

    # Export

    def render(self) -> tuple[bytes, str]:
        """Return the text that Prometheus scrapes, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    def _histogram(self, name: str, *labels: str, bounds: list[float], description: str) -> FastHistogram:
        histogram = FastHistogram(name, *labels, bounds=bounds, description=description)
        self._histograms.append(histogram)
        return histogram

    def _counter(self, name: str, *labels: str, description: str) -> defaultdict[tuple[str, ...], int]:
        counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
        self._meter.create_observable_counter(
            name, callbacks=[partial(_observe, counts, labels)], description=description
        )
        return counts


def _observe(
    counts: Mapping[tuple[str, ...], int], labels: tuple[str, ...], _options: CallbackOptions
) -> Iterator[Observation]:
    for values, count in counts.items():
        yield Observation(count, dict(zip(labels, values, strict=True)))
