"""Evictions end: three queues compete, evicted pods come back, and every preset comes to rest."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.batch.queue_wire import KAI_QUEUES, KUBE_BATCH_QUEUES, VOLCANO_QUEUES
from pyscheduler.config.load import loads
from pyscheduler.podgroup.wire import KAI_PODGROUPS, KUBE_BATCH_PODGROUPS, VOLCANO_PODGROUPS
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.testing import FakeCluster

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.api import Pod, ResourceKind

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: 100000, burst: 100000}
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: %s, actions: "%s"}}]
"""
ACTIONS = {
    "kai": "allocate, consolidation, reclaim, preempt, stalegangeviction",
    "volcano": "enqueue, allocate, backfill, preempt, reclaim",
    "kube-batch": "allocate, backfill, preempt, reclaim",
}
KINDS: dict[str, tuple[ResourceKind, ResourceKind, str]] = {
    "kai": (KAI_QUEUES, KAI_PODGROUPS, "pod-group-name"),
    "volcano": (VOLCANO_QUEUES, VOLCANO_PODGROUPS, "scheduling.k8s.io/group-name"),
    "kube-batch": (KUBE_BATCH_QUEUES[0], KUBE_BATCH_PODGROUPS[0], "scheduling.k8s.io/group-name"),
}
#: Longer than any back-off.
LONG = 3600.0


class Rivals:
    """A cluster with three queues, random gangs, and a controller that creates evicted pods again."""

    def __init__(self, cluster: FakeCluster, preset: str, seed: int) -> None:
        self.cluster, self.rng, self.preset = cluster, random.Random(seed), preset
        self.queue_kind, self.group_kind, self.key = KINDS[preset]
        self.evicted: Counter[str] = Counter()
        self.last_eviction = 0.0
        self._made = 0
        for kind in (self.queue_kind, self.group_kind):
            cluster.serve(kind)
        for number in range(self.rng.randint(2, 4)):
            cluster.add_node(f"n{number}", allocatable={"cpu": "64", "memory": "64Gi", "nvidia.com/gpu": "4"})
        for name in ("a", "b", "c"):
            self._add_queue(name)
        self.jobs: list[tuple[str, int, int, int]] = []

    def _add_queue(self, name: str) -> None:
        quota = self.rng.choice([0, 2, 4, 6])
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        gpu = {"quota": quota, "limit": -1, "overQuotaWeight": self.rng.choice([0, 1, 3])}
        spec: dict[str, Any] = {"weight": self.rng.randint(1, 4)}
        if self.preset == "kai":
            spec = {"resources": {"gpu": gpu, "cpu": free, "memory": free}}
        manifest = {"apiVersion": self.queue_kind.type.api_version, "kind": "Queue", "metadata": {"name": name}}
        self.cluster.add({**manifest, "spec": spec}, self.queue_kind.type)

    def add_job(self) -> None:
        """Create a random gang."""
        name, size = f"job{len(self.jobs)}", self.rng.randint(1, 4)
        spec = {"minMember": self.rng.randint(1, size), "queue": self.rng.choice("abc")}
        manifest = {"apiVersion": self.group_kind.type.api_version, "kind": "PodGroup"}
        metadata = {"name": name, "namespace": "default"}
        self.cluster.add({**manifest, "metadata": metadata, "spec": spec}, self.group_kind.type)
        job = (name, size, self.rng.choice([1, 2, 4]), self.rng.choice([0, 0, 10]))
        self.jobs.append(job)
        for _ in range(size):
            self._add_pod(job)

    def _add_pod(self, job: tuple[str, int, int, int]) -> None:
        name, _, gpus, priority = job
        self._made += 1
        self.cluster.add_pod(
            f"{name}-{self._made}",
            requests={"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)},
            annotations={self.key: name},
            labels={"job": name},
            priority=priority,
            scheduler_name="batch",
        )

    async def live(self, seconds: float, step: float) -> None:
        """Let time pass. Pods that were evicted end at the next step, and their controller creates others."""
        by_name = {job[0]: job for job in self.jobs}
        end = self.cluster.clock.now() + seconds
        while self.cluster.clock.now() < end:
            await self.cluster.clock.advance(step)
            for pod in self.cluster.pods():
                if pod.is_terminating:
                    self.evicted[pod.labels["job"]] += 1
                    self.last_eviction = self.cluster.clock.now()
                    self.cluster.delete_pod(pod.name)
                    self._add_pod(by_name[pod.labels["job"]])
                elif pod.node_name and pod.status.phase != "Running":
                    self._run(pod)

    def _run(self, pod: Pod) -> None:
        self.cluster.patch(type(pod), pod.name, {"status": {"phase": "Running"}}, status=True)


async def rest(cluster: FakeCluster, preset: str, seed: int) -> Rivals:
    """Run one random cluster until long after its last change."""
    rivals = Rivals(cluster, preset, seed)
    config = loads(CONFIG % (preset, ACTIONS[preset]), source="test")
    scheduler = build(config, cluster.server.transport(), cluster.clock, random.Random(seed), registry=discover())
    starting = asyncio.create_task(scheduler.start())
    await cluster.clock.advance(0)
    await starting
    running = asyncio.create_task(scheduler.run())
    for _ in range(rivals.rng.randint(4, 12)):
        rivals.add_job()
        await rivals.live(rivals.rng.choice([1.0, 3.0, 20.0]), 1.0)
    await rivals.live(LONG, 20.0)
    before = rivals.evicted.total()
    await rivals.live(2 * LONG, 60.0)
    assert rivals.evicted.total() == before, f"seed {seed}: evictions go on: {rivals.evicted}"
    assert not running.done(), "the scheduling loop ended"
    await scheduler.stop()
    return rivals


@pytest.mark.parametrize("preset", ["kai", "volcano", "kube-batch"])
async def test_evictions_end(preset: str, record_property: Callable[[str, object], None]) -> None:
    """After an hour nothing is evicted any more, whatever the queues and jobs are."""
    evicted = 0
    for seed in range(3):
        cluster = FakeCluster(seed=seed)
        rivals = await rest(cluster, preset, seed)
        evicted += rivals.evicted.total()
        await cluster.close()
    record_property("evictions", evicted)
    assert evicted > 0, "no cluster had an eviction, so the test shows nothing"
