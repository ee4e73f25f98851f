"""Random histories of gangs: no gang is partly bound, no pod sleeps for ever, and attempts are bounded by events.

At the end there is room for all; then every member that has not timed out is bound soon.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter
from typing import Any, Final

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from pyscheduler.testing import FakeCluster

FIRED: Final[Counter[str]] = Counter()


class History:
    """One history: two gang groups, some steps at random, and the end."""

    def __init__(self, world: Any, rng: random.Random) -> None:
        self.world = world
        self.rng = rng
        self.gangs: dict[str, int] = {}
        self.bound_once: set[str] = set()
        self.made = 0
        self.nodes = 0

    def begin(self) -> None:
        rng = self.rng
        self.add_node()
        groups = rng.choice([[["a"], ["b"]], [["a", "b"], ["c"]], [["a", "b"], ["c", "d"]], [["a", "b", "c"]]])
        for group in groups:
            mode = rng.choice(["Strict", "NonStrict"])
            listed = json.dumps([f"default/{name}" for name in group])
            for name in group:
                self.gangs[name] = rng.randint(1, 4)
                said = {"mode": mode, "groups": listed}
                if rng.random() < 0.3:
                    said["total_number"] = str(self.gangs[name] + rng.randint(0, 3))
                self.world.gang(name, self.gangs[name], **said)
        for name, minimum in self.gangs.items():
            self.add_pods(name, minimum + rng.choice([0, 0, 1, 2]))

    def add_node(self) -> None:
        self.nodes += 1
        self.world.node(f"node-{self.nodes}", self.rng.randint(1, 5))

    def add_pods(self, gang: str, count: int) -> None:
        self.world.pods(gang, count, gang=gang, start=self.made, cpu=self.rng.choice([0.5, 1, 1, 2]))
        self.made += count

    def step(self) -> float:
        """Do one thing; return how long to wait then."""
        rng = self.rng
        pods = [pod for pod in self.world.cluster.pods() if pod.name[0] in self.gangs]
        match rng.choice(["node", "delete", "create", "delete", "plain", "time", "regang", "drop node", "drop node"]):
            case "node":
                self.add_node()
            case "delete" if pods:
                waiting = [pod for pod in pods if self.world.result(pod.name).state == "waiting"]
                pod = rng.choice(waiting if waiting and rng.random() < 0.7 else pods)
                FIRED[f"deleted {self.world.result(pod.name).state}"] += 1
                self.world.cluster.delete_pod(pod.name)
            case "create":
                self.add_pods(rng.choice(list(self.gangs)), 1)
            case "plain":
                self.made += 1
                self.world.pods("plain", 1, start=self.made, cpu=rng.choice([0.5, 1]))
            case "regang":
                name = rng.choice(list(self.gangs))
                self.gangs[name] = rng.randint(1, 4)
                self.world.regang(name, {"spec": {"minMember": self.gangs[name]}})
            case "drop node":
                bound = {pod.node_name for pod in self.world.cluster.pods() if pod.node_name}
                free = [node.name for node in self.world.cluster.nodes() if node.name not in bound]
                if free:
                    gone = rng.choice(free)
                    FIRED["node of waiting pods removed"] += any(
                        self.world.result(pod.name).node == gone for pod in pods
                    )
                    self.world.cluster.delete_node(gone)
        return rng.choice([0, 0, 0.2, 1, 3, 12])

    def check(self) -> None:
        """Look for a gang of which a part was bound before its minimum was reached."""
        states: dict[str, Counter[str]] = {name: self.world.states(name) for name in self.gangs}
        for name, counts in states.items():
            FIRED["waiting" if counts["waiting"] else "nobody waits"] += 1
            record = self.world.plugin.gangs.named(f"default/{name}")
            if record is None or name in self.bound_once:
                continue
            if counts["bound"]:
                self.bound_once.add(name)
                least = self.least[name]
                assert counts["bound"] + counts["waiting"] >= least, f"{name}: {counts} of {least}"

    async def play(self) -> None:
        self.begin()
        self.least = dict(self.gangs)
        await self.world.settle()
        self.check()
        for _ in range(self.rng.randint(0, 8)):
            self.least = dict(self.gangs)
            seconds = self.step()
            self.least = {name: min(self.least[name], self.gangs[name]) for name in self.gangs}
            await self.world.settle(seconds)
            self.check()
        for name, minimum in self.gangs.items():
            missing = minimum - sum(self.world.states(name).values())
            if missing > 0:
                self.add_pods(name, missing)
        self.world.node("enough", 100)
        await self.world.settle(30)
        left = {pod.name: self.world.result(pod.name).message for pod in self.world.cluster.pods() if not pod.node_name}
        FIRED["rolled back"] += any("gets rejected" in event["note"] for event in self.world.cluster.events())
        FIRED["ended"] += 1
        assert not left, left


@pytest.mark.slow
def test_every_history_ends_well(make_world: Any, gates: str) -> None:
    """So many as the profile of Hypothesis says, with pods popped from backoff or not."""
    FIRED.clear()

    @settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
    @given(st.integers(0, 2**32))
    def run(seed: int) -> None:
        asyncio.run(_play(make_world, seed, gates))

    run()
    sys.stdout.write(f"{dict(FIRED)}\n")
    for rule in (
        "waiting",
        "rolled back",
        "deleted waiting",
        "deleted pending",
        "deleted bound",
        "node of waiting pods removed",
    ):
        assert FIRED[rule], f"{rule} never happened: {FIRED}"


async def _play(make_world: Any, seed: int, gates: str) -> None:
    cluster = FakeCluster(seed=seed)
    try:
        world = make_world(cluster)
        world.schedule(gates=gates)
        await History(world, random.Random(seed)).play()
        cluster.assert_invariants()
    finally:
        await cluster.close()
