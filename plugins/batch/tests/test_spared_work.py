"""Work that a pass of the preset kai spares changes no decision."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from plugins.batch.tests.test_kept_jobs import change, gang, gpu_queue, result, twin
from pyscheduler.scheduler.sessions.placer import SnapshotPlacer

if TYPE_CHECKING:
    from plugins.batch.tests.conftest import BatchCluster
    from pyscheduler.batch.tasks import Task

HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
STEPS = 14


def add_nodes(kai: BatchCluster, count: int) -> None:
    """Create nodes of 8 GPUs; every third one has a taint, every fourth one a label."""
    for number in range(count):
        labels = {HOST: f"n{number}"} | ({"disk": "ssd"} if number % 4 == 3 else {})
        taints = [{"key": "spot", "effect": "NoSchedule"}] if number % 3 == 2 else []
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
        kai.cluster.add_node(f"n{number}", allocatable=allocatable, labels=labels, taints=taints)


def demanding(kai: BatchCluster, name: str, rng: random.Random, queue: str) -> None:
    """Create a gang whose pods tolerate a taint, select nodes, or keep away from each other."""
    term = {"labelSelector": {"matchLabels": {"team": name}}, "topologyKey": HOST}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    kinds: list[dict[str, Any]] = [
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"node_selector": {"disk": "ssd"}},
        {"affinity": apart, "labels": {"team": name}},
    ]
    gang(kai, name, queue, rng.randint(1, 2), rng.choice((1, 2)), **rng.choices(kinds, (5, 5, 1))[0])


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
async def test_filters_that_are_asked_once_decide_as_if_they_were_asked_each_time(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A pass that keeps the answers of filters about plain pods equals one that asks for every task anew."""
    rng, counts = random.Random(seed), Counter[str]()
    add_nodes(kai, 6)
    for name, quota in (("a", 8), ("b", 16), ("c", 24)):
        gpu_queue(kai, name, quota)
    sessions = (await kai.start()).scheduler.sessions[0]
    suitable, move = SnapshotPlacer.suitable, SnapshotPlacer._move

    def at_once(self: SnapshotPlacer, task: Task, node: int, *, is_placement: bool) -> None:
        move(self, task, node, is_placement=is_placement)
        self._show_moves()

    def counted(self: SnapshotPlacer, task: Task) -> Any:
        counts["kept" if self._lasting_answer(task) is not None else "asked"] += 1
        return suitable(self, task)

    for step in range(STEPS):
        change(kai, rng, step)
        demanding(kai, f"wish-{step}", rng, rng.choice("abc"))
        await kai.cluster.clock.advance(0.001)
        with monkeypatch.context() as counting:
            counting.setattr(SnapshotPlacer, "suitable", counted)
            found = await sessions.decide()
        answer = result(found)
        counts.update(each.kind.name for each in found.decisions)
        found.session.ledger.put_back()
        with monkeypatch.context() as plain:
            plain.setattr(SnapshotPlacer, "suitable", SnapshotPlacer.feasible)
            plain.setattr(SnapshotPlacer, "_lasting_answer", lambda *_: None)
            plain.setattr(SnapshotPlacer, "_move", at_once)
            assert answer == await twin(sessions)
        await kai.pass_time(1)
    assert min(counts[what] for what in ("kept", "asked", "BIND", "EVICT", "NOMINATE")) > 0, counts
