"""Histograms that are cheap to record, in the data format of OpenTelemetry.

`record` only appends a value to a list. The values are counted in buckets later, at the latest at the next scrape.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np
from opentelemetry.sdk.metrics.export import AggregationTemporality, Histogram, HistogramDataPoint, Metric

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyscheduler.framework.plugin_metrics import HistogramValue

__all__ = ["FOLD_AT", "FastHistogram", "PluginHistogram"]

#: Length at which a list is folded.
FOLD_AT: Final = 512


class _Series:
    """The measurements of one set of label values."""

    __slots__ = ("bucket_counts", "sum", "waiting")

    def __init__(self, buckets: int) -> None:
        self.waiting: list[float] = []
        self.bucket_counts = np.zeros(buckets + 1, dtype=np.int64)
        self.sum = 0.0


class FastHistogram:
    """One histogram: name, label names, and upper bounds of the buckets (inclusive, ascending, in the value's unit)."""

    __slots__ = ("_bounds", "_description", "_labels", "_name", "_series", "_start")

    def __init__(self, name: str, *labels: str, bounds: Sequence[float], description: str) -> None:
        self._name = name
        self._labels = labels
        self._bounds = np.asarray(bounds, dtype=np.float64)
        self._description = description
        self._series: dict[tuple[str, ...], _Series] = {}
        if not labels:
            # As in Prometheus' client, a family without labels shows zeros from the beginning.
            self._series[()] = _Series(len(self._bounds))
        self._start = time.time_ns()

    def record(self, value: float, labels: tuple[str, ...] = ()) -> None:
        """Record a measurement under the given label values, in the order of the label names."""
        waiting = self.waiting(labels)
        waiting.append(value)
        if len(waiting) >= FOLD_AT:
            self.fold(labels)

    def waiting(self, labels: tuple[str, ...]) -> list[float]:
        """Return the list of new measurements under some label values; it stays the same list.

        Who appends to it calls `fold` when it has `FOLD_AT` values.
        """
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = _Series(len(self._bounds))
        return series.waiting

    def fold(self, labels: tuple[str, ...]) -> None:
        """Add the new measurements under some label values to the buckets."""
        self._fold(self._series[labels])

    def _fold(self, series: _Series) -> None:
        values = np.asarray(series.waiting, dtype=np.float64)
        series.waiting.clear()
        # "left": a value equal to a bound belongs to the bucket below, as in Prometheus.
        buckets = np.searchsorted(self._bounds, values, side="left")
        series.bucket_counts += np.bincount(buckets, minlength=len(self._bounds) + 1)
        series.sum += float(values.sum())

    def _points(self) -> Iterator[HistogramDataPoint]:
        now = time.time_ns()
        for labels, series in self._series.items():
            if series.waiting:
                self._fold(series)
            labelled = dict(zip(self._labels, labels, strict=True))
            buckets = series.bucket_counts.tolist()
            yield _point(labelled, self._start, now, buckets, series.sum, self._bounds.tolist())

    def metric(self) -> Metric | None:
        """Return all measurements as OpenTelemetry data; None before the first measurement."""
        return _metric(self._name, self._description, list(self._points()))


class PluginHistogram:
    """A histogram whose measurements a plugin keeps; `read` returns them by label pairs."""

    def __init__(
        self, name: str, read: Callable[[], Mapping[tuple[tuple[str, str], ...], HistogramValue]], *, description: str
    ) -> None:
        self._name = name
        self._read = read
        self._description = description
        self._start = time.time_ns()

    def metric(self) -> Metric | None:
        """Return all measurements as OpenTelemetry data; None before the first measurement."""
        now = time.time_ns()
        points = [
            _point(dict(labels), self._start, now, value.buckets, value.sum, value.bounds)
            for labels, value in self._read().items()
        ]
        return _metric(self._name, self._description, points)


def _point(
    labels: Mapping[str, str], start: int, now: int, buckets: Sequence[int], total: float, bounds: Sequence[float]
) -> HistogramDataPoint:
    return HistogramDataPoint(
        attributes=labels,
        start_time_unix_nano=start,
        time_unix_nano=now,
        count=sum(buckets),
        sum=total,
        bucket_counts=buckets,
        explicit_bounds=bounds,
        min=0.0,
        max=0.0,
    )


def _metric(name: str, description: str, points: Sequence[HistogramDataPoint]) -> Metric | None:
    if not points:
        return None
    data = Histogram(data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE)
    return Metric(name=name, description=description, unit="", data=data)
