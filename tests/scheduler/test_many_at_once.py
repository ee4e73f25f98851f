"""Many pods that have their verdicts at Permit at once: the loop turns meanwhile, and it comes to the same."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.framework import (
    ActionType,
    ClusterEvent,
    ClusterEventWithHint,
    EnqueueExtensions,
    EventResource,
    PermitPlugin,
    PreFilterPlugin,
    PreFilterResult,
    ReservePlugin,
    Status,
)

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState, WaitingPod
    from pyscheduler.testing import FakeCluster

MANY, PER_TURN = 400, 50
NAMES = [f"p{number}" for number in range(MANY)]


class Gate(PreFilterPlugin, PermitPlugin, ReservePlugin, EnqueueExtensions):
    """Lets pods wait, and notes who holds a node when one is tried."""

    def __init__(self, args: object = None, handle: Any = None) -> None:
        super().__init__(args, handle)
        self.holding: set[str] = set()
        #: How many held a node at each attempt; how often each pod gave its node back, and why.
        self.seen: list[int] = []
        self.ends: Counter[tuple[str, str]] = Counter()

    def events_to_register(self) -> list[ClusterEventWithHint]:
        return [ClusterEventWithHint(ClusterEvent(EventResource.ASSIGNED_POD, ActionType.DELETE))]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: object) -> PreFilterResult | Status | None:
        self.seen.append(len(self.holding))
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.holding.add(pod.name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        self.holding.discard(pod.name)
        verdict = self.handle.wait_verdict(pod.uid)
        self.ends[pod.name, "" if verdict is None else verdict.cause] += 1

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return Status.wait(timeout=60)

    @property
    def waiting(self) -> list[WaitingPod]:
        return list(self.handle.waiting_pods())


async def waiting(cluster: FakeCluster) -> tuple[Any, Gate]:
    """Let many pods wait."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "1000"})
    framework = cluster.framework(enable=[Gate])
    await framework.start()
    for name in NAMES:
        cluster.add_pod(name, requests={"cpu": "1"})
    await cluster.clock.advance(1)
    gate = framework.plugin("Gate")
    assert isinstance(gate, Gate)
    assert len(gate.waiting) == MANY
    return framework, gate


def decide(gate: Gate, *, is_allowed: bool) -> None:
    """Let all go that wait, or turn them away."""
    for held in gate.waiting:
        if is_allowed:
            held.allow(gate.name)
        else:
            held.reject(gate.name, "enough")


async def per_turn(framework: Any) -> list[int]:
    """Return how many left the waiting pods at each turn of the loop, until nobody waits."""
    counts = []
    while left := len(framework.scheduler.waiting_pods):
        await asyncio.sleep(0)
        counts.append(left - len(framework.scheduler.waiting_pods))
    return counts


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_allowed", [True, False], ids=["allowed", "refused"])
async def test_fifty_waiting_pods_continue_per_turn(cluster: FakeCluster, is_allowed: bool) -> None:
    """Neither a group that is let go nor one that is rolled back holds the loop."""
    framework, gate = await waiting(cluster)
    decide(gate, is_allowed=is_allowed)
    counts = await per_turn(framework)
    assert max(counts) <= PER_TURN
    assert len(counts) <= MANY // PER_TURN + 2
    assert sum(counts) == MANY
    if is_allowed:
        await framework.settle()
        assert all(cluster.pod(name).node_name == "n1" for name in NAMES)


@pytest.mark.slow
async def test_no_pod_is_tried_while_many_release_their_nodes(cluster: FakeCluster) -> None:
    """The first that gives its node back brings others into activeQ; they are tried when all have."""
    _, gate = await waiting(cluster)
    gate.seen.clear()
    cluster.add_pod("other", requests={"cpu": "1"})
    for held in gate.waiting:
        held.reject(gate.name, "enough")
    await cluster.clock.advance(30)
    # Each pod that is tried again waits again: the first of them all has seen nobody that holds a node.
    assert gate.seen[: MANY + 1] == list(range(MANY + 1))
    assert gate.ends == {(name, "rejected"): 1 for name in NAMES}
    assert len(gate.waiting) == MANY + 1


@pytest.mark.slow
async def test_an_allowed_pod_stays_allowed(cluster: FakeCluster) -> None:
    """Its time, a rejection and a victim's fate come too late; only a pod that is deleted is not bound."""
    framework, gate = await waiting(cluster)
    held = gate.waiting
    for one in held:
        one.allow(gate.name)
    await asyncio.sleep(0)
    assert len(framework.scheduler.waiting_pods) > MANY / 2
    cluster.delete_pod(NAMES[-1])
    assert not any(one.reject(gate.name, "too late") or one.preempt(gate.name, "too late") for one in held)
    await cluster.clock.advance(120)
    assert all(cluster.pod(name).node_name == "n1" for name in NAMES[:-1])
    assert not gate.ends.keys() - {(NAMES[-1], "allowed")}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("is_allowed", [True, False], ids=["allowed", "refused"])
async def test_a_stop_in_between_binds_all_or_none(cluster: FakeCluster, is_allowed: bool) -> None:
    """A group that was let go is not cut in two, and one that was turned away leaves nothing behind."""
    framework, gate = await waiting(cluster)
    decide(gate, is_allowed=is_allowed)
    await asyncio.sleep(0)
    assert 0 < len(framework.scheduler.waiting_pods) < MANY
    stop = asyncio.create_task(framework.scheduler.stop())
    await cluster.clock.advance(10)
    await stop
    bound = sum(cluster.pod(name).node_name == "n1" for name in NAMES)
    assert bound == (MANY if is_allowed else 0)
    assert gate.holding == (set(NAMES) if is_allowed else set())
