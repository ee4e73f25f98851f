"""Updates taken apart into cluster events.

The cases marked `observed` are changes for which kube-scheduler 1.36 itself was asked, in smaller objects.
"""

from __future__ import annotations

import msgspec
import pytest

from pyscheduler.api import Node, Pod
from pyscheduler.framework.changes import node_changes, pod_changes


def node(*, spec: object = None, status: object = None, **metadata: object) -> Node:
    """Make a node as it comes from the wire."""
    return msgspec.convert({"metadata": metadata, "spec": spec or {}, "status": status or {}}, Node)


def pod(*, spec: object = None, status: object = None, cpu: str = "", in_force: str = "", **metadata: object) -> Pod:
    """Make a pod as it comes from the wire; its container requests `cpu`, of which the node has `in_force`."""
    fields = {"metadata": metadata, "spec": {**(spec or {})}, "status": {**(status or {})}}
    if cpu:
        fields["spec"]["containers"] = [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]
    if in_force:
        requests = {"cpu": in_force}
        fields["status"]["containerStatuses"] = [
            {"name": "c", "allocatedResources": requests, "resources": {"requests": requests}}
        ]
    return msgspec.convert(fields, Pod)


READY = [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]
MAINTENANCE = {"key": "example.com/maint", "value": "true", "effect": "NoSchedule"}
CORDONED = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("old", "new", "labels"),
    [
        pytest.param(
            node(status={"allocatable": {"cpu": "2"}}),
            node(status={"allocatable": {"cpu": "2", "example.com/fpga": "1"}}),
            ["NodeUpdateNodeAllocatable"],
            id="a new resource",
        ),
        pytest.param(
            node(status={"allocatable": {"cpu": "2", "memory": "1Gi"}}),
            node(status={"allocatable": {"cpu": "2000m", "memory": "1024Mi"}}),
            [],
            id="the same amounts in other words",
        ),
        pytest.param(
            node(status={"allocatable": {"cpu": "two"}}),
            node(status={"allocatable": {"cpu": "2"}}),
            ["NodeUpdateNodeAllocatable"],
            id="an amount that cannot be read",
        ),
        pytest.param(
            node(status={"capacity": {"cpu": "2"}}),
            node(status={"capacity": {"cpu": "3"}}),
            [],
            id="capacity",
        ),
        pytest.param(
            node(spec={"taints": [MAINTENANCE, CORDONED]}),
            node(spec={"taints": [CORDONED, MAINTENANCE]}),
            ["NodeUpdateNodeTaint"],
            id="taints in another order",
        ),
        pytest.param(
            node(spec={"unschedulable": True, "taints": [CORDONED]}),
            node(),
            ["NodeUpdateNodeTaint", "NodeUpdateNodeTaint"],
            id="observed: uncordoned, taint and all, is told twice",
        ),
        pytest.param(node(), node(spec={"unschedulable": True}), [], id="cordoned helps nobody"),
        pytest.param(
            node(status={"conditions": READY}),
            node(status={"conditions": [{**READY[0], "message": "still fine"}]}),
            [],
            id="the wording of a condition",
        ),
        pytest.param(
            node(spec={"unschedulable": True, "taints": [CORDONED]}),
            node(
                labels={"rack": "r2"},
                annotations={"a": "b"},
                status={"allocatable": {"cpu": "1"}, "conditions": READY, "declaredFeatures": ["A"]},
            ),
            [
                "NodeUpdateNodeTaint",
                "NodeUpdateNodeAllocatable",
                "NodeUpdateNodeLabel",
                "NodeUpdateNodeTaint",
                "NodeUpdateNodeCondition",
                "NodeUpdateNodeAnnotation",
                "NodeUpdateNodeDeclaredFeature",
            ],
            id="everything at once, in kube-scheduler's order",
        ),
    ],
)
def test_events_of_a_node(old: Node, new: Node, labels: list[str]) -> None:
    """What changed is named, in order; what pods cannot wait for is not."""
    assert [event.label for event in node_changes(old, new)] == labels


