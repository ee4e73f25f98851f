"""Random histories: no group is ever partly bound, and at the end every group that can start has started."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod
from pyscheduler.testing import FakeCluster, VirtualClock

GROUPS = ("a", "b", "c")
STEPS = st.one_of(
    st.tuples(st.just("pods"), st.sampled_from(GROUPS), st.integers(1, 3)),
    st.tuples(st.just("pods"), st.sampled_from(GROUPS), st.integers(1, 3)),
    st.tuples(st.just("delete"), st.sampled_from(GROUPS), st.integers(0, 9)),
    st.tuples(st.just("relabel"), st.sampled_from(GROUPS), st.integers(0, 9)),
    st.tuples(st.just("minimum"), st.sampled_from(GROUPS), st.integers(1, 4)),
    st.tuples(st.just("object"), st.sampled_from(GROUPS), st.just(0)),
    st.tuples(st.just("bind fails"), st.sampled_from(GROUPS), st.integers(1, 2)),
    st.tuples(st.just("node"), st.just("n"), st.integers(1, 2)),
    st.tuples(st.just("node goes"), st.just("n"), st.integers(0, 9)),
    st.tuples(st.just("restart"), st.just(""), st.just(0)),
    st.tuples(st.just("time"), st.just(""), st.sampled_from([1, 3, 11, 40])),
    st.tuples(st.just("time"), st.just(""), st.sampled_from([1, 3, 11, 40])),
)


#: Gives each kind of step its turn, and each end of a wait.
ALL_ONCE = [
    ("time", "", 1),
    ("delete", "a", 0),
    ("pods", "a", 1),
    ("time", "", 40),
    ("minimum", "b", 4),
    ("bind fails", "c", 1),
    ("relabel", "b", 0),
    ("object", "c", 0),
    ("restart", "", 0),
    ("node", "n", 1),
    ("node goes", "n", 0),
    ("time", "", 11),
]
#: Gives a group of three two places: its members wait until their time is over, or until one of them is deleted.
TIMEOUT = [("node", "n", 2), ("time", "", 11), ("time", "", 1)]
DELETED = [("node", "n", 2), ("delete", "a", 0)]


class History:
    """One history on a cluster of its own, with what it is known to have done to each group."""

    def __init__(self, world: Any, args: dict[str, Any], fired: Counter[str]) -> None:
        self.world = world
        self.args = args
        self.fired = fired
        self.minimum = {"a": 3, "b": 4, "c": 2}
        self.exempt: set[str] = set()
        self.made = 0
        self.nodes: list[str] = []
        self.there = set(GROUPS)
        for group, minimum in self.minimum.items():
            world.group(group, minimum)
        # A place too few for the first, so that histories begin with pods that wait, or were rolled back.
        self.node(2)
        for group, minimum in self.minimum.items():
            world.pods(group, minimum)
        self.made = 100
        world.schedule(**args)

    def node(self, cpu: int) -> None:
        self.made += 1
        self.nodes.append(f"node-{self.made}")
        self.world.cluster.add_node(self.nodes[-1], allocatable={"cpu": str(cpu), "pods": "110"})

    def members(self, group: str) -> list[Pod]:
        """Return a group's pods, in the order of their names."""
        pods = [pod for pod in self.world.cluster.pods() if pod.labels.get("scheduling.x-k8s.io/pod-group") == group]
        return sorted(pods, key=lambda pod: pod.name)

    async def step(self, what: str, group: str, number: int) -> None:
        act = getattr(self, f"do_{what.replace(' ', '_')}")
        if await act(group, number):
            self.fired[what] += 1
        await self.world.settle()
        self.look()

    async def do_pods(self, group: str, number: int) -> bool:
        self.world.pods(group, number, start=self.made)
        self.made += number
        return True

    async def do_delete(self, group: str, number: int) -> bool:
        """Delete a member, one that waits if any does."""
        members = self.members(group)
        # Those that wait are the interesting ones, and not there for long.
        members = [pod for pod in members if self.world.result(pod.name).state == "waiting"] or members
        if members:
            pod = members[number % len(members)]
            self.fired[f"deleted while {self.world.result(pod.name).state}"] += 1
            self.exempt.add(group)
            self.world.cluster.delete_pod(pod.name)
        return bool(members)

    async def do_relabel(self, group: str, number: int) -> bool:
        members = self.members(group)
        if members:
            target = GROUPS[(GROUPS.index(group) + 1) % len(GROUPS)]
            self.exempt |= {group, target}
            self.world.relabel(members[number % len(members)].name, target)
        return bool(members)

    async def do_minimum(self, group: str, number: int) -> bool:
        """Change a group's minimum; a higher one leaves bound members where they are."""
        if group not in self.there:
            return False
        if number > self.minimum[group]:
            self.exempt.add(group)
        self.minimum[group] = number
        self.world.change(group, minMember=number)
        return True

    async def do_object(self, group: str, number: int) -> bool:
        if group in self.there:
            self.there.discard(group)
            self.world.cluster.delete(self.world.kind("sigs"), group)
        else:
            self.there.add(group)
            self.exempt.add(group)
            self.world.group(group, self.minimum[group])
        return True

    async def do_bind_fails(self, group: str, number: int) -> bool:
        """Refuse the next bindings of a group; the others of it may be bound already."""
        self.exempt.add(group)
        self.world.cluster.server.faults.add(Fault(path=rf"/{group}-\d+/binding$", status=400, times=number))
        return True

    async def do_node(self, group: str, number: int) -> bool:
        self.node(number)
        return True

    async def do_node_goes(self, group: str, number: int) -> bool:
        """Delete a node that no pod is bound to; some may wait for it."""
        used = {pod.node_name for pod in self.world.cluster.pods()}
        free = [name for name in self.nodes if name not in used]
        if free:
            self.nodes.remove(free[number % len(free)])
            self.world.cluster.delete_node(free[number % len(free)])
        return bool(free)

    async def do_restart(self, group: str, number: int) -> bool:
        """Replace the scheduler; what it held in memory is gone."""
        await self.stop()
        self.world.schedule(**self.args)
        return True

    async def do_time(self, group: str, number: int) -> bool:
        """Let time pass, a second at a time, looking at each."""
        for _ in range(number):
            await self.world.settle(1)
            self.look()
        return True

    async def stop(self) -> None:
        """Stop the scheduler; that takes a while of the clock."""
        ending = asyncio.ensure_future(self.world.running.close())
        for _ in range(60):
            if ending.done():
                break
            await self.world.clock.advance(1)
        await ending

    def look(self) -> None:
        for group in GROUPS:
            bound = sum(1 for pod in self.members(group) if pod.node_name)
            if group not in self.exempt:
                assert bound == 0 or bound >= self.minimum[group], f"{group}: {bound} of {self.minimum[group]}"
        self.world.plugin.members.directory.check_invariants()

    async def end(self) -> None:
        """Add room for all: every group with its members is bound then."""
        for group in GROUPS:
            if group not in self.there:
                await self.do_object(group, 0)
        self.node(100)
        await self.world.settle(420)
        for group in GROUPS:
            members = self.members(group)
            if len(members) >= self.minimum[group]:
                left = [(pod.name, self.world.result(pod.name).message) for pod in members if not pod.node_name]
                assert not left, f"{group} of {self.minimum[group]}: {left}"
        for message in self.world.messages(""):
            for rule in ("timeout", "Unreserve", "even after PostFilter", "last failed in", "PodGroup not found"):
                self.fired[f"told: {rule}"] += rule in message


