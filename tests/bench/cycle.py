"""The scheduler core without HTTP: queue, cycles, bindings, events and the informer's echo, in one process.

The embedded API server runs in the same process, so its share is in every figure.
"""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import attrs
import numpy as np

from pyscheduler.cli.garbage import keep_for_good, rare_collections
from pyscheduler.cluster.embedded.cluster import EmbeddedCluster
from pyscheduler.config.load import loads
from pyscheduler.framework.clock import LoopClock
from pyscheduler.scheduler.assembly import build
from pyscheduler.telemetry.metrics import Metrics
from tests.bench import clusters
from tests.bench.recorder import BenchRecorder

if TYPE_CHECKING:
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["CONFIG", "CycleResult", "run", "watch_holds"]

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles: [{schedulerName: pyscheduler}]
"""


@attrs.frozen(kw_only=True)
class CycleResult:
    """One row of the table; times in seconds."""

    nodes: int
    pods: int
    distinct: int
    seconds: float
    cpu_seconds: float
    sync_seconds: float
    attempt_p50: float
    attempt_p99: float
    longest_hold: float

    @property
    def pods_per_second(self) -> float:
        """Return the average rate."""
        return self.pods / self.seconds

    @property
    def cpu_per_pod(self) -> float:
        """Return CPU seconds per pod, everything in the process included."""
        return self.cpu_seconds / self.pods


async def watch_holds(holds: list[float]) -> None:
    """Note how late each turn of the loop comes."""
    while True:
        before = time.perf_counter()
        await asyncio.sleep(0.001)
        holds.append(time.perf_counter() - before - 0.001)


async def _until_bound(scheduler: Scheduler, count: int) -> None:
    bound = asyncio.Event()

    def check(*_: object) -> None:
        if scheduler.cache.pod_count - scheduler.cache.assumed_count >= count:
            bound.set()

    # After the scheduler's own handler, which is what makes the cache see the pod bound.
    scheduler.pods.add_event_handler(on_update=check)
    await bound.wait()


async def _measure(node_count: int, pod_count: int, distinct: int, shape: str) -> CycleResult:
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), history_limit=4 * pod_count)
    cluster.add(*clusters.nodes(node_count))
    cluster.add(*clusters.pods(pod_count, distinct=distinct, shape=shape))
    recorder = BenchRecorder()
    scheduler = build(
        loads(CONFIG, source="benchmark"),
        cluster.transport(),
        LoopClock(),
        random.Random(1),
        recorder=Metrics(also=recorder),
    )
    begun = time.perf_counter()
    await scheduler.start()
    synced = time.perf_counter() - begun
    keep_for_good()
    holds: list[float] = []
    watcher = asyncio.create_task(watch_holds(holds))
    cpu, wall = time.process_time(), time.perf_counter()
    loop = asyncio.create_task(scheduler.run())
    await _until_bound(scheduler, pod_count)
    seconds, cpu_seconds = time.perf_counter() - wall, time.process_time() - cpu
    watcher.cancel()
    await scheduler.stop()
    await loop
    p50, p99 = np.percentile(recorder.attempts, [50, 99])
    return CycleResult(
        nodes=node_count,
        pods=pod_count,
        distinct=distinct,
        seconds=seconds,
        cpu_seconds=cpu_seconds,
        sync_seconds=synced,
        attempt_p50=float(p50),
        attempt_p99=float(p99),
        longest_hold=max(holds, default=0.0),
    )


def run(node_count: int, pod_count: int, *, distinct: int = 1, shape: str = "") -> CycleResult:
    """Measure one row, of pods of a shape in `clusters.SHAPES`."""
    with rare_collections():
        return asyncio.run(_measure(node_count, pod_count, distinct, shape))
