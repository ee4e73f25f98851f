"""Group cycles with placements: all pods of a PodGroup in one topology domain (gate TopologyAwareWorkloadScheduling).

The scenarios state what Kubernetes' own integration tests of topology-aware scheduling assert.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest

from pyscheduler.framework import (
    CycleState,
    GroupAssignments,
    GroupInfo,
    GroupPlacement,
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    Status,
)
from pyscheduler.testing import FakeCluster, FakeFramework
from tests.scheduler import in_tree_groups
from tests.scheduler.in_tree_groups import condition

TOPOLOGY = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"
GATES = f"{TOPOLOGY},GangScheduling=true"


def nodes(cluster: FakeCluster, racks: Mapping[str, int], zones: Mapping[str, str] | None = None) -> None:
    """Add as many nodes of 2 CPUs to each rack: `r1-0`, `r1-1` and so on."""
    for rack, count in racks.items():
        for number in range(count):
            labels = {"rack": rack, "zone": (zones or {}).get(rack, "z1")}
            cluster.add_node(f"{rack}-{number}", allocatable={"cpu": "2"}, labels=labels)


def group(cluster: FakeCluster, name: str, *, minimum: int | None = None, key: str | None = "rack") -> None:
    """Create a PodGroup, a gang or one with the policy `basic`, with a topology constraint or without."""
    constraints = {} if key is None else {"schedulingConstraints": {"topology": [{"key": key}]}}
    in_tree_groups.group(cluster, name, minimum=minimum, **constraints)


def pods(cluster: FakeCluster, name: str, names: str, *, cpu: str = "1", **keywords: Any) -> None:
    """Create members of a group; `names` is separated by blanks."""
    for each in names.split():
        spec = {"schedulingGroup": {"podGroupName": name}}
        cluster.add_pod(each, requests={"cpu": cpu}, spec=spec, priority=100, **keywords)


def running(cluster: FakeCluster, **on: str) -> None:
    """Add a bound pod to each of these nodes (`r1_0` is the node `r1-0`); the values are CPUs."""
    for node, cpu in on.items():
        name = node.replace("_", "-")
        cluster.add_pod(f"on-{name}", requests={"cpu": cpu}, node_name=name, priority=100)


def racks(framework: FakeFramework, names: str) -> list[str]:
    """Return the rack of each pod, "" for one that is pending."""
    found = [framework.result(name) for name in names.split()]
    return [(each.node or "").partition("-")[0] if each.bound else "" for each in found]


async def test_a_gang_runs_on_the_rack_that_is_feasible(cluster: FakeCluster) -> None:
    """A rack that another pod has made too small is not used."""
    nodes(cluster, {"r1": 3, "r2": 2, "r3": 1})
    running(cluster, r2_0="2")
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=3)
    pods(cluster, "g", "p1 p2 p3")
    await framework.settle()
    assert racks(framework, "p1 p2 p3") == ["r1"] * 3
    assert condition(cluster, "g") == ("True", "Scheduled", "")
    cluster.assert_invariants()


async def test_a_gang_that_fits_on_no_rack_waits_with_reasons(cluster: FakeCluster) -> None:
    """The condition counts placements, the members count the nodes of one placement, and nobody is preempted."""
    nodes(cluster, {"r1": 2, "r2": 1})
    cluster.add_pod("low", requests={"cpu": "2"}, node_name="r1-0", priority=1)
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2)
    pods(cluster, "g", "p1 p2", cpu="2")
    await framework.settle()
    assert condition(cluster, "g") == (
        "False",
        "Unschedulable",
        "0/2 placements are available, first placement status: pod group is unschedulable",
    )
    messages = sorted(framework.result(name).message for name in ("p1", "p2"))
    assert messages[0].endswith(
        "Insufficient cpu. no new claims to deallocate, "
        "preemption: not eligible due to placement-based pod group scheduling limitation"
    )
    assert messages[0].startswith(("0/1 nodes are available: ", "0/2 nodes are available: "))
    assert messages[1] == (
        "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
        "one or more plugins asked to wait and no plugin rejected pod"
    )
    assert len(cluster.pods()) == 3
    assert not framework.scheduler.cache.assumed_count


async def test_a_gang_is_retried_when_a_pod_of_its_rack_is_deleted(cluster: FakeCluster) -> None:
    """A deleted pod makes room on the rack."""
    nodes(cluster, {"r1": 3})
    running(cluster, r1_0="2", r1_2="2")
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=3)
    pods(cluster, "g", "p1 p2 p3")
    await framework.settle()
    assert racks(framework, "p1 p2 p3") == [""] * 3
    cluster.delete_pod("on-r1-0")
    await cluster.clock.advance(15)
    assert racks(framework, "p1 p2 p3") == ["r1"] * 3


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("sizes", "busy", "expected"),
    [
        pytest.param({"r1": 2, "r2": 3, "r3": 1}, {}, "r1", id="smallest"),
        pytest.param(
            {"r1": 2, "r2": 3, "r3": 3, "r4": 1}, {"r2_0": "2", "r3_2": "1"}, "r2", id="fullest-with-running-pods"
        ),
        pytest.param({"r1": 3, "r2": 2, "r3": 1}, {}, "r2", id="smaller"),
    ],
)
@pytest.mark.parametrize("minimum", [3, 2, None])
async def test_the_rack_with_the_largest_used_share_wins(
    cluster: FakeCluster, sizes: Mapping[str, int], busy: Mapping[str, str], expected: str, minimum: int | None
) -> None:
    """Of the racks that take all pods, the one is used that is fullest afterwards."""
    nodes(cluster, sizes)
    running(cluster, **busy)
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=minimum)
    pods(cluster, "g", "p1 p2 p3")
    await framework.settle()
    assert racks(framework, "p1 p2 p3") == [expected] * 3


async def test_a_rack_that_takes_more_pods_comes_before_a_fuller_one(cluster: FakeCluster) -> None:
    """PodGroupPodsCount outweighs the used share if a basic group fits whole on one rack only."""
    nodes(cluster, {"r1": 1, "r2": 3})
    running(cluster, r1_0="1")
    framework = cluster.framework(feature_gates=TOPOLOGY)
    group(cluster, "g")
    pods(cluster, "g", "p1 p2 p3 p4")
    await framework.settle()
    # r1 takes one pod: 25 of 100 for the number of pods, 100 for the share. r2 takes all: 100 and 4/6.
    assert racks(framework, "p1 p2 p3 p4") == ["r2"] * 4


@pytest.mark.parametrize("gates", [TOPOLOGY, GATES])
async def test_later_pods_stay_on_the_rack_of_the_first(cluster: FakeCluster, gates: str) -> None:
    """A basic group that has outgrown its rack leaves pods pending, although another rack is empty."""
    nodes(cluster, {"r1": 2, "r2": 1})
    framework = cluster.framework(feature_gates=gates)
    group(cluster, "g")
    pods(cluster, "g", "p1")
    await framework.settle()
    pods(cluster, "g", "p2")
    await framework.settle()
    pods(cluster, "g", "p3")
    await framework.settle()
    assert racks(framework, "p1 p2 p3") == ["r2", "r2", ""]
    assert framework.result("p3").message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
    group(cluster, "h")
    pods(cluster, "h", "p4 p5 p6")
    await framework.settle()
    assert racks(framework, "p4 p5 p6") == ["r1"] * 3


async def test_a_basic_group_starts_in_part_on_one_rack(cluster: FakeCluster) -> None:
    """As many pods as fit on a rack start; the rest does not go to another rack, nor does a pod that fits nowhere."""
    nodes(cluster, {"r1": 1, "r2": 1})
    framework = cluster.framework(feature_gates=TOPOLOGY)
    group(cluster, "g")
    pods(cluster, "g", "p0", cpu="3")
    pods(cluster, "g", "p1 p2 p3")
    await framework.settle()
    found = racks(framework, "p1 p2 p3")
    assert found in (["r1", "r1", ""], ["r2", "r2", ""])
    assert racks(framework, "p0") == [""]


async def test_the_key_of_each_group_counts(cluster: FakeCluster) -> None:
    """One gang needs a rack, another one a zone."""
    nodes(cluster, {"r1": 2, "r2": 1, "r3": 3}, {"r3": "z2"})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=3)
    pods(cluster, "g", "p1 p2 p3", cpu="2")
    await framework.settle()
    assert racks(framework, "p1 p2 p3") == ["r3"] * 3
    group(cluster, "h", minimum=3, key="zone")
    pods(cluster, "h", "p4 p5 p6", cpu="2")
    await framework.settle()
    assert sorted(racks(framework, "p4 p5 p6")) == ["r1", "r1", "r2"]


async def test_a_gang_beyond_its_minimum_stays_on_its_rack(cluster: FakeCluster) -> None:
    """The fourth member runs beside the first three, the fifth waits."""
    nodes(cluster, {"r1": 3, "r2": 2, "r3": 1})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=3)
    pods(cluster, "g", "p1 p2 p3")
    await framework.settle()
    pods(cluster, "g", "p4")
    await framework.settle()
    pods(cluster, "g", "p5")
    await framework.settle()
    assert racks(framework, "p1 p2 p3 p4 p5") == ["r2", "r2", "r2", "r2", ""]
    assert condition(cluster, "g") == ("True", "Scheduled", "")


async def test_no_node_has_the_label(cluster: FakeCluster) -> None:
    """Without a placement the group and its members say so."""
    nodes(cluster, {"r1": 3})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=2, key="block")
    pods(cluster, "g", "p1 p2")
    await framework.settle()
    assert condition(cluster, "g") == ("False", "Unschedulable", "no feasible placements found")
    assert [framework.result(name).message for name in ("p1", "p2")] == ["no feasible placements found"] * 2


async def test_members_in_two_domains_are_an_error(cluster: FakeCluster) -> None:
    """The scheduler cannot know in which domain the others belong."""
    nodes(cluster, {"r1": 1, "r2": 1})
    group(cluster, "g")
    pods(cluster, "g", "p1", node_name="r1-0")
    pods(cluster, "g", "p2", node_name="r2-0")
    framework = cluster.framework(feature_gates=TOPOLOGY)
    pods(cluster, "g", "p3")
    await framework.settle()
    status, reason, message = condition(cluster, "g")
    assert (status, reason) == ("False", "SchedulerError")
    beginning = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: "
    assert message in (f"{beginning}r1, r2", f"{beginning}r2, r1")
    assert framework.result("p3").message == message


async def test_a_group_without_a_constraint_uses_all_nodes(cluster: FakeCluster) -> None:
    """It is one placement, which the message counts; its members may preempt."""
    nodes(cluster, {"r1": 1, "r2": 1})
    framework = cluster.framework(feature_gates=GATES)
    group(cluster, "g", minimum=4, key=None)
    pods(cluster, "g", "p1 p2 p3 p4")
    await framework.settle()
    assert sorted(racks(framework, "p1 p2 p3 p4")) == ["r1", "r1", "r2", "r2"]
    group(cluster, "h", minimum=2, key=None)
    pods(cluster, "h", "p5 p6")
    await framework.settle()
    assert condition(cluster, "h")[2] == (
        "0/1 placements are available, first placement status: pod group is unschedulable"
    )


async def test_without_the_gate_the_constraint_has_no_effect(cluster: FakeCluster) -> None:
    """The members of a gang are spread over racks then."""
    nodes(cluster, {"r1": 1, "r2": 1})
    framework = cluster.framework(feature_gates="GenericWorkload=true,GangScheduling=true")
    group(cluster, "g", minimum=3)
    pods(cluster, "g", "p1 p2 p3")
    await framework.settle()
    assert set(racks(framework, "p1 p2 p3")) == {"r1", "r2"}


class EachNode(PlacementGeneratePlugin):
    """Make a placement of each node."""

    def generate_placements(
        self, state: CycleState, group: GroupInfo, parent: GroupPlacement
    ) -> Sequence[GroupPlacement] | Status:
        """Return one placement per node."""
        view = parent.nodes
        return [GroupPlacement(view.name(row), view.take(view.rows[row : row + 1])) for row in range(len(view))]


class ByName(PlacementScorePlugin):
    """Prefer the placement with the last name."""

    def score_placement(self, state: CycleState, group: GroupInfo, assignments: GroupAssignments) -> int | Status:
        """Return the number at the end of the name."""
        return int(assignments.placement.name[-1])


OWN_PLUGINS = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins:
    placementGenerate: {disabled: [{name: "*"}], enabled: [{name: EachNode}]}
    placementScore: {disabled: [{name: "*"}], enabled: [{name: ByName, weight: 3}]}
"""


