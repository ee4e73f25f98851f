"""Gangs of which a binding fails: the rest of the gang gets the room that it was given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.submission import Submission

if TYPE_CHECKING:
    from pyscheduler_lab.testing import BatchCluster


@pytest.fixture(params=["kai", "volcano", "kube_batch"])
def batch(request: pytest.FixtureRequest) -> BatchCluster:
    """Return a cluster of each system."""
    found: BatchCluster = request.getfixturevalue(request.param)
    return found


async def full_cluster_with_a_late_rival(batch: BatchCluster, fault: Fault) -> None:
    """Let a gang fill all nodes, and a job of a queue that has nothing come before its last binding is tried again."""
    batch.nodes(4, cpu="4")
    for name in "ab":
        batch.queue(name, **({} if batch.preset == "kai" else {"weight": 1}))
    await batch.start()
    batch.cluster.server.faults.add(fault)
    batch.job("gang", "a", 4, requests={"cpu": "4"})
    while not fault.hits:
        await batch.pass_time(0.005)
    batch.job("rival", "b", 1, requests={"cpu": "4"})


async def test_a_gang_keeps_the_node_of_a_member_whose_binding_failed(batch: BatchCluster) -> None:
    """The rival would have the better claim; but then the gang would stay in parts."""
    fault = Fault(method="POST", path="/pods/gang-2/binding$", status=409, times=2)
    await full_cluster_with_a_late_rival(batch, fault)
    await batch.pass_time(30)
    assert fault.hits == 2
    assert all(batch.nodes_of("gang"))
    assert batch.nodes_of("rival") == [""]


async def test_a_gang_keeps_the_node_of_a_member_that_waits_for_its_queue(
    batch: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass counts on a member that is bound later, when its queue is below its limit: nobody takes its node."""
    batch.nodes(2, cpu="4")
    for name in "ab":
        batch.queue(name, **({} if batch.preset == "kai" else {"weight": 1}))
    await batch.start()
    batch.group("gang", "a", 1)
    batch.pods("gang", 1, requests={"cpu": "4"})
    await batch.pass_time(1)
    crowded = [True]
    monkeypatch.setattr(
        Submission,
        "_is_crowded",
        staticmethod(lambda job, *_: bool(job.key == "default/gang" and crowded and crowded.pop())),
    )
    batch.cluster.patch(batch.group_kind.type, "gang", {"spec": {"minMember": 2}})
    batch.pods("gang", 1, start=1, requests={"cpu": "4"})
    while crowded:
        await batch.pass_time(0.005)
    batch.job("rival", "b", 1, requests={"cpu": "4"})
    await batch.pass_time(5)
    assert all(batch.nodes_of("gang"))
    assert batch.nodes_of("rival") == [""]


@pytest.mark.sampled(2)
async def test_a_gang_that_lost_all_bindings_has_no_precedence(batch: BatchCluster) -> None:
    """With no member bound nothing stays in parts: the next pass decides anew."""
    fault = Fault(method="POST", path="/pods/gang-./binding$", status=409, times=4)
    await full_cluster_with_a_late_rival(batch, fault)
    await batch.pass_time(0.5)
    assert not sessions_of(batch.scheduler.scheduler)[0].commitments.promises


async def test_a_gang_that_loses_all_bindings_one_by_one_has_no_precedence(kai: BatchCluster) -> None:
    """After the first failure the others are under way; when they fail, too, the promise of the first one ends."""
    kai.nodes(4, cpu="4")
    for name in "ab":
        kai.queue(name)
    await kai.start()
    for number in range(4):
        path, delay = f"/pods/gang-{number}/binding$", 0.2 * number
        kai.cluster.server.faults.add(Fault(method="POST", path=path, status=409, delay_seconds=delay))
    kai.job("gang", "a", 4, requests={"cpu": "4"})
    await kai.pass_time(0.1)
    kai.job("rival", "b", 1, requests={"cpu": "4"})
    await kai.pass_time(5)
    assert not any(kai.nodes_of("gang"))
    assert all(kai.nodes_of("rival"))


async def test_a_pod_whose_binding_fails_again_and_again_may_go_elsewhere(volcano: BatchCluster) -> None:
    """Its node is promised three times; then the policies choose, and others may have the node."""
    fault = Fault(method="POST", path="/pods/gang-2/binding$", status=409, times=6)
    await full_cluster_with_a_late_rival(volcano, fault)
    await volcano.pass_time(60)
    assert fault.hits > 3
    assert all(volcano.nodes_of("rival"))
    assert len([node for node in volcano.nodes_of("gang") if node]) == 3


async def test_sub_groups_keep_the_nodes_of_members_whose_bindings_failed(kai: BatchCluster) -> None:
    """The minimum of the job itself says nothing then."""
    kai.nodes(3, cpu="4")
    for name in "ab":
        kai.queue(name)
    await kai.start()
    fault = kai.cluster.server.faults.add(Fault(method="POST", path="/pods/gang-2/binding$", status=409, times=2))
    parts = [{"name": "x", "minMember": 1}, {"name": "y", "minMember": 2}]
    kai._create(kai.group_kind, {"name": "gang", "namespace": "default"}, {"queue": "a", "subGroups": parts})
    for number, part in enumerate("xyy"):
        labels = {"kai.scheduler/subgroup-name": part}
        kai.pods("gang", 1, start=number, requests={"cpu": "4"}, labels=labels)
    while not fault.hits:
        await kai.pass_time(0.005)
    kai.job("rival", "b", 1, requests={"cpu": "4"})
    await kai.pass_time(30)
    assert fault.hits == 2
    assert all(kai.nodes_of("gang"))
    assert kai.nodes_of("rival") == [""]


async def test_refused_bindings_are_not_repeated_by_each_pass(batch: BatchCluster) -> None:
    """A webhook refuses the bindings of a gang while other pods come and go, so that passes follow each other."""
    batch.nodes(2, cpu="8")
    batch.queue("a")
    await batch.start()
    fault = batch.cluster.server.faults.add(Fault(method="POST", path="/pods/gang-./binding$", status=403))
    batch.job("gang", "a", 4)
    for number in range(40):
        batch.job(f"other{number}", "a", 1)
        await batch.pass_time(0.5)
        assert all(batch.nodes_of(f"other{number}"))
        batch.cluster.delete_pod(f"other{number}-0")
    # After 0, 1, 3, 7 and 15 s.
    assert fault.hits == 5 * 4
    said = [each for each in batch.cluster.pod("gang-0").status.conditions if each.type == "PodScheduled"]
    assert [each.message.partition(":")[0] for each in said] == ["BindingBackoff"]
    batch.cluster.server.faults.clear()
    await batch.pass_time(11.0)
    assert all(batch.nodes_of("gang"))
