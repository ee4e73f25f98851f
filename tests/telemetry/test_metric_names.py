"""The metrics page against kube-scheduler's: every family that it was seen to serve, with type, labels and buckets."""

from __future__ import annotations

import json
import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

import pyscheduler
from pyscheduler.telemetry.families import FAMILIES, RECORDED
from pyscheduler.telemetry.metric_view import MetricView
from pyscheduler.telemetry.metrics import LinuxProcessCollector, Metrics
from tests import metrics_page

#: As a kube-scheduler 1.36 served them; see the NOTICE beside it.
SEEN = json.loads((Path(__file__).parents[1] / "integration" / "observed" / "metrics.json").read_text())

#: Served at /metrics/resources.
RESOURCES = {"kube_pod_resource_request"}


#: Every family of the main page there, Go's own left out; see the NOTICE beside it.
ALL = (Path(__file__).parent / "families" / "families.txt").read_text().split()
REFERENCE = metrics_page.PAGE.read_text(encoding="utf-8")
#: Counters that are kept elsewhere and read at a scrape.
KEPT_ELSEWHERE = (
    "scheduler_plugin_evaluation_total",
    "rest_client_transport_create_calls_total",
    "pyscheduler_request_window_cuts_total",
    "pyscheduler_kubelet_rejections_total",
    "pyscheduler_plugin_failures_total",
    "pyscheduler_plugin_run_restarts_total",
)


@pytest.fixture(scope="module")
def page() -> dict[str, Any]:
    """Return the families of a page on which everything was recorded once."""
    metrics = Metrics()
    for name, family in FAMILIES.items():
        # The others are recorded by `RequestMetrics`, or read from elsewhere.
        if name in RECORDED or name == "scheduler_podgroup_scheduling_algorithm_duration_seconds":
            values = ("x",) * len(family.labels)
            if family.kind == "counter":
                metrics.count(name, *values)
            else:
                metrics.observe(name, 0.01, *values)
    metrics.warning("plugin_error")
    requests = metrics.request_metrics()
    requests.authenticated(result="success", username="admin", seconds=0.01)
    requests.authorized(result="allowed", seconds=0.01)
    requests.token_looked_up(hit=False, seconds=0.01)
    with requests.fetching_token():
        pass
    requests.certificate_shown(86400.0)
    for kind in ("authn", "authz"):
        requests.reviewed(kind, code="201", seconds=0.01)
    labels = {name: tuple((label, "x") for label in family.labels) for name, family in FAMILIES.items()}
    for name, family in FAMILIES.items():
        if family.kind == "gauge" and name != "authentication_token_cache_active_fetch_count":
            metrics.gauge(name, lambda name=name: {labels[name]: 1.0})  # type: ignore[misc]  # mypy and default values
    for name in KEPT_ELSEWHERE:
        metrics.counter(name, lambda name=name: {labels[name]: 1.0})  # type: ignore[misc]  # mypy and default values
    metrics.counter("rest_client_transport_cert_rotation_gc_calls_total", lambda: {(): 0.0})
    text, _ = metrics.render()
    # The parser takes `_total` from the name of every counter.
    names = re.findall(r"(?m)^# TYPE (\w+) ", text.decode())
    return dict(zip(names, text_string_to_metric_families(text.decode()), strict=True))


def test_families_agree_with_kube_scheduler() -> None:
    """Dashboards and alerts written for kube-scheduler work."""
    assert not RESOURCES & set(FAMILIES)
    for seen in SEEN:
        name = seen["name"]
        if name in RESOURCES:
            continue
        family = FAMILIES[name]
        assert (family.kind, family.stability) == (seen["type"], seen["stability"]), name
        assert set(family.labels) == set(seen["labels"]), name
        bounds = [float(bound) for bound in seen["buckets"] or ["inf"]]
        assert [*family.bounds, float("inf")] == pytest.approx(bounds), name


def test_reference_has_the_table_of_the_families() -> None:
    """Names, types and labels are those of the code; `python -m tests.metrics_page --write` makes the table anew."""
    assert metrics_page.text() == REFERENCE


def reasons() -> list[str]:
    """Return the names and patterns of the families for which the reference says why they are not here."""
    section = REFERENCE.partition("## Metrics that only kube-scheduler has")[2].partition("\n## ")[0]
    rows = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    return [name for row in rows for name in re.findall(r"`([a-z0-9_*]+)`", row)]


def test_family_is_shown_or_listed_with_a_reason() -> None:
    """Every family on kube-scheduler's page is on ours, or the reference says why it is not."""
    patterns = reasons()
    listed = {name for name in ALL if any(fnmatchcase(name, pattern) for pattern in patterns)}
    assert set(ALL) - listed == {name for name in ALL if name in FAMILIES or name.startswith("process_")}


def test_every_reason_names_a_family_of_kube_scheduler() -> None:
    """Each name in the list of reasons matches a family of kube-scheduler's."""
    named = set(reasons()) - {"go_*"}
    assert named
    assert {name for name in named if not any(fnmatchcase(one, name) for one in ALL)} == set()


