"""Filters exported metrics: hides disabled families, and replaces label values that are not allowed.

Such label values become `unexpected`, and samples whose labels are then equal are added up. The filter works at the
export, so that recording has no additional cost.

Differs from kube-scheduler: a gauge with several samples for `unexpected` shows their sum, not the last of them.

Source: component-base's metrics/options.go (disabled metrics, label allow lists).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
from prometheus_client import Metric

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

__all__ = ["MetricView"]

_UNEXPECTED: Final = "unexpected"


@attrs.frozen(kw_only=True)
class MetricView:
    """The disabled families and the allowed label values."""

    disabled: Collection[str]
    #: Allowed values by metric and label.
    allowed: Mapping[str, Mapping[str, Collection[str]]]

    def apply(self, metrics: Iterable[Metric]) -> Iterator[Metric]:
        """Yield the metrics that are not disabled, with restricted labels."""
        for metric in metrics:
            names = {metric.name, f"{metric.name}_total"} if metric.type == "counter" else {metric.name}
            if names & set(self.disabled):
                continue
            labels: dict[str, Collection[str]] = {}
            for name in names:
                labels.update(self.allowed.get(name, {}))
            yield _constrained(metric, labels) if labels else metric


def _constrained(metric: Metric, allowed: Mapping[str, Collection[str]]) -> Metric:
    """Return the metric with other label values merged into `unexpected`."""
    sums: dict[tuple[str, tuple[tuple[str, str], ...]], Any] = {}
    for sample in metric.samples:
        labels = {
            name: value if name not in allowed or value in allowed[name] else _UNEXPECTED
            for name, value in sample.labels.items()
        }
        key = (sample.name, tuple(sorted(labels.items())))
        before = sums.get(key)
        value = sample.value + (before.value if before is not None else 0)
        sums[key] = sample._replace(labels=labels, value=value)
    shown = Metric(metric.name, metric.documentation, metric.type, metric.unit)
    shown.samples = list(sums.values())
    return shown
