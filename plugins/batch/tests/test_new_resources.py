"""A resource that no node and no pod had before comes while room is promised."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyscheduler_lab.testing import BatchCluster


async def test_a_job_evicts_for_its_next_pod_after_a_new_resource_has_come(kai: BatchCluster) -> None:
    """The amounts that its victims held have other columns than those of the next pass."""
    kai.nodes(1, cpu="2")
    kai.queue("q")
    for name, value in (("low", 1), ("high", 90)):
        kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}}
        kai.cluster.server.add({**kind, "value": value})
    kai.group("high", "q", 1, priorityClassName="high")
    for name in ("low", "lower", "other"):
        kai.group(name, "q", 1, priorityClassName="low")
    kai.cluster.server.lifecycle(start_seconds=0.0, stop_seconds=100.0).start()
    kai.pods("low", 1, priority=1)
    kai.pods("lower", 1, priority=1)
    kai.pods("other", 1, priority=1, requests={"cpu": "100"})
    await kai.start()
    await kai.pass_time(3)
    kai.pods("high", 1, priority=90)
    await kai.pass_time(3)
    assert sum(pod.is_terminating for pod in kai.cluster.pods()) == 1
    kai.pods("other", 1, start=1, priority=1, requests={"cpu": "1", "example.com/fpga": "1"})
    kai.pods("high", 1, start=1, priority=90)
    await kai.pass_time(250)
    assert {pod.name: pod.node_name for pod in kai.cluster.pods() if pod.name.startswith("high")} == {
        "high-0": "n0",
        "high-1": "n0",
    }
