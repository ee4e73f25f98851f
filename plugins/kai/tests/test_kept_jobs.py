"""What is kept from pass to pass changes no decision, and spares searches that cannot succeed."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.api import Node, Pod
from pyscheduler_batch.model.memory import Memory
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_kai import cycle
from pyscheduler_kai.evictions import Consolidation, Preempt, Reclaim
from pyscheduler_kai.placement import Placement
from pyscheduler_kai.search_memory import Attempt
from pyscheduler_kai.solver import Solver
from pyscheduler_lab.testing import BatchCluster, gpus

if TYPE_CHECKING:
    from pyscheduler_batch.sessions.source import Pass, Sessions

GPU = "nvidia.com/gpu"
RACK = "example.com/rack"
STEPS = 24


def gpu_queue(kai: BatchCluster, name: str, quota: float) -> None:
    """Create a queue in which only GPUs are divided."""
    kai.queue(name, resources=gpus(quota))


def gang(kai: BatchCluster, name: str, queue: str, count: int, gpus: int = 1, **keywords: Any) -> None:
    """Create a gang of pods with GPUs."""
    kai.job(name, queue, count, requests={"cpu": "1", GPU: str(gpus)}, **keywords)


def result(found: Pass) -> tuple[list[tuple[Any, ...]], dict[str, dict[str, str]]]:
    """Return the decisions of a pass, and the reasons by uid of a job."""
    decisions = [
        (each.kind.name, each.task.key, each.node, each.action, each.by.key if each.by else "")
        for each in found.decisions
    ]
    return decisions, found.session.reasons


async def twin(sessions: Sessions) -> tuple[list[tuple[Any, ...]], dict[str, dict[str, str]]]:
    """Return the result of a pass that remembers nothing; nothing is carried out."""
    kept, sessions.tables.memory = sessions.tables.memory, Memory()
    found = await sessions.decide()
    answer = result(found)
    found.session.ledger.put_back()
    sessions.tables.memory = kept
    return answer


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in (2, 3))])
async def test_a_pass_decides_alike_with_and_without_memory(kai: BatchCluster, seed: int) -> None:
    """While jobs come, grow, end and are evicted, each pass equals one that reads all jobs anew."""
    rng = random.Random(seed)
    for number in range(6):
        kai.cluster.add_node(f"n{number}", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"})
    for name, quota in (("a", 8), ("b", 16), ("c", 24)):
        gpu_queue(kai, name, quota)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    kinds: Counter[str] = Counter()
    for step in range(STEPS):
        change(kai, rng, step)
        await kai.cluster.clock.advance(0.001)
        state = sessions.rng.getstate()
        found = await sessions.decide()
        answer = result(found)
        kinds.update(each.action or each.kind.name for each in found.decisions)
        found.session.ledger.put_back()
        sessions.rng.setstate(state)
        assert answer == await twin(sessions)
        await kai.pass_time(1)
    assert kinds["BIND"]
    assert kinds["NOMINATE"]
    assert kinds["reclaim"]


async def test_consolidation_considers_the_oldest_jobs(kai: BatchCluster) -> None:
    """Which job changed last does not matter: a scheduler that has just started does not know it."""
    gpu_queue(kai, "a", 6)
    for number, name in enumerate("xyz"):
        kai.cluster.add_node(f"n{number}", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "2"})
        gang(kai, name, "a", 1, node_name=f"n{number}")
        await kai.cluster.clock.advance(1)
    sessions = sessions_of((await kai.start(args="maxConsolidationVictims: 1")).scheduler)[0]
    await kai.pass_time(1)
    (oldest,) = (pod.name for pod in kai.cluster.pods() if pod.name.startswith("x"))
    kai.cluster.patch(Pod, oldest, {"metadata": {"labels": {"app": "x"}}})
    gang(kai, "w", "a", 1, 2)
    await kai.cluster.clock.advance(0.001)
    found = await sessions.decide()
    assert [each.task.job.key for each in found.decisions if each.kind.name == "EVICT"] == ["default/y"]
    found.session.ledger.put_back()


@pytest.mark.slow
async def test_actions_that_end_early_decide_as_if_they_tried_every_job(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs that cannot gain from an action are not tried, and have the reasons that they had if they were."""
    rng = random.Random(1)
    monkeypatch.setattr(cycle, "_SMALL", 0)
    for number in range(2):
        kai.cluster.add_node(f"n{number}", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"})
    for name, quota in (("a", 4), ("b", 6), ("c", 6)):
        gpu_queue(kai, name, quota)
    sessions = sessions_of((await kai.start(args="actions: 'allocate, consolidation, reclaim, preempt'")).scheduler)[0]
    spared: Counter[str] = Counter()
    helps = [(kind, kind.may_help) for kind in (Consolidation, Reclaim, Preempt)]
    is_full = Placement.is_full
    for step in range(12):
        change(kai, rng, step)
        # Single pods fill what gangs leave.
        for number in range(3):
            gang(kai, f"single-{step}-{number}", rng.choice("abc"), 1)
        await kai.cluster.clock.advance(0.001)
        with monkeypatch.context() as counting:

            def full(self: Any, requests: Any) -> bool:
                answer = is_full(self, requests)
                spared["allocate"] += answer
                return answer

            counting.setattr(Placement, "is_full", full)
            found = await sessions.decide()
        answer = result(found)
        found.session.ledger.put_back()
        with monkeypatch.context() as plain:
            for kind, may_help in helps:

                def counted(self: Any, found: Any, may_help: Any = may_help) -> bool:
                    spared[self.name] += not may_help(self, found)
                    return True

                plain.setattr(kind, "may_help", counted)
            plain.setattr(Placement, "is_full", lambda *_: False)
            assert answer == await twin(sessions)
        await kai.pass_time(1)
    assert min(spared[name] for name in ("allocate", "consolidation", "reclaim", "preempt")) > 0, spared


def change(kai: BatchCluster, rng: random.Random, step: int) -> None:
    """Let a job come, another one lose a pod, or all its pods run."""
    pods = kai.cluster.pods()
    placed = [pod for pod in pods if pod.node_name and not pod.is_terminating]
    kai.go("Running", *(pod.name for pod in placed if pod.status.phase != "Running"))
    if placed and rng.random() < 0.3:
        kai.cluster.delete(Pod, rng.choice(placed).name, namespace="default")
    queue = "a" if step < STEPS // 3 else rng.choice("abc")
    gang(kai, f"job-{step}", queue, rng.randint(1, 4), rng.choice((1, 2, 4)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("racks", "unlabelled", "is_possible"), [(4, 0, True), (3, 0, False), (3, 1, True)])
async def test_no_search_for_pods_that_need_more_racks_than_there_are(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, racks: int, unlabelled: int, is_possible: bool
) -> None:
    """Pods with required anti-affinity to each other cannot run in fewer domains; nodes without the key hold any."""
    nodes = 10
    for number in range(nodes):
        labels = {RACK: f"r{number % racks}"} if number >= unlabelled else {}
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
        kai.cluster.add_node(f"n{number}", allocatable=allocatable, labels=labels)
    gpu_queue(kai, "borrower", 0)
    gpu_queue(kai, "starved", nodes * 8)
    for number in range(nodes * 8):
        gang(kai, f"running-{number}", "borrower", 1, node_name=f"n{number % nodes}")
    term = {"labelSelector": {"matchLabels": {"job": "wide"}}, "topologyKey": RACK}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    gang(kai, "wide", "starved", 4, 8, labels={"job": "wide"}, affinity=apart)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    searches = 0
    solve = Solver.solve

    async def count(self: Solver, *args: Any) -> Any:
        nonlocal searches
        searches += 1
        return await solve(self, *args)

    monkeypatch.setattr(Solver, "solve", count)
    found = await sessions.decide()
    kinds = Counter(each.kind.name for each in found.decisions)
    assert (kinds["EVICT"] >= 32, kinds["NOMINATE"]) == (is_possible, 4 if is_possible else 0)
    assert (searches > 0) is is_possible
    found.session.ledger.put_back()


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
async def test_failed_searches_are_recalled_only_where_they_would_fail_again(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """In a crowded cluster, passes that recall failures decide, and give reasons, as passes that search again."""
    rng, counts = random.Random(seed), Counter[str]()
    for number in range(3):
        kai.cluster.add_node(f"n{number}", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"})
    for name in "abcd":
        gpu_queue(kai, name, 6)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    has_failed, solve = Attempt.has_failed, Solver.solve

    def counted(self: Attempt) -> bool:
        answer = has_failed(self)
        counts["recalled"] += answer
        return answer

    async def solved(self: Solver, pending: Any) -> Any:
        found = await solve(self, pending)
        counts["found" if found is not None else "failed"] += 1
        return found

    monkeypatch.setattr(Attempt, "has_failed", counted)
    for step in range(45):
        crowd(kai, rng, step)
        await kai.cluster.clock.advance(0.001)
        with monkeypatch.context() as counting:
            counting.setattr(Solver, "solve", solved)
            found = await sessions.decide()
        answer = result(found)
        found.session.ledger.put_back()
        assert answer == await twin(sessions)
        if rng.random() < 0.5:
            await kai.pass_time(1)
    assert min(counts[what] for what in ("recalled", "found", "failed")) > 0, counts


def crowd(kai: BatchCluster, rng: random.Random, step: int) -> None:
    """Let a job come; sometimes let pods run, let one go, or change a node."""
    pods = kai.cluster.pods()
    placed = [pod for pod in pods if pod.node_name and not pod.is_terminating]
    event = rng.random()
    if event < 0.3:
        kai.go("Running", *(pod.name for pod in placed if pod.status.phase != "Running"))
    elif event < 0.4 and placed:
        kai.cluster.delete(Pod, rng.choice(placed).name, namespace="default")
    elif event < 0.45:
        kai.cluster.patch(Node, "n0", {"spec": {"unschedulable": rng.random() < 0.5}})
    gang(kai, f"job-{step}", rng.choice("aabcd"), rng.choice((1, 1, 2)), rng.choice((1, 2, 4, 8)))
