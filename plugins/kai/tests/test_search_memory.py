"""Searches for victims that failed are recalled as long as nothing changes that they depend on."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from plugins.kai.tests.test_kept_jobs import gang, gpu_queue, result, twin
from pyscheduler.api import Namespace, Node, Pod
from pyscheduler_batch.gpu_sharing.books import GROUP_LABEL
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.backoff import Backoff
from pyscheduler_batch.sessions.placer import SnapshotPlacer
from pyscheduler_kai.search_memory import Attempt
from pyscheduler_kai.solver import Solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler_batch.sessions.source import Sessions
    from pyscheduler_lab.testing import BatchCluster

GPU = "nvidia.com/gpu"
SPOT = {"key": "spot", "effect": "NoSchedule"}
TOLERATES = [{"key": "spot", "operator": "Exists"}]
SHARING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles:
- schedulerName: batch
  plugins: {multiPoint: {enabled: [{name: Batch}, {name: GpuSharing}], disabled: [{name: DefaultPreemption}]}}
  pluginConfig:
  - {name: Batch, args: {preset: kai}}
  - {name: GpuSharing, args: {allocationTimeout: 0s}}
"""
STEPS = 45


def nodes(kai: BatchCluster, count: int, **keywords: Any) -> None:
    """Create nodes of 8 GPUs."""
    for number in range(count):
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
        kai.cluster.add_node(f"n{number}", allocatable=allocatable, **(keywords if number == 0 else {}))


def shares(kai: BatchCluster) -> Callable[[Sessions], None]:
    """Keep all queues within their shares, until a third queue asks for GPUs that it cannot get."""
    nodes(kai, 2)
    for name in "abc":
        gpu_queue(kai, name, 0)
    for number in range(2):
        gang(kai, f"running-{number}", "a", 1, 6, node_name=f"n{number}")
    gang(kai, "wanted", "b", 1, 4)
    return lambda _: gang(kai, "other", "c", 1, 4, node_selector={"disk": "none"})


def taint(kai: BatchCluster) -> Callable[[Sessions], None]:
    """Keep the job from the node of the victims by a taint, until the taint is removed."""
    nodes(kai, 2, taints=[SPOT])
    gpu_queue(kai, "a", 0)
    gpu_queue(kai, "b", 8)
    gang(kai, "running", "a", 1, 8, node_name="n0", tolerations=TOLERATES)
    kai.cluster.add_pod("foreign", requests={"cpu": "1", GPU: "8"}, node_name="n1")
    gang(kai, "wanted", "b", 1, 8)

    def change(_: Sessions) -> None:
        kai.cluster.patch(Node, "n0", {"spec": {"taints": None}})

    return change


def victims(kai: BatchCluster) -> Callable[[Sessions], None]:
    """Let a job run that may not be evicted, until it becomes preemptible."""
    nodes(kai, 1)
    gpu_queue(kai, "a", 0)
    gpu_queue(kai, "b", 8)
    kai.group("running", "a", 1, preemptibility="non-preemptible")
    kai.pods("running", 1, requests={"cpu": "1", GPU: "8"}, node_name="n0")
    gang(kai, "wanted", "b", 1, 8)

    def change(_: Sessions) -> None:
        kai.cluster.patch(kai.group_kind.type, "running", {"spec": {"preemptibility": "preemptible"}})

    return change


def rest(kai: BatchCluster) -> Callable[[Sessions], None]:
    """Let the only victim rest after an eviction."""
    nodes(kai, 1)
    gpu_queue(kai, "a", 0)
    gpu_queue(kai, "b", 8)
    gang(kai, "running", "a", 1, 8, node_name="n0")
    gang(kai, "wanted", "b", 1, 8)
    return lambda sessions: sessions.commitments._returned.clear()


def devices(kai: BatchCluster) -> Callable[[Sessions], None]:
    """Let foreign pods have parts of both GPUs, until one of them is replaced by a pod on the other GPU."""
    kai.nodes(1, cpu="64", **{GPU: "2"})
    gpu_queue(kai, "a", 0)
    gpu_queue(kai, "b", 2)
    for name, group in (("first", "x"), ("second", "y")):
        shared_pod(kai, name, group, "0.25")
    kai.group("running", "a", 1)
    shared_pod(kai, "running-0", "y", "0.75", scheduler_name="batch", annotations={"pod-group-name": "running"})
    gang(kai, "wanted", "b", 1, 1)

    def change(_: Sessions) -> None:
        kai.cluster.delete_pod("second")
        shared_pod(kai, "third", "x", "0.25")

    return change


def shared_pod(kai: BatchCluster, name: str, group: str, fraction: str, **keywords: Any) -> None:
    """Create a pod that runs on the first node and shares a GPU."""
    annotations = {"gpu-fraction": fraction, **keywords.pop("annotations", {})}
    labels = {GROUP_LABEL: group}
    kai.cluster.add_pod(name, requests={"cpu": "1"}, node_name="n0", labels=labels, annotations=annotations, **keywords)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", [shares, taint, victims, rest, devices])
