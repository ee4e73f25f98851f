"""Evictions: deletions that ask the disruption budgets."""

from __future__ import annotations

from typing import Any

import pytest

PODS = "/api/v1/namespaces/default/pods"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
MERGE = "application/merge-patch+json"
VIOLATION = "Cannot evict pod as it would violate the pod's disruption budget."


@pytest.fixture
async def running(api: Any, pod: Any) -> dict[str, Any]:
    """Create a bound, running, ready pod."""
    await api.ok("POST", PODS, pod("p", labels={"app": "t"}))
    await api.ok("POST", f"{PODS}/p/binding", {"metadata": {"name": "p"}, "target": {"name": "n"}})
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    return await api.ok("PATCH", f"{PODS}/p/status", {"status": status}, content_type=MERGE)


async def budget(api: Any, name: str = "b", *, labels: Any = None, **status: Any) -> None:
    """Create a disruption budget with a status."""
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels or {"app": "t"}}}
    await api.ok("POST", BUDGETS, {"metadata": {"name": name}, "spec": spec})
    await api.ok("PATCH", f"{BUDGETS}/{name}/status", {"status": status}, content_type=MERGE)


async def test_without_a_budget_the_pod_goes(api: Any, running: Any) -> None:
    """The pod is marked for deletion and says why."""
    assert (await api("POST", f"{PODS}/p/eviction", EVICTION))[0] == 201
    evicted = await api.ok("GET", f"{PODS}/p")
    assert evicted["metadata"]["deletionGracePeriodSeconds"] == 30
    target = evicted["status"]["conditions"][-1]
    assert (target["type"], target["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")


async def test_a_budget_with_room_counts_down(api: Any, running: Any) -> None:
    """An allowed disruption is taken, and the budget remembers the pod."""
    await budget(api, observedGeneration=1, disruptionsAllowed=1, currentHealthy=2, desiredHealthy=1)
    await budget(api, "other", labels={"app": "other"})
    await api.ok("POST", f"{PODS}/p/eviction", EVICTION)
    status = (await api.ok("GET", f"{BUDGETS}/b"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert status["disruptedPods"] == {"p": "2027-01-15T08:00:00Z"}


@pytest.mark.parametrize(
    ("status", "words", "retry"),
    [
        pytest.param(
            {"observedGeneration": 1, "currentHealthy": 1, "desiredHealthy": 1},
            "The disruption budget b needs 1 healthy pods and has 1 currently",
            None,
            id="no room",
        ),
        pytest.param(
            {"observedGeneration": 1, "currentHealthy": 2, "desiredHealthy": 1},
            "The disruption budget b does not allow evicting pods currently",
            None,
            id="no room for another reason",
        ),
        pytest.param(
            {}, "The disruption budget b is still being processed by the server.", "10", id="not observed yet"
        ),
    ],
)
async def test_a_budget_without_room_refuses(api: Any, running: Any, status: Any, words: str, retry: Any) -> None:
    """Too many requests: the pod stays, the reason names the budget, and a hint says when to come back."""
    await budget(api, **status)
    answer = await api.send("POST", f"{PODS}/p/eviction", EVICTION)
    refused = await api("POST", f"{PODS}/p/eviction", EVICTION)
    assert refused[0] == answer.status == 429
    assert (refused[1]["reason"], refused[1]["message"]) == ("TooManyRequests", VIOLATION)
    assert refused[1]["details"]["causes"] == [{"reason": "DisruptionBudget", "message": words}]
    assert answer.headers.get("retry-after") == retry
    assert await api.ok("GET", f"{PODS}/p") == running


async def test_unready_pods_go_when_the_budget_is_healthy(api: Any, running: Any) -> None:
    """An unready pod of a healthy application may go, though no disruption is allowed."""
    await budget(api, observedGeneration=1, currentHealthy=1, desiredHealthy=1)
    unready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await api.ok("PATCH", f"{PODS}/p/status", unready, content_type=MERGE)
    assert (await api("POST", f"{PODS}/p/eviction", EVICTION))[0] == 201


async def test_two_budgets_are_one_too_many(api: Any, running: Any) -> None:
    """A pod under two budgets cannot be evicted."""
    await budget(api, "a")
    await budget(api, "b")
    status, reason, message = await api.refused("POST", f"{PODS}/p/eviction", EVICTION)
    assert (status, reason) == (500, "")
    assert message.startswith("This pod has more than one PodDisruptionBudget")


async def test_refused_and_rehearsed_evictions(api: Any, running: Any) -> None:
    """Another name, another uid and a missing pod are refused; a dry run leaves everything as it is."""
    path = f"{PODS}/p/eviction"
    await budget(api, observedGeneration=1, disruptionsAllowed=1)
    assert (await api.refused("POST", path, {"metadata": {"name": "q"}}))[0] == 400
    assert (await api.refused("POST", f"{PODS}/q/eviction", {"metadata": {"name": "q"}}))[0] == 404
    other = {**EVICTION, "deleteOptions": {"preconditions": {"uid": "other"}}}
    assert (await api("POST", path, EVICTION, dryRun="All"))[0] == 201
    assert (await api.ok("GET", f"{BUDGETS}/b"))["status"]["disruptionsAllowed"] == 1
    assert await api.ok("GET", f"{PODS}/p") == running
    assert (await api.refused("POST", path, other))[0] == 409


async def test_unreadable_budgets_select_nothing(api: Any, running: Any, cluster: Any) -> None:
    """A budget whose selector makes no sense does not stand in the way."""
    for name, selector in (("a", {"matchExpressions": [{"key": "x", "operator": "Turn"}]}), ("b", 5), ("c", None)):
        manifest = {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget"}
        metadata = {"name": name, "namespace": "default"}
        cluster.plant({**manifest, "metadata": metadata, "spec": {"selector": selector}})
    assert (await api("POST", f"{PODS}/p/eviction", EVICTION))[0] == 201
