"""Owners take back what one elastic job has borrowed, one pod after the other, without waiting for backoffs."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Pod, PriorityClass

_VOLCANO = (
    'actions: "enqueue, allocate, backfill, preempt, reclaim", '
    "tiers: [{plugins: [{name: priority}, {name: gang}, {name: conformance}]}, "
    "{plugins: [{name: predicates}, {name: proportion}]}]"
)
_CLASS = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
_REST = {"memory": {"quota": -1, "limit": -1}, "gpu": {"quota": -1, "limit": -1}}
_QUEUES = {
    "kai": (
        {"resources": {"cpu": {"quota": 0, "overQuotaWeight": 1, "limit": -1}, **_REST}},
        {"resources": {"cpu": {"quota": 4000, "overQuotaWeight": 1, "limit": -1}, **_REST}},
    ),
    "volcano": ({"weight": 1}, {"weight": 1}),
}


@pytest.mark.slow
@pytest.mark.parametrize(("preset", "args"), [("kai", ""), ("volcano", _VOLCANO)])
async def test_each_owner_gets_its_room_at_once(request: pytest.FixtureRequest, preset: str, args: str) -> None:
    """Four jobs come one after the other, between rests and without further changes; each evicts one surplus pod."""
    cluster: Any = request.getfixturevalue(preset)
    cluster.nodes(2, cpu="4")
    for name, spec in zip(("borrower", "owner"), _QUEUES[preset], strict=True):
        cluster.queue(name, **spec)
    await cluster.start(args)
    cluster.group("elastic", "borrower", 1)
    cluster.pods("elastic", 8, spec={"terminationGracePeriodSeconds": 0})
    await cluster.pass_time()
    cluster.go("Running", *(f"elastic-{number}" for number in range(8)))
    await cluster.pass_time()
    for number, seconds in enumerate((2.0, 5.0, 30.0, 2.0)):
        cluster.job(f"own-{number}", "owner", 1)
        await cluster.pass_time(1.0)
        assert cluster.nodes_of(f"own-{number}") != [""], number
        await cluster.pass_time(seconds)
    assert sum(bool(pod.node_name) for pod in cluster.cluster.pods() if pod.name.startswith("elastic")) == 4


@pytest.mark.slow
async def test_a_pod_that_came_back_is_not_evicted_at_once(kai: Any) -> None:
    """Its job rests for ten seconds from the eviction; then the next owner gets the room."""
    kai.nodes(2, cpu="2")
    for name, spec in zip(("borrower", "owner"), _QUEUES["kai"], strict=True):
        kai.queue(name, **spec)
    await kai.start()
    kai.group("elastic", "borrower", 1)
    kai.pods("elastic", 4, spec={"terminationGracePeriodSeconds": 0})
    await kai.pass_time()
    kai.job("own-0", "owner", 1)
    await kai.pass_time(1.0)
    assert kai.nodes_of("own-0") != [""]
    left = {pod.name for pod in kai.cluster.pods()}
    (gone,) = (number for number in range(4) if f"elastic-{number}" not in left)
    kai.cluster.delete(Pod, "own-0-0")
    kai.pods("elastic", 1, start=gone, spec={"terminationGracePeriodSeconds": 0})
    await kai.pass_time(1.0)
    kai.job("own-1", "owner", 1)
    await kai.pass_time(3.0)
    assert kai.nodes_of("own-1") == [""]
    await kai.pass_time(6.0)
    assert kai.nodes_of("own-1") != [""]


_KUBE_BATCH = (
    'actions: "reclaim, allocate, backfill, preempt", tiers: [{plugins: [{name: priority}, {name: gang}, '
    "{name: conformance}]}, {plugins: [{name: drf}, {name: predicates}, {name: proportion}, {name: nodeorder}]}]"
)


async def elastic_runs(cluster: Any, queue: str, **keywords: Any) -> None:
    """Let as many of 18 pods of an elastic job run as have room. `keywords`: of the pods."""
    cluster.group("elastic", queue, 1)
    cluster.pods("elastic", 18, **keywords)
    await cluster.pass_time()
    cluster.go("Running", *(pod.name for pod in cluster.cluster.pods() if pod.node_name))
    await cluster.pass_time()


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("nodes", "members"), [(1, 2), (1, 4), (4, 4)])
async def test_kube_batch_keeps_room_until_all_of_a_gang_have_theirs(kube_batch: Any, nodes: int, members: int) -> None:
    """It makes room for one member in each pass; no victim's job takes it back, and no pod is evicted in vain."""
    kube_batch.nodes(nodes, cpu=str(16 // nodes))
    kube_batch.queue("small", weight=1)
    kube_batch.queue("large", weight=8)
    await kube_batch.start(_KUBE_BATCH)
    await elastic_runs(kube_batch, "small", spec={"terminationGracePeriodSeconds": 0})
    kube_batch.job("gang", "large", members, requests={"cpu": "2"})
    await kube_batch.pass_time(5.0)
    assert all(kube_batch.nodes_of("gang"))
    assert len(kube_batch.nodes_of("elastic")) == 18 - 2 * members


@pytest.mark.sampled(3)
@pytest.mark.parametrize(("preset", "args"), [("kube_batch", _KUBE_BATCH), ("kai", ""), ("volcano", _VOLCANO)])
async def test_a_gang_keeps_its_room_while_its_victims_end_one_by_one(
    request: pytest.FixtureRequest, preset: str, args: str
) -> None:
    """Neither pods that come back nor a job of higher priority take a core of it, and no pod is evicted in vain."""
    cluster: Any = request.getfixturevalue(preset)
    cluster.nodes(4, cpu="4")
    cluster.cluster.add({**_CLASS, "metadata": {"name": "high"}, "value": 90}, PriorityClass)
    specs = _QUEUES["kai"] if preset == "kai" else ({"weight": 1}, {"weight": 8})
    for name, spec in zip(("borrower", "owner"), specs, strict=True):
        cluster.queue(name, **spec)
    await cluster.start(args)
    await elastic_runs(cluster, "borrower")
    cluster.job("gang", "owner", 4, requests={"cpu": "2"})
    await cluster.pass_time()
    victims = [pod.name for pod in cluster.cluster.pods() if pod.is_terminating]
    assert len(victims) == 8
    cluster.pods("elastic", 8, start=18)
    cluster.group("rival", "owner", 1, priorityClassName="high")
    cluster.pods("rival", 1)
    for name in victims:
        assert not any(cluster.nodes_of("gang"))
        cluster.cluster.delete_pod(name)
        await cluster.pass_time(1.0)
    assert all(cluster.nodes_of("gang"))
    # The only other victim is that of the rival.
    assert sum(pod.is_terminating for pod in cluster.cluster.pods()) == 1


async def test_a_gang_of_kube_batch_with_idle_room_for_a_part_starts_once_its_victim_is_gone(kube_batch: Any) -> None:
    """The promised member takes the idle room; the other one then gets that of the victim, and both are bound."""
    kube_batch.nodes(2, cpu="2")
    kube_batch.cluster.add({**_CLASS, "metadata": {"name": "high"}, "value": 90}, PriorityClass)
    kube_batch.queue("q", weight=1)
    await kube_batch.start(_KUBE_BATCH)
    for name in ("one", "two", "three"):
        kube_batch.job(name, "q", 1)
    await kube_batch.pass_time()
    kube_batch.go("Running", *(pod.name for pod in kube_batch.cluster.pods()))
    await kube_batch.pass_time()
    kube_batch.group("gang", "q", 2, priorityClassName="high")
    kube_batch.pods("gang", 2)
    await kube_batch.pass_time()
    (victim,) = (pod.name for pod in kube_batch.cluster.pods() if pod.is_terminating)
    assert not any(kube_batch.nodes_of("gang"))
    kube_batch.cluster.delete_pod(victim)
    await kube_batch.pass_time(1.0)
    assert all(kube_batch.nodes_of("gang"))


@pytest.mark.slow
async def test_kube_batch_keeps_the_room_of_members_whose_node_is_there(kube_batch: Any) -> None:
    """A node is removed on which two of four members were promised room; the others keep theirs on another node."""
    kube_batch.nodes(4, cpu="4")
    kube_batch.queue("small", weight=1)
    kube_batch.queue("large", weight=8)
    await kube_batch.start(_KUBE_BATCH)
    await elastic_runs(kube_batch, "small")
    kube_batch.job("gang", "large", 4, requests={"cpu": "2"})
    await kube_batch.pass_time()
    lost, kept = sorted({pod.status.nominated_node_name for pod in kube_batch.cluster.pods()} - {""})
    for name in [pod.name for pod in kube_batch.cluster.pods() if pod.node_name == lost]:
        kube_batch.cluster.delete_pod(name)
    kube_batch.cluster.delete_node(lost)
    victims = [pod.name for pod in kube_batch.cluster.pods() if pod.is_terminating]
    assert len(victims) == 4
    kube_batch.cluster.delete_pod(victims.pop())
    await kube_batch.pass_time(1.0)
    assert sum(pod.status.nominated_node_name == kept for pod in kube_batch.cluster.pods()) == 2
    victims += [pod.name for pod in kube_batch.cluster.pods() if pod.is_terminating and pod.name not in victims]
    assert len(victims) == 7
    for name in victims:
        kube_batch.cluster.delete_pod(name)
    await kube_batch.pass_time(1.0)
    assert all(kube_batch.nodes_of("gang"))


async def test_a_protected_job_keeps_its_minimum_while_earlier_victims_end(kai: Any) -> None:
    """Its surplus pod is still ending when another job comes; that job must not get the last one."""
    kai.nodes(2, cpu="1")
    kai.queue("team", resources={"cpu": {"quota": -1, "limit": -1}, **_REST}, preemptMinRuntime="300s")
    kai.cluster.add({**_CLASS, "metadata": {"name": "high"}, "value": 90}, PriorityClass)
    await kai.start()
    kai.group("elastic", "team", 1)
    kai.pods("elastic", 2)
    await kai.pass_time()
    for number in range(2):
        kai.group(f"urgent-{number}", "team", 1, priorityClassName="high")
        kai.pods(f"urgent-{number}", 1)
        await kai.pass_time()
    assert [pod.is_terminating for pod in kai.cluster.pods() if pod.name.startswith("elastic")].count(False) == 1
