"""ResourceQuotas: what is refused, in the API server's words, and what their status says."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kube_objects.errors import APIError
from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.resources.builtin import PODS
from kube_testserver.resources.open_definitions import open_definition
from kube_testserver.rules.quotas.amounts import read
from kube_testserver.virtual_time import VirtualClock

Json = dict[str, Any]


@pytest.fixture
def server() -> EmbeddedCluster:
    """Return a server."""
    return EmbeddedCluster(clock=VirtualClock(), rng=random.Random(3))


def quota(hard: Json, *, name: str = "q", **spec: Any) -> Json:
    """Return a ResourceQuota."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}


def pod(name: str, requests: Json | None = None, limits: Json | None = None, **spec: Any) -> Json:
    """Return a pod with one container."""
    resources = {"requests": requests or {}, "limits": limits or {}}
    containers = [{"name": "c", "image": "i", "resources": resources}]
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def other(api_version: str, kind: str, name: str = "o", **spec: Any) -> Json:
    """Return an object of any kind."""
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, "spec": spec}


def class_scope(**condition: Any) -> Json:
    """Return a selector of scopes with a condition on the PriorityClass."""
    return {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", **condition}]}}


def used(server: EmbeddedCluster, name: str = "q") -> Json:
    """Return `status.used` of a quota."""
    status: Json = server.get("v1", "ResourceQuota", name, namespace="default")["status"]
    return dict(status["used"])


def refusal(server: EmbeddedCluster, obj: Json) -> str:
    """Return the message with which an object is refused (403)."""
    with pytest.raises(APIError) as caught:
        server.add(obj)
    assert (caught.value.status, caught.value.reason) == (403, "Forbidden")
    return str(caught.value)


def finish(server: EmbeddedCluster, name: str) -> None:
    """Let a pod succeed."""
    record = server.registry.get(PODS, "default", name)
    obj = record.decode()
    obj["status"]["phase"] = "Succeeded"
    server.registry.change(PODS, record, obj, subresource="status")


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("0", "0"),
        ("1000", "1k"),
        ("1500", "1500"),
        ("1500m", "1500m"),
        ("2000m", "2"),
        ("0.1", "100m"),
        ("1536Mi", "1536Mi"),
        ("1024Mi", "1Gi"),
        ("0.5Ki", "512"),
        ("1e6", "1M"),
        ("3E", "3E"),
    ],
)
def test_amounts_are_written_in_canonical_form(raw: str, shown: str) -> None:
    """An amount has the largest suffix with which its number is whole."""
    assert str(read(raw)) == shown


def test_pod_beyond_a_quota_is_refused_with_all_exceeded_amounts(server: EmbeddedCluster) -> None:
    """The message names the quota and, in order, what was requested, used and limited."""
    server.add(quota({"pods": "2", "requests.memory": "1Gi", "cpu": "10"}))
    for name in "ab":
        server.add(pod(name, {"cpu": "500m", "memory": "512Mi"}))
    assert refusal(server, pod("x", {"cpu": "1", "memory": "64Mi"})) == (
        'pods "x" is forbidden: exceeded quota: q, requested: pods=1,requests.memory=64Mi, '
        "used: pods=2,requests.memory=1Gi, limited: pods=2,requests.memory=1Gi"
    )
    assert used(server) == {"pods": "2", "requests.memory": "1Gi", "cpu": "1"}


def test_pod_that_does_not_name_a_limited_amount_is_refused(server: EmbeddedCluster) -> None:
    """Each missing amount is listed with its containers; amounts other than CPU and memory need not be named."""
    server.add(quota({"limits.cpu": "1", "requests.memory": "1Gi", "requests.example.com/gpu": "1", "pods": "5"}))
    silent = pod("x")
    silent["spec"]["containers"].append({"name": "b", "image": "i", "resources": {"limits": {"cpu": "1"}}})
    assert refusal(server, silent) == (
        'pods "x" is forbidden: failed quota: q: must specify limits.cpu for: c; requests.memory for: b,c'
    )


def test_extended_resources_are_limited_by_their_requests(server: EmbeddedCluster) -> None:
    """A quota has them as `requests.NAME`."""
    server.add(quota({"requests.example.com/gpu": "3"}))
    gpus = {"example.com/gpu": "2"}
    server.add(pod("a", gpus, gpus))
    assert refusal(server, pod("x", gpus, gpus)) == (
        'pods "x" is forbidden: exceeded quota: q, requested: requests.example.com/gpu=2, '
        "used: requests.example.com/gpu=2, limited: requests.example.com/gpu=3"
    )
    server.add(pod("without"))