async def test_failed_search_is_repeated_once_it_may_succeed(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, world: Callable[[BatchCluster], Callable[[Sessions], None]]
) -> None:
    """A search fails, is recalled while nothing changes, and succeeds after the change."""
    change = world(kai)
    plugins = ", {name: GpuSharing}" if world is devices else ""
    sessions = sessions_of((await kai.start(plugins=plugins)).scheduler)[0]
    counts: Counter[str] = Counter()
    has_failed, solve = Attempt.has_failed, Solver.solve

    def counted(self: Attempt) -> bool:
        answer = has_failed(self)
        counts["recalled"] += answer
        return answer

    async def solved(self: Solver, pending: Any) -> Any:
        counts["searched"] += self.action != "consolidation"
        return await solve(self, pending)

    async def decided() -> list[str]:
        counts.clear()
        with monkeypatch.context() as counting:
            counting.setattr(Attempt, "has_failed", counted)
            counting.setattr(Solver, "solve", solved)
            found = await sessions.decide()
        answer = result(found)
        found.session.ledger.put_back()
        assert answer == await twin(sessions)
        return [name for kind, name, *_ in answer[0] if kind == "NOMINATE"]

    await kai.cluster.clock.advance(0.001)
    if world is rest:
        (await sessions.decide(actions=())).session.ledger.put_back()
        uid = next(uid for uid, job in sessions.tables.jobs.items() if job.key == "default/running")
        sessions.commitments._rests[uid] = Backoff(10.0, float("inf"))
        sessions.commitments._returned.add(uid)
    assert await decided() == []
    assert counts["searched"] > counts["recalled"]
    assert await decided() == []
    assert counts["recalled"] > counts["searched"] == 0
    change(sessions)
    await kai.cluster.clock.advance(0.001)
    assert await decided() == ["default/wanted-0"]
    assert counts["searched"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 3))])
async def test_searches_among_shared_gpus_are_recalled_only_where_they_would_fail_again(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Passes decide, and give reasons, as passes that remember nothing and ask all filters about each pod."""
    rng, counts = random.Random(seed), Counter[str]()
    for number in range(3):
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "4"}
        kai.cluster.add_node(f"n{number}", allocatable=allocatable, labels={"nvidia.com/gpu.memory": "16000"})
    for name in "abcd":
        gpu_queue(kai, name, 3)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kai-resource-reservation"}}
    kai.cluster.add(namespace, Namespace)
    kai.scheduler = kai.cluster.framework(config=SHARING)
    await kai.scheduler.start()
    sessions = sessions_of(kai.scheduler.scheduler)[0]
    has_failed = Attempt.has_failed

    def counted(self: Attempt) -> bool:
        answer = has_failed(self)
        counts[f"{self._key[0]} recalled"] += answer
        return answer

    for step in range(STEPS):
        share_gpus(kai, rng, step)
        await kai.cluster.clock.advance(0.001)
        with monkeypatch.context() as counting:
            counting.setattr(Attempt, "has_failed", counted)
            found = await sessions.decide()
        answer = result(found)
        counts.update(each.action or each.kind.name for each in found.decisions)
        found.session.ledger.put_back()
        with monkeypatch.context() as plain:
            plain.setattr(SnapshotPlacer, "_answer_without_shares", lambda *_: None)
            assert answer == await twin(sessions)
        counts["shared"] += sum(GROUP_LABEL in pod.labels for pod in kai.cluster.pods())
        if rng.random() < 0.5:
            await kai.pass_time(1)
    await kai.pass_time(120)
    kinds = ("BIND", "NOMINATE", "reclaim", "consolidation", "reclaim recalled", "consolidation recalled", "shared")
    assert min(counts[kind] for kind in kinds) > 0, counts


def share_gpus(kai: BatchCluster, rng: random.Random, step: int) -> None:
    """Let a job come that shares GPUs or has whole ones; sometimes let pods run or end, or change a pod or a node."""
    cluster, event = kai.cluster, rng.random()
    own = [pod for pod in cluster.pods() if pod.namespace == "default"]
    placed = [pod for pod in own if pod.node_name and not pod.is_terminating]
    for pod in own:
        if pod.is_terminating and rng.random() < 0.7:
            cluster.delete_pod(pod.name)
    if event < 0.3:
        kai.go("Running", *(pod.name for pod in placed if pod.status.phase != "Running"))
    elif event < 0.45 and placed:
        kai.go("Succeeded", rng.choice(placed).name)
    elif event < 0.5 and (sharing := [pod for pod in placed if "gpu-fraction" in pod.annotations]):
        annotations = {"gpu-fraction": None, "gpu-memory": rng.choice(("4000", "8000"))}
        cluster.patch(Pod, rng.choice(sharing).name, {"metadata": {"annotations": annotations}})
    elif event < 0.55:
        cluster.patch(Node, "n0", {"spec": {"unschedulable": rng.random() < 0.5}})
    elif event < 0.7:
        return
    name, count = f"job-{step}", rng.choice((1, 1, 2))
    kai.group(name, rng.choice("aabcd"), count, **({"preemptibility": "non-preemptible"} if rng.random() < 0.1 else {}))
    for number in range(count):
        annotations, requests = {"pod-group-name": name}, {"cpu": "1"}
        if rng.random() < 0.6:
            annotations["gpu-fraction"] = rng.choice(("0.3", "0.5", "0.8"))
        elif rng.random() < 0.9:
            requests[GPU] = rng.choice(("1", "2", "3", "4"))
        cluster.add_pod(f"{name}-{number}", requests=requests, annotations=annotations, scheduler_name="batch")
