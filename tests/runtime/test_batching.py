"""Opportunistic batching: when a pod takes the next best node of the list made for the pod before it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.cache.cache import Cache
from pyscheduler.cache.snapshot import Snapshot
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.runtime.batching import Batch, BatchTurn, NodeList
from pyscheduler.runtime.extension_points.scoring import ScoreOutcome
from pyscheduler.runtime.tie_break import TieBreak
from pyscheduler.testing import FakeCluster, FakeFramework, make_node, make_pod

NO_SPREADING = {"PodTopologySpread": {"defaultingType": "List"}}
BALANCE = "NodeResourcesBalancedAllocation"
ONE_EACH = {"cpu": "3"}


class Counts(NullRecorder):
    """Counts what became of attempts and lists."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def count(self, family: str, *labels: str) -> None:
        if family.startswith("scheduler_batch_"):
            self.seen[labels[1]] += 1

    def observe(self, family: str, value: float, *labels: str) -> None:
        self.seen["asked"] += family == "scheduler_get_node_hint_duration_seconds"
        self.seen["stored"] += family == "scheduler_store_schedule_results_duration_seconds"


def counting(framework: FakeFramework) -> Counts:
    """Count what the first profile of a framework does from now on."""
    counts = Counts()
    batch = framework.profile.batch
    assert batch is not None
    batch._recorder = counts
    return counts


def five_nodes(cluster: FakeCluster) -> None:
    """Add nodes that one pod fills, of which the higher ones are larger and score better."""
    for number in range(5):
        cluster.add_node(f"n{number}", allocatable={"cpu": "4", "memory": f"{2 ** (number + 1)}Gi"})


async def add_all(framework: FakeFramework, *names: str, **keywords: Any) -> list[str | None]:
    """Let pods come at once; return the nodes that they got."""
    await framework.start()
    for name in names:
        framework.cluster.add_pod(name, **{"requests": {**ONE_EACH, "memory": "1Gi"}, **keywords})
    await framework.settle()
    return [framework.result(name).node for name in names]


async def test_pods_that_fill_a_node_take_the_next_of_the_list(cluster: FakeCluster) -> None:
    """Where default spreading is off, the first pod's list serves all others; they go where they went without it."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    assert await add_all(framework, "a", "b", "c", "d") == ["n4", "n3", "n2", "n1"]
    assert counts.seen == {"asked": 4, "stored": 4, "no_hint": 1, "hint_used": 3}


async def test_the_gate_is_off(cluster: FakeCluster) -> None:
    """Then nothing is carried over, and no pod is signed."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING, feature_gates="OpportunisticBatching=false")
    assert framework.profile.batch is None
    assert framework.profile.batch_turn(make_pod("p"), 1) is None
    assert await add_all(framework, "a", "b") == ["n4", "n3"]


async def test_pods_of_the_default_profile_have_no_signature(cluster: FakeCluster) -> None:
    """As in kube-scheduler, where default spreading keeps all pods from being batched."""
    five_nodes(cluster)
    framework = cluster.framework()
    counts = counting(framework)
    await add_all(framework, "a", "b")
    assert counts.seen == {"asked": 2, "stored": 2, "no_hint": 2, "pod_not_batchable": 2}


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        pytest.param({"labels": {"a": "b"}}, "pod_incompatible", id="other labels"),
        pytest.param({"requests": {"cpu": "2"}}, "pod_incompatible", id="other requests"),
    ],
)
async def test_a_pod_of_another_kind(cluster: FakeCluster, second: dict[str, Any], reason: str) -> None:
    """It is scored anew."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    await add_all(framework, "a")
    await add_all(framework, "b", **second)
    assert counts.seen[reason] == 1
    assert counts.seen["no_hint"] == 2


async def test_a_node_that_is_not_full(cluster: FakeCluster) -> None:
    """Where the last node can take the next pod, nodes are scored anew."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    await add_all(framework, "a", "b", requests={"cpu": "1", "memory": "1Gi"})
    assert counts.seen == {"asked": 2, "stored": 2, "no_hint": 2, "node_not_full": 1}


