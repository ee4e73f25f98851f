"""GangScheduling by itself: who may stand in line, what brings a pod back, and who waits for whom at Permit."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import ObjectMeta, Pod, PodSchedulingGroup, PodSpec
from pyscheduler.framework import Code, CycleState, QueueingHint, Trial
from pyscheduler.plugins.gang_scheduling import GangScheduling
from pyscheduler.podgroup import GroupId
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.testing import FakeCluster, FakeFramework

G = GroupId("default", "g", "intree")
ABSENT = 'waiting for pods\'s pod group "g" to appear in scheduling queue'
TOO_FEW = "waiting for minCount pods from a gang to appear in scheduling queue"
WAIT = "waiting for minCount pods from a gang to be scheduled"


def pod(name: str, group: str = "g", *, uid: str = "", namespace: str = "default") -> Pod:
    """Make a pod of a group; of none where `group` is empty."""
    spec = PodSpec(scheduling_group=PodSchedulingGroup(pod_group_name=group) if group else None)
    return Pod(metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or name), spec=spec)


def pod_group(name: str = "g", *, namespace: str = "default") -> InTreePodGroup:
    """Make a PodGroup."""
    return InTreePodGroup(metadata=ObjectMeta(name=name, namespace=namespace, uid=name))


@pytest.fixture(name="framework")
async def _framework(cluster: FakeCluster) -> FakeFramework:
    """Return a framework with the plugin and no group cycle, on a cluster that serves PodGroups."""
    if not cluster.serves(IN_TREE_PODGROUPS):
        cluster.serve(IN_TREE_PODGROUPS)
    made = cluster.framework(enable=["GangScheduling"])
    await made.start()
    return made


def add_group(cluster: FakeCluster, **policy: Any) -> None:
    """Create the PodGroup `g`."""
    cluster.add(
        {
            "apiVersion": "scheduling.k8s.io/v1alpha2",
            "kind": "PodGroup",
            "metadata": {"name": "g", "namespace": "default"},
            "spec": {"schedulingPolicy": policy},
        },
        InTreePodGroup,
    )


def add_pods(cluster: FakeCluster, count: int, **keywords: Any) -> list[Pod]:
    """Create members of `g`."""
    spec = {"schedulingGroup": {"podGroupName": "g"}}
    return [cluster.add_pod(f"p{number}", spec=spec, **keywords) for number in range(count)]


async def test_who_may_stand_in_line(cluster: FakeCluster, framework: FakeFramework) -> None:
    """Members of a gang that is there and has enough pods, those of a basic group, and everybody without one."""
    assert framework.run_pre_enqueue(pod("plain", "")) is None
    status = framework.run_pre_enqueue(pod("p"))
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, ABSENT)
    (first,) = add_pods(cluster, 1)
    add_group(cluster, gang={"minCount": 2})
    await framework.settle()
    status = framework.run_pre_enqueue(first)
    assert status is not None
    assert (status.code, status.message) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, TOO_FEW)
    cluster.add_pod("q", spec={"schedulingGroup": {"podGroupName": "g"}})
    await framework.settle()
    assert framework.run_pre_enqueue(first) is None


async def test_pods_of_other_schedulers_do_not_count_until_they_have_a_node(
    cluster: FakeCluster, framework: FakeFramework
) -> None:
    """Whether they will ever be tried nobody knows here."""
    add_group(cluster, gang={"minCount": 3})
    (mine,) = add_pods(cluster, 1)
    spec = {"schedulingGroup": {"podGroupName": "g"}}
    cluster.add_pod("foreign", scheduler_name="other", spec=spec)
    cluster.add_pod("placed", scheduler_name="other", node_name="elsewhere", spec=spec)
    await framework.settle()
    assert framework.run_pre_enqueue(mine) is not None
    cluster.add_pod("placed-too", scheduler_name="other", node_name="elsewhere", spec=spec)
    await framework.settle()
    assert framework.run_pre_enqueue(mine) is None


async def test_a_basic_group_asks_for_nothing(cluster: FakeCluster, framework: FakeFramework) -> None:
    """Its pods pass PreEnqueue and Permit."""
    add_group(cluster, basic={})
    (member,) = add_pods(cluster, 1)
    await framework.settle()
    assert framework.run_pre_enqueue(member) is None
    assert framework.run_permit(member, "n") is None


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(pod("other"), QueueingHint.QUEUE, id="a pod of the group"),
        pytest.param(pod("other", "h"), QueueingHint.SKIP, id="a pod of another group"),
        pytest.param(pod("other", namespace="far"), QueueingHint.SKIP, id="a pod of that name's group elsewhere"),
        pytest.param(pod("other", ""), QueueingHint.SKIP, id="a pod without a group"),
    ],
)
def test_a_pod_that_comes_brings_its_own_group_back(new: Pod, expected: QueueingHint) -> None:
    """Others do not help."""
    assert GangScheduling().after_pod_added(pod("p"), None, new) is expected


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        pytest.param(pod_group(), QueueingHint.QUEUE, id="its own"),
        pytest.param(pod_group("h"), QueueingHint.SKIP, id="another"),
        pytest.param(pod_group(namespace="far"), QueueingHint.SKIP, id="of another namespace"),
    ],
)
def test_a_pod_group_that_comes_brings_its_pods_back(new: InTreePodGroup, expected: QueueingHint) -> None:
    """Under the name that kube-scheduler gives the event."""
    plugin = GangScheduling()
    assert [each.event.label for each in plugin.events_to_register()] == ["PodAdd", "scheduling.k8s.io/PodGroupAdd"]
    assert plugin.after_group_added(pod("p"), None, new) is expected


async def test_in_a_group_cycle_those_count_who_were_placed_in_it(
    cluster: FakeCluster, framework: FakeFramework
) -> None:
    """With those that have a node already; nobody is held."""
    add_group(cluster, gang={"minCount": 3})
    members = add_pods(cluster, 2)
    cluster.add_pod("bound", node_name="n", spec={"schedulingGroup": {"podGroupName": "g"}})
    await framework.settle()
    trial = Trial()
    state = CycleState(trial)
    trial.place(G, members[0].uid, "n")
    status = framework.run_permit(members[0], "n", state)
    assert status is not None
    assert (status.code, status.reasons[0], status.timeout_seconds) == (Code.WAIT, WAIT, 300.0)
    trial.place(G, members[1].uid, "n")
    assert framework.run_permit(members[1], "n", state) is None
    trial.take_back(G, members[0].uid)
    assert framework.run_permit(members[1], "n", state) is not None


async def test_without_the_pod_group_permit_is_an_error(cluster: FakeCluster, framework: FakeFramework) -> None:
    """It was there when the pod entered the queue; the pod is tried again when it comes back."""
    (member,) = add_pods(cluster, 1)
    await framework.settle()
    status = framework.run_permit(member, "n")
    assert status is not None
    assert status.is_error
    expected = 'failed to get podGroup default/g: podgroup.scheduling.k8s.io "g" not found'
    assert expected in status.message


async def test_without_the_group_cycle_members_wait_for_each_other(
    cluster: FakeCluster, framework: FakeFramework
) -> None:
    """A profile that names the plugin without the gates: members wait at Permit, up to five minutes."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    add_group(cluster, gang={"minCount": 3})
    add_pods(cluster, 3, requests={"cpu": "1"})
    await framework.settle()
    names = ["p0", "p1", "p2"]
    assert sorted(framework.result(name).state for name in names) == ["pending", "waiting", "waiting"]
    cluster.add_node("m", allocatable={"cpu": "1"})
    await cluster.clock.advance(15)
    assert [framework.result(name).state for name in names] == ["bound"] * 3


async def test_who_stops_waiting_does_not_count(cluster: FakeCluster, framework: FakeFramework) -> None:
    """A member whose wait has just ended badly cannot make the others complete."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    add_group(cluster, gang={"minCount": 3})
    members = add_pods(cluster, 3, requests={"cpu": "1"})
    await framework.settle()
    waiting = list(framework.profile.handle.waiting_pods())
    assert len(waiting) == 2
    third = next(each for each in members if each.uid not in {held.pod.uid for held in waiting})
    assert waiting[0].reject("GangScheduling", "for a test")
    status = framework.run_permit(third, "n")
    assert status is not None
    assert status.is_wait
    assert waiting[1].verdict is None
    framework.run_unreserve(third, "n")
