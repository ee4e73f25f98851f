"""Measure how long decisions of the plugin Batch take, and how long a simulation of a recorded workload takes."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from benchmarks.batch import RACK, _passes, _passes_without_actions, _Shape
from pyscheduler.podgroup.wire import KAI_PODGROUPS
from pyscheduler.serving.gc_tuning import keep_for_good, rare_collections
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_lab.clusters import Cluster
from pyscheduler_lab.results.settings import RunSettings
from pyscheduler_lab.simulation.policies import policy_named, teams_of
from pyscheduler_lab.traces import Trace

if TYPE_CHECKING:
    from pyscheduler_batch.sessions.source import Sessions

__all__ = ["impossible", "one_reclaim", "replay"]

_BORROWERS: Final = 10
_RACKS: Final = 9
#: Virtual seconds in which nothing changes.
_QUIET_SECONDS: Final = 600.0


def one_reclaim(nodes: int, repeats: int) -> dict[str, Any]:
    """Return how long a pass takes to decide about one job of a starved queue, in milliseconds.

    Ten queues hold all GPUs with jobs of one GPU, each twice its quota. Each time another job arrives in a queue that
    holds nothing: one to four pods of one or two GPUs. It leaves after the decision, which is not carried out.
    """
    made = _Shape(nodes)
    total = nodes * made.gpus
    made.queue("starved", total / 2)
    for number in range(_BORROWERS):
        made.queue(f"borrower-{number}", total / 2 / _BORROWERS, weight=1)
    for number in range(total):
        made.job(f"running-{number}", f"borrower-{number % _BORROWERS}", node=number)

    async def run() -> dict[str, Any]:
        sessions = await made.sessions()
        (await sessions.decide()).session.ledger.put_back()
        keep_for_good()
        seconds = [await _reclaim_once(made, sessions, number) for number in range(repeats)]
        p50, p99 = np.percentile(seconds, [50, 99])
        return {"decision_p50_ms": float(p50) * 1e3, "decision_p99_ms": float(p99) * 1e3}

    with rare_collections():
        return asyncio.run(run())


async def _reclaim_once(made: _Shape, sessions: Sessions, number: int) -> float:
    """Return the seconds from the begin of a pass to its decision about a job that has just arrived."""
    pods, gpus, name = 1 + number % 4, 1 + number % 2, f"wanted-{number}"
    made.job(name, "starved", pods=pods, gpus=gpus)
    await made.cluster.clock.advance(0)
    began = time.perf_counter()
    found = await sessions.decide()
    seconds = time.perf_counter() - began
    promised = sum(each.kind.name == "NOMINATE" and each.task.job.key == f"default/{name}" for each in found.decisions)
    found.session.ledger.put_back()
    if promised != pods:
        raise RuntimeError(f"{promised} of {pods} pods of {name} were promised a node")
    made.cluster.delete(KAI_PODGROUPS.type, name)
    for each in range(pods):
        made.cluster.delete_pod(f"{name}-{each}")
    await made.cluster.clock.advance(0)
    return seconds


def impossible(nodes: int) -> dict[str, Any]:
    """Return the CPU seconds of one full pass of `reclaim-impossible`, whose job must have each pod in its own rack.

    There are ten pods and nine racks. `passes`: how many more there are while nothing changes, in ten virtual minutes.
    """
    made = _Shape(nodes, racks=_RACKS)
    made.queue("queue-0", nodes * made.gpus - 80)
    made.queue("queue-1", 80)
    for number in range(nodes * made.gpus):
        made.job(f"running-{number}", "queue-0", node=number)
    term = {"labelSelector": {"matchLabels": {"job": "pending"}}, "topologyKey": RACK}
    apart = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    made.job("pending", "queue-1", pods=_RACKS + 1, gpus=made.gpus, labels={"job": "pending"}, affinity=apart)

    async def run() -> dict[str, Any]:
        scheduler = await made.scheduler()
        sessions = sessions_of(scheduler)[0]
        await _passes_without_actions(sessions)
        found, seconds = await _passes(sessions)
        if found.decisions:
            raise RuntimeError(f"{len(found.decisions)} decisions for a job that fits nowhere")
        running = asyncio.create_task(scheduler.run())
        await made.cluster.clock.advance(1)
        before = sessions.passes
        await made.cluster.clock.advance(_QUIET_SECONDS)
        passes = sessions.passes - before
        await asyncio.gather(scheduler.stop(), made.cluster.clock.advance(60))
        await running
        return {"cpu_seconds": seconds, "passes": passes}

    return asyncio.run(run())


def replay(jobs: int | None, teams: int) -> dict[str, Any]:
    """Return the seconds in which the Philly jobs of vc1, or its first ones, are replayed with the preset kai.

    The trace names no users: the jobs are dealt to so many teams in the order of arrival. Each has a queue whose quota
    is in proportion to the work of its jobs.
    """
    from pyscheduler_lab.results.runs import Workload, play  # noqa: PLC0415 - pyarrow, 38 MiB in each row's memory

    dealt = [
        attrs.evolve(job, team=f"team-{number % teams}")
        for number, job in enumerate(Trace.read("philly", vc="vc1").first(jobs).jobs)
    ]
    cluster = Cluster.read("24x8gpu")
    workload = Workload(jobs=dealt, cluster=cluster, teams=teams_of(dealt, cluster))
    settings = RunSettings(trace="philly", vc="vc1", nodes="24x8gpu", policy="kai")
    report = play(workload, policy_named("kai"), settings).report
    if report.finished != len(dealt):
        raise RuntimeError(f"{report.finished} of {len(dealt)} jobs ended")
    return {"seconds": report.wall_s}
