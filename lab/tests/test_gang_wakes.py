"""Gangs start soon after there is room for them, and are not tried too often until then, in virtual time.

Gangs wait in a full cluster while other pods come, change and go, and nodes report their state; this makes no room.
Then pods end, one gang's worth at a time.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, ClassVar

import attrs
import pytest
from hypothesis import settings

from pyscheduler.api import Node, Pod
from pyscheduler.framework import CycleState, Nodes, PreFilterPlugin
from pyscheduler.podgroup import DIALECTS, DialectTable
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, InTreePodGroup
from pyscheduler.testing import FakeCluster, FakeFramework

if TYPE_CHECKING:
    from collections.abc import Mapping

GATES = "GenericWorkload=true,GangScheduling=true"
SIGS = DialectTable(DIALECTS).named("sigs").kinds[0]
GANGS, MEMBERS = 3, 4
STEP = 0.05


class Watcher(PreFilterPlugin):
    """Counts how often each pod is tried, and how often somebody merely asks whether it would fit."""

    name = "Watcher"
    attempts: ClassVar[Counter[str]] = Counter()
    questions: ClassVar[Counter[str]] = Counter()

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> None:
        (self.questions if state.trial is not None and state.trial.is_question else self.attempts)[pod.name] += 1


@attrs.define
class Outcome:
    """Seconds from room to start for each gang, and attempts and questions per member."""

    latencies: list[float]
    attempts: dict[str, int]
    questions: dict[str, int]

    @property
    def mean_attempts(self) -> float:
        """Return the attempts per member."""
        return sum(self.attempts.values()) / (GANGS * MEMBERS)

    def __str__(self) -> str:
        return (
            f"latency {min(self.latencies):.2f} to {max(self.latencies):.2f} s, attempts per pod "
            f"{self.mean_attempts:.1f} (at most {max(self.attempts.values())}), "
            f"questions per gang {sum(self.questions.values()) / GANGS:.0f}"
        )


class Waiting:
    """Gangs that wait in a full pool of nodes, beside a node where others do as they like."""

    def __init__(self, kind: str, *, pinned: bool, window: int, seed: int) -> None:
        self.kind = kind
        self.pinned = pinned
        self.rng = random.Random(seed)
        self.cluster = FakeCluster(seed=seed)
        self.framework = self._schedule(window)
        self.serial = 0

    def _schedule(self, window: int) -> FakeFramework:
        cluster = self.cluster
        if self.kind == "in-tree":
            if not cluster.serves(IN_TREE_PODGROUPS):
                cluster.serve(IN_TREE_PODGROUPS)
            return cluster.framework(enable=[Watcher], feature_gates=GATES)
        cluster.serve(SIGS)
        strategy = "groupCycle" if self.kind == "one cycle" else "permit"
        args = {"deniedPGExpirationTimeSeconds": window, "strategy": strategy}
        text = {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"qps": -1},
            "profiles": [
                {
                    "schedulerName": "pyscheduler",
                    "plugins": {
                        "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": "Coscheduling"}]},
                        "multiPoint": {"enabled": [{"name": "Coscheduling"}, {"name": "Watcher"}]},
                    },
                    "pluginConfig": [{"name": "Coscheduling", "args": args}],
                }
            ],
        }
        return cluster.framework(enable=[Watcher], config=json.dumps(text))

    def fill(self) -> None:
        """Make the nodes: four of four cores with a pod on each core, and one that has more or less room than that."""
        for number in range(4):
            labels = {"pool": "gangs"}
            self.cluster.add_node(f"n{number}", allocatable={"cpu": "4"}, labels=labels)
            for core in range(4):
                self._bound(f"full-{number}-{core}", f"n{number}", "900m")
            self._bound(f"small-{number}", f"n{number}", "100m")
        self.cluster.add_node("other", allocatable={"cpu": "100" if self.pinned else "2"})
        for number in range(8):
            self._bound(f"else-{number}", "other", "200m")

    def _bound(self, name: str, node_name: str, cpu: str) -> None:
        self.cluster.add_pod(name, node_name=node_name, requests={"cpu": cpu})

    def add_gangs(self) -> None:
        """Create the gangs."""
        for number in range(GANGS):
            name = f"g{number}"
            metadata = {"name": name, "namespace": "default"}
            selector: Mapping[str, str] = {"pool": "gangs"} if self.pinned else {}
            if self.kind == "in-tree":
                policy = {"schedulingPolicy": {"gang": {"minCount": MEMBERS}}}
                body = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": metadata}
                self.cluster.add({**body, "spec": policy}, InTreePodGroup)
            else:
                body = {"apiVersion": SIGS.api_version, "kind": "PodGroup", "metadata": metadata}
                self.cluster.add({**body, "spec": {"minMember": MEMBERS}}, SIGS.type)
            spec: dict[str, Any] = {"nodeSelector": dict(selector)}
            labels = {} if self.kind == "in-tree" else {"scheduling.x-k8s.io/pod-group": name}
            if self.kind == "in-tree":
                spec["schedulingGroup"] = {"podGroupName": name}
            for member in range(MEMBERS):
                self.cluster.add_pod(f"{name}-{member}", requests={"cpu": "900m"}, labels=labels, spec=spec)

    def disturb(self) -> None:
        """Let one thing happen that makes no room for a gang."""
        self.serial += 1
        which = self.rng.randrange(5)
        if which == 0:
            name = f"else-{self.rng.randrange(8)}"
            self.cluster.patch(Pod, name, {"metadata": {"labels": {"version": str(self.serial)}}})
        elif which == 1:
            name = f"n{self.rng.randrange(4)}"
            heartbeat = {"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:00Z"}
            self.cluster.patch(Node, name, {"status": {"conditions": [{**heartbeat, "reason": f"r{self.serial}"}]}})
        elif which == 2:
            name = f"else-{self.rng.randrange(8)}"
            self.cluster.delete_pod(name)
            self._bound(name, "other", "200m")
        elif which == 3:
            number = self.rng.randrange(4)
            self.cluster.delete_pod(f"small-{number}")
            self._bound(f"small-{number}", f"n{number}", "100m")
        else:
            self.cluster.patch(Node, "other", {"metadata": {"labels": {"version": str(self.serial)}}})

    async def pass_time(self, seconds: float) -> None:
        """Let time pass with something happening every quarter of a second or so."""
        end = self.cluster.clock.now() + seconds
        while self.cluster.clock.now() < end:
            self.disturb()
            await self.cluster.clock.advance(0.1 + 0.3 * self.rng.random())

    def started(self) -> int:
        """Return how many gangs are bound; none is partial."""
        bound = Counter(pod.name.partition("-")[0] for pod in self.cluster.pods() if pod.node_name)
        sizes = [bound[f"g{number}"] for number in range(GANGS)]
        assert set(sizes) <= {0, MEMBERS}, f"a gang is partial: {sizes}"
        return sum(size > 0 for size in sizes)

    async def run(self) -> Outcome:
        """Let the gangs wait, and make room for one after the other."""
        Watcher.attempts, Watcher.questions = Counter(), Counter()
        self.fill()
        await self.framework.settle()
        self.add_gangs()
        await self.pass_time(20)
        latencies = []
        for number in range(GANGS):
            await self.pass_time(5 + 5 * self.rng.random())
            for core in range(4):
                self.cluster.delete_pod(f"full-{number}-{core}")
            since = self.cluster.clock.now()
            while self.started() <= number:
                await self.cluster.clock.advance(STEP)
                assert self.cluster.clock.now() < since + 60, "a gang sleeps though there is room"
            latencies.append(self.cluster.clock.now() - since)
        mine = {name: count for name, count in Watcher.attempts.items() if name.startswith("g")}
        outcome = Outcome(latencies, mine, dict(Watcher.questions))
        self.cluster.assert_invariants()
        await self.cluster.close()
        return outcome


SEEDS = range(settings.default.max_examples // 10)


def measure(kind: str, *, pinned: bool, window: int = 0, seed: int = 1) -> Outcome:
    """Return what came of one history."""
    return asyncio.run(Waiting(kind, pinned=pinned, window=window, seed=seed).run())


@pytest.mark.slow
@pytest.mark.parametrize("pinned", [pytest.param(False, id="anywhere"), pytest.param(True, id="one pool")])
@pytest.mark.parametrize("kind", ["in-tree", "coscheduling", "one cycle"])
def test_gangs_start_when_there_is_room(kind: str, pinned: bool) -> None:
    """They start within 0.3 seconds, and are tried no more often than by their backoff alone."""
    outcomes = [measure(kind, pinned=pinned, seed=seed) for seed in SEEDS]
    for outcome in outcomes:
        assert max(outcome.latencies) <= 0.3, str(outcome)
        assert max(outcome.attempts.values()) <= 8, str(outcome)


@pytest.mark.slow
def test_the_end_of_a_window_moves_the_group_at_once() -> None:
    """In the window it is refused, as configured; with the last moment of the window it starts."""
    outcomes = [measure("coscheduling", pinned=True, window=3, seed=seed) for seed in SEEDS]
    assert max(latency for outcome in outcomes for latency in outcome.latencies) <= 3.0 + STEP
    assert max(outcome.mean_attempts for outcome in outcomes) <= 5


if __name__ == "__main__":
    for kind in ("in-tree", "coscheduling", "one cycle"):
        for pinned in (False, True):
            for window in (0,) if kind == "in-tree" else (0, 3):
                for seed in range(3):
                    where = "one pool" if pinned else "anywhere"
                    outcome = measure(kind, pinned=pinned, window=window, seed=seed)
                    print(f"{kind}, {where}, window {window} s, seed {seed}: {outcome}")  # noqa: T201
