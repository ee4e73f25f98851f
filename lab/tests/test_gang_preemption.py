"""Gangs that preempt while victims take their time to end and others want the room, in virtual time.

Most scenarios run with every way to schedule gangs. A controller creates victims again as soon as they are deleted, as
a Deployment does, so room that nobody keeps for the gang is lost.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import pytest

from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS
from pyscheduler.testing import FakeCluster

GPU: Final = "example.com/gpu"
GATES: Final = "GenericWorkload=true,GangScheduling=true"
#: By plugin: its QueueSort plugin with args, the dialect of its groups, and the label that names the group of a pod.
PLUGINS: Final[Mapping[str, tuple[str, dict[str, Any], str, str]]] = {
    "Coscheduling": ("Coscheduling", {}, "sigs", "scheduling.x-k8s.io/pod-group"),
    "Gang": ("GangSort", {"order": "gang"}, "koordinator", "pod-group.scheduling.sigs.k8s.io"),
}
WAYS: Final = [
    pytest.param("Coscheduling", "permit", id="Coscheduling"),
    pytest.param("Coscheduling", "groupCycle", id="Coscheduling in cycles"),
    pytest.param("Gang", "permit", id="Gang"),
    pytest.param("Gang", "groupCycle", id="Gang in cycles"),
    pytest.param("in-tree", "", id="in-tree"),
    pytest.param("in-tree", "WorkloadAwarePreemption", id="workload-aware preemption"),
]


def _config(plugin: str, strategy: str, **more: Any) -> str | None:
    if plugin == "in-tree":
        return None
    sort, args, _, _ = PLUGINS[plugin]
    own: list[dict[str, Any]] = [{"name": plugin, "args": {"strategy": strategy, **more}}]
    plugins = {
        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": sort}]},
        "multiPoint": {"enabled": [{"name": plugin}]},
    }
    if args:
        own.append({"name": sort, "args": args})
    return json.dumps(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "profiles": [{"schedulerName": "pyscheduler", "plugins": plugins, "pluginConfig": own}],
        }
    )


class Contest:
    """A cluster in which gangs of high priority and pods of low priority want the same nodes."""

    def __init__(self, cluster: FakeCluster, plugin: str, strategy: str, **args: Any) -> None:
        self.cluster, self.plugin = cluster, plugin
        dialect = "intree" if plugin == "in-tree" else PLUGINS[plugin][2]
        kind = IN_TREE_PODGROUPS if plugin == "in-tree" else DialectTable(DIALECTS).named(dialect).kinds[0]
        self.kind = kind
        if not cluster.serves(kind):
            cluster.serve(kind)
        gates = f"{GATES},{strategy}=true" if strategy == "WorkloadAwarePreemption" else GATES
        self.framework = cluster.framework(
            config=_config(plugin, strategy, **args), feature_gates=gates if plugin == "in-tree" else ""
        )
        self.serial = 0
        self.graces = [300]

    async def start(self, nodes: Mapping[str, int], *, stop_seconds: float) -> None:
        """Add nodes with so many GPUs; deleted pods are gone after `stop_seconds`."""
        for name, gpus in nodes.items():
            self.cluster.add_node(name, allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: str(gpus)})
        await self.framework.start()
        self.cluster.server.lifecycle(stop_seconds=stop_seconds).start()

    def low(self, gpus: int = 3, **keywords: Any) -> None:
        """Create a pod of low priority."""
        self.serial += 1
        spec = {"terminationGracePeriodSeconds": self.graces[self.serial % len(self.graces)]}
        self.cluster.add_pod(f"low-{self.serial}", requests={GPU: str(gpus)}, priority=0, spec=spec, **keywords)

    def gang(self, sizes: Sequence[int], minimum: int | None = None, name: str = "g", claim: str = "") -> None:
        """Create a gang of high priority whose members want so many GPUs each, and share a claim."""
        minimum = len(sizes) if minimum is None else minimum
        spec: dict[str, Any] = {"minMember": minimum}
        if self.plugin == "in-tree":
            spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}, "priority": 100}
        self.cluster.add(
            {
                "apiVersion": self.kind.api_version,
                "kind": self.kind.kind,
                "metadata": {"name": name, "namespace": "default"},
                "spec": spec,
            },
            self.kind.type,
        )
        in_tree = self.plugin == "in-tree"
        labels = {} if in_tree else {PLUGINS[self.plugin][3]: name}
        group: dict[str, Any] = {"schedulingGroup": {"podGroupName": name}} if in_tree else {}
        if claim:
            group["resourceClaims"] = [{"name": "r", "resourceClaimName": claim}]
        for number, gpus in enumerate(sizes):
            self.cluster.add_pod(f"{name}-{number}", requests={GPU: str(gpus)}, priority=100, labels=labels, spec=group)

    def bound(self, prefix: str = "g-") -> int:
        """Return how many pods of that name run."""
        pods = self.cluster.pods()
        return sum(pod.name.startswith(prefix) and bool(pod.node_name) and not pod.is_terminating for pod in pods)

    async def run(self, seconds: int, *, refill: int = 0, until: int = 0) -> int:
        """Let time pass with always `refill` pods of low priority; return how many of these were evicted.

        Ends when `until` members run.
        """
        for _ in range(seconds):
            if until and self.bound() >= until:
                break
            await self.cluster.clock.advance(1)
            low = [pod for pod in self.cluster.pods() if pod.name.startswith("low-") and not pod.is_terminating]
            for _ in range(refill - len(low)):
                self.low()
        return len({event["regarding"]["name"] for event in self.cluster.events("Preempted")})


@pytest.mark.parametrize("stop_seconds", [0.5, 20.0, 90.0])
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_a_gang_starts_after_one_preemption(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str, stop_seconds: float
) -> None:
    """While victims end, the room is kept for the gang, however long it takes; each member has one victim."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 5, "n2": 5, "n3": 2}, stop_seconds=stop_seconds)
    await contest.run(3, refill=2)
    contest.gang([3, 3])
    assert await contest.run(200, refill=2, until=2) == 2
    assert contest.bound() == 2


