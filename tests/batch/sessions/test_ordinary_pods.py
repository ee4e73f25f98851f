"""Ordinary pods beside a batch profile that has nothing to do."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler.testing import FakeCluster
from pyscheduler_kai.objects import KAI_QUEUES

_HEAD = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 100000, burst: 100000}
profiles:
- schedulerName: ordinary
"""
_BATCH = """
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: kai}}]
"""
POD = st.fixed_dictionaries(
    {
        "cpu": st.integers(1, 6),
        "priority": st.sampled_from([0, 0, 0, 10]),
        "zone": st.sampled_from(["", "", "a", "b"]),
        "pause": st.sampled_from([0.0, 0.0, 1.0]),
    }
)


async def _play(nodes: list[int], pods: list[dict[str, Any]], seed: int, *, with_batch: bool) -> list[tuple[str, str]]:
    """Return where each pod is in the end, and which pods were preempted."""
    cluster = FakeCluster(seed=seed)
    for kind in (KAI_QUEUES, KAI_PODGROUPS):
        cluster.serve(kind)
    for number, cpu in enumerate(nodes):
        cluster.add_node(
            f"n{number}", allocatable={"cpu": str(cpu), "memory": "64Gi"}, labels={"zone": "ab"[number % 2]}
        )
    queue = {"apiVersion": KAI_QUEUES.type.api_version, "kind": "Queue", "metadata": {"name": "q"}, "spec": {}}
    cluster.add(queue, KAI_QUEUES.type)
    framework = cluster.framework(config=_HEAD + (_BATCH if with_batch else ""))
    await framework.start()
    for number, pod in enumerate(pods):
        spec = {"nodeSelector": {"zone": pod["zone"]}} if pod["zone"] else {}
        requests = {"cpu": str(pod["cpu"])}
        cluster.add_pod(f"p{number}", requests=requests, priority=pod["priority"], scheduler_name="ordinary", spec=spec)
        await cluster.clock.advance(pod["pause"])
    await cluster.clock.advance(30.0)
    found = [
        (pod.name, "preempted" if pod.is_terminating else pod.node_name)
        for pod in sorted(cluster.pods(), key=lambda pod: pod.name)
    ]
    await cluster.close()
    return found


@pytest.mark.slow
def test_an_idle_batch_profile_changes_no_decision() -> None:
    """Ordinary pods get the same nodes, and preempt the same pods, with a batch profile beside theirs and without."""
    counts: Counter[str] = Counter()

    @settings(max_examples=settings.default.max_examples, deadline=None)
    @given(
        nodes=st.lists(st.integers(4, 12), min_size=2, max_size=5),
        pods=st.lists(POD, min_size=6, max_size=16),
        seed=st.integers(0, 1000),
    )
    def check(nodes: list[int], pods: list[dict[str, Any]], seed: int) -> None:
        alone = asyncio.run(_play(nodes, pods, seed, with_batch=False))
        beside = asyncio.run(_play(nodes, pods, seed, with_batch=True))
        assert alone == beside
        counts.update("waits" if not where else "preempted" if where == "preempted" else "bound" for _, where in alone)

    check()
    print(dict(counts))  # noqa: T201 - how often each happened
    assert counts["bound"] >= 50, counts
    assert counts["waits"] >= 5, counts
    assert counts["preempted"] >= 1, counts