async def test_plugins_of_others_generate_and_score(cluster: FakeCluster) -> None:
    """All placements are tried if a plugin has no bound, and the highest score wins."""
    nodes(cluster, {"r": 4})
    framework = cluster.framework(feature_gates=GATES, enable=[EachNode, ByName], config=OWN_PLUGINS)
    group(cluster, "g", minimum=2)
    pods(cluster, "g", "p1 p2")
    await framework.settle()
    assert [framework.result(name).node for name in ("p1", "p2")] == ["r-3", "r-3"]


def _exhaustive(sizes: Mapping[str, Iterable[int]], count: int) -> set[str]:
    """Return the racks with the highest used share among those with room for `count` pods; `sizes` are free CPUs."""
    shares = {}
    for rack, free in sizes.items():
        room, capacity = sum(free), 2 * len([*free])
        if room >= count:
            shares[rack] = (capacity - room + count) * 100 // capacity
    return {rack for rack, share in shares.items() if share == max(shares.values())}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("seed", range(12))
async def test_the_choice_equals_an_exhaustive_one(cluster: FakeCluster, seed: int) -> None:
    """On random racks the gang runs on one of the best racks, and waits only if no rack has room."""
    rng = random.Random(seed)
    sizes = {f"r{number}": rng.randrange(1, 5) for number in range(rng.randrange(2, 7))}
    nodes(cluster, sizes)
    free = {rack: [2] * size for rack, size in sizes.items()}
    for rack, left in free.items():
        for number in range(len(left)):
            used = rng.choice([0, 0, 1, 2])
            if used:
                running(cluster, **{f"{rack}_{number}": str(used)})
                left[number] -= used
    framework = cluster.framework(feature_gates=GATES)
    count = rng.randrange(2, 6)
    best = _exhaustive(free, count)
    group(cluster, "g", minimum=count)
    names = " ".join(f"p{number}" for number in range(count))
    pods(cluster, "g", names)
    await framework.settle()
    found = set(racks(framework, names))
    assert found <= best if best else found == {""}
    assert len(found) == 1
