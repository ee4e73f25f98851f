"""Histograms with a cheap `record`.

A `record` of an OpenTelemetry instrument takes several microseconds, and a pod causes a dozen. Here a measurement is
appended to a list; a long list is folded into buckets, and so is every list at a scrape. The result is OpenTelemetry's
histogram data, which any of its readers can export.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

import numpy as np
from opentelemetry.sdk.metrics.export import AggregationTemporality, Histogram, HistogramDataPoint, Metric

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["FastHistogram"]

#: Length at which a list is folded.
_FOLD_AT: Final = 512


class _Series:
    """The measurements of one set of label values."""

    __slots__ = ("bucket_counts", "sum", "waiting")

    def __init__(self, buckets: int) -> None:
        self.waiting: list[float] = []
        self.bucket_counts = np.zeros(buckets + 1, dtype=np.int64)
        self.sum = 0.0


class FastHistogram:
    """One histogram: name, label names, and upper bounds of the buckets (inclusive, ascending, in the value's unit)."""

    __slots__ = ("_bounds", "_description", "_labels", "_name", "_series", "_start", "_unit")

    def __init__(self, name: str, *labels: str, bounds: Sequence[float], description: str, unit: str = "") -> None:
        self._name = name
        self._labels = labels
        self._bounds = np.asarray(bounds, dtype=np.float64)
        self._description = description
        self._unit = unit
        self._series: dict[tuple[str, ...], _Series] = {}
        if not labels:
            # As in Prometheus' client, a family without labels shows zeros from the beginning.
            self._series[()] = _Series(len(self._bounds))
        self._start = time.time_ns()

    def record(self, value: float, *labels: str) -> None:
        """Record a measurement under the given label values, in the order of the label names."""
        try:
            series = self._series[labels]
        except KeyError:
            series = self._series[labels] = _Series(len(self._bounds))
        waiting = series.waiting
        waiting.append(value)
        if len(waiting) >= _FOLD_AT:
            self._fold(series)

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
            yield HistogramDataPoint(
                attributes=dict(zip(self._labels, labels, strict=True)),
                start_time_unix_nano=self._start,
                time_unix_nano=now,
                count=int(series.bucket_counts.sum()),
                sum=series.sum,
                bucket_counts=series.bucket_counts.tolist(),
                explicit_bounds=self._bounds.tolist(),
                min=0.0,
                max=0.0,
            )

    def metric(self) -> Metric | None:
        """Return all measurements as OpenTelemetry data; None before the first measurement."""
        points = list(self._points())
        if not points:
            return None
        data = Histogram(data_points=points, aggregation_temporality=AggregationTemporality.CUMULATIVE)
        return Metric(name=self._name, description=self._description, unit=self._unit, data=data)
