"""Run the scheduler in Kueue's scalability test: queues lend CPU to each other; pods arrive faster than they end.

In Kueue, the queues of a *cohort* lend resources to each other. Here, a cohort is a Volcano queue with these queues as
children. The field `deserved` of a child is Kueue's nominal quota. Its `capability` is this quota plus the borrowing
limit.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import click

from benchmarks.measure import memory_of, watch_holds
from benchmarks.schedulers import make_scheduler
from benchmarks.server import serving_cohorts
from pyscheduler.cluster.real import auth
from pyscheduler.cluster.real.http import HTTPTransport
from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections
from pyscheduler_batch.sessions.assembly import sessions_of

if TYPE_CHECKING:
    from benchmarks.server import Server

__all__ = ["measure"]

#: A run has failed if no workload ended for so long.
_STALLED_SECONDS: Final = 60.0
_POLL_SECONDS: Final = 0.5


def measure(name: str, *, short: bool) -> dict[str, Any]:
    """Return the figures of a shape, in real time; a `short` run has 64 workloads."""
    with rare_collections(), serving_cohorts(name, short=short) as server:
        return asyncio.run(_measured(server))


async def _measured(server: Server) -> dict[str, Any]:
    scheduler = make_scheduler(HTTPTransport(auth.plain(server.url)), configuration="cohorts")
    await scheduler.start()
    keep_for_good()
    holds: list[float] = []
    watcher = asyncio.create_task(watch_holds(holds))
    loop = asyncio.create_task(scheduler.run())
    cpu = time.process_time()
    await asyncio.to_thread(server, "begin")
    await _until_finished(server)
    cpu = time.process_time() - cpu
    watcher.cancel()
    await scheduler.stop()
    await loop
    figures: dict[str, Any] = await asyncio.to_thread(server, "figures")
    return {
        **figures,
        "cpu_seconds": cpu,
        "longest_hold_ms": max(holds) * 1e3,
        "passes": sessions_of(scheduler)[0].passes,
        "peak_mib": memory_of("self")["peak_mib"],
    }


async def _until_finished(server: Server) -> None:
    """Return when all workloads have ended and no queue holds anything; a `ClickException` if nothing ends any more."""
    before, changed = -1, time.perf_counter()
    while True:
        await asyncio.sleep(_POLL_SECONDS)
        progress = await asyncio.to_thread(server, "progress")
        if progress["is_over"]:
            return
        now = time.perf_counter()
        if progress["finished"] != before:
            before, changed = progress["finished"], now
        elif now - changed > _STALLED_SECONDS:
            raise click.ClickException(
                f"{progress['finished']:,} of {progress['workloads']:,} workloads have ended, "
                f"none in the last {_STALLED_SECONDS:.0f} s"
            )