def test_every_family_is_on_the_page(page: dict[str, Any]) -> None:
    """What was recorded is served with type, help, labels and buckets of its family."""
    for name, family in FAMILIES.items():
        shown = page[name]
        assert (shown.type, shown.documentation) == (family.kind, family.description.rstrip()), name
        assert {label for sample in shown.samples for label in sample.labels} - {"le"} == set(family.labels), name
        found = [float(sample.labels["le"]) for sample in shown.samples if "le" in sample.labels]
        assert found == pytest.approx([*family.bounds, float("inf")] if family.bounds else []), name


def test_page_has_only_known_families(page: dict[str, Any]) -> None:
    """Names are kept in one place."""
    assert set(page) == set(FAMILIES)


def test_code_names_only_families_that_are_recorded() -> None:
    """A wrong name would be an error only where metrics are on."""
    source = "".join(path.read_text() for path in Path(pyscheduler.__file__).parent.rglob("*.py"))
    named = set(re.findall(r'"((?:scheduler|rest_client)_\w+)"', source))
    assert named - set(FAMILIES) <= {"scheduler_name", "scheduler_recorder"}


def test_families_without_labels_start_at_zero() -> None:
    """An alert on a rate needs the zero before the first event."""
    text, _ = Metrics().render()
    shown = {line.split(" ")[0] for line in text.decode().splitlines() if not line.startswith("#")}
    assert {"scheduler_preemption_attempts_total", "scheduler_preemption_victims_count"} <= shown
    assert {"scheduler_pod_scheduled_after_flush_total", "scheduler_pod_scheduling_attempts_sum"} <= shown
    assert "scheduler_schedule_attempts_total" not in shown


def test_bucket_bounds_are_formatted_as_in_go() -> None:
    """Sums by `le` over this scheduler and kube-scheduler meet; what a label's value says is left alone."""
    metrics = Metrics()
    metrics.observe("scheduler_preemption_victims", 3)
    for family in ("rest_client_request_duration_seconds", "rest_client_request_size_bytes"):
        metrics.observe(family, 300, "POST", 'x{le="1.0"}')
    text = metrics.render()[0].decode()
    assert 'scheduler_preemption_victims_bucket{le="4"} 1.0\n' in text
    assert {'le="0.005"', 'le="64"', 'le="1.6777216e+07"', 'le="+Inf"'} <= set(re.findall(r'le="[^"]+"', text))
    assert r'host="x{le=\"1.0\"}"' in text


def test_process_metrics_can_be_added() -> None:
    """Memory, CPU, files, network and Python, under the names that every Prometheus knows."""
    metrics = Metrics()
    assert "process_" not in metrics.render()[0].decode()
    metrics.show_process()
    text, kind = metrics.render()
    shown = set(re.findall("^[a-z_]+", text.decode(), re.MULTILINE))
    assert shown >= {name for name in ALL if name.startswith("process_")}
    assert {"python_info", "python_gc_collections_total"} <= shown
    assert kind.startswith("text/plain; version=0.0.4;")


def test_registered_families_are_counted_by_stability() -> None:
    """Disabled families are counted apart; families of our own have no stability."""
    view = MetricView(
        disabled=frozenset({"scheduler_pending_pods", "no_such_metric", "scheduler_cache_size"}), allowed={}
    )
    found = {}
    for metrics in (Metrics(), Metrics(view=view)):
        metrics.gauge("scheduler_pending_pods", dict)
        text = metrics.render()[0].decode()
        (stable,) = re.findall(
            r'registered_metrics_total\{deprecated_version="",stability_level="STABLE"\} (\d+)', text
        )
        (disabled,) = re.findall(r"(?m)^disabled_metrics_total (\d+)", text)
        found[metrics] = (int(stable), int(disabled))
    (all_of_them, none), (fewer, one) = found.values()
    assert (all_of_them - fewer, none, one) == (1, 0, 1)


def test_users_are_counted_by_category() -> None:
    """A page of metrics tells no names but those that every cluster has."""
    metrics = Metrics()
    requests = metrics.request_metrics()
    for name in ("admin", "jane@example.com", "system:serviceaccount:monitoring:prometheus", "system:anonymous"):
        requests.authenticated(result="success", username=name, seconds=0.001)
    requests.authenticated(result="error", username="", seconds=0.001)
    text = metrics.render()[0].decode()
    assert dict(re.findall(r'authenticated_user_requests\{username="(.+)"\} (\d)', text)) == {
        "admin": "1",
        "email_id": "1",
        "other": "2",
    }
    assert "# TYPE authenticated_user_requests counter\n" in text
    assert 'authentication_attempts{result="error"} 1.0\n' in text


def test_network_octets_come_from_the_line_pair(tmp_path: Path) -> None:
    """Names stand in one line and numbers in the next; where there is no such file, nothing is shown."""
    folder = tmp_path / "self" / "net"
    folder.mkdir(parents=True)
    (folder / "netstat").write_text("TcpExt: A\nTcpExt: 7\nIpExt: InNoRoutes InOctets OutOctets\nIpExt: 0 11 22\n")
    found = {
        sample.name: sample.value
        for metric in LinuxProcessCollector(str(tmp_path)).collect()
        for sample in metric.samples
    }
    assert found["process_network_receive_bytes_total"] == 11
    assert found["process_network_transmit_bytes_total"] == 22
    assert found["process_virtual_memory_max_bytes"] > 0
    assert [metric.name for metric in LinuxProcessCollector(str(tmp_path / "none")).collect()] == [
        "process_virtual_memory_max_bytes"
    ]
