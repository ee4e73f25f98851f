"""The scores that a session reuses are those that the plugins would give at that moment."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.framework.cycle_state import CycleState
from pyscheduler.framework.diagnosis import FitError
from pyscheduler.runtime.equivalence_cache.cache import EquivalenceCache
from pyscheduler.runtime.placement import feasible_nodes
from pyscheduler_batch.sessions.placer import SnapshotPlacer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from pyscheduler.runtime.equivalence_cache.classes import EquivalenceClass
    from pyscheduler.runtime.extension_points.run_context import CycleInput
    from pyscheduler.runtime.extension_points.scoring import Ranking
    from pyscheduler_batch.model.tasks import Task
    from pyscheduler_lab.testing import BatchCluster

STEPS = 40
CACHED, PLAIN = "from the cache", "by the plugins"


def plain_scores(placer: SnapshotPlacer, task: Task, rows: NDArray[np.int64]) -> list[float] | None:
    """Return what the plugins say in a cycle of their own, without any cache."""
    profile, snapshot = placer._profile, placer._snapshot
    state, pod, nodes = CycleState(placer._statement.trial), placer._pod(task), snapshot.nodes.take(rows.copy())
    try:
        feasible_nodes(profile, state, pod, nodes)
    except FitError:
        return None
    assert profile.run_pre_score(state, pod, nodes) is None
    outcome = profile.run_score(state, pod, nodes)
    assert outcome.status is None
    scores: list[float] = outcome.totals.tolist()
    return scores


def random_pod(rng: random.Random) -> dict[str, Any]:
    """Return what a pod asks for: taints tolerated, preferred nodes, or only amounts."""
    preferred = {"weight": rng.randint(1, 9), "preference": _in("disk", "ssd")}
    chosen: dict[str, Any] = rng.choice(
        [
            {},
            {},
            {"affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [preferred]}}},
            {"tolerations": [{"key": "old", "operator": "Exists"}]},
        ]
    )
    return {"requests": {"cpu": rng.choice(["500m", "1", "2"])}, **chosen}


def _in(key: str, value: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}


@pytest.mark.slow
async def test_scores_from_the_cache_are_those_of_the_plugins(
    volcano: BatchCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Gangs come and go on nodes that fill up: no score that a pass reuses is an old one."""
    counts: Counter[str] = Counter()
    ask, recall = SnapshotPlacer._scores, EquivalenceCache._recall_scores
    recalled = False

    def compare(self: SnapshotPlacer, task: Task, rows: NDArray[np.int64]) -> NDArray[np.float64] | None:
        nonlocal recalled
        recalled = False
        found = ask(self, task, rows)
        counts[CACHED if recalled else PLAIN] += 1
        expected = plain_scores(self, task, rows)
        if expected is not None:
            assert found is not None
            assert found.tolist() == expected
            counts["uneven"] += len(set(expected)) > 1
        return found

    def noted(self: EquivalenceCache, cycle: CycleInput, known: EquivalenceClass) -> Ranking | None:
        nonlocal recalled
        found = recall(self, cycle, known)
        recalled = found is not None
        return found

    monkeypatch.setattr(SnapshotPlacer, "_scores", compare)
    monkeypatch.setattr(EquivalenceCache, "_recall_scores", noted)
    rng = random.Random(1)
    for number in range(12):
        taints = [{"key": "old", "effect": "PreferNoSchedule"}] if number % 3 == 2 else []
        labels = {"disk": "ssd"} if number % 4 == 1 else {}
        volcano.cluster.add_node(
            f"n{number}", allocatable={"cpu": "8", "memory": "64Gi", "pods": "110"}, labels=labels, taints=taints
        )
    volcano.queue("q", weight=1)
    await volcano.start()
    for step in range(STEPS):
        volcano.job(f"job-{step}", "q", rng.randint(1, 6), **random_pod(rng))
        await volcano.pass_time(2)
        running = [pod.name for pod in volcano.cluster.pods() if pod.node_name]
        for name in rng.sample(running, min(len(running), 3)):
            if rng.random() < 0.5:
                volcano.go("Succeeded", name)
            else:
                volcano.cluster.delete_pod(name)
        await volcano.pass_time(1)
    print(dict(counts))  # noqa: T201 - how often each happened
    assert counts[CACHED] > STEPS
    assert counts[PLAIN]
    assert counts["uneven"] > STEPS