def test_ended_and_deleted_pods_give_their_quota_back(server: EmbeddedCluster) -> None:
    """A pod that succeeded counts only for `count/pods`, a deleted one for nothing."""
    server.add(quota({"pods": "1", "count/pods": "2", "requests.cpu": "1"}))
    server.add(pod("a", {"cpu": "1"}))
    finish(server, "a")
    assert used(server) == {"pods": "0", "count/pods": "1", "requests.cpu": "0"}
    server.add(pod("b", {"cpu": "1"}))
    finish(server, "b")
    assert "requested: count/pods=1, used: count/pods=2" in refusal(server, pod("x", {"cpu": "1"}))
    server.remove("v1", "Pod", "a", namespace="default")
    server.add(pod("c", {"cpu": "1"}))
    assert used(server) == {"pods": "1", "count/pods": "2", "requests.cpu": "1"}


@pytest.mark.parametrize(
    ("scope", "inside", "outside"),
    [
        ({"scopes": ["BestEffort"]}, pod("x"), pod("y", {"cpu": "1"})),
        ({"scopes": ["NotBestEffort"]}, pod("x", {"cpu": "1"}), pod("y")),
        ({"scopes": ["Terminating"]}, pod("x", activeDeadlineSeconds=5), pod("y")),
        ({"scopes": ["NotTerminating"]}, pod("x"), pod("y", activeDeadlineSeconds=5)),
        (
            class_scope(operator="In", values=["high"]),
            pod("x", priorityClassName="high"),
            pod("y"),
        ),
        (
            class_scope(operator="DoesNotExist"),
            pod("x"),
            pod("y", priorityClassName="high"),
        ),
    ],
    ids=["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "class in", "no class"],
)
def test_scopes_select_the_pods_that_count(server: EmbeddedCluster, scope: Json, inside: Json, outside: Json) -> None:
    """A pod outside of the scopes is neither counted nor refused."""
    metadata = {"name": "high"}
    server.add({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": metadata, "value": 5})
    server.add(quota({"pods": "0"}, **scope), outside)
    assert used(server) == {"pods": "0"}
    assert "exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0" in refusal(server, inside)


def test_objects_of_any_kind_are_counted(server: EmbeddedCluster) -> None:
    """Also by older names: `services` and `configmaps`."""
    server.add(quota({"count/jobs.batch": "1", "services": "1", "services.nodeports": "0", "count/configmaps": "0"}))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    server.add(other("batch/v1", "Job", template=template), other("v1", "Service", ports=[{"port": 1}]))
    assert refusal(server, other("batch/v1", "Job", "p", template=template)) == (
        'jobs.batch "p" is forbidden: exceeded quota: q, requested: count/jobs.batch=1, used: count/jobs.batch=1, '
        "limited: count/jobs.batch=1"
    )
    nodes = other("v1", "Service", "n", type="NodePort", ports=[{"port": 1}])
    assert "requested: services=1,services.nodeports=1, used: services=1,services.nodeports=0" in refusal(server, nodes)
    assert "count/configmaps=1" in refusal(server, other("v1", "ConfigMap"))


def test_volume_claims_are_limited_by_number_and_storage(server: EmbeddedCluster) -> None:
    """Also by storage class, and when a claim asks for more."""
    server.add(quota({"requests.storage": "3Gi", "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1"}))
    claim = other(
        "v1",
        "PersistentVolumeClaim",
        storageClassName="fast",
        accessModes=["ReadWriteOnce"],
        resources={"requests": {"storage": "2Gi"}},
    )
    server.add(claim)
    again = {**claim, "metadata": {"name": "p", "namespace": "default"}}
    assert refusal(server, again) == (
        'persistentvolumeclaims "p" is forbidden: exceeded quota: q, requested: '
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,requests.storage=2Gi, used: "
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,requests.storage=2Gi, limited: "
        "fast.storageclass.storage.k8s.io/persistentvolumeclaims=1,requests.storage=3Gi"
    )
    resource = server.resource("v1", "PersistentVolumeClaim")
    record = server.registry.get(resource, "default", "o")
    larger = record.decode()
    larger["spec"]["resources"]["requests"]["storage"] = "4Gi"
    with pytest.raises(APIError, match=r"requested: requests\.storage=2Gi, used: requests\.storage=2Gi"):
        server.registry.change(resource, record, larger)


def test_claims_for_devices_are_limited_by_class(server: EmbeddedCluster) -> None:
    """Each request of a claim counts its devices."""
    server.add(quota({"gpu.deviceclass.resource.k8s.io/devices": "2", "count/resourceclaims.resource.k8s.io": "5"}))
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 3}}]
    claim = other("resource.k8s.io/v1", "ResourceClaim", devices={"requests": requests})
    assert "requested: gpu.deviceclass.resource.k8s.io/devices=3, used: gpu" in refusal(server, claim)


