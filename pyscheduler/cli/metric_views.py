"""What /metrics shows of what was measured: families left out, and labels held to the values that are allowed.

It works on what is about to be shown, so that measuring costs what it always does.

Differs from kube-scheduler: a gauge whose samples fall together under `unexpected` shows their sum, not the last of
them.

Source: component-base's metrics/options.go (disabled metrics, label allow lists).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from prometheus_client import Metric

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

    from pyscheduler.cli.flags import MetricsFlags

__all__ = ["MetricView", "metric_view"]

_UNEXPECTED: Final = "unexpected"
_KEY: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*,[a-zA-Z_][a-zA-Z0-9_]*")
_FLAG: Final = "--allow-metric-labels-manifest"


def metric_view(flags: MetricsFlags) -> MetricView | None:
    """Return what the flags leave to be seen, None where that is everything.

    Raises `ConfigError` for a manifest that cannot be used.
    """
    mapping = dict(flags.allow_metric_labels)
    if flags.allow_metric_labels_manifest:
        mapping = _read_manifest(flags.allow_metric_labels_manifest)
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in mapping.items():
        metric, _, label = key.partition(",")
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
    disabled = frozenset(flags.disabled_metrics)
    return MetricView(disabled=disabled, allowed=allowed) if disabled or allowed else None


def _read_manifest(path: str) -> dict[str, str]:
    import yaml

    try:
        mapping: Any = yaml.load(Path(path).read_bytes(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{_FLAG}: {path}: {(error.strerror or str(error)).lower()}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_FLAG}: {path} is not YAML: {' '.join(str(error).split())}") from error
    if isinstance(mapping, dict) and set(mapping) == {"allowListMapping"}:
        mapping = mapping["allowListMapping"]  # as its help has it; what it reads is the mapping itself
    mapping = {} if mapping is None else mapping
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for pair in mapping.items() for each in pair):
        raise ConfigError(f'{_FLAG}: {path}: expected lines of "metric,label": "value,value"')
    for key in mapping:
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{_FLAG}: {path}: must have keys with format `metricName,labelName`, found {key!r}")
    return mapping


@attrs.frozen(kw_only=True)
class MetricView:
    """What is left to be seen of a collection of metrics."""

    disabled: Collection[str]
    #: Allowed values by metric and label.
    allowed: Mapping[str, Mapping[str, Collection[str]]]

    def apply(self, metrics: Iterable[Metric]) -> Iterator[Metric]:
        """Yield the metrics that may be seen, as they may be seen."""
        for metric in metrics:
            names = {metric.name, f"{metric.name}_total"} if metric.type == "counter" else {metric.name}
            if names & set(self.disabled):
                continue
            labels: dict[str, Collection[str]] = {}
            for name in names:
                labels.update(self.allowed.get(name, {}))
            yield _constrained(metric, labels) if labels else metric


def _constrained(metric: Metric, allowed: Mapping[str, Collection[str]]) -> Metric:
    """Return the metric with what is not allowed summed up as `unexpected`."""
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
