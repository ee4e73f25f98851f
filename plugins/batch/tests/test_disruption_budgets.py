"""Disruption budgets and `preemptionPolicy: Never` in evictions of all presets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.api import PodDisruptionBudget
from pyscheduler.framework import ConfigError
from pyscheduler_lab.testing import BatchCluster

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

TIERS = (
    "tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}]}, {plugins: [{name: predicates}]}]"
)
PREEMPT = {
    "kai": "",
    "volcano": f"actions: 'enqueue, allocate, preempt', {TIERS}",
    "kube-batch": "actions: 'allocate, preempt', tiers: [{plugins: [{name: priority}, {name: gang}]}]",
}
PRESETS = sorted(PREEMPT)


async def start(cluster: FakeCluster, preset: str, *, nodes: int = 1, cpu: str = "2", mode: str = "") -> BatchCluster:
    """Start a scheduler with two classes of priority; a budget protects all pods with the label `app: x`."""
    batch = BatchCluster(cluster, preset)
    batch.nodes(nodes, cpu=cpu)
    batch.queue("a")
    for name, value in (("low", 1), ("middle", 50), ("high", 90)):
        kind = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        cluster.server.add({**kind, "metadata": {"name": name}, "value": value})
    cluster.server.lifecycle(start_seconds=0.0, stop_seconds=0.0).start()
    args = ", ".join(filter(None, [PREEMPT[preset], f"disruptionBudgets: {mode}" if mode else ""]))
    await batch.start(args)
    budget(batch, {"minAvailable": 1})
    return batch


def budget(batch: BatchCluster, spec: dict[str, Any], name: str = "x") -> None:
    """Create a budget for the pods with the label."""
    spec = {"selector": {"matchLabels": {"app": "x"}}, **spec}
    metadata = {"name": name, "namespace": "default"}
    batch.cluster.add(
        {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": metadata, "spec": spec},
        PodDisruptionBudget,
    )


async def add(batch: BatchCluster, name: str, priority: str = "low", count: int = 1, **keywords: Any) -> None:
    """Create a job of that priority and let it be placed."""
    value = {"low": 1, "middle": 50, "high": 90}[priority]
    batch.group(name, "a", 1, priorityClassName=priority)
    batch.pods(name, count, priority=value, **keywords)
    await batch.pass_time(2)


def bound(batch: BatchCluster) -> list[str]:
    """Return the names of the pods with a node."""
    return sorted(pod.name for pod in batch.cluster.pods() if pod.node_name)


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("order", [("free", "safe"), ("safe", "free")], ids="-".join)
@pytest.mark.parametrize("nodes", [1, 2])
async def test_of_equal_victims_the_unprotected_one_goes(
    pyscheduler_cluster: FakeCluster, preset: str, order: tuple[str, str], nodes: int
) -> None:
    """Age does not matter then, nor which node is tried first."""
    batch = await start(pyscheduler_cluster, preset, nodes=nodes, cpu=str(2 // nodes))
    for name in order:
        await add(batch, name, labels={"app": "x"} if name == "safe" else {})
    await add(batch, "new", "high")
    await batch.pass_time(10)
    assert bound(batch) == ["new-0", "safe-0"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_lower_priority_counts_more_than_a_budget(pyscheduler_cluster: FakeCluster, preset: str) -> None:
    """The protected pod is not equal to the other one."""
    batch = await start(pyscheduler_cluster, preset)
    await add(batch, "safe", labels={"app": "x"})
    await add(batch, "free", "middle")
    await add(batch, "new", "high")
    await batch.pass_time(10)
    assert bound(batch) == ["free-0", "new-0"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_budget_that_is_respected_stops_evictions(pyscheduler_cluster: FakeCluster, preset: str) -> None:
    """Once the budget is deleted, the pod is evicted."""
    batch = await start(pyscheduler_cluster, preset, cpu="1", mode="respect")
    await add(batch, "safe", labels={"app": "x"})
    await add(batch, "new", "high")
    await batch.pass_time(30)
    assert bound(batch) == ["safe-0"]
    batch.cluster.delete(PodDisruptionBudget, "x")
    await batch.pass_time(10)
    assert bound(batch) == ["new-0"]


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_budget_is_used_up_within_a_plan(pyscheduler_cluster: FakeCluster, preset: str) -> None:
    """Two of three pods must stay, so a job that needs the room of two waits."""
    batch = await start(pyscheduler_cluster, preset, cpu="3", mode="respect")
    batch.cluster.delete(PodDisruptionBudget, "x")
    budget(batch, {"minAvailable": 2}, "y")
    for name in ("s0", "s1", "s2"):
        await add(batch, name, labels={"app": "x"})
    await add(batch, "two", "high", requests={"cpu": "2"})
    await batch.pass_time(20)
    assert bound(batch) == ["s0-0", "s1-0", "s2-0"]
    await add(batch, "one", "high")
    await batch.pass_time(10)
    assert len(bound(batch)) == 3
    assert "one-0" in bound(batch)


async def test_budgets_are_ignored_on_request(pyscheduler_cluster: FakeCluster) -> None:
    """Then they are not even watched."""
    batch = await start(pyscheduler_cluster, "kai", mode="ignore")
    await add(batch, "free")
    await add(batch, "safe", labels={"app": "x"})
    await add(batch, "new", "high")
    await batch.pass_time(10)
    assert bound(batch) == ["free-0", "new-0"]


async def test_another_word_is_an_error(kai: BatchCluster) -> None:
    """It names the words that there are."""
    with pytest.raises(ConfigError, match="disruptionBudgets"):
        await kai.start("disruptionBudgets: always")


@pytest.mark.parametrize("preset", PRESETS)
async def test_a_pod_that_never_preempts_evicts_nobody(pyscheduler_cluster: FakeCluster, preset: str) -> None:
    """Its preemptionPolicy is Never; it starts when there is room."""
    batch = await start(pyscheduler_cluster, preset, cpu="1")
    await add(batch, "old")
    await add(batch, "new", "high", spec={"preemptionPolicy": "Never"})
    await batch.pass_time(30)
    assert bound(batch) == ["old-0"]
    batch.cluster.delete_pod("old-0")
    await batch.pass_time(5)
    assert bound(batch) == ["new-0"]
