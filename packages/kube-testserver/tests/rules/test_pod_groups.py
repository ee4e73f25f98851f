"""Workload and PodGroup of `scheduling.k8s.io/v1alpha2` in the embedded API server: served on request, and checked."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_objects.errors import APIError
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.virtual_time import VirtualClock

GANG = {"gang": {"minCount": 2}}


def cluster() -> EmbeddedCluster:
    """Return a server that serves them."""
    return EmbeddedCluster(clock=VirtualClock(), rng=random.Random(1), pod_groups=True)


def pod_group(**spec: Any) -> dict[str, Any]:
    """Return a PodGroup."""
    return {
        "apiVersion": "scheduling.k8s.io/v1alpha2",
        "kind": "PodGroup",
        "metadata": {"name": "g", "namespace": "default"},
        "spec": spec,
    }


def workload(*templates: dict[str, Any]) -> dict[str, Any]:
    """Return a Workload."""
    return {**pod_group(podGroupTemplates=list(templates)), "kind": "Workload"}


@pytest.mark.parametrize(
    "manifest",
    [
        pytest.param(pod_group(schedulingPolicy=GANG), id="gang"),
        pytest.param(pod_group(schedulingPolicy={"basic": {}}, priority=5), id="basic"),
        pytest.param(workload({"name": "w", "schedulingPolicy": GANG}), id="workload"),
    ],
)
def test_valid_objects_are_stored(manifest: dict[str, Any]) -> None:
    """And comes back as it was."""
    server = cluster()
    server.add(manifest)
    (stored,) = server.objects(manifest["apiVersion"], manifest["kind"])
    assert stored["spec"] == manifest["spec"]


@pytest.mark.parametrize(
    ("manifest", "why"),
    [
        pytest.param(
            pod_group(),
            'spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`',
            id="no policy",
        ),
        pytest.param(
            pod_group(schedulingPolicy={"basic": {}, **GANG}),
            'spec.schedulingPolicy: Invalid value: "{`basic`, `gang`}": must specify exactly one of: `basic`, `gang`',
            id="two policies",
        ),
        pytest.param(
            pod_group(schedulingPolicy={"gang": {"minCount": 0}}),
            "spec.schedulingPolicy.gang.minCount: Required value",
            id="no minimum",
        ),
        pytest.param(
            pod_group(schedulingPolicy={"gang": {"minCount": -1}}),
            "spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1",
            id="negative minimum",
        ),
        pytest.param(
            pod_group(schedulingPolicy={"gang": {"minCount": "two"}}),
            "cannot unmarshal string into Go struct field PodGroup.spec.schedulingPolicy.gang.minCount of type number",
            id="a word",
        ),
        pytest.param(
            pod_group(schedulingPolicy=GANG, schedulingConstraints={"topology": [{"key": "a"}, {"key": "b"}]}),
            "spec.schedulingConstraints.topology: Too many: 2: must have at most 1 item",
            id="two topologies",
        ),
        pytest.param(
            pod_group(schedulingPolicy=GANG, disruptionMode="Workload"),
            'spec.disruptionMode: Unsupported value: "Workload": supported values: "Pod", "PodGroup"',
            id="an unknown disruption mode",
        ),
        pytest.param(
            pod_group(schedulingPolicy=GANG, priority=1_000_000_001),
            "spec.priority: Invalid value: 1000000001: must be less than or equal to 1000000000",
            id="a priority of the system",
        ),
        pytest.param(
            pod_group(schedulingPolicy=GANG, priorityClassName="none"),
            'podgroups.scheduling.k8s.io "g" is forbidden: no PriorityClass with name none was found',
            id="an unknown class",
        ),
        pytest.param(
            pod_group(schedulingPolicy=GANG, priorityClassName="system-node-critical", priority=5),
            "priority set in the pod group (5) must match the priority computed (2000001000) based on the priority "
            "class set in the spec",
            id="a priority that is not the class's",
        ),
        pytest.param(workload(), "spec.podGroupTemplates: Required value", id="no templates"),
        pytest.param(
            workload(*[{"name": f"t{number}", "schedulingPolicy": GANG} for number in range(9)]),
            "spec.podGroupTemplates: Too many: 9: must have at most 8 items",
            id="nine templates",
        ),
        pytest.param(
            workload({"schedulingPolicy": GANG}),
            "spec.podGroupTemplates[0].name: Required value",
            id="a template without a name",
        ),
        pytest.param(
            workload({"name": "t", "schedulingPolicy": GANG}, {"name": "t", "schedulingPolicy": GANG}),
            'spec.podGroupTemplates[1]: Duplicate value: "t"',
            id="two templates of one name",
        ),
    ],
)
def test_invalid_objects_are_refused(manifest: dict[str, Any], why: str) -> None:
    """With the field, and what is wrong with it."""
    with pytest.raises(APIError) as caught:
        cluster().add(manifest)
    assert why in str(caught.value)


@pytest.mark.parametrize("is_default", [False, True])
def test_the_priority_comes_from_the_class(is_default: bool) -> None:
    """A PodGroup gets the priority of the class that it names, or of the default class."""
    server = cluster()
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    server.add({**kind, "metadata": {"name": "high"}, "value": 1000, "globalDefault": is_default})
    server.add(pod_group(schedulingPolicy=GANG, **({} if is_default else {"priorityClassName": "high"})))
    (item,) = server.objects("scheduling.k8s.io/v1alpha2", "PodGroup")
    assert (item["spec"]["priority"], item["spec"]["priorityClassName"]) == (1000, "high")


async def test_a_spec_does_not_change(api_of: Any) -> None:
    """Its status does, on its own path."""
    server = cluster()
    server.add(pod_group(schedulingPolicy=GANG))
    api, merge = api_of(server), "application/merge-patch+json"
    path = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups/g"

    changed = {"spec": {"schedulingPolicy": {"gang": {"minCount": 3}}}}
    assert "field is immutable" in (await api.refused("PATCH", path, changed, content_type=merge))[2]
    condition = {"type": "PodGroupScheduled", "status": "True", "reason": "Scheduled", "message": ""}
    await api.ok("PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, content_type=merge)
    (item,) = server.objects("scheduling.k8s.io/v1alpha2", "PodGroup")
    assert item["status"]["conditions"] == [condition]
    assert item["spec"]["schedulingPolicy"] == GANG


def test_without_the_gate_they_are_not_served() -> None:
    """As by a real server with its gates at their defaults."""
    assert EmbeddedCluster(clock=VirtualClock()).table.find_kind("scheduling.k8s.io/v1alpha2", "PodGroup") is None
