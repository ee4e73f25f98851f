"""DefaultPreemption with `protectQuorum`: groups that have their minimum keep it while there are other victims."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.testing import FakeCluster, FakeFramework

TABLE = DialectTable(DIALECTS)


def declare(cluster: FakeCluster, dialect: str, *, minimum: int) -> dict[str, Any]:
    """Create a group `g`, if the dialect has an object for it; return what marks its members."""
    row = TABLE.named(dialect)
    if row.kinds:
        kind = row.kinds[0]
        if not cluster.serves(kind):
            cluster.serve(kind)
        in_tree = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        cluster.server.add(
            {
                "apiVersion": kind.api_version,
                "kind": kind.kind,
                "metadata": {"name": "g", "namespace": "default"},
                "spec": in_tree if dialect == "intree" else {"minMember": minimum},
            }
        )
    key = row.keys[0]
    if dialect == "intree":
        return {"spec": {"schedulingGroup": {"podGroupName": "g"}}}
    said = {key.name: "g"}
    if dialect == "lightweight":
        said["pod-group.scheduling.sigs.k8s.io/min-available"] = str(minimum)
    return {f"{key.place.value}s": said}


def framework_of(cluster: FakeCluster, *, protect: bool) -> FakeFramework:
    """Return a framework with nothing but the arg."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "pyscheduler",
                "pluginConfig": [{"name": "DefaultPreemption", "args": {"protectQuorum": protect}}],
            }
        ],
    }
    return cluster.framework(config=json.dumps(config))


def gone(cluster: FakeCluster) -> set[str]:
    """Return the names of the pods that are on their way out."""
    return {pod.name for pod in cluster.pods() if pod.is_terminating}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("protect", [pytest.param(True, id="protected"), pytest.param(False, id="by default not")])
@pytest.mark.parametrize("dialect", ["sigs", "koordinator", "lightweight", "volcano", "intree"])
async def test_a_gang_at_its_minimum_is_spared(cluster: FakeCluster, dialect: str, protect: bool) -> None:
    """Its member would be the cheaper victim, by its priority; whoever scheduled the gang."""
    mark = declare(cluster, dialect, minimum=2)
    cluster.add_node("a", allocatable={"cpu": "1"})
    cluster.add_node("b", allocatable={"cpu": "1"})
    cluster.add_node("elsewhere", allocatable={"cpu": "1"})
    cluster.add_pod("g0", node_name="a", requests={"cpu": "1"}, priority=1, scheduler_name="other", **mark)
    cluster.add_pod("g1", node_name="elsewhere", requests={"cpu": "1"}, priority=50, scheduler_name="other", **mark)
    cluster.add_pod("plain", node_name="b", requests={"cpu": "1"}, priority=5)
    framework = framework_of(cluster, protect=protect)
    await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    assert gone(cluster) == ({"plain"} if protect else {"g0"})


@pytest.mark.parametrize(
    ("minimum", "bound", "victim"),
    [
        pytest.param(2, 3, "g0", id="a surplus member may go"),
        pytest.param(4, 3, "g0", id="a group without its minimum has nothing to lose"),
        pytest.param(3, 3, "plain", id="at the minimum"),
    ],
)
async def test_only_the_minimum_is_protected(cluster: FakeCluster, minimum: int, bound: int, victim: str) -> None:
    """The rest of a group is as good a victim as any."""
    mark = declare(cluster, "sigs", minimum=minimum)
    for name in ("a", "b"):
        cluster.add_node(name, allocatable={"cpu": "1"})
    cluster.add_node("far", allocatable={"cpu": "9"}, unschedulable=True)
    cluster.add_pod("g0", node_name="a", requests={"cpu": "1"}, priority=1, **mark)
    for number in range(1, bound):
        cluster.add_pod(f"g{number}", node_name="far", requests={"cpu": "1"}, priority=1, **mark)
    cluster.add_pod("plain", node_name="b", requests={"cpu": "1"}, priority=5)
    framework = framework_of(cluster, protect=True)
    await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    assert gone(cluster) == {victim}


async def test_members_on_one_node_use_up_what_may_go(cluster: FakeCluster) -> None:
    """One of two may go; the second would be one too many, so another node is better."""
    mark = declare(cluster, "sigs", minimum=2)
    cluster.add_node("a", allocatable={"cpu": "2"})
    cluster.add_node("b", allocatable={"cpu": "2"})
    cluster.add_node("far", allocatable={"cpu": "9"}, unschedulable=True)
    cluster.add_pod("g0", node_name="a", requests={"cpu": "1"}, priority=1, **mark)
    cluster.add_pod("g1", node_name="a", requests={"cpu": "1"}, priority=1, **mark)
    cluster.add_pod("g2", node_name="far", requests={"cpu": "1"}, priority=1, **mark)
    cluster.add_pod("plain", node_name="b", requests={"cpu": "2"}, priority=5)
    framework = framework_of(cluster, protect=True)
    await framework.schedule("high", requests={"cpu": "2"}, priority=10)
    assert gone(cluster) == {"plain"}


async def test_where_nobody_else_can_go_a_gang_does(cluster: FakeCluster) -> None:
    """A violated budget costs, and forbids nothing; and members on their way out do not count as there."""
    mark = declare(cluster, "sigs", minimum=1)
    cluster.add_node("a", allocatable={"cpu": "1"})
    cluster.add_pod("g0", node_name="a", requests={"cpu": "1"}, priority=1, **mark)
    framework = framework_of(cluster, protect=True)
    await framework.schedule("high", requests={"cpu": "1"}, priority=10)
    assert gone(cluster) == {"g0"}


@pytest.mark.parametrize("protect", [True, False])
async def test_the_kinds_of_groups_are_watched_only_where_they_are_protected(
    cluster: FakeCluster, protect: bool
) -> None:
    """Nobody reads PodGroups for a rule that is off."""
    plugin = framework_of(cluster, protect=protect).plugin("DefaultPreemption")
    groups = {"podgroups"} if protect else set()
    assert {kind.plural for kind in plugin.watches} == {"poddisruptionbudgets", *groups}
