"""The metrics page against kube-scheduler's: every family that it was seen to serve, with type, labels and buckets."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.telemetry.families import FAMILIES
from pyscheduler.telemetry.metrics import Metrics

#: As a kube-scheduler 1.36 served them; see the NOTICE beside it.
SEEN = json.loads((Path(__file__).parents[1] / "integration" / "observed" / "metrics.json").read_text())

#: Served at /metrics/resources.
RESOURCES = {"kube_pod_resource_request"}


#: What only opportunistic batching measures, of which there is none; see `test_nothing_is_batched`.
@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """Return the families of a page on which everything was recorded once."""
    metrics = Metrics()
    metrics.attempt(result="scheduled", profile="p", seconds=0.01)
    metrics.pod_scheduled(attempts=2, sli_seconds=0.1)
    metrics.scheduled_after_flush()
    metrics.queue_wait(0.1)
    metrics.algorithm(0.01)
    metrics.extension_point("Filter", status="Success", profile="p", seconds=0.001)
    metrics.plugin("NodeName", "Filter", status="Success", seconds=0.001)
    metrics.permit_wait(result="Success", seconds=1)
    metrics.incoming_pod(queue="active", event="PodAdd")
    metrics.event_handling("NodeAdd", seconds=0.001)
    metrics.queueing_hint(plugin="NodeName", event="NodeAdd", hint="Queue", seconds=0.001)
    metrics.preemption_attempt()
    metrics.preemption_victims(3)
    metrics.preemption_run(result="success", seconds=0.1)
    metrics.group_attempt(result="scheduled", profile="p", seconds=0.01)
    metrics.group_algorithm(0.01)
    metrics.volume_stage_failed("bind")
    metrics.device_wait(profile="p", driver="gpu.example.com", status="success", seconds=0.5)
    metrics.device_wait_ended(profile="p", driver="gpu.example.com", status="success")
    metrics.claim_created(succeeded=True)
    metrics.node_hint(profile="p", hinted=False, seconds=0.00001)
    metrics.batch_attempt(profile="p", result="no_hint")
    metrics.batch_flushed(profile="p", reason="expired")
    metrics.batch_stored(profile="p", seconds=0.00001)
    metrics.request("POST", "api:6443", code="201", seconds=0.002, sent=300, received=70)
    metrics.request_retried("POST", "api:6443", code="429")
    metrics.request_throttled("POST", "api:6443", seconds=0.0)
    metrics.certificate_rotated(86400.0)
    metrics.warning("plugin_error")
    labels = {name: tuple((label, "x") for label in family.labels) for name, family in FAMILIES.items()}
    for name, family in FAMILIES.items():
        if family.kind == "gauge":
            metrics.gauge(name, lambda name=name: {labels[name]: 1.0})  # type: ignore[misc]  # mypy and default values
    for name in ("scheduler_plugin_evaluation_total", "rest_client_transport_create_calls_total"):
        metrics.counter(name, lambda name=name: {labels[name]: 1.0})  # type: ignore[misc]  # mypy and default values
    metrics.counter("rest_client_transport_cert_rotation_gc_calls_total", lambda: {(): 0.0})
    text, _ = metrics.render()
    return {
        family.name + ("_total" if family.type == "counter" else ""): family
        for family in text_string_to_metric_families(text.decode())
    }


@pytest.mark.parametrize("seen", [pytest.param(seen, id=seen["name"]) for seen in SEEN])
def test_as_kube_scheduler_has_it(seen: dict[str, Any]) -> None:
    """Dashboards and alerts written for kube-scheduler work."""
    name = seen["name"]
    if name in RESOURCES:
        assert name not in FAMILIES
        return
    family = FAMILIES[name]
    assert (family.kind, family.stability) == (seen["type"], seen["stability"])
    assert set(family.labels) == set(seen["labels"])
    assert [*family.bounds, float("inf")] == pytest.approx([float(bound) for bound in seen["buckets"] or ["inf"]])


@pytest.mark.parametrize("name", sorted(FAMILIES))
def test_every_family_is_on_the_page(page: dict[str, Any], name: str) -> None:
    """What was recorded is served with type, help, labels and buckets of its family."""
    family, shown = FAMILIES[name], page[name]
    assert (shown.type, shown.documentation) == (family.kind, family.description)
    assert {label for sample in shown.samples for label in sample.labels} - {"le"} == set(family.labels)
    found = [float(sample.labels["le"]) for sample in shown.samples if "le" in sample.labels]
    assert found == pytest.approx([*family.bounds, float("inf")] if family.bounds else [])


def test_no_family_is_on_the_page_that_is_not_known(page: dict[str, Any]) -> None:
    """Names are kept in one place."""
    assert set(page) == set(FAMILIES)


def test_what_has_no_labels_is_there_from_the_beginning() -> None:
    """An alert on a rate needs the zero before the first event."""
    text, _ = Metrics().render()
    shown = {line.split(" ")[0] for line in text.decode().splitlines() if not line.startswith("#")}
    assert {"scheduler_preemption_attempts_total", "scheduler_preemption_victims_count"} <= shown
    assert {"scheduler_pod_scheduled_after_flush_total", "scheduler_pod_scheduling_attempts_sum"} <= shown
    assert "scheduler_schedule_attempts_total" not in shown


def test_bounds_of_buckets_are_written_as_there() -> None:
    """Sums by `le` over this scheduler and kube-scheduler meet; what a label's value says is left alone."""
    metrics = Metrics()
    metrics.preemption_victims(3)
    metrics.request("POST", 'x{le="1.0"}', code="201", seconds=0.002, sent=300, received=70)
    text = metrics.render()[0].decode()
    assert 'scheduler_preemption_victims_bucket{le="4"} 1.0\n' in text
    assert {'le="0.005"', 'le="64"', 'le="1.6777216e+07"', 'le="+Inf"'} <= set(re.findall(r'le="[^"]+"', text))
    assert r'host="x{le=\"1.0\"}"' in text


def test_the_process_is_shown_where_one_asks_for_it() -> None:
    """Memory, CPU and files, under the names that every Prometheus knows."""
    metrics = Metrics()
    assert "process_" not in metrics.render()[0].decode()
    metrics.show_process()
    text, kind = metrics.render()
    shown = set(re.findall("^[a-z_]+", text.decode(), re.MULTILINE))
    assert {"process_cpu_seconds_total", "process_resident_memory_bytes"} <= shown
    assert kind.startswith("text/plain; version=0.0.4;")
