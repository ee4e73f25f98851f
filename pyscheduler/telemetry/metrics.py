"""Record and export metrics: kube-scheduler's metrics under the same names, and pyscheduler's own metrics."""

from __future__ import annotations

import math
import re
import resource
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.metrics import CallbackOptions, Observation
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import (
    Gauge,
    Metric,
    MetricsData,
    NumberDataPoint,
    ResourceMetrics,
    ScopeMetrics,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from pyscheduler.telemetry.families import CONTENT_TYPE, FAMILIES, RECORDED
from pyscheduler.telemetry.histograms import FOLD_AT, FastHistogram, PluginHistogram
from pyscheduler.telemetry.request_metrics import RequestMetrics

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

    from prometheus_client import Metric as PrometheusMetric

    from pyscheduler.framework.plugin_metrics import HistogramValue
    from pyscheduler.telemetry.metric_view import MetricView

    #: Label pairs to value.
    _Values = dict[tuple[tuple[str, str], ...], float]
    _Read = Callable[[], Mapping[tuple[tuple[str, str], ...], float]]

__all__ = ["LinuxProcessCollector", "Metrics"]


#: Go's value for "no limit": the largest number of 64 bits.
_UNLIMITED: Final = float(2**64 - 1)
#: A bucket's bound as a label, which becomes that of Prometheus' Go client (`le="1"`), so that queries can add up the
#: metrics of pyscheduler and kube-scheduler; quotes within a label's value are escaped.
_BOUND: Final = re.compile(rb'(?<=[{,]le=")[0-9.e+-]+(?=")')
#: Type lines of counters whose names do not end in `_total`: as exported, and as they should be.
_TYPES: Final = tuple(
    (f"# TYPE {name} gauge\n".encode(), f"# TYPE {name} counter\n".encode())
    for name, family in FAMILIES.items()
    if family.kind == "counter" and not name.endswith("_total")
)


class _Reader(PrometheusMetricReader):
    """The Prometheus reader, extended by our histograms and by infinite gauges, which the SDK rejects."""

    def __init__(
        self,
        registry: CollectorRegistry,
        histograms: list[FastHistogram | PluginHistogram],
        gauges: list[tuple[str, str, _Values]],
    ) -> None:
        super().__init__(disable_target_info=True, scope_info_enabled=False, registry=registry)
        self._histograms = histograms
        self._gauges = gauges

    def _receive_metrics(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: object) -> None:
        metrics = [metric for histogram in self._histograms if (metric := histogram.metric()) is not None]
        metrics += [metric for gauge in self._gauges if (metric := _infinite(*gauge)) is not None]
        scope = ScopeMetrics(scope=InstrumentationScope("pyscheduler"), metrics=metrics, schema_url="")
        ours = ResourceMetrics(resource=Resource.get_empty(), scope_metrics=[scope], schema_url="")
        given = list(metrics_data.resource_metrics) if metrics_data is not None else []
        super()._receive_metrics(MetricsData(resource_metrics=[*given, ours]), timeout_millis, **kwargs)


class _Waiting(dict[tuple[str, tuple[str, ...]], list[float]]):
    """The new measurements of a histogram by family and label values, so that each measurement costs one lookup."""

    def __init__(self, histogram: Callable[[str], FastHistogram]) -> None:
        super().__init__()
        self._histogram = histogram

    def __missing__(self, key: tuple[str, tuple[str, ...]]) -> list[float]:
        family, labels = key
        waiting = self[key] = self._histogram(family).waiting(labels)
        return waiting


class Metrics:
    """The recorder of a running scheduler; `view` filters the export (default: everything)."""

    def __init__(self, *, view: MetricView | None = None) -> None:
        self._view = view
        self._histograms: list[FastHistogram | PluginHistogram] = []
        #: What is read at a scrape, by family: each profile may register the same family.
        self._reads: dict[str, list[_Read]] = {}
        #: Name, description and the infinite values of the last scrape of each gauge.
        self._gauges: list[tuple[str, str, _Values]] = []
        #: Families that are recorded, whether or not they have measurements yet.
        self._known: set[str] = set()
        self._registry = CollectorRegistry()
        provider = MeterProvider(
            metric_readers=[_Reader(self._registry, self._histograms, self._gauges)],
            resource=Resource.get_empty(),
            shutdown_on_exit=False,
        )
        self._meter = provider.get_meter("pyscheduler")
        self._counts: dict[str, defaultdict[tuple[str, ...], int]] = {}
        self._series: dict[str, FastHistogram] = {}
        self._waiting = _Waiting(self._recorded)
        for name in RECORDED:
            if FAMILIES[name].kind == "counter":
                self._counts[name] = self._count(name)
            else:
                self._recorded(name)
        self._request_metrics: RequestMetrics | None = None
        self._count_families()

    # Recorder

    def count(self, family: str, *labels: str) -> None:
        """Count one occurrence."""
        self._counts[family][labels] += 1

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Record a value of a histogram."""
        # The steps of `FastHistogram.record`, because the call would cost as much as they.
        waiting = self._waiting[family, labels]
        waiting.append(value)
        if len(waiting) >= FOLD_AT:
            self._series[family].fold(labels)

    def _recorded(self, family: str) -> FastHistogram:
        histogram = self._series.get(family)
        if histogram is None:
            histogram = self._series[family] = self._histogram(family)
        return histogram

    def warning(self, kind: str) -> None:
        """Count a warning."""
        self.count("pyscheduler_warnings_total", kind)

    def gauge(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Register a gauge that is read at a scrape; kube-scheduler's gauges have a description already."""
        read_all = self._joined(name, read)
        if read_all is not None:
            described = _description(name, description)
            infinite: _Values = {}
            self._gauges.append((name, described, infinite))
            self._meter.create_observable_gauge(name, [_reader(read_all, infinite)], description=described)

    def counter(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], float]], *, description: str = ""
    ) -> None:
        """Register a counter that is read at a scrape."""
        read_all = self._joined(name, read)
        if read_all is not None:
            described = _description(name, description)
            self._meter.create_observable_counter(name, [_reader(read_all, {})], description=described)

    def histogram(
        self,
        name: str,
        read: Callable[[], Mapping[tuple[tuple[str, str], ...], HistogramValue]],
        *,
        description: str = "",
    ) -> None:
        """Register a histogram that is read at a scrape."""
        self._known.add(name)
        self._histograms.append(PluginHistogram(name, read, description=description))

    def _joined(self, name: str, read: _Read) -> _Read | None:
        """Return what reads all registrations of a family and adds equal labels up; None if it is registered already.

        The SDK drops the second instrument of a name, and with it the values of the second profile.
        """
        self._known.add(name)
        reads = self._reads.setdefault(name, [])
        reads.append(read)
        if len(reads) > 1:
            return None

        def read_all() -> Mapping[tuple[tuple[str, str], ...], float]:
            if len(reads) == 1:
                return read()
            found: dict[tuple[tuple[str, str], ...], float] = {}
            for each in reads:
                for labels, value in each().items():
                    found[labels] = found.get(labels, 0.0) + value
            return found

        return read_all

    def _count_families(self) -> None:
        """Show the number of families; disabled families are counted separately, and none is hidden."""
        self.counter("registered_metrics_total", self._registered)
        self.counter("disabled_metrics_total", lambda: {(): float(len(self._known & set(self._disabled)))})
        self.counter("hidden_metrics_total", lambda: {(): 0.0})

    # Export

    def request_metrics(self) -> RequestMetrics:
        """Return the recorder of requests to the HTTPS port; their families are shown from the first call on."""
        if self._request_metrics is None:
            self._request_metrics = RequestMetrics(histogram=self._histogram, count=self._count)
        return self._request_metrics

    def show_process(self) -> None:
        """Add metrics of the process: memory, CPU, files, network where available, and Python."""
        ProcessCollector(registry=self._registry)
        self._registry.register(LinuxProcessCollector())
        PlatformCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def render(self) -> tuple[bytes, str]:
        """Return the text that Prometheus scrapes, and its content type."""
        page = generate_latest(self if self._view is not None else self._registry)
        for shown, meant in _TYPES:
            page = page.replace(shown, meant)
        return _BOUND.sub(lambda found: _go_bound(found[0]), page), CONTENT_TYPE

    def collect(self) -> Iterator[PrometheusMetric]:
        """Yield the metrics, filtered by the view."""
        found = self._registry.collect()
        yield from self._view.apply(found) if self._view is not None else found

    def _histogram(self, name: str) -> FastHistogram:
        self._known.add(name)
        family = FAMILIES[name]
        histogram = FastHistogram(name, *family.labels, bounds=family.bounds, description=family.description)
        self._histograms.append(histogram)
        return histogram

    def _count(self, name: str) -> defaultdict[tuple[str, ...], int]:
        """Return the counts of a family, by label values in the order of its labels."""
        self._known.add(name)
        family = FAMILIES[name]
        counts: defaultdict[tuple[str, ...], int] = defaultdict(int)
        if not family.labels:
            counts[()] = 0

        def observe(_options: CallbackOptions) -> Iterator[Observation]:
            for values, count in counts.items():
                yield Observation(count, dict(zip(family.labels, values, strict=True)))

        # The exporter adds `_total` to the name of every counter. Counters with other names are exported as gauges;
        # `render` corrects their type.
        create = (
            self._meter.create_observable_counter if name.endswith("_total") else self._meter.create_observable_gauge
        )
        create(name, [observe], description=family.description)
        return counts

    @property
    def _disabled(self) -> Collection[str]:
        return self._view.disabled if self._view is not None else ()

    def _registered(self) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the number of families by stability; none is deprecated, and our families have no stability."""
        known = self._known - set(self._disabled)
        levels = Counter(FAMILIES[name].stability for name in known if name in FAMILIES)
        return {
            (("stability_level", level), ("deprecated_version", "")): float(count)
            for level, count in levels.items()
            if level
        }


def _reader(read: _Read, infinite: _Values) -> Callable[[CallbackOptions], Iterator[Observation]]:
    """Return what the SDK calls at a scrape; values that the SDK rejects are put into `infinite`."""

    def observe(_options: CallbackOptions) -> Iterator[Observation]:
        infinite.clear()
        for labels, value in read().items():
            if math.isfinite(value):
                yield Observation(value, dict(labels))
            else:
                infinite[labels] = value

    return observe


@lru_cache(maxsize=1024)
def _go_bound(text: bytes) -> bytes:
    bound: str = floatToGoString(float(text))  # type: ignore[no-untyped-call] # the library has no annotations here
    return bound.removesuffix(".0").encode()


def _infinite(name: str, description: str, values: _Values) -> Metric | None:
    points = [
        NumberDataPoint(dict(labels), start_time_unix_nano=0, time_unix_nano=0, value=value)
        for labels, value in values.items()
    ]
    return Metric(name, description, unit="", data=Gauge(points)) if points else None


def _description(name: str, given: str) -> str:
    family = FAMILIES.get(name)
    return family.description if family is not None else given


class LinuxProcessCollector(Collector):
    """The limit of the address space, and the network traffic of the network namespace, as in Prometheus' Go client.

    Source: client_golang, prometheus/process_collector_linux.go.
    """

    def __init__(self, proc: str = "/proc") -> None:
        self._netstat = Path(proc, "self", "net", "netstat")

    def collect(self) -> Iterator[PrometheusMetric]:
        """Yield the families; those about the network only where the system provides them."""
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        yield GaugeMetricFamily(
            "process_virtual_memory_max_bytes",
            "Maximum amount of virtual memory available in bytes.",
            value=_UNLIMITED if limit == resource.RLIM_INFINITY else float(limit),
        )
        octets = self._octets()
        for name, field, what in (
            ("process_network_receive_bytes", "InOctets", "received"),
            ("process_network_transmit_bytes", "OutOctets", "sent"),
        ):
            if field in octets:
                text = f"Number of bytes {what} by the process over the network."
                yield CounterMetricFamily(name, text, value=float(octets[field]))

    def _octets(self) -> Mapping[str, int]:
        """Return the fields of the line pair `IpExt`: names in one line, numbers in the next."""
        try:
            lines = self._netstat.read_text(encoding="ascii").splitlines()
        except OSError:
            return {}
        names, numbers = [line.split()[1:] for line in lines if line.startswith("IpExt:")] or ([], [])
        return {name: int(number) for name, number in zip(names, numbers, strict=True)}
