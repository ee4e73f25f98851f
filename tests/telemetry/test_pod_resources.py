"""The page /metrics/resources: what every pod requests and may use."""

from __future__ import annotations

import json
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from pyscheduler.api import Pod
from pyscheduler.telemetry.pod_resources import LIMIT, REQUEST, render_pod_resources
from pyscheduler.testing import make_pod
from tests.malformed import bad_pod

SEEN = {
    family["name"]: family
    for family in json.loads((Path(__file__).parents[1] / "integration" / "observed" / "metrics.json").read_text())
}


def page(*pods: Pod) -> dict[str, dict[tuple[str, str], float]]:
    """Return the values by family, pod and resource; every line has all labels."""
    found: dict[str, dict[tuple[str, str], float]] = {}
    for family in text_string_to_metric_families(render_pod_resources(pods)[0].decode()):
        assert set(family.samples[0].labels) == set(REQUEST.labels)
        found[family.name] = {
            (sample.labels["pod"], sample.labels["resource"]): sample.value for sample in family.samples
        }
    return found


def test_the_family_is_kube_schedulers() -> None:
    """Name, type, stability and labels are those that were seen; the values of the record come out."""
    seen = SEEN[REQUEST.name]
    assert (REQUEST.kind, REQUEST.stability, set(REQUEST.labels)) == (
        seen["type"],
        seen["stability"],
        set(seen["labels"]),
    )
    pod = make_pod(
        "filler-0",
        requests={"cpu": "3"},
        scheduler_name="default-scheduler",
        node_name="node-00004",
        spec={"priority": 0},
    )
    (family,) = text_string_to_metric_families(render_pod_resources([pod])[0].decode())
    assert family.documentation == REQUEST.description
    (sample,) = family.samples
    assert sample.value == 3.0
    for label, value in sample.labels.items():
        assert value in seen["labels"][label]


def test_units_and_amounts() -> None:
    """Cores may be fractions; bytes and pieces are whole; zeros are left out."""
    wanted = {"cpu": "100m", "memory": "1Gi", "example.com/gpu": "2", "hugepages-2Mi": "4Mi", "pods": "0"}
    text = render_pod_resources([make_pod("p", requests=wanted)])[0].decode()
    assert page(make_pod("p", requests=wanted)) == {
        REQUEST.name: {
            ("p", "cpu"): 0.1,
            ("p", "memory"): 2.0**30,
            ("p", "example.com/gpu"): 2.0,
            ("p", "hugepages-2Mi"): 4.0 * 2**20,
        }
    }
    units = {
        line.split('resource="')[1].split('"')[0]: line.split('unit="')[1].split('"')[0]
        for line in text.splitlines()
        if "unit=" in line
    }
    assert units == {"cpu": "cores", "memory": "bytes", "example.com/gpu": "", "hugepages-2Mi": "bytes"}
    assert 'priority="",' in text


def test_limits_have_a_family_of_their_own() -> None:
    """What a pod may use stands beside what it requests."""
    limited = {"name": "c", "resources": {"requests": {"cpu": "1"}, "limits": {"cpu": "2", "memory": "1Mi"}}}
    assert page(make_pod("p", spec={"containers": [limited]})) == {
        REQUEST.name: {("p", "cpu"): 1.0},
        LIMIT.name: {("p", "cpu"): 2.0, ("p", "memory"): 2.0**20},
    }


def test_terminated_and_unreadable_pods_are_omitted() -> None:
    """A pod that has ended on its node, one without requests, and one whose amounts cannot be read."""
    found = page(
        make_pod("ended", requests={"cpu": "1"}, node_name="n", status={"phase": "Succeeded"}),
        make_pod("plain"),
        bad_pod("bad", {"cpu": "lots"}),
        make_pod("good", requests={"cpu": "1"}),
    )
    assert found == {REQUEST.name: {("good", "cpu"): 1.0}}
    assert render_pod_resources([])[0] == b""


def test_names_are_escaped() -> None:
    """Quotes, backslashes and newlines in what users write stay within their label."""
    name = 'a"b\\c\nd'
    assert page(make_pod("p", namespace=name, requests={name: "1"}))[REQUEST.name] == {("p", name): 1.0}
