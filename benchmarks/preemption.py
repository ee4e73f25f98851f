"""Measure the search for victims on a large, full cluster, without evicting them."""

from __future__ import annotations

import asyncio
import random
import time

from benchmarks.schedulers import CONFIG
from kube_objects.clock import LoopClock
from pyscheduler.api import KubeObject, Node, Pod
from pyscheduler.cluster.readonly_cluster import ReadOnlyCluster, objects_of
from pyscheduler.config.load import loads
from pyscheduler.framework import PREEMPTION_FINDINGS, CycleState, Trial, TrialKind
from pyscheduler.scheduler.assembly import build
from pyscheduler.testing import make_node, make_pod

__all__ = ["search"]

_PODS_PER_NODE = 10
_ROUNDS = 5


def search(nodes: int, *, in_vain: bool) -> dict[str, float]:
    """Search among full nodes: a tenth of them are found to do, or `in_vain` all are looked at and none does."""
    return asyncio.run(_search(nodes, in_vain=in_vain))


async def _search(nodes: int, *, in_vain: bool) -> dict[str, float]:
    objects: dict[type[KubeObject], list[KubeObject]] = {
        Node: [make_node(f"n{number}", allocatable={"cpu": "4"}) for number in range(nodes)],
        Pod: [
            make_pod(
                f"p{number}-{place}",
                node_name=f"n{number}",
                requests={"cpu": "400m"},
                # In vain: half of each node is held by more important pods, and the other half is not enough.
                priority=1000 if in_vain and place % 2 else 0,
                status={"startTime": "2026-01-01T00:00:00Z"},
            )
            for number in range(nodes)
            for place in range(_PODS_PER_NODE)
        ],
    }
    scheduler = build(
        loads(CONFIG, source="bench"), ReadOnlyCluster(objects_of(objects)), LoopClock(), random.Random(0)
    )
    await scheduler.start()
    profile = scheduler.profiles["pyscheduler"]
    pod = make_pod("wanted", requests={"cpu": "2500m"}, priority=100)
    scheduler.cache.update_snapshot(scheduler.snapshot)
    seconds, holds = [], [0.0]
    for _ in range(_ROUNDS):
        state = CycleState(Trial(TrialKind.EXPLAIN))
        profile.run_pre_filter(state, pod, scheduler.snapshot.nodes)
        found = profile.find_feasible(state, pod, scheduler.snapshot.nodes)
        assert found.statuses is not None
        watching = asyncio.create_task(_turns(holds))
        await asyncio.sleep(0)
        began = time.perf_counter()
        await profile.run_post_filter(state, pod, found.statuses)
        seconds.append(time.perf_counter() - began)
        await asyncio.sleep(0)
        watching.cancel()
        assert (not state.read(PREEMPTION_FINDINGS).candidates) is in_vain
    return {"search_ms": min(seconds) * 1e3, "longest_hold_ms": max(holds) * 1e3}


async def _turns(holds: list[float]) -> None:
    """Note how long the loop did not turn."""
    last = time.perf_counter()
    while True:
        await asyncio.sleep(0)
        now = time.perf_counter()
        holds.append(now - last)
        last = now
