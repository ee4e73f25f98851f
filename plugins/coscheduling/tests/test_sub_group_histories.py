"""Random histories of a group with sub-groups: no sub-group is ever bound in part, and at the end all of it starts."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from pyscheduler.podgroup import DIALECTS, DialectTable, GroupId
from pyscheduler.podgroup.sub_groups import SubGroup, cut_off
from pyscheduler.testing import FakeCluster, VirtualClock

KAI = DialectTable(DIALECTS).named("kai").kinds[0]
MINIMA = {"a": 2, "b": 3, "p": 2, "q": 1}
#: Two of a, b and r; r needs one of p and q.
TREE = SubGroup(
    "",
    2,
    (SubGroup("a", 2), SubGroup("b", 3), SubGroup("r", 1, (SubGroup("p", 2), SubGroup("q", 1)))),
)
SPEC = {
    "minSubGroup": 2,
    "subGroups": [
        {"name": "a", "minMember": 2},
        {"name": "b", "minMember": 3},
        {"name": "r", "minSubGroup": 1},
        {"name": "p", "parent": "r", "minMember": 2},
        {"name": "q", "parent": "r", "minMember": 1},
    ],
}
STEPS = st.one_of(
    st.tuples(st.just("pods"), st.sampled_from([*MINIMA]), st.integers(1, 3)),
    st.tuples(st.just("pods"), st.sampled_from([*MINIMA]), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.sampled_from([*MINIMA]), st.integers(0, 5)),
    st.tuples(st.just("node"), st.just(""), st.integers(1, 4)),
    st.tuples(st.just("node goes"), st.just(""), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.just(""), st.just(0)),
    st.tuples(st.just("time"), st.just(""), st.sampled_from([1, 5, 25])),
)
ALL_ONCE = [
    ("pods", "a", 2),
    ("pods", "b", 3),
    ("node", "", 4),
    ("time", "", 25),
    ("node", "", 1),
    ("time", "", 25),
    ("pods", "q", 1),
    ("delete", "b", 0),
    ("restart", "", 0),
    ("node", "", 3),
    ("node goes", "", 0),
    ("time", "", 5),
]


class History:
    """One history on a cluster of its own."""

    def __init__(self, world: Any, args: dict[str, Any], fired: Counter[str]) -> None:
        self.world = world
        self.cluster: FakeCluster = world.cluster
        self.args = args
        self.fired = fired
        self.made = 0
        self.bound: set[str] = set()
        self.cluster.serve(KAI)
        metadata = {"name": "g", "namespace": "default"}
        self.cluster.add(
            {"apiVersion": KAI.api_version, "kind": "PodGroup", "metadata": metadata, "spec": SPEC}, KAI.type
        )
        self.add_node(2)
        world.schedule(**args)

    def add_node(self, cpus: int) -> None:
        self.made += 1
        self.cluster.add_node(f"node-{self.made}", allocatable={"cpu": str(cpus), "pods": "110"})

    def add_pod(self, leaf: str) -> None:
        self.made += 1
        labels = {"kai.scheduler/subgroup-name": leaf}
        annotations = {"pod-group-name": "g"}
        self.cluster.add_pod(f"{leaf}-{self.made}", labels=labels, annotations=annotations, requests={"cpu": "1"})

    def leaf_pods(self, leaf: str) -> list[Any]:
        pods = [pod for pod in self.cluster.pods() if pod.name.startswith(f"{leaf}-")]
        return sorted(pods, key=lambda pod: pod.name)

    async def step(self, what: str, leaf: str, number: int) -> None:
        self.fired[what] += 1
        match what:
            case "pods":
                for _ in range(number):
                    self.add_pod(leaf)
            case "delete":
                pods = self.leaf_pods(leaf)
                if pods:
                    self.cluster.delete_pod(pods[number % len(pods)].name)
            case "node":
                self.add_node(number)
            case "node goes":
                used = {pod.node_name for pod in self.cluster.pods()}
                free = [node.name for node in self.cluster.nodes() if node.name not in used]
                if free:
                    self.cluster.delete_node(free[number % len(free)])
            case "restart":
                await self.stop()
                self.world.schedule(**self.args)
            case _:
                await self.world.settle(number)
        await self.world.settle()
        self.look()

    async def stop(self) -> None:
        """Stop the scheduler; that takes a while of the clock."""
        ending = asyncio.ensure_future(self.world.running.close())
        for _ in range(60):
            if ending.done():
                break
            await self.world.clock.advance(1)
        await ending

    def look(self) -> None:
        """Check that pods which were bound since the last look are in sub-groups with their minimum."""
        bound = {pod.uid: pod.name.partition("-")[0] for pod in self.cluster.pods() if pod.node_name}
        counts = Counter(bound.values())
        waiting = cut_off(TREE, counts)
        fresh = {leaf for uid, leaf in bound.items() if uid not in self.bound}
        assert not fresh & waiting, f"{fresh & waiting} started in part: {dict(counts)}"
        self.fired["started"] += bool(fresh)
        self.fired["started beyond the minimum"] += bool(fresh) and len(counts) > 2
        self.bound = set(bound)
        directory = self.world.plugin.members.directory
        directory.check_invariants()
        assert directory.get(GroupId("default", "g", "kai")) is not None

    async def end(self) -> None:
        """Give every sub-group its pods, and room to all."""
        for leaf, minimum in MINIMA.items():
            for _ in range(minimum - len(self.leaf_pods(leaf))):
                self.add_pod(leaf)
        self.add_node(100)
        await self.world.settle(420)
        self.look()
        left = [(pod.name, self.world.result(pod.name).message) for pod in self.cluster.pods() if not pod.node_name]
        assert not left


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"strategy": "groupCycle", "deniedPGExpirationTimeSeconds": 3}, id="one cycle"),
        pytest.param({"strategy": "groupCycle", "preemption": True}, id="one cycle with preemption"),
        pytest.param({"deniedPGExpirationTimeSeconds": 3, "permitWaitingTimeSeconds": 10}, id="at Permit"),
        pytest.param({"podGroupRejectPercentage": 100, "permitWaitingTimeSeconds": 10}, id="holding at Permit"),
    ],
)
def test_no_sub_group_is_ever_partly_bound(world_on: Any, args: dict[str, Any]) -> None:
    """No pod starts in a sub-group below its minimum, in any history."""
    fired: Counter[str] = Counter()

    @settings(max_examples=settings.default.max_examples // 4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(STEPS, min_size=8, max_size=18))
    @example(steps=ALL_ONCE)
    def run(steps: list[tuple[str, str, int]]) -> None:
        async def live() -> None:
            cluster = FakeCluster(clock=VirtualClock())
            history = History(world_on(cluster), args, fired)
            try:
                await history.world.settle()
                for step in steps:
                    await history.step(*step)
                await history.end()
                cluster.assert_invariants()
            finally:
                await cluster.close()

        asyncio.run(live())

    run()
    assert all(fired[what] for what in ("started", "started beyond the minimum", "delete", "restart")), fired
