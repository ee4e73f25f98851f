"""Measure how long a profile with the plugin Batch blocks the event loop, while pods of another profile arrive."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.client import Running
from benchmarks.measure import watch_holds
from benchmarks.server import serving
from pyscheduler.serving.gc_tuning import rare_collections
from pyscheduler_batch.sessions.assembly import sessions_of

if TYPE_CHECKING:
    from benchmarks.server import Server

__all__ = ["beside", "large_gang"]

#: The backlog: so many nodes to a gang of four pods that waits.
_NODES_PER_GANG: Final = 5
_GANG: Final = 4
#: Seconds from one ordinary pod to the next, and from one gang to the next, on average.
_POD_SECONDS: Final = 0.02
_GANG_SECONDS: Final = 0.2


def beside(nodes: int, seconds: float) -> dict[str, Any]:
    """Return the holds of the loop of a scheduler with an ordinary and a batch profile, over HTTP, in milliseconds.

    Queues that hold twice their quota fill all GPUs, four to a node, with running gangs of one pod. A starved queue has
    a backlog of gangs, and gets more. So each pass evicts pods and binds others, while ordinary pods arrive. The first
    pass, which reads the cluster, counts, too. The API server runs in another process.
    """

    async def measure(server: Server) -> dict[str, Any]:
        backlog = {"count": nodes // _NODES_PER_GANG, "pods": _GANG, "queue": "starved"}
        await asyncio.to_thread(server, "fill_with_batch", nodes=nodes)
        await asyncio.to_thread(server, "create_gangs", **backlog, pause_seconds=0.0, prefix="backlog")
        running = Running(server, configuration="batch")
        await running.start()
        holds = _Holds()
        count = int(seconds / _POD_SECONDS)
        await running.order("create", count=count, pause_seconds=_POD_SECONDS, prefix="plain")
        more = {**backlog, "count": int(seconds / _GANG_SECONDS)}
        await running.order("create_gangs", **more, pause_seconds=_GANG_SECONDS, prefix="later")
        await asyncio.sleep(seconds)
        figures = holds.stop()
        passes, bound = sessions_of(running.scheduler)[0].passes, await running.order("bound")
        await running.stop()
        if not bound:
            raise RuntimeError("no pod was bound")
        return {**figures, "passes_begun": passes}

    with serving(nodes=0) as server, rare_collections():
        return asyncio.run(measure(server))


def large_gang(nodes: int, pods: int) -> dict[str, Any]:
    """Return the holds of the loop while one gang is placed and bound, and ordinary pods arrive, over HTTP."""

    async def measure(server: Server) -> dict[str, Any]:
        await asyncio.to_thread(server, "fill_with_batch", nodes=nodes, is_full=False)
        running = Running(server, configuration="batch")
        await running.start()
        holds, plain = _Holds(), pods // 5
        await running.order("create", count=plain, pause_seconds=_POD_SECONDS, prefix="plain")
        await running.order("create_gangs", count=1, pods=pods, queue="starved", pause_seconds=0.0, prefix="large")
        await running.bound(plain + pods)
        figures = holds.stop()
        await running.stop()
        return figures

    with serving(nodes=0) as server, rare_collections():
        return asyncio.run(measure(server))


class _Holds:
    """The holds of the running loop, from now on."""

    def __init__(self) -> None:
        self._holds: list[float] = []
        self._cpu: list[float] = []
        self._watcher = asyncio.create_task(watch_holds(self._holds, self._cpu))

    def stop(self) -> dict[str, Any]:
        """End the watch; return the figures in milliseconds. On a busy machine those in CPU time say more."""
        self._watcher.cancel()
        return {
            "longest_hold_ms": max(self._holds) * 1e3,
            "hold_p99_ms": float(np.percentile(self._holds, 99)) * 1e3,
            "longest_hold_cpu_ms": max(self._cpu) * 1e3,
        }
