"""Measure a scheduler's CPU time while many equal pods wait for room in a full cluster; one pod ends each second.

The CPU time of the API server counts too, because it runs in the same process.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from pyscheduler.testing import FakeCluster

__all__ = ["backlog"]

#: After so many seconds the backoff of the pods does not grow any more.
_WARM_UP: Final = 7
_SECONDS: Final = 10


async def _share_of_core(nodes: int, pods: int) -> float:
    cluster = FakeCluster()
    for number in range(nodes):
        cluster.add_node(f"node-{number}", allocatable={"cpu": "1", "pods": "110"})
    framework = cluster.framework(disable=["DefaultPreemption"])
    await framework.start()
    for number in range(pods + nodes):
        cluster.add_pod(f"pod-{number}", requests={"cpu": "1"})
    await framework.settle()
    spent = 0.0
    for second in range(_WARM_UP + _SECONDS):
        first = next(pod for pod in cluster.pods() if pod.node_name)
        began = time.process_time()
        cluster.delete_pod(first.name)
        await framework.settle()
        await cluster.clock.advance(1.0)
        if second >= _WARM_UP:
            spent += time.process_time() - began
    left = sum(not pod.node_name for pod in cluster.pods())
    assert left == pods - _WARM_UP - _SECONDS, f"{left} pods wait"
    await cluster.close()
    return spent / _SECONDS


def backlog(nodes: int, pods: int) -> dict[str, float]:
    """Return the share of a core that the backlog takes."""
    return {"of_core": asyncio.run(_share_of_core(nodes, pods))}
