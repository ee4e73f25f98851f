"""Compare the pods bound per second with and without the plugin PodGrouper, which makes the PodGroups of jobs."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

from benchmarks.client import Running
from benchmarks.server import serving
from pyscheduler.serving.gc_tuning import rare_collections

if TYPE_CHECKING:
    from benchmarks.server import Server

__all__ = ["grouped"]

_NODES: Final = 1000
_PODS: Final = 10


def grouped(workloads: int) -> dict[str, Any]:
    """Return the rate at which the pods of so many PyTorchJobs are bound that arrive at once, over HTTP.

    Each has ten pods, which PodGrouper groups in the batch profile itself. `of_ready_groups`: their share of the rate
    of the same pods with ready groups and without PodGrouper. The API server runs in another process.
    """
    rate, ready = (_rate(workloads, is_ready=is_ready) for is_ready in (False, True))
    return {"pods_per_second": rate, "ready_pods_per_second": ready, "of_ready_groups": rate / ready}


def _rate(workloads: int, *, is_ready: bool) -> float:
    """Return the pods bound in a second, from the first one created to the last one bound."""
    pods = workloads * _PODS

    async def measure(server: Server) -> float:
        await asyncio.to_thread(server, "fill_with_batch", nodes=_NODES, is_full=False)
        running = Running(server, configuration="batch" if is_ready else "grouping")
        await running.start()
        began = time.perf_counter()
        await running.order("create_workloads", count=workloads, pods=_PODS, is_ready=is_ready)
        await running.bound(pods)
        seconds = time.perf_counter() - began
        groups = await running.order("count_groups")
        await running.stop()
        if groups != workloads:
            raise RuntimeError(f"{groups} groups of {workloads} workloads")
        return pods / seconds

    with serving(nodes=0) as server, rare_collections():
        return asyncio.run(measure(server))
