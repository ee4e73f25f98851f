"""Chooses what /metrics shows: `--disabled-metrics`, `--allow-metric-labels` and `--allow-metric-labels-manifest`.

Source: component-base's metrics/options.go and metrics/api/v1.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyscheduler.framework.errors import ConfigError

if TYPE_CHECKING:
    from pyscheduler.flags.run_flags import MetricsFlags
    from pyscheduler.telemetry.metric_view import MetricView

__all__ = ["metric_view"]

_KEY: Final = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*,[a-zA-Z_][a-zA-Z0-9_]*")
_FLAG: Final = "--allow-metric-labels-manifest"


def metric_view(flags: MetricsFlags) -> MetricView | None:
    """Return the view of the metrics, or None if everything is shown.

    Raises `ConfigError` for a manifest that cannot be used.
    """
    from pyscheduler.telemetry.metric_view import MetricView

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
        # The form that kube-scheduler's help documents; kube-scheduler itself reads the mapping.
        mapping = mapping["allowListMapping"]
    mapping = {} if mapping is None else mapping
    if not isinstance(mapping, dict) or not all(isinstance(each, str) for pair in mapping.items() for each in pair):
        raise ConfigError(f'{_FLAG}: {path}: expected lines of "metric,label": "value,value"')
    for key in mapping:
        if not _KEY.fullmatch(key):
            raise ConfigError(f"{_FLAG}: {path}: must have keys with format `metricName,labelName`, found {key!r}")
    return mapping
