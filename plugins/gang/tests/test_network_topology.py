"""Gangs that are gathered in one part of the network, as Koordinator's annotation `network-topology-spec` says."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyscheduler.api import Node
from pyscheduler.framework import ConfigError
from pyscheduler_gang.args import GangArgs
from pyscheduler_gang.network_topology import CLUSTER_NETWORK_TOPOLOGIES, ClusterNetworkTopology

AWARE = {"awareNetworkTopology": True, "strategy": "groupCycle"}
LAYERS = [
    {"topologyLayer": "blockLayer", "labelKey": ["block", "old-block"]},
    {"topologyLayer": "rackLayer", "parentTopologyLayer": "blockLayer", "labelKey": ["rack"]},
    {"topologyLayer": "NodeTopologyLayer", "parentTopologyLayer": "rackLayer"},
]


def rules(**strategies: str) -> dict[str, str]:
    """Return the annotation: layers by name, and their strategies."""
    found = [{"layer": layer, "strategy": strategy} for layer, strategy in strategies.items()]
    return {"network_topology_spec": json.dumps({"gatherStrategy": found})}


def describe(world: Any, layers: list[dict[str, Any]] | None = None) -> None:
    """Create the object that names the layers."""
    body = {
        "apiVersion": ClusterNetworkTopology.api_version,
        "kind": "ClusterNetworkTopology",
        "metadata": {"name": "default"},
        "spec": {"networkTopologySpec": LAYERS if layers is None else layers},
    }
    world.cluster.add(body, ClusterNetworkTopology)


def racks(world: Any, *cpus: tuple[str, str, float]) -> None:
    """Create a node for each block, rack and number of CPUs."""
    for number, (block, rack, cpu) in enumerate(cpus):
        name = f"node-{number}"
        labels = {**({"block": block} if block else {}), **({"rack": rack} if rack else {})}
        world.cluster.add_node(name, labels=labels, allocatable={"cpu": f"{round(cpu * 1000)}m"})


def where(world: Any, prefix: str, key: str) -> set[str]:
    """Return the values of a label of the nodes that have these pods."""
    names = {pod.node_name for pod in world.cluster.pods() if pod.name.startswith(prefix) and pod.node_name}
    return {node.labels.get(key, node.name) for node in world.cluster.objects(Node) if node.name in names}


@pytest.fixture
def net(world: Any) -> Any:
    """Give a cluster that serves ClusterNetworkTopology."""
    world.cluster.serve(CLUSTER_NETWORK_TOPOLOGIES)
    return world


def test_only_whole_gangs_are_gathered() -> None:
    """The error says which argument to set, too."""
    with pytest.raises(ValueError, match=r"awareNetworkTopology: .* set strategy: groupCycle"):
        GangArgs(aware_network_topology=True)


def test_the_error_of_a_file_names_the_argument(world: Any) -> None:
    """As for any other argument."""
    with pytest.raises(ConfigError, match="awareNetworkTopology"):
        world.schedule(awareNetworkTopology=True)


async def test_a_gang_runs_in_the_one_block_that_has_room(net: Any) -> None:
    """Block b has more room in total than a gang of four needs, block a has not; single nodes are too small."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, ("a", "r1", 2), ("a", "r2", 1), ("b", "r3", 2), ("b", "r4", 2), ("b", "r5", 2))
    net.gang("g", 4, pods=4, **rules(rackLayer="PreferGather", blockLayer="MustGather"))
    await net.settle(5)
    assert (net.states(), where(net, "g-", "block")) == ({"bound": 4}, {"b"})


async def test_a_gang_takes_the_narrowest_part_with_least_room(net: Any) -> None:
    """Three racks have room for three pods; the one with room for three only is taken."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, *[("a", "big", 2)] * 3, *[("a", "tight", 1)] * 3, *[("b", "other", 2)] * 2, ("b", "small", 2))
    net.gang("g", 3, pods=3, **rules(blockLayer="MustGather"))
    await net.settle(5)
    assert (net.states(), where(net, "g-", "rack")) == ({"bound": 3}, {"tight"})


async def test_a_gang_waits_until_one_part_has_room(net: Any) -> None:
    """The message counts the places of each block; a node that is added makes room."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, ("a", "r1", 2), ("b", "r2", 3))
    net.gang("g", 4, pods=4, **rules(blockLayer="MustGather"))
    await net.settle(5)
    assert net.states() == {"pending": 4}
    said = "no candidate topology nodes can accommodate job, desiredOfferSlot: 4, "
    rooms = "topology topologyNode blockLayer/a: 2;topology topologyNode blockLayer/b: 3"
    messages = [net.result(f"g-{each}").message for each in range(4)]
    assert any(said + rooms in each for each in messages), messages
    net.cluster.add_node("more", labels={"block": "b", "rack": "r9"}, allocatable={"cpu": "1"})
    await net.settle(15)
    assert (net.states(), where(net, "g-", "block")) == ({"bound": 4}, {"b"})


