"""Measure how long a scheduler takes to list a cluster over HTTP and to bind a pod, and how its memory grows.

The API server runs in another process, so CPU time and memory are those of the scheduler alone.
"""

from __future__ import annotations

import asyncio
import gc
import resource
import time
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from benchmarks.measure import watch_holds
from benchmarks.schedulers import BenchMetrics, make_scheduler
from benchmarks.server import serving
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.client import RealClient
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.server import Server
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["Running", "memory", "reaction", "relist", "sync"]


class Running:
    """A scheduler on a server, made as `pyscheduler run` makes it."""

    def __init__(self, server: Server, *, configuration: str = "default") -> None:
        self.server = server
        self.recorder = BenchMetrics()
        self.scheduler: Scheduler = make_scheduler(
            HTTPTransport(auth.plain(server.url)),
            configuration=configuration,
            name="pyscheduler",
            recorder=self.recorder,
        )
        self._loop: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """List everything; then begin to schedule."""
        await self.scheduler.start()
        keep_for_good()
        self._loop = asyncio.create_task(self.scheduler.run())

    async def order(self, what: str, **keywords: object) -> object:
        """Give the server an order without holding the loop."""
        return await asyncio.to_thread(self.server, what, **keywords)

    async def until(self, so: Callable[[], bool]) -> None:
        """Wait until something is so."""
        async with asyncio.timeout(300):
            while not so():  # noqa: ASYNC110 - looked at from outside, so as not to cost what is measured
                await asyncio.sleep(0.01)

    async def bound(self, count: int) -> None:
        """Wait until the cache holds so many bound pods."""
        cache = self.scheduler.cache
        await self.until(lambda: cache.pod_count - cache.assumed_count >= count)

    def is_empty(self) -> bool:
        """Return whether no pod is left, and no event to write."""
        client = self.scheduler.client
        assert isinstance(client, RealClient)
        return not self.scheduler.cache.pod_count and self.scheduler.idle and client.idle

    async def stop(self) -> None:
        """End it."""
        await self.scheduler.stop()
        if self._loop is not None:
            await self._loop


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def sync(nodes: int, pods: int) -> dict[str, float]:
    """Measure the first list of a cluster."""

    async def measure(server: Server) -> dict[str, float]:
        running = Running(server)
        holds: list[float] = []
        watcher = asyncio.create_task(watch_holds(holds))
        wall, cpu = time.perf_counter(), time.process_time()
        await running.scheduler.start()
        figures = {"sync_seconds": time.perf_counter() - wall, "sync_cpu_seconds": time.process_time() - cpu}
        watcher.cancel()
        await running.stop()
        return {**figures, "longest_hold_ms": max(holds) * 1e3, "peak_mib": _peak_mib()}

    with serving(nodes=nodes, pods=pods) as server, rare_collections():
        return asyncio.run(measure(server))


def relist(nodes: int, pods: int, created: int, *, touch: bool) -> dict[str, float]:
    """Measure the pauses while everything is listed again and pods go on arriving."""

    async def measure(server: Server) -> dict[str, float]:
        running = Running(server)
        await running.start()
        await running.order("create", count=created, pause_seconds=0.01, prefix="early")
        await running.bound(pods + created // 4)
        holds: list[float] = []
        watcher = asyncio.create_task(watch_holds(holds))
        wall, cpu = time.perf_counter(), time.process_time()
        await running.order("forget", touch=touch)
        await running.until(lambda: running.recorder.warnings.get("relisted", 0) >= 2)
        await running.bound(pods + created)
        seconds, cpu = time.perf_counter() - wall, time.process_time() - cpu
        watcher.cancel()
        await running.stop()
        return {
            "seconds": seconds,
            "cpu_seconds": cpu,
            "longest_hold_ms": max(holds) * 1e3,
            "hold_p99_ms": float(np.percentile(holds, 99)) * 1e3,
            "peak_mib": _peak_mib(),
        }

    with serving(nodes=nodes, pods=pods) as server, rare_collections():
        return asyncio.run(measure(server))


def reaction(nodes: int, created: int) -> dict[str, float]:
    """Measure how long an idle scheduler takes from a pod's creation to its binding, as seen by the server."""

    async def measure(server: Server) -> dict[str, float]:
        running = Running(server)
        await running.start()
        await running.order("create", count=created, pause_seconds=0.02, prefix="pod")
        await running.bound(created)
        found = await running.order("reactions")
        await running.stop()
        p50, p99 = np.percentile(found, [50, 99])  # type: ignore[call-overload]  # a list of numbers, off the wire
        return {"reaction_p50_ms": float(p50) * 1e3, "reaction_p99_ms": float(p99) * 1e3}

    with serving(nodes=nodes) as server, rare_collections():
        return asyncio.run(measure(server))


def memory(nodes: int, rounds: int, created: int) -> dict[str, float]:
    """Measure how much a scheduler grows while pods come, are bound, and go, round after round."""

    async def measure(server: Server) -> dict[str, float]:
        running = Running(server)
        await running.start()
        sizes: list[float] = []
        for number in range(rounds):
            await running.order("create", count=created, pause_seconds=0.0, prefix=f"round-{number}")
            await running.bound(created)
            await running.order("remove", prefix=f"round-{number}")
            await running.until(running.is_empty)
            gc.collect()
            sizes.append(_resident_mib())
        await running.stop()
        # The first rounds fill what is meant to be filled: pools, series of events, interned values.
        return {"resident_mib": sizes[-1], "growth_mib": sizes[-1] - sizes[rounds // 3]}

    with serving(nodes=nodes) as server, rare_collections():
        return asyncio.run(measure(server))
