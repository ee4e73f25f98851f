"""The look for room that comes before an early attempt of a group, and what it costs where it errs."""

from __future__ import annotations

from collections import Counter
from typing import Any, ClassVar

import pytest

from pyscheduler.api import Pod
from pyscheduler.framework import (
    AfterFailure,
    CycleState,
    FilterPlugin,
    NodeInfo,
    PodInfo,
    PreFilterPlugin,
    QueuedPodInfo,
    Reuse,
    Status,
)
from pyscheduler.podgroup import places_needed
from pyscheduler.scheduler import room
from pyscheduler.testing import FakeCluster, FakeFramework, make_pod
from tests.scheduler.in_tree_groups import GATES, group, members, named, states


def has_room(framework: FakeFramework, pod: Pod, room_for: int) -> bool:
    """Look for room for so many pods like one."""
    after = AfterFailure()
    after.room_for = room_for
    queued = QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=0.0, after_failure=after)
    framework.nodes()
    return room.has_room(framework.scheduler.scheduling, framework.profile, queued)


@pytest.mark.parametrize(
    ("fields", "most"),
    [
        pytest.param({"requests": {"cpu": "1"}}, 5, id="two nodes of two cores, one of one"),
        pytest.param({"requests": {"cpu": "1"}, "node_selector": {"zone": "a"}}, 4, id="one zone"),
        pytest.param({"requests": {"cpu": "1500m"}}, 2, id="a core and a half"),
        pytest.param({"requests": {"cpu": "3"}}, 0, id="too much for any node"),
        pytest.param({"requests": {}}, 9, id="pods that ask for nothing, three on each node"),
        pytest.param({"requests": {"cpu": "1", "memory": "3Gi"}}, 3, id="memory is shorter than cores"),
    ],
)
async def test_it_counts_places_by_amounts(cluster: FakeCluster, fields: dict[str, Any], most: int) -> None:
    """On the nodes that pass the filters."""
    for name, cpu, zone in (("a0", "2", "a"), ("a1", "2", "a"), ("b0", "1", "b")):
        amounts = {"cpu": cpu, "memory": "4Gi", "pods": "3"}
        cluster.add_node(name, allocatable=amounts, labels={"zone": zone})
    framework = cluster.framework(feature_gates=GATES)
    await framework.settle()
    pod = make_pod("p", **fields)
    assert [has_room(framework, pod, count) for count in range(1, 11)] == [count <= most for count in range(1, 11)]


async def test_members_that_need_each_other_are_given_the_benefit_of_the_doubt(cluster: FakeCluster) -> None:
    """A pod that must be beside another may fit once that one is placed; a selector that no node has never does."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    await framework.settle()
    term = {"labelSelector": {"matchLabels": {"app": "leader"}}, "topologyKey": "kubernetes.io/hostname"}
    beside = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    assert has_room(framework, make_pod("p", spec={"affinity": beside}), 1)
    assert not has_room(framework, make_pod("p", node_selector={"zone": "a"}), 1)


def test_the_places_that_a_group_needs_for_pods_like_one() -> None:
    """Members that are not like the pod are taken to find theirs."""
    small = [make_pod(f"s{number}", requests={"cpu": "1"}) for number in range(4)]
    large = [make_pod(f"l{number}", requests={"cpu": "2"}) for number in range(2)]
    assert places_needed(small[0], small, 4) == 4
    assert places_needed(small[0], small, 2) == 2
    assert places_needed(large[0], [*small, *large], 6) == 2
    assert places_needed(large[0], [*small, *large], 5) == 1
    assert places_needed(large[0], [*small, *large], 3) == 1


class Refuser(FilterPlugin, PreFilterPlugin):
    """Refuses members of a group once a second one is to be placed, which no look at one pod can see."""

    name = "Refuser"
    reuse = Reuse.NEVER
    attempts: ClassVar[Counter[str]] = Counter()
    looks: ClassVar[Counter[str]] = Counter()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> None:
        (self.looks if state.trial is not None and state.trial.is_question else self.attempts)[pod.name] += 1

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        others = [info for info in node.pods if info.pod.spec.scheduling_group is not None]
        return Status.unschedulable("one member is enough") if others else None


@pytest.mark.slow
@pytest.mark.parametrize("rate", [8, pytest.param(40, marks=pytest.mark.long)])
async def test_a_storm_of_events_costs_few_attempts_where_the_look_errs(cluster: FakeCluster, rate: int) -> None:
    """Events for a minute, so many a second, each of which may help as far as anybody knows."""
    Refuser.attempts.clear()
    Refuser.looks.clear()
    cluster.add_node("n", allocatable={"cpu": "8"})
    framework = cluster.framework(enable=[Refuser], feature_gates=GATES)
    group(cluster, "g", minimum=2)
    members(cluster, "g", 2)
    await framework.settle()
    for number in range(60 * rate):
        if number % 2:
            cluster.delete_pod("other")
        else:
            cluster.add_pod("other", node_name="n", requests={"cpu": "100m"})
        await cluster.clock.advance(1 / rate)
    assert states(framework, named("g", 2)) == {"pending": 2}
    assert max(Refuser.looks.values()) > 100, "nobody was woken"
    # By the backoff alone it is nine.
    assert max(Refuser.attempts.values()) <= 16, Refuser.attempts


async def test_a_gang_of_which_no_member_is_left_to_listen_goes_by_its_backoff(cluster: FakeCluster) -> None:
    """The member that listened is deleted, another one takes its place, and the gang starts when there is room."""
    cluster.add_node("n", allocatable={"cpu": "2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=3)
    members(cluster, "g", 3)
    await framework.settle()
    listener = next(name for name in named("g", 3) if framework.result(name).message.startswith("0/1 nodes"))
    cluster.delete_pod(listener)
    members(cluster, "g", 1, start=3)
    await cluster.clock.advance(20)
    cluster.add_node("m", allocatable={"cpu": "1"})
    await cluster.clock.advance(0.2)
    left = [name for name in named("g", 4) if name != listener]
    assert states(framework, left) == {"bound": 3}
