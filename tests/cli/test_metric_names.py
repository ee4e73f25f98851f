"""The metrics page against kube-scheduler's: names, types, labels and buckets of what both record."""

from __future__ import annotations

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.telemetry.metrics import Metrics


def doubling(start: float, count: int, factor: float = 2.0) -> list[float]:
    """Return bucket bounds, the last of them infinite."""
    return [start * factor**power for power in range(count)] + [float("inf")]


ATTEMPT = doubling(0.001, 15)
POINT = doubling(0.0001, 12)

#: As a kube-scheduler 1.36 serves them.
FACTS = [
    ("scheduler_schedule_attempts_total", "counter", {"result", "profile"}, []),
    ("scheduler_queue_incoming_pods_total", "counter", {"event", "queue"}, []),
    ("scheduler_pending_pods", "gauge", {"queue"}, []),
    ("scheduler_scheduling_attempt_duration_seconds", "histogram", {"result", "profile"}, ATTEMPT),
    ("scheduler_scheduling_algorithm_duration_seconds", "histogram", set(), ATTEMPT),
    (
        "scheduler_framework_extension_point_duration_seconds",
        "histogram",
        {"extension_point", "status", "profile"},
        POINT,
    ),
    (
        "scheduler_plugin_execution_duration_seconds",
        "histogram",
        {"plugin", "extension_point", "status"},
        doubling(0.00001, 20, 1.5),
    ),
    ("scheduler_permit_wait_duration_seconds", "histogram", {"result"}, ATTEMPT),
    ("scheduler_pod_scheduling_attempts", "histogram", set(), doubling(1, 5)),
    ("scheduler_pod_scheduling_sli_duration_seconds", "histogram", {"attempts"}, doubling(0.01, 20)),
    ("scheduler_event_handling_duration_seconds", "histogram", {"event"}, POINT),
    ("scheduler_queueing_hint_execution_duration_seconds", "histogram", {"plugin", "event", "hint"}, POINT),
]


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """Return the families of a page on which everything was recorded once."""
    metrics = Metrics()
    metrics.attempt(result="scheduled", profile="p", seconds=0.01)
    metrics.pod_scheduled(attempts=2, sli_seconds=0.1)
    metrics.algorithm(0.01)
    metrics.extension_point("Filter", status="Success", profile="p", seconds=0.001)
    metrics.plugin("NodeName", "Filter", status="Success", seconds=0.001)
    metrics.permit_wait(result="Success", seconds=1)
    metrics.incoming_pod(queue="active", event="PodAdd")
    metrics.event_handling("NodeAdd", seconds=0.001)
    metrics.queueing_hint(plugin="NodeName", event="NodeAdd", hint="Queue", seconds=0.001)
    metrics.gauge("scheduler_pending_pods", lambda: {(("queue", "active"),): 1.0})
    text, _ = metrics.render()
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(text.decode())
    }


@pytest.mark.parametrize(("name", "kind", "labels", "buckets"), FACTS, ids=[fact[0] for fact in FACTS])
def test_as_kube_scheduler_has_it(
    page: dict[str, Any], name: str, kind: str, labels: set[str], buckets: list[float]
) -> None:
    """Dashboards and alerts written for kube-scheduler work."""
    family = page[name]
    assert family.type == kind
    assert {label for sample in family.samples for label in sample.labels} - {"le"} == labels
    found = [float(sample.labels["le"]) for sample in family.samples if "le" in sample.labels]
    assert found == pytest.approx(buckets)
