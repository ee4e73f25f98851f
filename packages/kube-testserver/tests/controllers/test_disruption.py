"""The numbers of disruption budgets: what is expected, what is healthy, what may go."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, strategies as st

from kube_testserver.cluster import EmbeddedCluster
from kube_testserver.virtual_time import VirtualClock

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
MERGE = "application/merge-patch+json"
EVICTION = {"metadata": {"name": "w0"}}


def budget(**spec: Any) -> dict[str, Any]:
    """Return a budget for the pods of an application."""
    selector = {"matchLabels": {"app": "w"}}
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": selector, **spec},
    }


def node() -> dict[str, Any]:
    """Return a node with room for many."""
    status = {"allocatable": {"pods": "50"}}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}


def numbers(found: Any) -> tuple[int, int, int, int]:
    """Return what a budget's status counts: expected, healthy, desired, allowed."""
    status = found["status"]
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    expected, healthy, desired, allowed = (status[name] for name in names)
    return expected, healthy, desired, allowed


def owned(pod: Any, name: str, owner: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return a bound pod of the application, with a controller or without."""
    made: dict[str, Any] = pod(name, labels={"app": "w"}, nodeName="n")
    if owner is not None:
        reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "controller": True}
        made["metadata"]["ownerReferences"] = [
            {**reference, "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        ]
    return made


@pytest.fixture
def lifecycle(cluster: Any) -> Any:
    """Yield a running lifecycle on one node."""
    cluster.add(node())
    made = cluster.lifecycle(stop_seconds=5)
    made.start()
    yield made
    made.stop()


def replica_set(cluster: Any, replicas: int, **metadata: Any) -> dict[str, Any]:
    """Create a ReplicaSet."""
    spec = {"replicas": replicas, "selector": {}, "template": {}}
    manifest = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"name": "rs", **metadata}, "spec": spec}
    [made] = cluster.add(manifest)
    return dict(made)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"minAvailable": 1}, (3, 3, 1, 2), id="number at least"),
        pytest.param({"minAvailable": 5}, (3, 3, 5, 0), id="more than there are"),
        pytest.param({"minAvailable": "50%"}, (4, 3, 2, 1), id="share at least"),
        pytest.param({"maxUnavailable": 2}, (4, 3, 2, 1), id="number at most"),
        pytest.param({"maxUnavailable": "30%"}, (4, 3, 2, 1), id="share at most, rounded up"),
        pytest.param({}, (0, 3, 0, 0), id="neither"),
    ],
)
async def test_budget_counts_allowed_disruptions(
    api: Any, cluster: Any, clock: Any, pod: Any, lifecycle: Any, spec: Any, expected: Any
) -> None:
    """Numbers count pods, shares count what their controllers want."""
    owner = replica_set(cluster, 4)
    cluster.add(budget(**spec), *(owned(pod, f"w{number}", owner) for number in range(3)))
    await clock.advance(1)
    found = await api.ok("GET", f"{BUDGETS}/b")
    assert numbers(found) == expected
    [condition] = found["status"]["conditions"]
    wanted = ("True", "SufficientPods") if expected[3] else ("False", "InsufficientPods")
    assert (condition["status"], condition["reason"]) == wanted
    assert found["status"]["observedGeneration"] == 1


async def test_numbers_follow_pods_budgets_and_controllers(
    api: Any, cluster: Any, clock: Any, pod: Any, lifecycle: Any
) -> None:
    """Whatever changes, the status is right a moment later."""
    deployment_spec = {"replicas": 6, "selector": {}, "template": {}}
    [deployment] = cluster.add(
        {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": deployment_spec}
    )
    reference = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d", "uid": deployment["metadata"]["uid"]}
    owner = replica_set(cluster, 2, ownerReferences=[{**reference, "controller": True}])
    cluster.add(budget(maxUnavailable=4), owned(pod, "w0", owner), owned(pod, "w1", owner))
    await clock.advance(1)
    assert numbers(await api.ok("GET", f"{BUDGETS}/b")) == (6, 2, 2, 0)
    scale = "/apis/apps/v1/namespaces/default/deployments/d/scale"
    await api.ok("PATCH", scale, {"spec": {"replicas": 5}}, content_type=MERGE)
    await clock.advance(1)
    assert numbers(await api.ok("GET", f"{BUDGETS}/b")) == (5, 2, 1, 1)
    await api.ok("PATCH", f"{PODS}/w1", {"metadata": {"labels": {"app": "x"}}}, content_type=MERGE)
    await clock.advance(1)
    assert numbers(await api.ok("GET", f"{BUDGETS}/b")) == (5, 1, 1, 0)
    await api.ok("PATCH", f"{BUDGETS}/b", {"spec": {"maxUnavailable": 5}}, content_type=MERGE)
    await clock.advance(1)
    found = await api.ok("GET", f"{BUDGETS}/b")
    assert (numbers(found), found["status"]["observedGeneration"]) == ((5, 1, 0, 1), 2)
    cluster.remove("v1", "Pod", "w0", namespace="default")
    cluster.store.compact()
    await clock.advance(1)
    assert numbers(await api.ok("GET", f"{BUDGETS}/b")) == (0, 0, 0, 0)


async def test_an_evicted_pod_counts_until_it_is_gone(
    api: Any, cluster: Any, clock: Any, pod: Any, lifecycle: Any
) -> None:
    """An eviction uses up what is allowed at once; when the pod is gone, the numbers are those of the others."""
    cluster.add(budget(minAvailable=1), owned(pod, "w0"), owned(pod, "w1"))
    await clock.advance(1)
    await api.ok("POST", f"{PODS}/w0/eviction", EVICTION)
    assert (await api.refused("POST", f"{PODS}/w1/eviction", {"metadata": {"name": "w1"}}))[0] == 429
    await clock.advance(1)
    assert numbers(await api.ok("GET", f"{BUDGETS}/b")) == (2, 1, 1, 0)
    await clock.advance(6)
    found = await api.ok("GET", f"{BUDGETS}/b")
    assert (numbers(found), found["status"].get("disruptedPods")) == ((1, 1, 1, 0), None)


async def test_a_pod_that_was_to_go_and_did_not(api: Any, cluster: Any, clock: Any, pod: Any, lifecycle: Any) -> None:
    """A disruption that did not happen within two minutes is forgotten, and the pod counts again."""
    cluster.add(budget(minAvailable=0), owned(pod, "w0"))
    await clock.advance(1)
    found = await api.ok("GET", f"{BUDGETS}/b")
    noted = {"status": {**found["status"], "disruptedPods": {"w0": "2027-01-15T08:00:01Z"}}}
    await api.ok("PATCH", f"{BUDGETS}/b/status", noted, content_type=MERGE)
    await clock.advance(100)
    assert numbers(await api.ok("GET", f"{BUDGETS}/b"))[1] == 0
    await clock.advance(30)
    found = await api.ok("GET", f"{BUDGETS}/b")
    assert (numbers(found)[1], found["status"].get("disruptedPods")) == (1, None)


@pytest.mark.parametrize(
    ("value", "reference", "why"),
    [
        pytest.param("lots", None, 'string is not a percentage: "lots"', id="no share"),
        pytest.param("50%", {"apiVersion": "v1", "kind": "Node"}, 'found no controllers for pod "w0"', id="no scale"),
        pytest.param("50%", {"apiVersion": "a/v1", "kind": "B"}, 'found no controllers for pod "w0"', id="not served"),
        pytest.param("50%", {"apiVersion": "apps/v1", "kind": "ReplicaSet"}, "found no controllers", id="gone"),
    ],
)
async def test_budget_that_cannot_be_computed_allows_no_disruption(
    api: Any, cluster: Any, clock: Any, pod: Any, lifecycle: Any, value: str, reference: Any, why: str
) -> None:
    """The status says why it is not kept, and no disruption is allowed."""
    owner = {**(reference or {"apiVersion": "v1", "kind": "Pod"}), "metadata": {"name": "o", "uid": "u"}}
    cluster.add(budget(maxUnavailable=value), owned(pod, "w0", owner if reference else None))
    await clock.advance(1)
    status = (await api.ok("GET", f"{BUDGETS}/b"))["status"]
    [condition] = status["conditions"]
    assert (status["disruptionsAllowed"], condition["reason"]) == (0, "SyncFailed")
    assert why in condition["message"]


@pytest.mark.slow
def test_numbers_are_those_of_a_plain_count() -> None:
    """In any order of arrivals, ends, changes of labels and of the budget, the status is what counting would say."""
    seen: Counter[str] = Counter()
    step = st.tuples(st.integers(0, 3), st.sampled_from(["make", "drop", "leave", "join", "budget"]), st.integers(0, 3))

    @given(st.lists(step, min_size=5, max_size=25))
    def play(steps: list[tuple[int, str, int]]) -> None:
        asyncio.run(played(steps))

    async def played(steps: list[tuple[int, str, int]]) -> None:
        clock = VirtualClock()
        cluster = EmbeddedCluster(clock=clock, rng=random.Random(3))
        cluster.add(node(), budget(minAvailable=1))
        lifecycle = cluster.lifecycle()
        lifecycle.start()
        pods: dict[str, bool] = {}
        least = 1
        for number, what, amount in steps:
            name = f"w{number}"
            spec = {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]}
            if what == "make" and name not in pods:
                metadata = {"name": name, "labels": {"app": "w"}}
                cluster.add({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
                pods[name] = True
            elif what == "drop" and name in pods:
                cluster.remove("v1", "Pod", name, namespace="default")
                del pods[name]
            elif what in ("leave", "join") and name in pods:
                pods[name] = what == "join"
                _change(cluster, "Pod", name, lambda obj, joins=pods[name]: _label(obj, joins=joins))
            elif what == "budget":
                least = amount
                _change(cluster, "PodDisruptionBudget", "b", lambda obj, n=amount: obj["spec"].update(minAvailable=n))
            else:
                continue
            seen[what] += 1
            await clock.advance(0)
            members = sum(pods.values())
            found = cluster.get("policy/v1", "PodDisruptionBudget", "b", namespace="default")
            allowed = max(members - least, 0) if members else 0
            assert numbers(found) == (members, members, least, allowed)
        lifecycle.stop()

    play()
    assert all(seen[what] for what in ("make", "drop", "leave", "join", "budget")), seen


def _label(obj: dict[str, Any], *, joins: bool) -> None:
    obj["metadata"]["labels"] = {"app": "w" if joins else "x"}


def _change(cluster: EmbeddedCluster, kind: str, name: str, change: Any) -> None:
    resource = cluster.resource("v1" if kind == "Pod" else "policy/v1", kind)
    record = cluster.registry.get(resource, "default", name)
    obj = record.decode()
    change(obj)
    cluster.registry.change(resource, record, obj)
