"""Filter the exported metrics: hide disabled ones, and write `unexpected` for label values that are not allowed.

Differs from kube-scheduler: a gauge with several samples for `unexpected` shows their sum, not the last of them.

Source: component-base's metrics/options.go (disabled metrics, label allow lists) and metrics/api/v1.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
import yaml
from prometheus_client import Metric

from pyscheduler.framework.errors import ConfigError, os_error_text

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping

__all__ = ["MetricView", "metric_view"]

_UNEXPECTED: Final = "unexpected"
_KEY: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*,[a-zA-Z_][a-zA-Z0-9_]*")
_FLAG: Final = "--allow-metric-labels-manifest"


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


def metric_view(disabled: Collection[str], labels: Mapping[str, str], manifest: str) -> MetricView | None:
    """Return the view for the values of the three flags; None if everything is shown.

    Raises `ConfigError` for a manifest that cannot be used.
    """
    mapping = _read_manifest(manifest) if manifest else labels
    allowed: dict[str, dict[str, frozenset[str]]] = {}
    for key, values in mapping.items():
        metric, _, label = key.partition(",")
        allowed.setdefault(metric, {})[label] = frozenset(values.split(","))
    return MetricView(disabled=frozenset(disabled), allowed=allowed) if disabled or allowed else None


def _read_manifest(path: str) -> dict[str, str]:
    try:
        mapping: Any = yaml.load(Path(path).read_bytes(), Loader=yaml.SafeLoader)
    except OSError as error:
        raise ConfigError(f"{_FLAG}: {path}: {os_error_text(error)}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{_FLAG}: {path} is not YAML: {' '.join(str(error).split())}") from error
    if isinstance(mapping, dict) and set(mapping) == {"allowListMapping"}:
        # The form that kube-scheduler's help documents; kube-scheduler itself reads the mapping.
        mapping = mapping["allowListMapping"]
    mapping = {} if mapping is None else mapping
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for pair in mapping.items() for each in pair):
        raise ConfigError(f'{_FLAG}: {path}: expected lines of "metric,label": "value,value"')
    for key in mapping:
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{_FLAG}: {path}: must have keys with format `metricName,labelName`, found {key!r}")
    return mapping
