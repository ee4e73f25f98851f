"""Measure many pods that wait at Permit: the memory that they take, and the time until all waits have ended."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from typing import TYPE_CHECKING

from kube_objects.clock import LoopClock
from kube_testserver.cluster import EmbeddedCluster
from pyscheduler.cluster.in_process import InProcessTransport
from pyscheduler.config.load import loads
from pyscheduler.framework import EnqueueExtensions, PermitPlugin, Status
from pyscheduler.framework.recorder import NullRecorder
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.testing.builders import node_manifest, pod_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod
    from pyscheduler.framework import ClusterEventWithHint, CycleState
    from pyscheduler.scheduler.scheduler import Scheduler

__all__ = ["waiting"]

_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [{name: Hold}], disabled: [{name: DefaultPreemption}]}}
"""


class Hold(PermitPlugin, EnqueueExtensions):
    """Lets every pod wait; one that it rejected is not tried again."""

    def events_to_register(self) -> list[ClusterEventWithHint]:
        """Wait for nothing."""
        return []

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Hold it for a quarter of an hour."""
        del state, pod, node_name
        return Status.wait(timeout=900)


class LastVerdict(NullRecorder):
    """Knows when a binding cycle last took its verdict."""

    moment = 0.0

    def observe(self, family: str, value: float, *labels: str) -> None:
        """Look at the clock."""
        del value, labels
        if family == "scheduler_permit_wait_duration_seconds":
            self.moment = time.perf_counter()


async def _until(so: Callable[[], bool]) -> None:
    while not so():  # noqa: ASYNC110 - what is waited for is not told
        await asyncio.sleep(0.001)


async def _with_waiting(nodes: int, pods: int) -> tuple[EmbeddedCluster, Scheduler, asyncio.Task[None]]:
    """Let so many pods wait, and what they set off come to rest."""
    # The server's memory of changes would otherwise grow with what is written meanwhile.
    cluster = EmbeddedCluster(clock=LoopClock(), rng=random.Random(1), history_limit=100)
    cluster.add(*(node_manifest(f"node-{number}", allocatable={"cpu": "64"}) for number in range(nodes)))
    registry = discover()
    registry.add("Hold", Hold)
    config = loads(_CONFIG, source="benchmark")
    scheduler = build(
        config,
        InProcessTransport(cluster.router),
        LoopClock(),
        random.Random(1),
        registry=registry,
        recorder=LastVerdict(),
    )
    await scheduler.start()
    loop = asyncio.create_task(scheduler.run())
    for number in range(pods):
        cluster.add(pod_manifest(f"pod-{number}", requests={"cpu": "100m"}))
        if number % 50 == 0:
            await asyncio.sleep(0)
    await _until(lambda: len(scheduler.waiting_pods) == pods and scheduler.statuses.idle)
    return cluster, scheduler, loop


async def _verdicts(nodes: int, pods: int) -> float:
    """Return the seconds from the first verdict to the moment when the last binding cycle has taken its own."""
    _, scheduler, loop = await _with_waiting(nodes, pods)
    recorder = scheduler.recorder
    assert isinstance(recorder, LastVerdict)
    began = time.perf_counter()
    for held in scheduler.waiting_pods.all():
        held.allow("Hold")
    await _until(lambda: not len(scheduler.waiting_pods))
    seconds = recorder.moment - began
    await scheduler.stop(at_once=True)
    await loop
    return seconds


async def _memory(nodes: int, pods: int) -> float:
    """Return the MiB that end with the waits."""
    tracemalloc.start()
    _, scheduler, loop = await _with_waiting(nodes, pods)
    gc.collect()
    held, _ = tracemalloc.get_traced_memory()
    for waiting_pod in scheduler.waiting_pods.all():
        waiting_pod.reject("Hold", "enough")
    del waiting_pod
    await _until(lambda: not scheduler.binding_count and scheduler.statuses.idle)
    gc.collect()
    left, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    await scheduler.stop(at_once=True)
    await loop
    return (held - left) / 2**20


def waiting(nodes: int, pods: int) -> dict[str, float]:
    """Measure the row."""
    return {
        "waiting_mib": asyncio.run(_memory(nodes, pods)),
        "seconds": asyncio.run(_verdicts(nodes, pods)),
    }
