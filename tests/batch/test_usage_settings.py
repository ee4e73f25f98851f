"""`usageDBConfig`: KAI's fields, its defaults, and what is said about mistakes."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.framework import ConfigError
from pyscheduler_batch.settings.configuration import batch_args
from pyscheduler_batch.usage.settings import UsageSettings, usage_settings


def test_defaults_are_those_of_kai() -> None:
    """A week that slides, no decay, once a minute; Prometheus is that of KAI's operator."""
    assert usage_settings({"clientType": "prometheus"}) == UsageSettings(
        source="prometheus",
        connection="http://prometheus-operated.kai-scheduler.svc.cluster.local:9090",
        half_life=0.0,
        window=604800.0,
        window_type="sliding",
        fetch_interval=60.0,
        staleness=300.0,
        wait_timeout=60.0,
    )
    assert usage_settings({}) is None


def test_all_fields_are_read() -> None:
    """Days and weeks are durations, too."""
    params = {
        "halfLifePeriod": "10m",
        "windowSize": "2w",
        "windowType": "tumbling",
        "tumblingWindowStartTime": "2026-01-05T00:00:00Z",
        "fetchInterval": "30s",
        "extraParams": {"queryResolution": "2m"},
    }
    found = usage_settings({"clientType": "scheduler", "connectionString": "batch/use", "usageParams": params})
    assert found is not None
    assert (found.source, found.connection, found.half_life, found.window) == ("scheduler", "batch/use", 600.0, 1209600)
    assert (found.window_type, found.window_start, found.fetch_interval) == ("tumbling", 1767571200.0, 30.0)
    assert found.extra == {"queryResolution": "2m"}


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"clientType": "fake"}, 'clientType: expected scheduler or prometheus, found "fake"'),
        ({"client": "prometheus"}, "no key is called client; known are clientType, connectionString"),
        ("prometheus", 'expected a mapping, found "prometheus"'),
        ({"clientType": "scheduler", "connectionString": "use"}, 'expected NAMESPACE/NAME of a ConfigMap, found "use"'),
        ({"clientType": "scheduler", "connectionStringEnvVar": "URL"}, "connectionStringEnvVar is for prometheus"),
        ({"clientType": "prometheus", "connectionString": "a", "connectionStringEnvVar": "B"}, "both set; keep one"),
        ({"clientType": "prometheus", "connectionString": "prom:9090"}, 'expected the URL of Prometheus, found "prom'),
        ({"usageParams": {"windowSize": "7 days"}}, "usageParams.windowSize: expected a duration such as 10m or 1w, f"),
        ({"usageParams": {"windowSize": "0s"}}, 'usageParams.windowSize: expected more than 0, found "0s"'),
        ({"usageParams": {"windowType": "cron"}}, 'usageParams.windowType: expected sliding or tumbling, found "cron"'),
        ({"usageParams": {"windowType": "tumbling"}}, "usageParams.tumblingWindowStartTime is missing"),
        ({"usageParams": {"halfLife": "1m"}}, "no key is called usageParams.halfLife; known are halfLifePeriod"),
        ({"usageParams": {"extraParams": {"a": 1}}}, "usageParams.extraParams: expected a mapping of strings"),
    ],
)
def test_mistakes_get_one_line_with_their_place(said: Any, message: str) -> None:
    """The line names the key, what is expected, and what was found."""
    if isinstance(said, dict) and "usageParams" in said:
        said = {"clientType": "scheduler", **said}
    with pytest.raises(ConfigError) as caught:
        batch_args({"preset": "kai", "usageDBConfig": said}, "$.args")
    [line] = str(caught.value).splitlines()
    assert message in line
    assert line.endswith("@ $.args.usageDBConfig")
