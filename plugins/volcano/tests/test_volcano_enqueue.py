"""Volcano's groups: when a group is enqueued, the room that it reserves, and the message of a refused group."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from pyscheduler.api import ResourceQuota
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_volcano.quota_limits import QuotaLimit

TIERS = "tiers: [{plugins: [{name: priority}, {name: gang}]}, {plugins: [{name: predicates}, {name: %s}]}]"
ACTIONS = "actions: 'enqueue, allocate, backfill', "


def gang(volcano: Any, name: str, count: int, **resources: str) -> None:
    """Create a group in queue `q` whose pods request `resources`, and which declares them for all of its pods."""
    total = {resource: str(int(amount) * count) for resource, amount in resources.items()}
    volcano.group(name, "q", count, minResources=total)
    volcano.pods(name, count, requests=resources)


def phase(volcano: Any, name: str) -> str:
    """Return the phase of a group."""
    found: str = volcano.group_status(name)["phase"]
    return found


@pytest.mark.parametrize("share", ["proportion", "capacity", "overcommit"])
@pytest.mark.parametrize(
    "ended",
    [
        pytest.param(("j-0", "j-1"), id="all-succeeded"),
        pytest.param(("j-0",), id="the-rest-is-removed-while-it-runs"),
    ],
)
async def test_a_completed_group_is_not_enqueued_again(volcano: Any, share: str, ended: tuple[str, ...]) -> None:
    """Its controller removes the pods; the group reserves nothing, until new pods come."""
    volcano.nodes(1, cpu="4")
    volcano.queue("q", capability={"cpu": "4"})
    await volcano.start(ACTIONS + TIERS % share)
    gang(volcano, "j", 2, cpu="2")
    await volcano.pass_time()
    volcano.go("Running", "j-0", "j-1")
    await volcano.pass_time()
    volcano.go("Succeeded", *ended)
    for name in sorted({"j-0", "j-1"} - {*ended}):
        volcano.cluster.delete_pod(name)
    await volcano.pass_time()
    assert phase(volcano, "j") == "Completed"
    for name in ended:
        volcano.cluster.delete_pod(name)
        await volcano.pass_time()
        assert phase(volcano, "j") == "Completed"
    gang(volcano, "k", 2, cpu="2")
    await volcano.pass_time(5)
    assert volcano.nodes_of("k") == ["n0", "n0"]
    volcano.pods("j", 2, start=2, requests={"cpu": "2"})
    await volcano.pass_time(5)
    assert phase(volcano, "j") == "Pending"
    volcano.cluster.delete_pod("k-0")
    volcano.cluster.delete_pod("k-1")
    await volcano.pass_time(5)
    assert volcano.nodes_of("j") == ["n0", "n0"]


GPU = "nvidia.com/gpu"


@pytest.mark.parametrize("share", ["proportion", "capacity", "overcommit"])
@pytest.mark.parametrize("pods_come", ["before", "after"])
@pytest.mark.parametrize(
    "more",
    [
        pytest.param({"requests": {GPU: "8"}}, id="larger-than-a-node"),
        pytest.param({"requests": {GPU: "4"}, "node_selector": {"pool": "none"}}, id="no-such-label"),
        pytest.param(
            {
                "requests": {GPU: "4"},
                "spec": {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "missing"}}]},
            },
            id="no-such-claim",
        ),
    ],
)
async def test_a_group_that_fits_on_no_node_blocks_nobody(
    request: pytest.FixtureRequest, volcano: Any, share: str, pods_come: str, more: dict[str, Any]
) -> None:
    """It reserves nothing, also if it was enqueued before its pods came; a node that can hold it lets it start."""
    volcano.nodes(2, cpu="64", **{GPU: "4"})
    volcano.queue("q", capability={GPU: "8"})
    await volcano.start(ACTIONS + TIERS % share)
    volcano.group("big", "q", 1, minResources={GPU: "8"})
    if pods_come == "after":
        await volcano.pass_time()
        assert phase(volcano, "big") == "Inqueue"
    volcano.pods("big", 1, **more)
    await volcano.pass_time()
    gang(volcano, "small", 2, **{GPU: "4"})
    await volcano.pass_time()
    assert sorted(volcano.nodes_of("small")) == ["n0", "n1"]
    assert volcano.nodes_of("big") == [""]
    volcano.go("Succeeded", "small-0", "small-1")
    more = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
    volcano.cluster.add_node("large", allocatable=more, labels={"pool": "none"})
    await volcano.pass_time()
    assert volcano.nodes_of("big") == ([""] if "claim" in request.node.name else ["large"])


@pytest.mark.parametrize("share", ["proportion", "capacity", "overcommit"])
async def test_a_refused_group_is_told_who_reserves(volcano: Any, share: str) -> None:
    """The groups that were enqueued before, three at most."""
    volcano.nodes(1, cpu="4")
    volcano.queue("q", capability={"cpu": "4"})
    await volcano.start(ACTIONS + TIERS % share)
    for name in ("a", "b", "c", "d"):
        volcano.group(name, "q", 1, minResources={"cpu": "1"})
    await volcano.pass_time()
    gang(volcano, "late", 1, cpu="4")
    await volcano.pass_time()
    (message,) = {
        condition.message
        for pod in volcano.cluster.pods()
        for condition in pod.status.conditions
        if condition.type == "PodScheduled"
    }
    assert message.endswith("cpu, reserved by enqueued groups: default/a, default/b, default/c and others")
    volcano.cluster.delete(volcano.group_kind.type, "a")
    volcano.cluster.delete(volcano.group_kind.type, "b")


@pytest.mark.parametrize(("minimum", "nodes"), [(2, 3), (3, 4)])
async def test_a_gang_beyond_its_share_is_told_what_raises_it(volcano: Any, minimum: int, nodes: int) -> None:
    """All queues deserve less than their gangs need, so all nodes stay idle; a larger weight lets one of them start."""
    volcano.nodes(nodes, cpu="8", **{GPU: "1"})
    for name in ("q", "r"):
        volcano.queue(name, weight=1)
        volcano.group(name, name, minimum)
        volcano.pods(name, minimum, requests={"cpu": "1", GPU: "1"})
    await volcano.start(ACTIONS + TIERS % "proportion")
    await volcano.pass_time()
    said = {each.message for pod in volcano.cluster.pods() for each in pod.status.conditions}
    limit = f"{GPU} {minimum} of {nodes / 2:g}, its share by weight"
    for name in ("q", "r"):
        text = f"QueueLimit: queue {name} is full: {limit}; a larger weight or a guarantee of the queue raises it"
        assert text in said
    volcano.cluster.patch(volcano.queue_kind.type, "q", {"spec": {"weight": 9}}, namespace="")
    await volcano.pass_time()
    assert all(volcano.nodes_of("q"))


async def test_quotas_are_read_once(volcano: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quotas are read once for all groups and passes; a quota that changes is read again."""
    reads, read = Counter[str](), QuotaLimit.of
    monkeypatch.setattr(QuotaLimit, "of", lambda quota: reads.update([quota.name]) or read(quota))
    server = volcano.cluster.server
    status = {"hard": {"requests.cpu": "4"}, "used": {"requests.cpu": "4"}}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "spec": {}, "status": status}
    names = [f"quota-{number}" for number in range(20)]
    for name in names:
        server.add({**quota, "metadata": {"name": name, "namespace": "default"}})
    volcano.nodes(1, cpu="8")
    volcano.queue("q")
    scheduler = await volcano.start(ACTIONS + TIERS % "resourcequota")
    sessions = sessions_of(scheduler.scheduler)[0]
    for number in range(20):
        volcano.group(f"g{number}", "q", 1, minResources={"cpu": "1", "requests.cpu": "1"})
        await volcano.pass_time(0.1)
    assert (sessions.passes > 10, reads) == (True, Counter(names))
    jobs = dict(sessions.tables.jobs)
    changed = server.get("v1", "ResourceQuota", "quota-3", namespace="default")
    changed["status"]["used"] = {"requests.cpu": "3"}
    resource = server.resource("v1", "ResourceQuota")
    server.registry.change(resource, server.registry.get(resource, "default", "quota-3"), changed, subresource="status")
    passes = sessions.passes
    await volcano.pass_time()
    assert (sessions.passes > passes, reads) == (True, Counter([*names, "quota-3"]))
    assert all(sessions.tables.jobs[uid] is job for uid, job in jobs.items())
    assert phase(volcano, "g0") == "Pending"
    for name in names:
        volcano.cluster.delete(ResourceQuota, name)
    await volcano.pass_time()
    assert phase(volcano, "g0") == "Inqueue"