def test_a_quota_counts_what_exists_and_follows_its_own_changes(server: EmbeddedCluster) -> None:
    """A new quota counts present pods; a changed limit holds at once, and a status that a client wrote is replaced."""
    server.add(pod("a"), pod("b"), quota({"pods": "3"}))
    assert used(server) == {"pods": "2"}
    resource = server.resource("v1", "ResourceQuota")
    record = server.registry.get(resource, "default", "q")
    changed = record.decode()
    changed["spec"]["hard"] = {"pods": "2", "count/pods": "1000"}
    record = server.registry.change(resource, record, changed)
    stored = server.get("v1", "ResourceQuota", "q", namespace="default")
    assert stored["status"] == {"hard": {"count/pods": "1k", "pods": "2"}, "used": {"count/pods": "2", "pods": "2"}}
    assert "limited: pods=2" in refusal(server, pod("x"))
    record = server.registry.get(resource, "default", "q")
    wrong = record.decode()
    wrong["status"]["used"] = {"pods": "0"}
    server.registry.change(resource, record, wrong, subresource="status")
    assert used(server) == {"count/pods": "2", "pods": "2"}


def test_a_quota_counts_kinds_that_are_defined_after_it(server: EmbeddedCluster) -> None:
    """A CustomResourceDefinition that comes after the quota has its objects counted."""
    server.add(quota({"count/widgets.example.com": "1", "pods": "5"}), pod("a"))
    assert used(server) == {"pods": "1"}
    server.add(open_definition("example.com", "Widget", "widgets", ["v1"]))
    server.add(other("example.com/v1", "Widget"))
    assert used(server) == {"count/widgets.example.com": "1", "pods": "1"}
    assert "exceeded quota: q" in refusal(server, other("example.com/v1", "Widget", "two"))


def test_status_of_a_quota_without_limits_is_the_clients(server: EmbeddedCluster) -> None:
    """It limits nothing."""
    status = {"hard": {"pods": "0"}, "used": {"pods": "0"}}
    metadata = {"name": "q", "namespace": "default"}
    server.add({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "status": status}, pod("a"))
    assert server.get("v1", "ResourceQuota", "q", namespace="default")["status"] == status


def test_used_amounts_equal_a_recount_after_random_writes() -> None:
    """Accounts that follow the log say what a new quota counts; the log forgets changes meanwhile."""
    rng = random.Random(11)
    server = EmbeddedCluster(clock=VirtualClock(), rng=random.Random(3), history_limit=8)
    hard = {"pods": "40", "requests.cpu": "100", "memory": "100Gi", "count/pods": "50"}
    server.add(quota(hard, scopes=[]))
    names: list[str] = []
    finished = 0
    for number in range(300):
        action = rng.choice(("add", "add", "finish", "remove"))
        if action == "add" or not names:
            made = pod(f"p{number}", {"cpu": f"{rng.randint(1, 3000)}m", "memory": f"{rng.randint(1, 900)}Mi"})
            try:
                server.add(made)
            except APIError:
                continue
            names.append(f"p{number}")
        elif action == "finish":
            finish(server, rng.choice(names))
            finished += 1
        else:
            server.remove("v1", "Pod", names.pop(rng.randrange(len(names))), namespace="default")
    server.add(quota(hard, name="fresh"))
    assert used(server) == used(server, "fresh")
    assert finished > 20
    assert len(names) > 20
    server.check_invariants()


def test_dry_run_is_refused_and_counts_nothing(server: EmbeddedCluster) -> None:
    """A dry run passes the same check."""
    server.add(quota({"pods": "1"}))
    server.registry.create(PODS, "default", pod("a"), dry_run=True)
    assert used(server) == {"pods": "0"}
    server.add(pod("a"))
    with pytest.raises(APIError, match="exceeded quota"):
        server.registry.create(PODS, "default", pod("b"), dry_run=True)


def test_unreadable_limit_is_refused(server: EmbeddedCluster) -> None:
    """As with kube-apiserver, a limit that is no quantity cannot be decoded (400)."""
    with pytest.raises(APIError, match="quantities must match the regular expression") as caught:
        server.add(quota({"pods": "many"}))
    assert caught.value.status == 400
