"""Read KAI's settings `usageDBConfig`, which say how to count the resources that queues used in the past.

Source: KAI-Scheduler `pkg/scheduler/cache/usagedb/api`, `usagedb/hub.go`, `usagedb/prometheus`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

import attrs

from kube_objects.durations import parse_duration

__all__ = ["KEYS", "PARAMETERS", "SOURCES", "WINDOWS", "UsageSettings", "usage_settings"]

SOURCES: Final = ("scheduler", "prometheus")
"""`scheduler` counts by itself and is no client of KAI."""
WINDOWS: Final = ("sliding", "tumbling")
KEYS: Final = ("clientType", "connectionString", "connectionStringEnvVar", "usageParams")
_DURATIONS: Final = {
    "halfLifePeriod": "half_life",
    "windowSize": "window",
    "fetchInterval": "fetch_interval",
    "stalenessPeriod": "staleness",
    "waitTimeout": "wait_timeout",
}
PARAMETERS: Final = (*_DURATIONS, "windowType", "tumblingWindowStartTime", "extraParams")
"""The keys of `usageParams`."""
_LONG: Final = re.compile(r"([0-9]+)([dw])")
_LONG_SECONDS: Final = {"d": 86400.0, "w": 7 * 86400.0}
_SAVED: Final = "kube-system/pyscheduler-usage"
#: The instance of KAI's operator.
_PROMETHEUS: Final = "http://prometheus-operated.kai-scheduler.svc.cluster.local:9090"


@attrs.frozen(kw_only=True)
class UsageSettings:
    """The settings for counting past use; durations in seconds."""

    #: One of `SOURCES`.
    source: str
    #: The URL of Prometheus, or `NAMESPACE/NAME` of the ConfigMap that keeps the counts of the scheduler.
    connection: str = ""
    #: The environment variable with the URL.
    connection_variable: str = ""
    #: Use that is older by so much counts half; 0: all use of the window counts in full.
    half_life: float = 0.0
    window: float = 7 * 86400.0
    #: `sliding` or `tumbling`; the second begins anew at the end of each window.
    window_type: str = "sliding"
    #: When a tumbling window begins, in seconds since 1970.
    window_start: float = 0.0
    #: How often shares take in new use.
    fetch_interval: float = 60.0
    #: Older figures are still used, with a warning.
    staleness: float = 300.0
    #: For so long the first pass waits for the first figures.
    wait_timeout: float = 60.0
    #: Metrics and times of queries.
    extra: Mapping[str, str] = attrs.field(factory=dict, hash=False)


def usage_settings(value: object) -> UsageSettings | None:
    """Return the settings of a file, None for an empty map; raise `ValueError` with a sentence for mistakes."""
    said = _mapping(value, "", KEYS)
    if not said:
        return None
    source = said.get("clientType")
    if source not in SOURCES:
        raise ValueError(f"clientType: expected {' or '.join(SOURCES)}, found {_shown(source)}")
    params = _mapping(said.get("usageParams"), "usageParams", PARAMETERS)
    settings: dict[str, float] = {}
    for key, name in _DURATIONS.items():
        if params.get(key) is not None:
            settings[name] = _seconds(params[key], f"usageParams.{key}", above=key != "halfLifePeriod")
    window_type = params.get("windowType", "sliding")
    if window_type not in WINDOWS:
        raise ValueError(f"usageParams.windowType: expected {' or '.join(WINDOWS)}, found {_shown(window_type)}")
    start = params.get("tumblingWindowStartTime")
    if window_type == "tumbling" and start is None:
        raise ValueError("usageParams.tumblingWindowStartTime is missing; a tumbling window needs it")
    return UsageSettings(
        source=str(source),
        connection=_connection(said, str(source)),
        connection_variable=_text(said.get("connectionStringEnvVar"), "connectionStringEnvVar"),
        window_type=str(window_type),
        window_start=0.0 if start is None else _time(start),
        extra=_texts(params.get("extraParams")),
        **settings,
    )


def _connection(said: Mapping[str, object], source: str) -> str:
    text = _text(said.get("connectionString"), "connectionString")
    variable = _text(said.get("connectionStringEnvVar"), "connectionStringEnvVar")
    if source == "scheduler":
        if variable:
            raise ValueError("connectionStringEnvVar is for prometheus; name the ConfigMap in connectionString")
        text = text or _SAVED
        if not re.fullmatch(r"[a-z0-9-]+/[a-z0-9.-]+", text):
            raise ValueError(f"connectionString: expected NAMESPACE/NAME of a ConfigMap, found {_shown(text)}")
        return text
    if text and variable:
        raise ValueError("connectionString and connectionStringEnvVar are both set; keep one")
    text = text or ("" if variable else _PROMETHEUS)
    if text and not text.startswith(("http://", "https://")):
        raise ValueError(f"connectionString: expected the URL of Prometheus, found {_shown(text)}")
    return text


def _mapping(value: object, where: str, known: tuple[str, ...]) -> Mapping[str, object]:
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ValueError(f"{where}: expected a mapping, found {_shown(value)}".removeprefix(": "))  # noqa: TRY004
    prefix = f"{where}." if where else ""
    for key in value:
        if key not in known:
            raise ValueError(f"no key is called {prefix}{key}; known are {', '.join(known)}")
    return value


def _seconds(value: object, where: str, *, above: bool) -> float:
    """Return a duration in seconds: one of Go, or whole days or weeks; `above`: it must not be 0."""
    text = value if isinstance(value, str) else ""
    long = _LONG.fullmatch(text)
    try:
        seconds = float(long[1]) * _LONG_SECONDS[long[2]] if long is not None else parse_duration(text)
    except ValueError:
        raise ValueError(f"{where}: expected a duration such as 10m or 1w, found {_shown(value)}") from None
    if seconds < 0 or (above and not seconds):
        raise ValueError(f"{where}: expected more than 0, found {_shown(value)}")
    return seconds


def _time(value: object) -> float:
    where = "usageParams.tumblingWindowStartTime"
    if isinstance(value, datetime):
        # YAML reads such a text as a time of its own; one without a zone means UTC there.
        text = value.isoformat()
        return datetime.fromisoformat(text if value.tzinfo else f"{text}+00:00").timestamp()
    try:
        found = datetime.fromisoformat(value if isinstance(value, str) else "")
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise ValueError(f"{where}: expected a time such as 2026-01-05T00:00:00Z, found {_shown(value)}")
    return found.timestamp()


def _text(value: object, where: str) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    raise ValueError(f"{where}: expected a string, found {_shown(value)}")


def _texts(value: object) -> Mapping[str, str]:
    if value is None:
        return {}
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for each in value.values()):
        raise ValueError(f"usageParams.extraParams: expected a mapping of strings, found {_shown(value)}")
    return {str(key): str(each) for key, each in value.items()}


def _shown(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)
