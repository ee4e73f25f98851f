"""Defaults: what a client finds in an object that it did not write there."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
LOST = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]


def box(name: str = "c", image: str = "busybox", **resources: Any) -> dict[str, Any]:
    """Return a container with resources."""
    return {"name": name, "image": image, "resources": resources}


@pytest.mark.parametrize(
    ("tolerations", "added"),
    [
        pytest.param([{"operator": "Exists"}], [], id="everything is tolerated"),
        pytest.param([{"key": LOST[0], "operator": "Exists", "effect": "NoExecute"}], [LOST[1]], id="one is"),
        pytest.param([{"key": LOST[0], "operator": "Exists", "effect": "NoSchedule"}], LOST, id="another effect"),
    ],
)
async def test_tolerations_of_lost_nodes(api: Any, pod: Any, tolerations: Any, added: list[str]) -> None:
    """A toleration of its own keeps the usual five minutes away."""
    created = await api.ok("POST", PODS, pod("p", tolerations=tolerations))
    assert [one["key"] for one in created["spec"]["tolerations"][len(tolerations) :]] == added


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        pytest.param("busybox", "Always", id="no tag"),
        pytest.param("busybox:latest", "Always", id="latest"),
        pytest.param("busybox:1.36", "IfNotPresent", id="tag"),
        pytest.param("registry:5000/busybox", "Always", id="port is no tag"),
        pytest.param("busybox@sha256:0", "IfNotPresent", id="digest"),
    ],
)
async def test_image_pull_policy_follows_the_tag(api: Any, pod: Any, image: str, policy: str) -> None:
    """An image that may move is always pulled."""
    created = await api.ok("POST", PODS, pod("p", containers=[box(image=image)]))
    assert created["spec"]["containers"][0]["imagePullPolicy"] == policy


async def test_requests_default_to_limits(api: Any, pod: Any) -> None:
    """What is limited and not asked for is asked for; in init containers and for the pod as a whole as well."""
    limited = box(limits={"cpu": "2", "memory": "1Gi"}, requests={"cpu": "1"})
    created = await api.ok(
        "POST", PODS, pod("p", containers=[limited], initContainers=[limited], resources={"limits": {"cpu": "3"}})
    )
    spec = created["spec"]
    for container in (spec["containers"][0], spec["initContainers"][0]):
        assert container["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert spec["resources"]["requests"] == {"cpu": "3"}


async def test_host_ports_follow_the_host_network(api: Any, pod: Any) -> None:
    """On the host's network every container port is a host port, and TCP unless it says otherwise."""
    ports = [{"containerPort": 80}, {"containerPort": 53, "protocol": "UDP", "hostPort": 53}]
    created = await api.ok("POST", PODS, pod("p", hostNetwork=True, containers=[{**box(), "ports": ports}]))
    assert created["spec"]["containers"][0]["ports"] == [
        {"containerPort": 80, "protocol": "TCP", "hostPort": 80},
        {"containerPort": 53, "protocol": "UDP", "hostPort": 53},
    ]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"containers": [box()]}, "BestEffort", id="nothing asked"),
        pytest.param({"containers": [box(requests={"cpu": "0"})]}, "BestEffort", id="zero asked"),
        pytest.param({"containers": [box(requests={"example.com/gpu": 1})]}, "BestEffort", id="only devices"),
        pytest.param({"containers": [box(requests={"cpu": "1"})]}, "Burstable", id="requests"),
        pytest.param({"containers": [box(limits={"cpu": "1"})]}, "Burstable", id="one limit"),
        pytest.param({"containers": [box(limits={"cpu": "1", "memory": "1"})]}, "Guaranteed", id="both limits"),
        pytest.param(
            {"containers": [box(limits={"cpu": "1", "memory": "1Ki"}, requests={"cpu": "1000m", "memory": "1024"})]},
            "Guaranteed",
            id="equal in other words",
        ),
        pytest.param(
            {"containers": [box(limits={"cpu": "1", "memory": "1"}), box("d")]}, "Burstable", id="one without"
        ),
        pytest.param(
            {"containers": [box()], "resources": {"limits": {"cpu": "1", "memory": "1"}}}, "Guaranteed", id="pod-level"
        ),
    ],
)
async def test_quality_of_service(api: Any, pod: Any, spec: Any, expected: str) -> None:
    """The class follows requests and limits of CPU and memory."""
    created = await api.ok("POST", PODS, pod("p", **spec))
    assert created["status"]["qosClass"] == expected