async def test_a_preferred_layer_is_left_if_it_has_no_room(net: Any) -> None:
    """The gang uses both blocks."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, ("a", "r1", 2), ("b", "r2", 2))
    net.gang("g", 4, pods=4, **rules(blockLayer="PreferGather"))
    await net.settle(5)
    assert (net.states(), where(net, "g-", "block")) == ({"bound": 4}, {"a", "b"})


async def test_an_elastic_gang_starts_with_its_minimum_where_most_fit(net: Any) -> None:
    """No block has room for all; members that come later stay in the block of the first ones."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, ("a", "r1", 2), ("b", "r2", 3))
    net.gang("g", 2, pods=4, **rules(blockLayer="MustGather"))
    await net.settle(5)
    assert (net.states(), where(net, "g-", "block")) == ({"bound": 3, "pending": 1}, {"b"})
    net.pods("g", 1, gang="g", start=4)
    net.cluster.add_node("more", labels={"block": "b", "rack": "r9"}, allocatable={"cpu": "2"})
    await net.settle(15)
    assert (net.states(), where(net, "g-", "block")) == ({"bound": 5}, {"b"})


async def test_a_gang_waits_for_the_object_that_names_the_layers(net: Any) -> None:
    """Without it nobody knows the blocks; a layer that it does not name is not known either."""
    net.schedule(**AWARE)
    racks(net, ("a", "r1", 2), ("b", "r2", 4))
    net.gang("g", 4, pods=4, **rules(blockLayer="MustGather"))
    net.gang("h", 1, pods=1, **rules(cityLayer="MustGather"))
    await net.settle(5)
    assert net.states() == {"pending": 5}
    assert "no cluster network topology" in net.result("g-0").message
    describe(net)
    await net.settle(15)
    assert (net.states("g-"), where(net, "g-", "block")) == ({"bound": 4}, {"b"})
    assert "no cluster network topology: no layer cityLayer" in net.result("h-0").message


@pytest.mark.parametrize(
    "layers",
    [
        pytest.param([], id="none"),
        pytest.param([{"topologyLayer": "blockLayer", "labelKey": ["block"]}], id="no layer of nodes"),
        pytest.param("three", id="no list"),
    ],
)
async def test_an_object_without_a_chain_of_layers_is_as_good_as_none(net: Any, layers: Any) -> None:
    """The gang waits, and other pods are scheduled."""
    net.schedule(**AWARE)
    describe(net, layers)
    racks(net, ("a", "r1", 4))
    net.gang("g", 2, pods=2, **rules(blockLayer="MustGather"))
    net.pods("plain", 1)
    await net.settle(5)
    assert (net.states("g-"), net.states("plain")) == ({"pending": 2}, {"bound": 1})


async def test_nodes_without_labels(net: Any) -> None:
    """A node without a rack is a rack of its own, a node without a block is not used; the second label key counts."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, ("", "r1", 8), ("a", "", 2))
    net.cluster.add_node("old", labels={"old-block": "a", "rack": "r2"}, allocatable={"cpu": "2"})
    net.gang("g", 4, pods=4, **rules(blockLayer="MustGather"))
    net.gang("h", 1, pods=1, **rules(rackLayer="MustGather"))
    await net.settle(5)
    assert where(net, "g-", "block") == {"a", "old"}
    assert (net.states("g-"), net.states("h-")) == ({"bound": 4}, {"pending": 1})


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("three", id="no JSON"),
        pytest.param('{"gatherStrategy": "blockLayer"}', id="no list"),
        pytest.param("", id="empty"),
        pytest.param("{}", id="no rules"),
    ],
)
async def test_a_gang_without_usable_rules_may_use_all_nodes(net: Any, spec: str) -> None:
    """The value is reported where it is malformed."""
    net.schedule(**AWARE)
    racks(net, ("a", "r1", 2), ("b", "r2", 2))
    net.gang("g", 4, pods=4, network_topology_spec=spec)
    await net.settle(5)
    assert net.states() == {"bound": 4}
    problems = [str(each) for each in net.record("default/g").state.group.problems]
    assert bool(problems) is (spec not in {"", "{}"})


async def test_gangs_of_a_gang_group_are_gathered_together(net: Any) -> None:
    """One of them names the layer; both run in the one block that has room for both."""
    net.schedule(**AWARE)
    describe(net)
    racks(net, ("a", "r1", 3), ("b", "r2", 2), ("b", "r3", 2))
    groups = json.dumps(["default/g", "default/h"])
    net.gang("g", 2, pods=2, groups=groups, **rules(blockLayer="MustGather"))
    net.gang("h", 2, pods=2, groups=groups)
    await net.settle(10)
    assert (net.states(), where(net, "", "block")) == ({"bound": 4}, {"b"})


async def test_rules_have_no_effect_by_default(net: Any) -> None:
    """As in Koordinator: the argument is off."""
    net.schedule()
    racks(net, ("a", "r1", 2), ("b", "r2", 2))
    net.gang("g", 4, pods=4, **rules(blockLayer="MustGather"))
    await net.settle(5)
    assert net.states() == {"bound": 4}
