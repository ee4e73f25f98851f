"""Measure the scheduling of jobs whose pods must run in one rack, or in one block of racks."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from benchmarks.batch import _passes, _passes_without_actions, _Shape
from benchmarks.client import Running
from benchmarks.server import serving
from pyscheduler.podgroup.wire import IN_TREE_PODGROUPS, KAI_PODGROUPS
from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections
from pyscheduler.testing import FakeCluster
from pyscheduler_kai.topologies import KAI_TOPOLOGIES

if TYPE_CHECKING:
    from collections.abc import Mapping

    from benchmarks.server import Server
    from pyscheduler_batch.sessions.source import Sessions

__all__ = ["gangs", "groups", "impossible", "one_rack", "over_http"]

_LEVELS: Final = ("zone", "block", "rack")
_RACK_NODES: Final = 40
_BLOCK_RACKS: Final = 5
_ZONE_BLOCKS: Final = 5
_GANG: Final = 64
#: Of `impossible`: the racks, and the nodes of each that could be freed.
_RACKS: Final = 12
_FREE_NODES: Final = 9
_REQUIRED: Final = {"topologyConstraint": {"topology": "t", "requiredTopologyLevel": "rack"}}
_GATES: Final = "GenericWorkload=true,GangScheduling=true,TopologyAwareWorkloadScheduling=true"


def _labels(number: int, rack_nodes: int = _RACK_NODES) -> Mapping[str, str]:
    rack = number // rack_nodes
    block = rack // _BLOCK_RACKS
    return {"rack": f"r{rack}", "block": f"b{block}", "zone": f"z{block // _ZONE_BLOCKS}"}


def _rack(node: str, rack_nodes: int = _RACK_NODES) -> str:
    return _labels(int(node.removeprefix("node-")), rack_nodes)["rack"]


def _shape(nodes: int, rack_nodes: int = _RACK_NODES) -> _Shape:
    """Return a cluster whose nodes are in racks, blocks and zones."""
    made = _Shape(nodes, labels=lambda number: _labels(number, rack_nodes))
    made.cluster.serve(KAI_TOPOLOGIES)
    levels = [{"nodeLabel": each} for each in _LEVELS]
    manifest = {"apiVersion": KAI_TOPOLOGIES.type.api_version, "kind": "Topology", "metadata": {"name": "t"}}
    made.cluster.add({**manifest, "spec": {"levels": levels}}, KAI_TOPOLOGIES.type)
    return made


def gangs(nodes: int, count: int) -> dict[str, Any]:
    """Return the rate of placements of gangs of 64 pods that require a rack, and the time of each gang.

    There are three levels. The first pass reads the cluster into the tables and is not counted.
    """
    made = _shape(nodes)
    made.queue("queue", -1)
    for number in range(count):
        made.job(f"job-{number}", "queue", pods=_GANG, group=_REQUIRED)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        await _passes_without_actions(sessions)
        found, seconds = await _passes(sessions)
        racks: dict[str, set[str]] = {}
        for each in found.decisions:
            racks.setdefault(each.task.job.key, set()).add(_rack(found.session.nodes.names[each.node]))
        if len(found.decisions) != count * _GANG or any(len(each) > 1 for each in racks.values()):
            raise RuntimeError(f"{len(found.decisions)} of {count * _GANG} pods were placed in {len(racks)} gangs")
        return {"pods_per_second": count * _GANG / seconds, "gang_ms": seconds / count * 1e3}

    with rare_collections():
        return asyncio.run(run())


def one_rack(nodes: int, repeats: int) -> dict[str, Any]:
    """Return how long a pass takes to free one rack for a job of a starved queue, in milliseconds.

    Another queue holds all GPUs, eight to a node, with jobs of one GPU. Each time a gang arrives that needs all GPUs of
    a rack; it leaves after the decision, which is not carried out.
    """
    rack_nodes = 20
    made = _shape(nodes, rack_nodes)
    total = nodes * made.gpus
    made.queue("starved", total / 2)
    made.queue("borrower", total / 2)
    for number in range(total):
        made.job(f"running-{number}", "borrower", node=number)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        (await sessions.decide()).session.ledger.put_back()
        # The first search reads all candidates, which are kept.
        await _free_once(made, sessions, repeats, rack_nodes)
        keep_for_good()
        seconds = [await _free_once(made, sessions, number, rack_nodes) for number in range(repeats)]
        p50, p99 = np.percentile(seconds, [50, 99])
        return {"decision_p50_ms": float(p50) * 1e3, "decision_p99_ms": float(p99) * 1e3}

    with rare_collections():
        return asyncio.run(run())


async def _free_once(made: _Shape, sessions: Sessions, number: int, rack_nodes: int) -> float:
    """Return the CPU seconds from the begin of a pass to its decision about a gang that has just arrived."""
    name = f"wanted-{number}"
    made.job(name, "starved", pods=rack_nodes, gpus=made.gpus, group=_REQUIRED)
    await made.cluster.clock.advance(0)
    began = time.process_time()
    found = await sessions.decide()
    seconds = time.process_time() - began
    counts = Counter(each.kind.name for each in found.decisions)
    names = found.session.nodes.names
    racks = {_rack(names[each.task.node], rack_nodes) for each in found.decisions if each.kind.name == "EVICT"}
    found.session.ledger.put_back()
    if (counts["EVICT"], counts["NOMINATE"], len(racks)) != (rack_nodes * made.gpus, rack_nodes, 1):
        raise RuntimeError(f"decided {dict(counts)} in {len(racks)} racks")
    made.cluster.delete(KAI_PODGROUPS.type, name)
    for each in range(rack_nodes):
        made.cluster.delete_pod(f"{name}-{each}")
    await made.cluster.clock.advance(0)
    return seconds


def impossible(nodes: int) -> dict[str, Any]:
    """Return the CPU seconds of one full pass of `reclaim-impossible`, whose job must have one of twelve racks.

    The shares allow to take 80 GPUs. But in each rack all nodes but nine, of eight GPUs, hold a pod that may not be
    evicted, and the job needs ten nodes.
    """
    rack_nodes = -(-nodes // _RACKS)
    made = _shape(nodes, rack_nodes)
    made.queue("queue-0", nodes * made.gpus - 80)
    made.queue("queue-1", 80)
    for number in range(nodes * made.gpus):
        node = number % nodes
        stays = number < nodes and node % rack_nodes >= _FREE_NODES
        group = {"preemptibility": "non-preemptible" if stays else "preemptible"}
        made.job(f"running-{number}", "queue-0", node=number, group=group)
    made.job("pending", "queue-1", pods=_FREE_NODES + 1, gpus=made.gpus, group=_REQUIRED)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        await _passes_without_actions(sessions)
        found, seconds = await _passes(sessions)
        if found.decisions:
            raise RuntimeError(f"{len(found.decisions)} decisions for a job that fits in no rack")
        return {"cpu_seconds": seconds}

    return asyncio.run(run())


def over_http(nodes: int, pods: int) -> dict[str, Any]:
    """Return the seconds until all pods of a gang that requires a block and prefers a rack are bound, over HTTP.

    The nodes are empty, fifty to a rack and five racks to a block. The API server runs in another process.
    """

    async def measure(server: Server) -> dict[str, Any]:
        await asyncio.to_thread(server, "fill_with_racks", nodes=nodes, rack_nodes=50)
        running = Running(server, configuration="batch")
        await running.start()
        began = time.perf_counter()
        await running.order("create_gang_in_block", pods=pods)
        await running.bound(pods)
        seconds = time.perf_counter() - began
        names = {pod.node_name for pod in running.scheduler.pods}
        await running.stop()
        if len({int(name.removeprefix("node-")) // 250 for name in names}) != 1:
            raise RuntimeError(f"the gang runs on {len(names)} nodes of several blocks")
        return {"seconds": seconds}

    with serving(nodes=0) as server, rare_collections():
        return asyncio.run(measure(server))


def groups(nodes: int, count: int) -> dict[str, Any]:
    """Return the rate at which PodGroups of 64 pods with a topology constraint are bound, on a cluster in memory."""
    cluster = FakeCluster()
    if not cluster.serves(IN_TREE_PODGROUPS):
        cluster.serve(IN_TREE_PODGROUPS)
    for number in range(nodes):
        cluster.add_node(
            f"node-{number}", allocatable={"cpu": "8", "memory": "64Gi", "pods": "110"}, labels=_labels(number)
        )
    framework = cluster.framework(feature_gates=_GATES)
    for number in range(count):
        name = f"group-{number}"
        spec = {
            "schedulingPolicy": {"gang": {"minCount": _GANG}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]},
        }
        metadata = {"name": name, "namespace": "default"}
        manifest = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup"}
        cluster.add({**manifest, "metadata": metadata, "spec": spec}, IN_TREE_PODGROUPS.type)

    async def run() -> dict[str, Any]:
        await framework.settle()
        for number in range(count):
            for each in range(_GANG):
                named = {"schedulingGroup": {"podGroupName": f"group-{number}"}}
                cluster.add_pod(f"pod-{number}-{each}", requests={"cpu": "1", "memory": "1Gi"}, spec=named)
        began = time.process_time()
        await framework.settle()
        seconds = time.process_time() - began
        bound = [pod for pod in cluster.pods() if pod.node_name]
        racks = {(pod.name.split("-")[1], _rack(pod.node_name)) for pod in bound}
        if (len(bound), len(racks)) != (count * _GANG, count):
            raise RuntimeError(f"{len(bound)} of {count * _GANG} pods were bound, in {len(racks)} racks")
        return {"pods_per_second": len(bound) / seconds, "gang_ms": seconds / count * 1e3}

    with rare_collections():
        return asyncio.run(run())
