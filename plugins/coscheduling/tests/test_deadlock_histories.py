"""Random deadlocks: each group that could be complete is, groups do not win in turn for ever, and resolutions end.

Each pod needs one core, so a count of cores tells which groups could be complete. Some groups have a member that fits
only in trials: such a group wins and is not complete, so its lease expires and it is excluded.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import Counter
from typing import ClassVar, Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from plugins.coscheduling.tests.deadlock_cluster import DeadlockCluster
from pyscheduler.api import Pod
from pyscheduler.framework import CycleState, FilterPlugin, NodeInfo, Status
from pyscheduler.testing import FakeCluster

RUNS: Final = settings.default.max_examples // 5
LEASE: Final = 6
FIRED: Final[Counter[str]] = Counter()


class FairWeather(FilterPlugin):
    """Lets some pods fit only where nobody means it."""

    name: ClassVar[str] = "FairWeather"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Refuse in earnest."""
        return Status.unschedulable("no") if "doomed" in pod.labels and state.trial is None else None


class History:
    """One cluster, with groups that come at once or one after another, and what happens to it from outside."""

    def __init__(self, world: DeadlockCluster, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.priority: dict[str, int] = {}
        self.doomed: set[str] = set()
        self.made = 0
        self.nodes = 0
        self.capacity = 0

    def add_node(self) -> None:
        """Add a node of a few slots."""
        size = self.rng.randint(2, 6)
        self.world.node(f"n{self.nodes}", size)
        self.nodes += 1
        self.capacity += size

    def add_groups(self) -> None:
        """Create a few groups, whose members come in any order."""
        rng, world = self.rng, self.world
        members = []
        for _ in range(rng.randint(2, 4)):
            self.made += 1
            name = f"g{self.made}"
            minimum = rng.choice([2, 3, 4, 5, 6, self.capacity + 1])
            plugin = rng.choice(["Coscheduling", "Gang", "Gang"])
            mode = rng.choice(["NonStrict", "NonStrict", "NonStrict", "Strict"])
            self.priority[name] = rng.choice([0, 0, 0, 5])
            world.group(name, minimum, plugin=plugin, mode=mode)
            members += [(name, number) for number in range(minimum)]
            if rng.random() < 0.15:
                self.doomed.add(name)
        rng.shuffle(members)
        for name, number in members:
            doomed = {"doomed": ""} if name in self.doomed and not number else {}
            # Who is tried first is up to the priority within the group; the group's own is the highest of them.
            priority = self.priority[name] if rng.random() < 0.7 else self.priority[name] - 1
            world.pods(name, 1, start=number, priority=priority, extra_labels=doomed)

    def change(self) -> None:
        """Let something happen from outside: a node comes, or a group that runs is done."""
        running = [name for name in self.priority if self.world.bound(name)]
        if running and self.rng.random() < 0.7:
            name = self.rng.choice(running)
            for pod in self.world.cluster.pods():
                if pod.labels.get("set") == name:
                    self.world.cluster.delete_pod(pod.name)
            del self.priority[name]
        else:
            self.add_node()

    # --- what must be true

    def check_whole(self) -> None:
        """Nobody is bound in part."""
        for name in self.priority:
            count = self.world.bound(name)
            assert count in {0, self.world.minimum[name]}, f"{count} of {name} are bound"

    async def rest(self) -> None:
        """Let time pass until nothing happens any more; resolutions between two outer events have an end."""
        world = self.world
        before = world.deadlocks.counts["resolved"]
        for _ in range(12):
            await world.settle(10)
            self.check_whole()
        resolved = world.deadlocks.counts["resolved"]
        assert resolved - before <= 2 * len(self.priority), "groups alternate"
        await world.settle(20)
        assert world.deadlocks.counts["resolved"] == resolved, "it does not come to an end"
        self.check_whole()
        self.check_completable()

    def check_completable(self) -> None:
        """Whoever could be complete with what those who may yield to it hold, is."""
        world = self.world
        states = {name: world.states(name) for name in self.priority}
        used = sum(each.get("bound", 0) + each.get("waiting", 0) for each in states.values())
        free = self.capacity - used
        for name, each in states.items():
            if each.get("bound") or name in self.doomed:
                continue
            could = each.get("waiting", 0) + free
            holders = 0
            for other, held in states.items():
                waiting = held.get("waiting", 0)
                never_fits = world.minimum[other] > self.capacity
                lower = self.unbound_priority(other) <= self.unbound_priority(name)
                if other != name and waiting and (lower or never_fits):
                    could += waiting
                    holders += waiting
            if holders:
                FIRED["checked against holders"] += 1
            FIRED["checked"] += 1
            assert could < world.minimum[name], f"{name} could be complete: {states}, {free} free"

    def unbound_priority(self, name: str) -> int:
        """Return the highest priority among a group's members."""
        return max(pod.priority for pod in self.world.cluster.pods() if pod.labels.get("set") == name)


async def run(seed: int) -> None:
    """Play one history."""
    cluster = FakeCluster(seed=0)
    try:
        world = DeadlockCluster(cluster)
        history = History(world, random.Random(seed))
        for _ in range(history.rng.randint(1, 3)):
            history.add_node()
        world.schedule(
            enable=[FairWeather],
            deadlock={"graceSeconds": 1, "yieldLeaseSeconds": LEASE},
            podGroupRejectPercentage=history.rng.choice([10, 50, 100]),
            deniedPGExpirationTimeSeconds=3,
        )
        history.add_groups()
        await history.rest()
        for _ in range(2):
            history.change()
            if history.rng.random() < 0.5:
                history.add_groups()
            await history.rest()
        found = world.deadlocks.counts
        FIRED.update(
            resolutions=found["resolved"],
            yields=found["yielded"],
            leases_expired=found["expired"],
            exclusions=found["excluded"],
        )
        cluster.assert_invariants()
    finally:
        await cluster.close()


@settings(max_examples=RUNS, deadline=None, suppress_health_check=[HealthCheck.too_slow], database=None)
@given(seed=st.integers(0, 2**32))
def histories(seed: int) -> None:
    """Play them all."""
    asyncio.run(run(seed))


@pytest.mark.slow
def test_whoever_can_be_completed_is_and_nobody_alternates() -> None:
    """Over random cluster sizes, groups, priorities and modes; every rule fires."""
    histories()
    sys.stderr.write(f"deadlocks: {dict(FIRED)}\n")
    for rule in ("resolutions", "yields", "leases_expired", "exclusions", "checked", "checked against holders"):
        assert FIRED[rule] > 0, rule
