"""The protection of jobs from evictions survives a change of the leader."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler_lab.testing import BatchCluster

if TYPE_CHECKING:
    from pyscheduler.testing import FakeCluster

TIERS = (
    "tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}]}, {plugins: [{name: predicates}]}]"
)
ARGS = {
    "kai": "",
    "volcano": f"actions: 'enqueue, allocate, preempt', {TIERS}",
    "kube-batch": "actions: 'allocate, preempt', tiers: [{plugins: [{name: priority}, {name: gang}]}]",
}


@pytest.mark.parametrize("preset", sorted(ARGS))
async def test_a_job_is_not_evicted_once_by_each_leader(pyscheduler_cluster: FakeCluster, preset: str) -> None:
    """Ten leaders in 500 s, and a job of higher priority that comes with each: the victim rests for ten minutes."""
    batch = BatchCluster(pyscheduler_cluster, preset)
    batch.nodes(1, cpu="1")
    batch.queue("a")
    for name, value in (("low", 1), ("high", 90)):
        kind = {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": name},
            "value": value,
        }
        pyscheduler_cluster.server.add({**kind, "metadata": {"name": name}, "value": value})
    pyscheduler_cluster.server.lifecycle(start_seconds=0.0, stop_seconds=0.0).start()
    batch.group("low", "a", 1, priorityClassName="low")
    created = 0

    async def pass_time(seconds: int) -> None:
        nonlocal created
        for _ in range(seconds):
            if not any(pod.name.startswith("low-") for pod in batch.cluster.pods()):
                batch.pods("low", 1, start=created, priority=1)
                created += 1
            await batch.pass_time(1)

    for number in range(10):
        scheduler = await batch.start(ARGS[preset])
        await pass_time(10)
        batch.group(f"high{number}", "a", 1, priorityClassName="high")
        batch.pods(f"high{number}", 1, priority=90)
        await pass_time(20)
        batch.cluster.delete_pod(f"high{number}-0")
        await pass_time(20)
        await scheduler.close()
    assert 2 <= created <= 3
