"""Work that a pass of the preset kai spares changes no decision."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from plugins.kai.tests.test_kept_jobs import change, gang, gpu_queue, result, twin
from pyscheduler.api import Node
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.lasting_filters import LastingFilters
from pyscheduler_batch.sessions.placer import SnapshotPlacer

if TYPE_CHECKING:
    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState
    from pyscheduler_batch.model.tasks import Task
    from pyscheduler_batch.sessions.lasting_filters import LastingAnswer
    from pyscheduler_lab.testing import BatchCluster

HOST = "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
SPOT = {"key": "spot", "effect": "NoSchedule"}
STEPS = 4 + settings.default.max_examples // 5


def add_nodes(kai: BatchCluster, count: int) -> None:
    """Create nodes of 8 GPUs; every third one has a taint, every fourth one a label."""
    for number in range(count):
        labels = {HOST: f"n{number}"} | ({"disk": "ssd"} if number % 4 == 3 else {})
        taints = [SPOT] if number % 3 == 2 else []
        allocatable = {"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}
        kai.cluster.add_node(f"n{number}", allocatable=allocatable, labels=labels, taints=taints)


def change_node(kai: BatchCluster, rng: random.Random, step: int) -> None:
    """Change what filters read of a node, in three steps of four."""
    wishes: list[dict[str, Any]] = [
        {},
        {"metadata": {"labels": {"disk": rng.choice(("ssd", "hdd"))}}},
        {"spec": {"taints": rng.choice(([], [SPOT]))}},
        {"spec": {"unschedulable": rng.random() < 0.5}},
    ]
    if wish := wishes[step % 4]:
        kai.cluster.patch(Node, f"n{rng.randrange(6)}", wish, namespace="")


def demanding(kai: BatchCluster, step: int, rng: random.Random) -> None:
    """Create a gang whose pods tolerate a taint, select nodes, or keep away from each other.

    From then on nobody's answers last.
    """
    name = f"wish-{step}"
    term = {"labelSelector": {"matchLabels": {"team": name}}, "topologyKey": HOST}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    kinds: list[dict[str, Any]] = [
        {"tolerations": [{"key": "spot", "operator": "Exists"}]},
        {"node_selector": {"disk": "ssd"}},
        {"affinity": apart, "labels": {"team": name}},
    ]
    chosen = rng.choice(kinds if step >= STEPS // 2 else kinds[:2])
    gang(kai, name, rng.choice("abc"), rng.randint(1, 2), rng.choice((1, 2)), **chosen)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, pytest.param(3, marks=pytest.mark.long)])
async def test_filters_that_are_asked_once_decide_as_if_they_were_asked_each_time(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """A pass that keeps the answers of filters about plain pods equals one that asks for every task anew.

    Answers are kept until a node changes.
    """
    rng, counts = random.Random(seed), Counter[str]()
    add_nodes(kai, 6)
    for name, quota in (("a", 8), ("b", 16), ("c", 24)):
        gpu_queue(kai, name, quota)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    suitable, move = SnapshotPlacer.suitable, SnapshotPlacer._move

    def at_once(self: SnapshotPlacer, task: Task, node: int, *, is_placement: bool) -> None:
        move(self, task, node, is_placement=is_placement)
        self.show_moves()

    def counted(self: SnapshotPlacer, task: Task) -> Any:
        counts["kept" if self._lasting_answer(task) is not None else "asked"] += 1
        return suitable(self, task)

    for step in range(STEPS):
        change(kai, rng, step)
        change_node(kai, rng, step)
        demanding(kai, step, rng)
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


async def test_filters_are_asked_again_once_a_node_has_changed(
    kai: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass reuses what filters said in earlier ones, until a node is another one or there is one more."""
    gpu_queue(kai, "a", 64)
    kai.cluster.add_node("n0", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "8"}, taints=[SPOT])
    gang(kai, "waits", "a", 1)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    asked: list[str] = []
    ask = LastingFilters._ask

    def noted(self: LastingFilters, state: CycleState, pod: Pod) -> LastingAnswer | None:
        asked.append(pod.name)
        return ask(self, state, pod)

    monkeypatch.setattr(LastingFilters, "_ask", noted)

    async def decided() -> list[str]:
        await kai.cluster.clock.advance(0.001)
        found = await sessions.decide()
        found.session.ledger.put_back()
        return [found.tables.nodes.names[each.node] for each in found.decisions]

    assert await decided() == await decided() == []
    assert len(asked) == 1
    kai.cluster.patch(Node, "n0", {"spec": {"taints": []}}, namespace="")
    assert await decided() == await decided() == ["n0"]
    assert len(asked) == 2
    kai.cluster.add_node("m0", allocatable={"cpu": "64", "memory": "64Gi", "pods": "110", GPU: "1"})
    assert await decided() == ["m0"]
    assert len(asked) == 3


async def test_a_pass_begins_once_a_node_declares_a_feature(kai: BatchCluster) -> None:
    """A filter may have refused the node for want of it; another annotation lets no job start."""
    add_nodes(kai, 1)
    gpu_queue(kai, "a", 8)
    gang(kai, "too-large", "a", 1, 9)
    sessions = sessions_of((await kai.start()).scheduler)[0]
    await kai.pass_time(30)
    before = sessions.passes
    kai.cluster.patch(Node, "n0", {"metadata": {"annotations": {"seen": "now"}}}, namespace="")
    await kai.pass_time(5)
    assert sessions.passes == before
    kai.cluster.patch(Node, "n0", {"status": {"declaredFeatures": ["Fast"]}}, namespace="", status=True)
    await kai.pass_time(5)
    assert sessions.passes == before + 1
