"""Measure the plugin `Batch` with KAI-Scheduler's own benchmarks, and with a large tree of queues."""

from __future__ import annotations

import asyncio
import gc
import random
import time
import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from pyscheduler.config.load import loads
from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.serving.gc_tuning import rare_collections
from pyscheduler.testing import FakeCluster
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_kai.fair_share import ShareInputs, divide
from pyscheduler_kai.objects import KAI_QUEUES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler_batch.contract import Action
    from pyscheduler_batch.sessions.source import Pass, Sessions

__all__ = ["KAI", "fair_shares", "four_queues", "full_cluster", "idle", "many_queues", "memory", "reclaim"]

#: Seconds of CPU of KAI-Scheduler (mid-2026), by shape, and number of nodes or kind of pass.
KAI: Final[Mapping[tuple[str, object], float]] = {
    ("reclaim-many", 100): 3.9,
    ("reclaim-many", 500): 165.0,
    ("reclaim-large", 500): 7.6,
    ("reclaim-impossible", 100): 19.7,
    ("four-queues", "full"): 0.059,
    ("four-queues", "consolidation"): 0.169,
    ("four-queues", "gang"): 0.05,
}
_CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig: [{name: Batch, args: {preset: kai}}]
"""
_GPUS: Final = 8
#: The label of a node that names its rack.
RACK: Final = "example.com/rack"
_UNLIMITED: Final = {"quota": -1, "limit": -1, "overQuotaWeight": 1}


@attrs.define
class _Shape:
    """A cluster in memory; CPU and memory never bind.

    `gpus`: of each node; `racks`: how many racks have the nodes; `labels`: more labels of a node, by its number.
    """

    nodes: int
    gpus: int = _GPUS
    racks: int = 1
    cluster: FakeCluster = attrs.Factory(FakeCluster)
    labels: Callable[[int], Mapping[str, str]] = lambda _: {}
    #: The queue of the job that fills each node, if one does.
    leaf_of: list[str] = attrs.Factory(list)

    def __attrs_post_init__(self) -> None:
        for kind in (KAI_QUEUES, KAI_PODGROUPS):
            self.cluster.serve(kind)
        for number in range(self.nodes):
            allocatable = {"cpu": "1000", "memory": "1Ti", "pods": "1000", "nvidia.com/gpu": str(self.gpus)}
            labels = {RACK: f"rack-{number % self.racks}", **self.labels(number)}
            self.cluster.add_node(f"node-{number}", allocatable=allocatable, labels=labels)

    def queue(self, name: str, quota: float, *, weight: float = 0, parent: str = "") -> None:
        """Add a queue with a quota of GPUs."""
        gpu = {"quota": quota, "limit": -1, "overQuotaWeight": weight}
        spec: dict[str, Any] = {"resources": {"gpu": gpu, "cpu": _UNLIMITED, "memory": _UNLIMITED}}
        if parent:
            spec["parentQueue"] = parent
        manifest = {"apiVersion": KAI_QUEUES.type.api_version, "kind": "Queue", "metadata": {"name": name}}
        self.cluster.add({**manifest, "spec": spec}, KAI_QUEUES.type)

    def job(
        self,
        name: str,
        queue: str,
        *,
        pods: int = 1,
        gpus: int = 1,
        node: int | None = None,
        group: Mapping[str, Any] | None = None,
        **keywords: Any,
    ) -> None:
        """Add a gang, pending or all on one node; `group`: more of its spec; other keywords are those of `add_pod`."""
        manifest = {"apiVersion": KAI_PODGROUPS.type.api_version, "kind": "PodGroup"}
        metadata, spec = {"name": name, "namespace": "default"}, {"minMember": pods, "queue": queue, **(group or {})}
        self.cluster.add({**manifest, "metadata": metadata, "spec": spec}, KAI_PODGROUPS.type)
        for number in range(pods):
            requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
            annotations = {"pod-group-name": name}
            self.cluster.add_pod(
                f"{name}-{number}",
                requests=requests,
                annotations=annotations,
                scheduler_name="batch",
                node_name="" if node is None else f"node-{node % self.nodes}",
                **keywords,
            )

    async def sessions(self) -> Sessions:
        """Return the sessions of a scheduler that has listed the cluster."""
        return sessions_of(await self.scheduler())[0]

    async def scheduler(self) -> Scheduler:
        """Return a scheduler that has listed the cluster."""
        config = loads(_CONFIG, source="benchmark")
        transport, clock = self.cluster.transport(), self.cluster.clock
        scheduler = build(config, transport, clock, random.Random(1), registry=discover())
        starting = asyncio.create_task(scheduler.start())
        await clock.advance(0)
        await starting
        gc.collect()
        gc.freeze()
        return scheduler


async def _passes(sessions: Sessions, count: int = 1, actions: Sequence[Action] | None = None) -> tuple[Pass, float]:
    """Return the last of some passes, and the CPU seconds of the fastest. `actions`: None for those of the preset."""
    best = float("inf")
    for _ in range(count):
        began = time.process_time()
        found = await sessions.decide(actions=actions)
        best = min(best, time.process_time() - began)
        found.session.ledger.put_back()
    return found, best


def reclaim(shape: str, nodes: int) -> dict[str, Any]:
    """Return the CPU seconds of one full pass of a shape; raise `RuntimeError` if it decides something else."""
    made, expected = _Shape(nodes), _SHAPES[shape](nodes)
    quota, pending = expected["quota"], expected["pending"]
    made.queue("queue-0", quota[0])
    made.queue("queue-1", quota[1])
    for number in range(_GPUS * nodes):
        made.job(f"running-{number}", "queue-0", node=number)
    jobs, pods, gpus = pending
    for number in range(jobs):
        made.job(f"pending-{number}", "queue-1", pods=pods, gpus=gpus)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        await _passes_without_actions(sessions)
        found, seconds = await _passes(sessions)
        counts = Counter(each.kind.name for each in found.decisions)
        if (counts["EVICT"], counts["NOMINATE"]) != expected["decisions"]:
            raise RuntimeError(f"{shape}({nodes}) decided {dict(counts)}, not {expected['decisions']}")
        known = KAI.get((shape, nodes))
        return {"cpu_seconds": seconds} | ({} if known is None else {"kai_cpu_seconds": known})

    return asyncio.run(run())


async def _passes_without_actions(sessions: Sessions) -> None:
    """Read the cluster into the tables."""
    (await sessions.decide(actions=())).session.ledger.put_back()


def _many(nodes: int) -> dict[str, Any]:
    gpus = _GPUS * nodes
    return {"quota": (0, gpus), "pending": (gpus, 1, 1), "decisions": (gpus, gpus)}


def _large(nodes: int) -> dict[str, Any]:
    gpus = _GPUS * nodes
    return {"quota": (0, gpus), "pending": (1, nodes // 2, _GPUS), "decisions": (gpus // 2, nodes // 2)}


def _impossible(nodes: int) -> dict[str, Any]:
    return {"quota": (_GPUS * nodes - 79, 80), "pending": (1, 10, _GPUS), "decisions": (0, 0)}


_SHAPES: Final[dict[str, Callable[[int], dict[str, Any]]]] = {
    "reclaim-many": _many,
    "reclaim-large": _large,
    "reclaim-impossible": _impossible,
}


def four_queues(kind: str, nodes: int, jobs: int) -> dict[str, Any]:
    """Return the CPU seconds of the fastest of some passes: four queues in two departments, jobs of one GPU per pod.

    `full`: all actions, and every other job runs. `consolidation`: only this action, otherwise the same. `gang`: all
    actions, and all jobs wait, each of four pods.
    """
    made = _Shape(nodes)
    for department in ("a", "b"):
        made.queue(department, nodes * _GPUS / 2, weight=1)
        for number in range(2):
            made.queue(f"{department}{number}", nodes * _GPUS / 4, weight=1, parent=department)
    leaves, is_gang = ("a0", "a1", "b0", "b1"), kind == "gang"
    for number in range(jobs):
        waits = is_gang or number % 2 == 1
        made.job(f"job-{number}", leaves[number % 4], pods=4 if is_gang else 1, node=None if waits else number)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        await _passes_without_actions(sessions)
        chosen = [each for each in sessions.plugin.actions if kind in {"full", "gang"} or each.name == kind]
        found, seconds = await _passes(sessions, 5, chosen)
        if is_gang and len(found.decisions) != jobs * 4:
            raise RuntimeError(f"{len(found.decisions)} pods were placed of {jobs * 4}")
        return {"cpu_seconds": seconds, "kai_cpu_seconds": KAI["four-queues", kind]}

    return asyncio.run(run())


def many_queues(nodes: int, jobs: int, queues: int) -> dict[str, Any]:
    """Return the rate of placements in a large tree.

    Four levels of queues, jobs of eight pods of one GPU, room for all. `pods_per_second`: decisions of the first pass,
    which reads the cluster into the tables, too.
    """
    made = _Shape(nodes, gpus=16)
    leaves = _tree(made, queues, nodes * made.gpus)
    for number in range(jobs):
        made.job(f"job-{number}", leaves[number % len(leaves)], pods=8)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        began = time.process_time()
        found, _ = await _passes(sessions)
        seconds = time.process_time() - began
        placed = len(found.decisions)
        if placed != jobs * 8:
            raise RuntimeError(f"{placed} pods were placed of {jobs * 8}")
        return {"pods_per_second": placed / seconds}

    with rare_collections():
        return asyncio.run(run())


def _tree(made: _Shape, queues: int, gpus: int) -> list[str]:
    """Add queues in four levels, with equal parts of the GPUs as quota; return the leaves."""
    width = max(round(queues ** (1 / 4)), 2)
    level = [""]
    for depth in range(4):
        below = []
        for parent in level:
            for number in range(width):
                name = f"{parent or 'queue'}-{number}"
                made.queue(name, gpus / width ** (depth + 1), weight=1, parent=parent)
                below.append(name)
        level = below
    return level


def _full(nodes: int, jobs: int, queues: int) -> _Shape:
    """Return the shape of `many_queues` on a cluster without room.

    A running job of one pod fills each node. No queue holds more than its quota, and the jobs are equal: nothing can be
    reclaimed, preempted or moved.
    """
    made = _Shape(nodes, gpus=16)
    width = max(round(queues ** (1 / 4)), 2)
    leaves = _tree(made, queues, -(-nodes // width**4) * width**4 * made.gpus)
    for number in range(nodes):
        made.leaf_of.append(leaves[number % len(leaves)])
        made.job(f"running-{number}", made.leaf_of[-1], gpus=made.gpus, node=number)
    for number in range(jobs):
        made.job(f"job-{number}", leaves[number % len(leaves)], pods=8)
    return made


async def _free(made: _Shape, sessions: Sessions, number: int) -> tuple[Pass, float]:
    """Return the pass after the pod on a node ended, and its CPU seconds; then another pod takes that node."""
    made.cluster.delete_pod(f"running-{number}-0")
    await made.cluster.clock.advance(0)
    passed = await _passes(sessions)
    made.job(f"next-{number}", made.leaf_of[number], gpus=made.gpus, node=number)
    await made.cluster.clock.advance(0)
    await _passes(sessions)
    return passed


def full_cluster(nodes: int, jobs: int, queues: int) -> dict[str, Any]:
    """Return the CPU seconds of the first pass on a full cluster, and of the passes after single nodes were freed.

    `freed_node_ms`: the median of nine passes, each with room for two jobs.
    """
    made = _full(nodes, jobs, queues)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        found, first = await _passes(sessions)
        if found.decisions:
            raise RuntimeError(f"{len(found.decisions)} decisions on a full cluster")
        seconds = []
        for number in range(9):
            found, passed = await _free(made, sessions, number)
            if len(found.decisions) != made.gpus:
                raise RuntimeError(f"{len(found.decisions)} pods on a node with {made.gpus} GPUs")
            seconds.append(passed)
        return {"first_pass_seconds": first, "freed_node_ms": sorted(seconds)[4] * 1000}

    with rare_collections():
        return asyncio.run(run())


def idle(nodes: int, jobs: int, queues: int) -> dict[str, Any]:
    """Return the passes and the CPU seconds of an hour in which jobs wait on a full cluster and nothing changes."""
    made = _full(nodes, jobs, queues)

    async def run() -> dict[str, Any]:
        scheduler, clock = await made.scheduler(), made.cluster.clock
        sessions = sessions_of(scheduler)[0]
        running = asyncio.create_task(scheduler.run())
        # Until the first pass has been reported, and the periods of all writers have ended.
        await clock.advance(600)
        before, began = sessions.passes, time.process_time()
        await clock.advance(3600)
        seconds = time.process_time() - began
        if not before or running.done():
            raise RuntimeError("the scheduler does not work")
        await scheduler.stop()
        return {"passes": sessions.passes - before, "cpu_seconds": seconds}

    with rare_collections():
        return asyncio.run(run())


def memory(nodes: int, jobs: int, queues: int) -> dict[str, Any]:
    """Return the MiB that a batch profile holds between passes, on top of the objects, for jobs of eight pods."""
    made = _full(nodes, jobs, queues)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        tracemalloc.start()
        await _passes(sessions)
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return {"on_top_mib": held / 2**20}

    with rare_collections():
        return asyncio.run(run())


def fair_shares(queues: int) -> dict[str, Any]:
    """Return the milliseconds in which shares are divided: four levels, three resources, random quotas and requests."""
    rng = np.random.default_rng(1)
    parent = np.full(queues, -1, dtype=np.int64)
    firsts = [0, max(queues // 100, 1), max(queues // 10, 2), max(queues // 3, 3), queues]
    for above, own, end in zip(firsts, firsts[1:], firsts[2:], strict=False):
        parent[own:end] = rng.integers(above, own, end - own)
    size = (queues, 3)
    requested = rng.integers(0, 100, size).astype(float)
    for row in range(queues - 1, -1, -1):
        if parent[row] >= 0:
            requested[parent[row]] += requested[row]
    inputs = ShareInputs(
        parent=parent,
        quota=rng.integers(0, 50, size).astype(float),
        limit=np.full(size, np.inf),
        weight=rng.integers(0, 5, size).astype(float),
        requested=requested,
        priority=rng.choice([50.0, 100.0], queues),
        rank=np.arange(queues, dtype=np.int64),
        usage=None,
        k_value=1.0,
    )
    best = float("inf")
    for _ in range(20):
        began = time.process_time()
        divide(inputs, np.array([1e5, 1e5, 1e4]))
        best = min(best, time.process_time() - began)
    return {"shares_ms": best * 1000}