async def test_a_list_lasts_half_a_second(cluster: FakeCluster) -> None:
    """After that, nodes are scored anew."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    await add_all(framework, "a")
    await cluster.clock.advance(0.4)
    await add_all(framework, "b")
    assert counts.seen["hint_used"] == 1
    await cluster.clock.advance(0.2)
    await add_all(framework, "c")
    assert counts.seen["expired"] == 1


async def test_a_list_does_not_outlive_a_change_of_the_nodes(cluster: FakeCluster) -> None:
    """A node that comes is considered by the very next pod."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    assert await add_all(framework, "a") == ["n4"]
    cluster.add_node("n9", allocatable={"cpu": "4", "memory": "64Gi"})
    assert await add_all(framework, "b") == ["n9"]
    assert counts.seen["node_missing"] == 1


async def test_a_hint_that_does_not_hold(cluster: FakeCluster) -> None:
    """Where the next node of the list cannot take the pod any more, the pod is scored anew, and gets a node."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    assert await add_all(framework, "a") == ["n4"]
    cluster.add_pod("other", node_name="n3", requests={"cpu": "2"})
    await framework.settle()
    assert await add_all(framework, "b") == ["n2"]
    assert counts.seen == {"asked": 2, "stored": 2, "no_hint": 1, "hint_not_used": 1}


async def test_where_not_all_nodes_are_looked_at(cluster: FakeCluster) -> None:
    """The hint is looked at alone, before others are searched."""
    for number in range(150):
        cluster.add_node(f"n{number}", allocatable={"cpu": "4"})
    config = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: pyscheduler
    percentageOfNodesToScore: 70
    pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List}}]
"""
    framework = cluster.framework(config=config)
    counts = counting(framework)
    nodes = await add_all(framework, "a", "b", "c")
    assert len(set(nodes)) == 3
    assert counts.seen["hint_used"] == 2


async def test_a_failed_pod_ends_the_list(cluster: FakeCluster) -> None:
    """The pod after one that found no node is scored anew: it does not follow the one that the list was made for."""
    five_nodes(cluster)
    framework = cluster.framework(disable=[BALANCE], args=NO_SPREADING)
    counts = counting(framework)
    await add_all(framework, "a")
    await add_all(framework, "huge", requests={"cpu": "99"})
    await add_all(framework, "b")
    assert counts.seen["pod_skipped"] == 1
    assert counts.seen["hint_used"] == 0


def listed(totals: list[int], chosen: int, seed: int = 0) -> NodeList:
    """Make the list of nodes with these scores, without the one that was chosen."""
    cache, snapshot = Cache(), Snapshot()
    for number in range(len(totals)):
        cache.add_node(make_node(f"n{number}"))
    cache.update_snapshot(snapshot)
    ranking = ScoreOutcome(np.array(totals), {})
    made = NodeList.without(chosen, snapshot.nodes, ranking, snapshot.nodes, TieBreak(random.Random(seed)))
    assert made is not None
    return made


def test_a_list_is_in_order_of_scores() -> None:
    """The best comes first; of equals, each comes first at times."""
    made = listed([5, 9, 7, 1], chosen=1)
    assert [len(made), made.pop(), made.pop(), made.pop(), len(made)] == [3, "n2", "n0", "n3", 0]
    assert {listed([3, 8, 8, 8], chosen=1, seed=seed).pop() for seed in range(20)} == {"n2", "n3"}


def turn_of(batch: Batch, cycle: int) -> BatchTurn:
    """Return the turn of a pod of one kind."""
    return BatchTurn(batch, (("a", 1),), cycle)


@pytest.mark.parametrize(
    ("cycle", "rejects", "expected"),
    [
        pytest.param(2, lambda _: True, "hint", id="the last node is full"),
        pytest.param(2, lambda _: False, "node_not_full", id="the last node is not full"),
        pytest.param(2, lambda _: None, "node_missing", id="the last node is gone"),
        pytest.param(3, lambda _: True, "pod_skipped", id="another profile's pod came in between"),
    ],
)
def test_when_there_is_a_hint(cycle: int, rejects: Callable[[str], bool | None], expected: str) -> None:
    """Only right after the pod that the list was made for, and where that pod's node is full."""
    counts = Counts()
    batch = Batch(profile="p", clock=VirtualClock(), recorder=counts)
    first = turn_of(batch, 1)
    assert first.hint(rejects) == ""
    first.settle("n1", lambda: listed([5, 9, 7], chosen=1))
    second = turn_of(batch, cycle)
    assert second.hint(rejects) == ("n2" if expected == "hint" else "")
    assert second.hint(rejects) == second.hinted
    assert counts.seen[expected] == (0 if expected == "hint" else 1)