@pytest.mark.slow
@pytest.mark.parametrize("window", [0, 20, 45])
@pytest.mark.parametrize("backoff", [0, 30])
async def test_waits_at_permit_that_end_before_the_victims(
    pyscheduler_cluster: FakeCluster, window: int, backoff: int
) -> None:
    """A member that waits in vain at Permit, and is refused for a while, finds its room again."""
    args = {"permitWaitingTimeSeconds": 10, "deniedPGExpirationTimeSeconds": window, "podGroupBackoffSeconds": backoff}
    contest = Contest(pyscheduler_cluster, "Coscheduling", "permit", **args)
    await contest.start({"n1": 5, "n2": 5, "n3": 4}, stop_seconds=60)
    await contest.run(3, refill=2)
    contest.gang([3, 4])
    await contest.run(2)
    contest.low(2)
    contest.low(2)
    assert await contest.run(200, refill=2, until=2) <= 2
    assert contest.bound() == 2


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_victims_with_different_grace_periods(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str
) -> None:
    """A member that was tried while victims end is tried again when its own victim is gone."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    contest.graces = [3, 12, 40]
    await contest.start({"n1": 3, "n2": 3, "n3": 3}, stop_seconds=100)
    await contest.run(3, refill=3)
    contest.gang([3, 3, 3])
    assert await contest.run(60, refill=3, until=3) == 3
    assert contest.bound() == 3


@pytest.mark.parametrize("graces", [[25, 3], [3, 25]])
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_members_that_preempt_and_share_a_claim(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str, graces: list[int]
) -> None:
    """The devices that one member reserves do not keep another one from waiting for its victim."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    contest.graces = graces
    pool = {"driver": "d", "pool": {"name": "p", "generation": 1, "resourceSliceCount": 1}, "allNodes": True}
    requests = [{"name": "r", "exactly": {"deviceClassName": "net"}}]
    for kind, name, spec in (
        ("DeviceClass", "net", {}),
        ("ResourceSlice", "s", {**pool, "devices": [{"name": "d0"}]}),
        ("ResourceClaim", "shared", {"devices": {"requests": requests}}),
    ):
        metadata = {"name": name, **({"namespace": "default"} if kind == "ResourceClaim" else {})}
        contest.cluster.server.add(
            {"apiVersion": "resource.k8s.io/v1", "kind": kind, "metadata": metadata, "spec": spec}
        )
    await contest.start({"n1": 3, "n2": 3}, stop_seconds=100)
    await contest.run(3, refill=2)
    contest.gang([3, 3], claim="shared")
    assert await contest.run(60, refill=2, until=2) == 2
    assert contest.bound() == 2


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_a_gang_is_not_overtaken_by_a_backlog(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str
) -> None:
    """Pods of low priority that wait in the queue do not get the room of victims."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 5, "n2": 5, "n3": 2}, stop_seconds=20)
    for _ in range(20):
        contest.low()
    await contest.run(3)
    contest.gang([3, 3])
    assert await contest.run(200, until=2) == 2
    assert contest.bound() == 2


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_members_of_different_sizes_with_several_victims(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str
) -> None:
    """Each member gets the victims that it needs, once."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 8, "n2": 4}, stop_seconds=20)
    for _ in range(6):
        contest.low(2)
    await contest.run(3)
    contest.gang([4, 8])
    assert await contest.run(200, until=2) == 6
    assert contest.bound() == 2


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_a_gang_with_more_members_than_its_minimum(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str
) -> None:
    """The minimum starts after one preemption, though a further member fits nowhere."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 3, "n2": 3}, stop_seconds=20)
    await contest.run(3, refill=2)
    contest.gang([3, 3, 3], minimum=2)
    assert await contest.run(200, refill=2, until=2) == 2
    assert contest.bound() == 2


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_two_gangs_want_the_same_room(pyscheduler_cluster: FakeCluster, plugin: str, strategy: str) -> None:
    """Each pod of low priority is evicted once; one gang starts, and then the other."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 3, "n2": 3, "n3": 3, "n4": 3}, stop_seconds=20)
    await contest.run(3, refill=4)
    contest.gang([3, 3])
    contest.gang([3, 3], name="h")
    assert await contest.run(200, refill=4) == 4
    assert contest.bound("g-") == contest.bound("h-") == 2


