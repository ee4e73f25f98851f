"""minResources: sums over nodes, single nodes, and the message about what is missing."""

from __future__ import annotations

from typing import Any

import pytest

from pyscheduler.api import Node
from pyscheduler_coscheduling.min_resources import format_nanos, resource_gap

GIB = 2**30


@pytest.mark.parametrize(
    ("nanos", "like", "text"),
    [
        pytest.param(2 * 10**9, "", "2", id="whole"),
        pytest.param(1_500_000_000, "", "1500m", id="milli"),
        pytest.param(2_000 * 10**9, "", "2k", id="thousands"),
        pytest.param(3 * GIB * 10**9, "9Gi", "3Gi", id="gibi"),
        pytest.param(3 * GIB // 2 * 10**9, "9Gi", "1536Mi", id="mebi"),
        pytest.param((GIB + 1) * 10**9, "9Gi", "1073741825", id="odd bytes"),
        pytest.param(100 * 10**9, "9Gi", "100", id="less than a kibi"),
        pytest.param(5 * 10**9, 9, "5", id="a number"),
    ],
)
def test_resource_gap_uses_kubernetes_quantities(nanos: int, like: Any, text: str) -> None:
    """The amount has the largest suffix that leaves a whole number, of the kind in minResources."""
    assert format_nanos(nanos, like=like) == text


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("wanted", "minimum", "gap"),
    [
        pytest.param({"cpu": "6"}, 2, "", id="enough in all"),
        pytest.param({"cpu": "8"}, 2, "resource gap: map[cpu:1]", id="one core short"),
        pytest.param({"cpu": "7500m"}, 2, "resource gap: map[cpu:500m]", id="half a core"),
        pytest.param({"cpu": "9", "example.com/x": 3}, 1, "resource gap: map[cpu:2 example.com/x:3]", id="sorted"),
        pytest.param({"memory": "40Gi"}, 1, "resource gap: map[memory:8Gi]", id="memory"),
        pytest.param({"cpu": "1", "pods": "1"}, 30, "resource gap: map[pods:11]", id="pods are the minimum"),
        pytest.param({"cpu": "0"}, 1, "", id="nothing wanted"),
    ],
)
def test_free_room_is_summed_over_nodes(world: Any, wanted: dict[str, Any], minimum: int, gap: str) -> None:
    """An overcommitted node counts as full; the number of pods is the minimum."""
    for name in ("a", "b"):
        world.cluster.add_node(name, allocatable={"cpu": "4", "memory": "16Gi", "pods": "10"})
    world.cluster.add_pod("one", node_name="b", requests={"cpu": "1"})
    world.cluster.add_node("over", allocatable={"cpu": "2", "memory": "0", "pods": "1"})
    over = world.cluster.add_pod("two", node_name="over", requests={"cpu": "2"})
    framework = world.schedule()
    framework.nodes()
    # What the node offers shrinks under its pods; the books of the test's own cluster are mended afterwards.
    world.cluster.patch(Node, "over", {"status": {"allocatable": {"cpu": "1"}}}, status=True)
    nodes = framework.nodes()
    assert nodes.requested("cpu").sum() == 3000
    assert resource_gap(wanted, minimum, nodes, ()) == gap
    world.cluster.delete_pod(over.name)


def test_amounts_held_by_the_group_count_as_free(world: Any) -> None:
    """Resources and pods of members with a node count as free."""
    world.cluster.add_node("a", allocatable={"cpu": "4", "pods": "2"})
    member = world.cluster.add_pod("g-0", node_name="a", requests={"cpu": "3"})
    nodes = world.schedule().nodes()
    assert resource_gap({"cpu": "4"}, 2, nodes, ()) == "resource gap: map[cpu:3 pods:1]"
    assert resource_gap({"cpu": "4"}, 2, nodes, [(member, "a")]) == ""
    assert resource_gap({"cpu": "4"}, 2, nodes, [(member, "nowhere")]) == "resource gap: map[cpu:3 pods:1]"
    assert nodes.pod_counts().tolist() == [1]


def test_scope_node_needs_one_node_with_all_resources(world: Any) -> None:
    """The sum over nodes does not count; the message has what the best node misses."""
    for name, cpu in (("a", "2"), ("b", "5"), ("c", "3")):
        world.cluster.add_node(name, allocatable={"cpu": cpu, "memory": "4Gi", "pods": "9"})
    nodes = world.schedule().nodes()
    assert resource_gap({"cpu": "6"}, 1, nodes, (), one_node=True) == "resource gap: map[cpu:1]"
    assert resource_gap({"cpu": "5", "memory": "4Gi"}, 1, nodes, (), one_node=True) == ""
    assert resource_gap({"cpu": "6"}, 1, nodes, ()) == ""


async def test_without_a_window_room_wakes_a_group_refused_for_min_resources(world: Any) -> None:
    """A deleted pod wakes the group."""
    world.nodes(1, cpu="4")
    world.cluster.add_pod("there", node_name="n0", requests={"cpu": "2"})
    world.schedule(deniedPGExpirationTimeSeconds=0)
    world.group("g", 2, pods=2, minResources={"cpu": 4})
    await world.settle(30)
    assert "resource gap: map[cpu:2]" in world.result("g-0").message
    world.cluster.delete_pod("there")
    await world.settle(15)
    assert world.states("g") == {"bound": 2}
