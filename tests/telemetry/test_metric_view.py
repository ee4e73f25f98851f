"""What /metrics leaves out: families by name, and label values that are not allowed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.framework.errors import ConfigError
from pyscheduler.telemetry.metric_view import MetricView, metric_view
from pyscheduler.telemetry.metrics import Metrics

ATTEMPTS = "scheduler_schedule_attempts_total"


def view_of(
    disabled_metrics: tuple[str, ...] = (),
    allow_metric_labels: Mapping[str, str] = {},
    allow_metric_labels_manifest: str = "",
) -> MetricView | None:
    """Return the view for these flags."""
    return metric_view(disabled_metrics, allow_metric_labels, allow_metric_labels_manifest)


def samples(**flags: Any) -> dict[str, float]:
    """Return what is shown of two attempts and a pod, by name and labels."""
    metrics = Metrics(view=view_of(**flags))
    for result, seconds in (("scheduled", 0.01), ("error", 0.01), ("unschedulable", 3.0)):
        metrics.count(ATTEMPTS, result, "p")
        metrics.observe("scheduler_scheduling_attempt_duration_seconds", seconds, result, "p")
    metrics.observe("scheduler_pod_scheduling_attempts", 2)
    text = metrics.render()[0].decode()
    return {
        f"{sample.name}{sorted(sample.labels.items())}": sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def attempts(shown: dict[str, float]) -> dict[str, float]:
    """Return the counts of attempts by result."""
    return {key.split("'")[-2]: value for key, value in shown.items() if key.startswith(ATTEMPTS + "[")}


def test_all_metrics_are_shown_without_flags() -> None:
    """There is no view at all then."""
    assert view_of() is None
    assert attempts(samples()) == {"scheduled": 1, "error": 1, "unschedulable": 1}


@pytest.mark.parametrize("name", [ATTEMPTS, "scheduler_pod_scheduling_attempts"])
def test_disabled_family_is_hidden(name: str) -> None:
    """A counter with its `_total`, a histogram with all its buckets; nothing else is."""
    everything, shown = samples(), samples(disabled_metrics=(name, "no_such_metric"))
    stem = name.removesuffix("_total")
    missing = {key for key in everything if key not in shown}
    assert missing
    assert all(key.startswith(stem) for key in missing)
    assert not any(key.startswith(stem) for key in shown)


def test_other_values_count_as_unexpected() -> None:
    """Their samples are summed up, buckets and all; other metrics with that label keep it."""
    key = "scheduler_scheduling_attempt_duration_seconds"
    shown = samples(allow_metric_labels={f"{ATTEMPTS},result": "scheduled", f"{key},result": "error,nothing"})
    assert attempts(shown) == {"scheduled": 1, "unexpected": 2}
    buckets = {name: value for name, value in shown.items() if name.startswith(f"{key}_count")}
    assert sorted(buckets.values()) == [1, 2]
    fast = [value for name, value in shown.items() if name.startswith(f"{key}_bucket") and "'0.016'" in name]
    assert sorted(fast) == [1, 1]
    total = [value for name, value in shown.items() if name.startswith(f"{key}_sum") and "unexpected" in name]
    assert total == [pytest.approx(3.01)]


@pytest.mark.parametrize(
    "text",
    [
        f'"{ATTEMPTS},result": "scheduled"\n',
        f'allowListMapping:\n  "{ATTEMPTS},result": "scheduled"\n',
    ],
    ids=["as it is read", "as the help has it"],
)
def test_manifest_sets_allowed_labels(tmp_path: Path, text: str) -> None:
    """In both forms that kube-scheduler's sources and help disagree about."""
    file = tmp_path / "labels.yaml"
    file.write_text(text)
    assert attempts(samples(allow_metric_labels_manifest=str(file))) == {"scheduled": 1, "unexpected": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(None, "no such file or directory", id="missing"),
        pytest.param("{", "is not YAML: ", id="no YAML"),
        pytest.param("[a]", 'expected lines of "metric,label": "value,value"', id="a list"),
        pytest.param("metric: v", "must have keys with format `metricName,labelName`, found 'metric'", id="no label"),
        pytest.param("'m,l': 3", 'expected lines of "metric,label"', id="a number"),
    ],
)
def test_a_manifest_that_cannot_be_used(tmp_path: Path, text: str | None, expected: str) -> None:
    """One line with flag and file."""
    file = tmp_path / "labels.yaml"
    if text is not None:
        file.write_text(text)
    with pytest.raises(ConfigError) as raised:
        view_of(allow_metric_labels_manifest=str(file))
    assert str(raised.value).startswith(f"--allow-metric-labels-manifest: {file}")
    assert expected in str(raised.value)