async def test_label_keys_become_part_of_selectors(api: Any, pod: Any) -> None:
    """Label keys to match or mismatch are merged into the selectors beside them, where the pod has them."""
    term = {
        "topologyKey": "zone",
        "labelSelector": {"matchLabels": {"app": "t"}},
        "matchLabelKeys": ["hash", "missing"],
        "mismatchLabelKeys": ["app"],
    }
    affinity = {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [dict(term)]},
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "podAffinityTerm": dict(term)}]
        },
    }
    spread = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["hash"]}
    created = await api.ok(
        "POST",
        PODS,
        pod(
            "p",
            labels={"app": "t", "hash": "h"},
            affinity=affinity,
            topologySpreadConstraints=[spread, {**spread, "labelSelector": {}}],
        ),
    )
    spec = created["spec"]
    expected = [
        {"key": "hash", "operator": "In", "values": ["h"]},
        {"key": "app", "operator": "NotIn", "values": ["t"]},
    ]
    [required] = spec["affinity"]["podAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    [preferred] = spec["affinity"]["podAntiAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert required["labelSelector"]["matchExpressions"] == expected
    assert preferred["podAffinityTerm"]["labelSelector"]["matchExpressions"] == expected
    without, with_selector = spec["topologySpreadConstraints"]
    assert "labelSelector" not in without
    assert with_selector["labelSelector"]["matchExpressions"] == expected[:1]


async def test_nodes_can_allocate_what_they_have(api: Any) -> None:
    """A node that names only its capacity offers all of it; what it says itself stays."""
    created = await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    assert created["status"]["allocatable"] == {"cpu": "4"}
    status = {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "3"}}
    created = await api.ok("POST", "/api/v1/nodes", {"metadata": {"name": "m"}, "status": status})
    assert created["status"]["allocatable"] == {"cpu": "3"}


@pytest.mark.parametrize(
    ("path", "manifest", "expected"),
    [
        pytest.param(
            "/api/v1/persistentvolumes",
            {"metadata": {"name": "v"}, "status": {"phase": "Bound"}},
            {
                "spec": {"persistentVolumeReclaimPolicy": "Retain", "volumeMode": "Filesystem"},
                "status": {"phase": "Pending"},
            },
            id="volume",
        ),
        pytest.param(
            "/api/v1/namespaces/default/persistentvolumeclaims",
            {"metadata": {"name": "c"}},
            {"spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"}},
            id="claim",
        ),
        pytest.param(
            "/apis/storage.k8s.io/v1/storageclasses",
            {"metadata": {"name": "s"}, "provisioner": "x"},
            {"provisioner": "x", "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate"},
            id="storage class",
        ),
        pytest.param(
            "/apis/scheduling.k8s.io/v1/priorityclasses",
            {"metadata": {"name": "s"}, "value": 5},
            {"value": 5, "preemptionPolicy": "PreemptLowerPriority"},
            id="priority class",
        ),
        pytest.param(
            "/apis/apps/v1/namespaces/default/replicasets",
            {"metadata": {"name": "r"}, "spec": {"replicas": 2}, "status": {"replicas": 9}},
            {"spec": {"replicas": 2}, "status": {"replicas": 0}},
            id="replica set",
        ),
    ],
)
async def test_other_kinds(api: Any, path: str, manifest: Any, expected: Any) -> None:
    """What other kinds are born with."""
    created = await api.ok("POST", path, manifest)
    assert {
        name: value for name, value in created.items() if name not in ("kind", "apiVersion", "metadata")
    } == expected


async def test_priority_comes_from_the_class(api: Any, pod: Any) -> None:
    """A named class gives priority and preemption policy; a name nobody knows is forbidden."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    await api.ok("POST", classes, {"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"})
    created = await api.ok("POST", PODS, pod("p", priorityClassName="high"))
    assert (created["spec"]["priority"], created["spec"]["preemptionPolicy"]) == (1000, "Never")
    critical = await api.ok("POST", PODS, pod("c", priorityClassName="system-node-critical"))
    assert critical["spec"]["priority"] == 2_000_001_000
    assert await api.refused("POST", PODS, pod("q", priorityClassName="none")) == (
        403,
        "Forbidden",
        'pods "q" is forbidden: no PriorityClass with name none was found',
    )
    status, _, message = await api.refused("POST", PODS, pod("q", priorityClassName="high", priority=1))
    assert status == 403
    assert "the integer value of priority (1) must not be provided in pod spec" in message


async def test_the_default_priority_class(api: Any, pod: Any) -> None:
    """Without a name the default class counts, from the moment it is there until it is gone; given numbers stay."""
    classes = "/apis/scheduling.k8s.io/v1/priorityclasses"
    assert (await api.ok("POST", PODS, pod("before")))["spec"]["priority"] == 0
    await api.ok("POST", classes, {"metadata": {"name": "usual"}, "value": 7, "globalDefault": True})
    with_class = (await api.ok("POST", PODS, pod("during")))["spec"]
    assert (with_class["priorityClassName"], with_class["priority"]) == ("usual", 7)
    assert (await api.ok("POST", PODS, pod("own", priority=3)))["spec"]["priority"] == 3
    await api.ok("DELETE", f"{classes}/usual")
    assert (await api.ok("POST", PODS, pod("after")))["spec"]["priority"] == 0