@pytest.mark.slow
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_a_single_preemptor_beside_a_gang(pyscheduler_cluster: FakeCluster, plugin: str, strategy: str) -> None:
    """A pod without a group makes its own room, and takes none from the gang."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 3, "n2": 3, "n3": 3}, stop_seconds=20)
    await contest.run(3, refill=3)
    contest.gang([3, 3])
    contest.cluster.add_pod("single", requests={GPU: "3"}, priority=50)
    assert await contest.run(200, refill=3) == 3
    assert contest.bound() == 2
    assert contest.bound("single") == 1


@pytest.mark.parametrize("sizes", [[4, 4], [4, 9], [9, 4]])
@pytest.mark.parametrize(("plugin", "strategy"), WAYS)
async def test_a_hopeless_gang_evicts_nobody(
    pyscheduler_cluster: FakeCluster, plugin: str, strategy: str, sizes: list[int]
) -> None:
    """A gang of which a member fits nowhere, even without all pods of lower priority, has no victims."""
    contest = Contest(pyscheduler_cluster, plugin, strategy)
    await contest.start({"n1": 4, "n2": 4}, stop_seconds=0)
    contest.cluster.add_pod("keep", requests={GPU: "4"}, priority=1000, node_name="n2")
    for _ in range(2):
        contest.low(2)
    await contest.run(3)
    contest.gang(sizes)
    assert await contest.run(150) == 0
    assert contest.bound() == 0
