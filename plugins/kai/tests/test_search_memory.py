"""Searches for victims that failed are recalled as long as nothing changes that they depend on."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from plugins.kai.tests.test_kept_jobs import gang, gpu_queue, result, twin
from pyscheduler.api import Node
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.backoff import Backoff
from pyscheduler_kai.search_memory import Attempt
from pyscheduler_kai.solver import Solver

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler_batch.sessions.source import Sessions
    from pyscheduler_lab.testing import BatchCluster

GPU = "nvidia.com/gpu"
SPOT = {"key": "spot", "effect": "NoSchedule"}
TOLERATES = [{"key": "spot", "operator": "Exists"}]


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


@pytest.mark.sampled(2)
@pytest.mark.parametrize("world", [shares, taint, victims, rest])
async def test_failed_search_is_repeated_once_it_may_succeed(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, world: Callable[[BatchCluster], Callable[[Sessions], None]]
) -> None:
    """A search fails, is recalled while nothing changes, and succeeds after the change."""
    change = world(kai)
    sessions = sessions_of((await kai.start()).scheduler)[0]
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