@pytest.mark.slow
@pytest.mark.parametrize(
    "args",
    [
        pytest.param({"deniedPGExpirationTimeSeconds": 3, "permitWaitingTimeSeconds": 10}, id="as configured"),
        pytest.param({"deniedPGExpirationTimeSeconds": 0, "podGroupRejectPercentage": 0}, id="no window"),
        pytest.param({"podGroupRejectPercentage": 100, "permitWaitingTimeSeconds": 10}, id="holding"),
        pytest.param(
            {
                "disable": ("postFilter",),
                "deniedPGExpirationTimeSeconds": 3,
                "permitWaitingTimeSeconds": 10,
            },
            id="no PostFilter",
        ),
    ],
)
def test_no_group_is_ever_partly_bound(world_on: Any, args: dict[str, Any], gates: str) -> None:
    """No group is partly bound in any history, and each kind of step occurs."""
    fired: Counter[str] = Counter()

    @settings(max_examples=settings.default.max_examples // 4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=st.lists(STEPS, min_size=8, max_size=18))
    @example(steps=ALL_ONCE)
    @example(steps=TIMEOUT)
    @example(steps=DELETED)
    def run(steps: list[tuple[str, str, int]]) -> None:
        async def live() -> None:
            cluster = FakeCluster(clock=VirtualClock())
            history = History(world_on(cluster), {**args, "gates": gates}, fired)
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
    print(dict(fired))  # noqa: T201 - how often each rule had its turn
    steps = ("pods", "delete", "relabel", "minimum", "object", "bind fails", "node", "node goes", "restart", "time")
    assert all(fired[step] for step in steps), fired
    if args.get("deniedPGExpirationTimeSeconds") != 0:
        assert fired["told: last failed in"], fired
    if "disable" in args or args.get("podGroupRejectPercentage") == 100:
        assert fired["told: timeout"], fired
        assert fired["told: Unreserve"], fired
        assert fired["deleted while waiting"], fired
    else:
        assert fired["told: even after PostFilter"], fired
