"""Evictions that the API server refuses: no storm, and once they are allowed, the job gets its room."""

from __future__ import annotations

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod
from pyscheduler_lab.testing import BatchCluster, gpus

NODES = 3
#: A lease of a promise, with the grace period, and the backoff after it, in seconds.
LONGEST = 60.0 + 30.0 + 10.0
#: How often the client of the API server sends a request whose connection breaks.
CLIENT_TRIES = 5
GPU = {"nvidia.com/gpu": "1"}


@pytest.fixture(params=["kai", "volcano", "kube_batch"])
def batch(request: pytest.FixtureRequest) -> BatchCluster:
    """Return a cluster of each system."""
    found: BatchCluster = request.getfixturevalue(request.param)
    return found


async def full_of_borrowers(batch: BatchCluster, nodes: int = NODES) -> None:
    """Let jobs of the queue `a` run on all GPUs, of which half belong to the queue `b`."""
    batch.nodes(nodes, **{"cpu": "4", "memory": "4Gi", "nvidia.com/gpu": "4"})
    for name in "ab":
        if batch.preset == "kai":
            batch.queue(name, resources=gpus(2 * nodes))
        else:
            batch.queue(name, weight=1)
    actions = {
        "kai": "",
        "volcano": 'actions: "enqueue, allocate, backfill, reclaim", tiers: [{plugins: [{name: priority}, {name: gang,'
        " enableReclaimable: false}, {name: proportion}]}, {plugins: [{name: overcommit}, {name: predicates}]}]",
        "kube-batch": 'actions: "reclaim, allocate, backfill, preempt"',
    }
    await batch.start(actions[batch.preset])
    batch.cluster.server.lifecycle(start_seconds=0.5, stop_seconds=0.5).start()
    for number in range(4 * nodes):
        batch.job(f"borrower-{number}", "a", 1, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(6)
    assert all(pod.node_name for pod in batch.cluster.pods())


def evicted(batch: BatchCluster) -> set[str]:
    """Return the borrowers that are gone."""
    there = {pod.name for pod in batch.cluster.pods()}
    return {f"borrower-{number}-0" for number in range(4 * NODES)} - there


@pytest.mark.sampled(3)
async def test_a_gang_gets_the_room_of_as_many_victims_as_it_has_members(batch: BatchCluster) -> None:
    """kube-batch makes room for one member in each pass."""
    await full_of_borrowers(batch)
    batch.job("claims", "b", 2, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(30)
    assert all(batch.nodes_of("claims"))
    assert len(evicted(batch)) == 2


@pytest.mark.sampled(3)
async def test_a_job_reclaims_again_once_its_evictions_are_allowed(batch: BatchCluster) -> None:
    """All deletions are refused for a while; after that, nothing but time lets the job start."""
    await full_of_borrowers(batch)
    fault = batch.cluster.server.faults.add(Fault(method="DELETE", path="/pods/borrower-", status=403))
    batch.job("claims", "b", 2, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(25)
    # Two victims at 0 and 10 s; the next try is at 30 s.
    assert fault.hits <= 4
    assert fault.hits
    batch.cluster.server.faults.clear()
    await batch.pass_time(LONGEST)
    assert all(batch.nodes_of("claims"))
    assert len(evicted(batch)) == 2


def refuse(batch: BatchCluster, *, times: int | None = None) -> list[Fault]:
    """Let the API server refuse to delete borrowers, each a fifth of a second later than the last."""
    return [
        batch.cluster.server.faults.add(
            Fault(method="DELETE", path=f"/pods/borrower-{at}-", delay_seconds=0.2 * (at + 1), status=403, times=times)
        )
        for at in range(4 * NODES)
    ]


def be_away(batch: BatchCluster) -> list[Fault]:
    """Let the first deletion of each borrower fail, with all repetitions of the client."""
    return [
        batch.cluster.server.faults.add(
            Fault(method="DELETE", path=f"/pods/borrower-{at}-", lose="request", times=CLIENT_TRIES)
        )
        for at in range(4 * NODES)
    ]


@pytest.mark.slow
async def test_a_job_reclaims_at_the_first_retry_if_its_victims_are_refused_one_after_the_other(
    batch: BatchCluster,
) -> None:
    """The job waits until the pauses of all its victims have ended, and not twice as long."""
    await full_of_borrowers(batch)
    faults = refuse(batch)
    batch.job("claims", "b", 3, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(5)
    hits = sum(fault.hits for fault in faults)
    assert 0 < hits <= 3
    batch.cluster.server.faults.clear()
    await batch.pass_time(10)
    assert all(batch.nodes_of("claims"))
    assert len(evicted(batch)) == 3


@pytest.mark.slow
async def test_victims_that_are_refused_one_after_the_other_are_no_storm(batch: BatchCluster) -> None:
    """The pauses between two tries double."""
    await full_of_borrowers(batch)
    faults = refuse(batch)
    batch.job("claims", "b", 3, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(100)
    # At 0, 10, 30 and 70 s.
    assert max(fault.hits for fault in faults) == 4
    assert sum(fault.hits for fault in faults) <= 12
    assert not evicted(batch)


@pytest.mark.slow
async def test_one_refusal_after_an_outage_is_not_final(batch: BatchCluster) -> None:
    """A restarted API server refuses requests until its authorizer is ready."""
    await full_of_borrowers(batch)
    outages = be_away(batch)
    refused = refuse(batch, times=1)
    batch.job("claims", "b", 2, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(12)
    assert sum(fault.hits for fault in outages) == 2 * CLIENT_TRIES
    assert sum(fault.hits for fault in refused) == 2
    assert all(batch.nodes_of("claims"))
    assert len(evicted(batch)) == 2


@pytest.mark.slow
async def test_the_second_refusal_after_an_outage_is_final(batch: BatchCluster) -> None:
    """An admission policy refuses for good, whatever happened before."""
    await full_of_borrowers(batch)
    be_away(batch)
    refused = refuse(batch)
    batch.job("claims", "b", 2, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await batch.pass_time(14)
    assert max(fault.hits for fault in refused) == 2
    assert sum(fault.hits for fault in refused) <= 4
    assert not evicted(batch)


async def test_a_refused_eviction_of_a_broken_gang_is_no_storm(kai: BatchCluster) -> None:
    """The pauses between two tries double."""
    kai.nodes(2, cpu="4")
    kai.queue("a")
    await kai.start()
    kai.cluster.server.lifecycle(start_seconds=0.5, stop_seconds=0.5).start()
    kai.group("torn", "a", 2, stalenessGracePeriod="10s")
    kai.pods("torn", 2)
    await kai.pass_time(3)
    fault = kai.cluster.server.faults.add(Fault(method="DELETE", path="/pods/torn-1", status=403))
    kai.cluster.delete(Pod, "torn-0")
    await kai.pass_time(15)
    assert fault.hits == 1
    await kai.pass_time(100)
    assert 2 <= fault.hits <= 5
    kai.cluster.server.faults.clear()
    await kai.pass_time(160)
    assert kai.cluster.pods() == []


@pytest.mark.slow
@pytest.mark.parametrize("batch", ["kai", "volcano"], indirect=True)
async def test_queues_count_pods_whose_eviction_is_refused(batch: BatchCluster) -> None:
    """Victims hold their nodes until the API server says that they are being deleted.

    The status of kube-batch's queues has no amounts.
    """
    await full_of_borrowers(batch)
    before = batch.queue_status("a")["allocated"]
    assert before["nvidia.com/gpu"] == str(4 * NODES)
    batch.cluster.server.faults.add(Fault(method="DELETE", path="/pods/borrower-", status=403))
    batch.job("claims", "b", 2, requests={"cpu": "1", "memory": "1Gi", **GPU})
    for _ in range(80):
        await batch.pass_time(0.5)
        assert batch.queue_status("a")["allocated"] == before
    batch.cluster.server.faults.clear()
    await batch.pass_time(LONGEST)
    assert batch.queue_status("a")["allocated"]["nvidia.com/gpu"] == str(4 * NODES - 2)
    assert batch.queue_status("b")["allocated"]["nvidia.com/gpu"] == "2"


async def test_queues_do_not_count_pods_that_are_being_deleted(kai: BatchCluster) -> None:
    """A victim that takes long to end is not counted any more, neither as bound nor as requested."""
    kai.nodes(2, cpu="1")
    kai.queue("a")
    await kai.start("stalenessGracePeriod: 5s")
    kai.job("one", "a", 2)
    await kai.pass_time(3)
    assert kai.queue_status("a") == {"allocated": {"cpu": "2"}, "requested": {"cpu": "2"}}
    kai.cluster.delete(Pod, "one-0")
    await kai.pass_time(3)
    assert kai.queue_status("a") == {"allocated": {"cpu": "1"}, "requested": {"cpu": "1"}}
    await kai.pass_time(5)
    assert kai.cluster.pod("one-1").is_terminating
    assert kai.queue_status("a") == {"allocated": {}, "requested": {}}


@pytest.mark.slow
@pytest.mark.parametrize("minimum", [1, 2])
async def test_a_promised_member_does_not_keep_another_from_free_room(kube_batch: BatchCluster, minimum: int) -> None:
    """Both are promised a node whose evictions do not end; then a GPU of it and one of another node are free."""
    await full_of_borrowers(kube_batch, 1)
    kube_batch.cluster.server.faults.add(Fault(method="DELETE", path="/pods/borrower-", delay_seconds=90.0, status=403))
    kube_batch.group("claims", "b", minimum)
    kube_batch.pods("claims", 2, requests={"cpu": "1", "memory": "1Gi", **GPU})
    await kube_batch.pass_time(4)
    kube_batch.cluster.add_node("extra", allocatable={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": "1"})
    kube_batch.cluster.delete_pod("borrower-0-0")
    await kube_batch.pass_time(20)
    assert sum(map(bool, kube_batch.nodes_of("claims"))) >= minimum