GATES = {"schedulingGates": [{"name": "a"}, {"name": "b"}]}
ONE_GATE = {"schedulingGates": [{"name": "a"}]}
CLAIMS = [{"name": "c", "resourceClaimName": "c-1"}, {"name": "d", "resourceClaimName": "d-1"}]
EXTENDED_CLAIM = {
    "requestMappings": [{"containerName": "c", "resourceName": "example.com/gpu", "requestName": "r"}],
    "resourceClaimName": "e-1",
}


@pytest.mark.parametrize(
    ("old", "new", "actions"),
    [
        pytest.param(pod(labels={"a": "b"}), pod(labels={"a": "c"}), ["UpdatePodLabel"], id="observed: labels"),
        pytest.param(pod(cpu="100m"), pod(cpu="101m"), ["Update"], id="a larger request"),
        pytest.param(pod(cpu="1"), pod(cpu="1000m"), ["Update"], id="the same request in other words"),
        pytest.param(pod(cpu="1"), pod(), ["UpdatePodScaleDown"], id="a request less"),
        pytest.param(
            pod(cpu="1", labels={"a": "b"}),
            pod(cpu="500m"),
            ["UpdatePodLabel", "UpdatePodScaleDown"],
            id="labels and request",
        ),
        pytest.param(pod(cpu="1Q"), pod(cpu="1"), ["Update"], id="a request that cannot be read"),
        pytest.param(pod(spec=GATES), pod(spec=ONE_GATE), ["Update"], id="a gate is left"),
        pytest.param(
            pod(),
            pod(status={"resourceClaimStatuses": CLAIMS}),
            ["UpdatePodGeneratedResourceClaim"],
            id="claims were generated",
        ),
        pytest.param(
            pod(status={"resourceClaimStatuses": CLAIMS}),
            pod(status={"resourceClaimStatuses": CLAIMS[::-1]}),
            ["UpdatePodGeneratedResourceClaim"],
            id="claims in another order",
        ),
        pytest.param(
            pod(),
            pod(status={"extendedResourceClaimStatus": EXTENDED_CLAIM}),
            ["UpdatePodGeneratedResourceClaim"],
            id="a claim for an extended resource",
        ),
        pytest.param(pod(), pod(annotations={"a": "b"}), ["Update"], id="observed: annotations"),
        pytest.param(pod(), pod(), ["Update"], id="nothing"),
        pytest.param(
            pod(cpu="2", in_force="2"), pod(cpu="1", in_force="2"), ["Update"], id="the node has yet to resize the pod"
        ),
        pytest.param(
            pod(cpu="1", in_force="2"), pod(cpu="1", in_force="1"), ["UpdatePodScaleDown"], id="the node has resized it"
        ),
    ],
)
@pytest.mark.parametrize("node_name", ["", "n1"], ids=["waiting", "assigned"])
def test_events_of_a_pod(old: Pod, new: Pod, actions: list[str], node_name: str) -> None:
    """What changed is named, in order, for pods with and without a node; else it is an update in general."""
    kind = "AssignedPod" if node_name else "UnschedulablePod"
    changes = pod_changes(old.with_node_name(node_name), new.with_node_name(node_name))
    assert [event.label for event in changes] == [f"{kind}{action}" for action in actions]
    assert {event.resource for event in changes} == {kind}


def test_a_pod_that_got_a_node_is_an_assigned_one() -> None:
    """The new version says which kind of pod the event is about."""
    [event] = pod_changes(pod(), pod().with_node_name("n1"))
    assert event.label == "AssignedPodUpdate"


def test_events_are_made_once() -> None:
    """The same change is the same object, so that comparing and filing events is quick."""
    [one] = pod_changes(pod(), pod())
    [other] = pod_changes(pod(), pod())
    assert one is other
