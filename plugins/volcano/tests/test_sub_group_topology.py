"""A `networkTopology` in Volcano's `subGroupPolicy`: each sub-group runs in one HyperNode."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import pytest

from pyscheduler.api import PriorityClass
from pyscheduler_volcano.hyper_nodes import HYPER_NODES, HyperNode

TIERS = (
    "tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}]}, "
    "{plugins: [{name: predicates}, {name: proportion}, {name: network-topology-aware}]}]"
)
#: Two racks in each of two blocks, with so many nodes of one CPU.
RACKS = {"a0": 3, "a1": 2, "b0": 2, "b1": 2}
HARD = {"mode": "hard", "highestTierAllowed": 1}


def add_racks(volcano: Any, racks: Mapping[str, int] = RACKS) -> None:
    """Add the nodes of racks with their HyperNodes, blocks above them, and the default queue."""
    cluster = volcano.cluster
    cluster.serve(HYPER_NODES)
    for rack, count in racks.items():
        for number in range(count):
            amounts = {"cpu": "1", "memory": "64Gi", "pods": "110"}
            cluster.add_node(f"{rack}-{number}", allocatable=amounts, labels={"rack": rack})
        add_hyper_node(volcano, rack, 1, {"type": "Node", "selector": {"labelMatch": {"matchLabels": {"rack": rack}}}})
    for block in sorted({rack[0] for rack in racks}):
        inside = [
            {"type": "HyperNode", "selector": {"exactMatch": {"name": name}}} for name in racks if name[0] == block
        ]
        add_hyper_node(volcano, block, 2, *inside)
    volcano.queue("default")


def add_hyper_node(volcano: Any, name: str, tier: int, *members: dict[str, Any]) -> None:
    """Add a HyperNode."""
    manifest = {"apiVersion": HYPER_NODES.api_version, "kind": "HyperNode", "metadata": {"name": name}}
    volcano.cluster.add({**manifest, "spec": {"tier": tier, "members": [*members]}}, HyperNode)


def job(volcano: Any, slices: int, size: int, topology: Any, count: int | None = None, **spec: Any) -> None:
    """Create the job g of slices; each of them needs `size` of its `count` pods."""
    policy = {"name": "s", "matchLabelKeys": ["slice"], "subGroupSize": size, "minSubGroups": slices}
    volcano.group("g", "default", slices * size, subGroupPolicy=[{**policy, "networkTopology": topology}], **spec)
    for at in range(slices):
        members(volcano, at, count or size)


def members(volcano: Any, at: int, count: int, *, start: int = 0) -> None:
    """Create pods of a slice."""
    for number in range(start, start + count):
        volcano.cluster.add_pod(
            f"s{at}-{number}",
            labels={"slice": str(at)},
            annotations={"scheduling.k8s.io/group-name": "g"},
            scheduler_name="batch",
            requests={"cpu": "1"},
        )


def places(volcano: Any) -> dict[str, str]:
    """Return by slice the racks of its pods, such as `a0 a0 b1`; "-" for a pod that waits."""
    found: dict[str, list[str]] = {}
    for pod in volcano.cluster.pods():
        found.setdefault(pod.name.partition("-")[0], []).append((pod.node_name or "-").partition("-")[0] or "-")
    return {name: " ".join(sorted(racks)) for name, racks in found.items()}


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("slices", "size", "topology", "expected"),
    [
        pytest.param(2, 2, HARD, {"s0": "a1 a1", "s1": "b0 b0"}, id="a rack for each"),
        pytest.param(2, 3, HARD, {"s0": "- - -", "s1": "- - -"}, id="only one rack is large enough"),
        pytest.param(1, 3, HARD, {"s0": "a0 a0 a0"}, id="the only rack that is large enough"),
        pytest.param(2, 4, {"mode": "hard", "highestTierAllowed": 2}, None, id="a block for each"),
        pytest.param(1, 8, {"mode": "soft"}, None, id="the whole cluster, if a topology is only preferred"),
    ],
)
async def test_a_sub_group_runs_in_one_hyper_node(
    volcano: Any, slices: int, size: int, topology: Any, expected: dict[str, str] | None
) -> None:
    """Lower tiers come first, and the fullest HyperNode; a sub-group without one keeps the job from starting."""
    add_racks(volcano)
    await volcano.start(TIERS)
    job(volcano, slices, size, topology)
    await volcano.pass_time()
    found = places(volcano)
    if expected is not None:
        assert found == expected
    else:
        assert all(len({rack[0] for rack in racks.split()}) == (1 if slices == 2 else 2) for racks in found.values())
        assert "-" not in "".join(found.values())


@pytest.mark.parametrize(
    ("topology", "policy", "expected"),
    [
        pytest.param(
            HARD,
            {},
            "NotEnoughResources: network topology: no HyperNode of tier 1 or lower takes 4 pods of the job; a0 has "
            "room for 3",
            id="job",
        ),
        pytest.param(
            {},
            HARD,
            "network topology: no HyperNode of tier 1 or lower takes 2 pods of sub-group s/2; a0 has room for 1",
            id="sub-group",
        ),
    ],
)
async def test_pods_say_which_topology_keeps_them_waiting(
    volcano: Any, topology: Any, policy: Any, expected: str
) -> None:
    """The message names the tier, and the HyperNode with the most room."""
    add_racks(volcano, {"a0": 3, "a1": 2})
    await volcano.start(TIERS)
    if topology:
        volcano.group("j", "default", 4, networkTopology=topology)
        volcano.pods("j", 4)
    else:
        job(volcano, 3, 2, policy)
    await volcano.pass_time(10)
    messages = {each.message for pod in volcano.cluster.pods() for each in pod.status.conditions}
    assert len(messages) == 1
    assert messages.pop().endswith(expected)


async def test_without_the_policy_a_topology_does_not_count(volcano: Any) -> None:
    """The pods of a slice take any nodes."""
    add_racks(volcano)
    await volcano.start(TIERS.replace(", {name: network-topology-aware}", ""))
    job(volcano, 2, 3, HARD)
    await volcano.pass_time()
    assert "-" not in "".join(places(volcano).values())


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        pytest.param("", {"s0": "a1 a1"}, id="the fullest rack first"),
        pytest.param("enabledHyperNodeOrder: false", {"s0": "a0 a0"}, id="the first rack by name"),
    ],
)
async def test_a_flag_turns_the_order_of_hyper_nodes_off(volcano: Any, flag: str, expected: dict[str, str]) -> None:
    """Without the order, the first HyperNode of the tier takes the sub-group."""
    add_racks(volcano)
    name = "{name: network-topology-aware%s}"
    await volcano.start(TIERS.replace(name % "", name % (f", {flag}" if flag else "")))
    job(volcano, 1, 2, HARD)
    await volcano.pass_time()
    assert places(volcano) == expected


async def test_a_flag_turns_domains_off(volcano: Any) -> None:
    """A sub-group that is too large for each rack takes nodes all over."""
    add_racks(volcano)
    name = "{name: network-topology-aware%s}"
    await volcano.start(TIERS.replace(name % "", name % ", enabledHyperNodeGradient: false"))
    job(volcano, 1, 4, HARD)
    await volcano.pass_time()
    assert "-" not in "".join(places(volcano).values())


async def test_sub_groups_stay_within_the_hyper_node_of_the_job(volcano: Any) -> None:
    """The job may use one block, where the first rack of three nodes is too much for both."""
    add_racks(volcano, {"a0": 3, "a1": 1, "b0": 2, "b1": 2})
    await volcano.start(TIERS)
    job(volcano, 2, 2, HARD, networkTopology={"mode": "hard", "highestTierAllowed": 2})
    await volcano.pass_time()
    assert places(volcano) == {"s0": "b0 b0", "s1": "b1 b1"}


async def test_a_sub_group_grows_where_it_runs(volcano: Any) -> None:
    """Another pod of a slice takes the last node of its rack; one more waits, although other racks are empty."""
    add_racks(volcano)
    await volcano.start(TIERS)
    job(volcano, 1, 2, {"mode": "hard", "highestTierAllowed": 1}, count=2)
    volcano.cluster.delete_node("a1-0")
    volcano.cluster.delete_node("b0-0")
    volcano.cluster.delete_node("b1-0")
    await volcano.pass_time()
    assert places(volcano) == {"s0": "a0 a0"}
    members(volcano, 0, 1, start=2)
    await volcano.pass_time()
    assert places(volcano) == {"s0": "a0 a0 a0"}
    members(volcano, 0, 1, start=3)
    await volcano.pass_time()
    assert places(volcano) == {"s0": "- a0 a0 a0"}


async def test_a_job_with_a_topology_in_a_policy_evicts_nobody(volcano: Any) -> None:
    """As in Volcano: evictions on single nodes would not make room in one HyperNode."""
    add_racks(volcano, {"a0": 1})
    await volcano.start("actions: 'enqueue, allocate, preempt', " + TIERS)
    volcano.cluster.add_pod("low", scheduler_name="batch", requests={"cpu": "1"}, priority=1)
    await volcano.pass_time()
    volcano.go("Running", "low")
    for topology, is_evicted in ((HARD, False), (None, True)):
        policy = {"name": "s", "matchLabelKeys": ["slice"], "subGroupSize": 1, "minSubGroups": 1}
        manifest = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": f"high{is_evicted}".lower()},
        }
        volcano.cluster.add({**manifest, "value": 100}, PriorityClass)
        name = manifest["metadata"]["name"]
        volcano.group(
            name, "default", 1, subGroupPolicy=[{**policy, "networkTopology": topology}], priorityClassName=name
        )
        volcano.pods(name, 1, labels={"slice": "0"}, priority=100)
        await volcano.pass_time()
        gone = [pod.name for pod in volcano.cluster.pods() if pod.is_terminating]
        assert gone == (["low"] if is_evicted else [])


@pytest.mark.slow
async def test_a_bad_hyper_node_is_logged_once(volcano: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Passes go on, jobs use the other HyperNodes, and one line for all passes names the bad one."""
    add_racks(volcano)
    add_hyper_node(volcano, "bad", 10**30, {"type": "Node", "selector": {"regexMatch": {"pattern": "("}}})
    with caplog.at_level(logging.WARNING):
        scheduler = await volcano.start(TIERS)
        job(volcano, 2, 2, HARD)
        await volcano.pass_time()
        volcano.job("other", "default", 1)
        await volcano.pass_time()
    assert all(volcano.nodes_of("s0") + volcano.nodes_of("s1") + volcano.nodes_of("other"))
    lines = [record.getMessage() for record in caplog.records if "HyperNode" in record.getMessage()]
    number = "1000000000000000000000000000000"
    assert lines == [f"HyperNode bad: spec.tier: {number} is not between -1000 and 1000; 1000 counts (and 1 more)"]
    assert scheduler.warnings == {}
