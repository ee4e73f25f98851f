"""A random cluster in which three queues compete, and a controller that creates evicted pods again; virtual time."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any, Final

import attrs

from pyscheduler.config.load import loads
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.testing import FakeCluster
from pyscheduler_batch.model import tasks
from pyscheduler_batch.sessions.assembly import sessions_of
from pyscheduler_batch.sessions.commitments import Commitments
from pyscheduler_lab.audit import Options, Verdict, check
from pyscheduler_lab.audit.evictions import record_of_pod
from tests.batch.chaos.troubled_cluster import CONFIG, KINDS, Job, RivalJobs
from tests.batch.write_log import WriteLog

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from pyscheduler_lab.audit import History

__all__ = ["PRESETS", "RULES", "CountingGuards", "Outcome", "Rivals", "storm"]

_ACTIONS: Final = {
    "kai": "allocate, consolidation, reclaim, preempt, stalegangeviction",
    "volcano": "enqueue, allocate, backfill, preempt, reclaim",
    "kube-batch": "allocate, backfill, preempt, reclaim",
}
#: Further tiers with which Volcano is often run: gang alone chooses victims; or capacity of queues does.
_VOLCANO_TIERS: Final = (
    "",
    """, tiers: [{plugins: [{name: priority}, {name: gang}, {name: conformance}]}, {plugins: [{name: overcommit},
      {name: drf, enablePreemptable: false}, {name: predicates}, {name: proportion}, {name: binpack}]}]""",
    """, tiers: [{plugins: [{name: priority}, {name: gang, enablePreemptable: false}, {name: conformance}]},
      {plugins: [{name: drf, enablePreemptable: false}, {name: predicates}, {name: capacity}, {name: nodeorder}]}]""",
)
PRESETS: Final = tuple(KINDS)
#: Values of the priority classes. KAI evicts no job of 100 and more.
_CLASSES: Final = {"low": 10, "middle": 60, "high": 90, "build": 100}
_GPU: Final = "nvidia.com/gpu"
#: The cluster rests for so long after the last change from outside, in seconds: longer than all timers in a row.
_REST: Final = 7200.0
_FINE_REST: Final = 900.0
RULES: Final = frozenset({3, 6, 7})
"""The rules of the audit that must hold: whom nobody evicts, no repetition and no cycle, and that evictions end."""


@attrs.frozen(kw_only=True)
class Outcome:
    """What a run came to. `counts`: how often each thing happened, by name."""

    preset: str
    seed: int
    verdict: Verdict
    history: History
    counts: Counter[str]
    #: One sentence per violation.
    problems: list[str]


class CountingGuards(Commitments):
    """Commitments that count how often each of their rules kept jobs from being evicted. `is_off`: they keep none."""

    def __init__(self, counts: Counter[str], *, is_off: bool = False) -> None:
        super().__init__()
        self._counts = counts
        self._is_off = is_off

    def protected(
        self,
        claimant: tasks.Job,
        now: float,
        jobs: Mapping[str, tasks.Job],
        takers: Mapping[str, set[str]] | None = None,
    ) -> Collection[str]:
        """Return the uids of the jobs that must not be evicted for this one."""
        found = super().protected(claimant, now, jobs, takers)
        here = jobs.keys() - {claimant.uid}
        # Nobody is safe from a job that never evicted any.
        resting = set(super().protected(tasks.Job(uid="", key="", queue=""), now, jobs))
        if here and here <= set(found) and not here <= resting:
            self._counts["guard: a job whose promise lapsed, or that evicted all others, evicts nobody"] += 1
        else:
            self._counts["guard: evicted jobs rest"] += bool(resting & here)
            self._counts["guard: no eviction again, and none in return"] += bool((set(found) - resting) & here)
        return () if self._is_off else found


class Rivals(RivalJobs):
    """Three queues, random gangs, and changes from outside."""

    def __init__(self, cluster: FakeCluster, preset: str, seed: int) -> None:
        super().__init__(cluster, preset)
        self.rng = random.Random(f"{preset} {seed}")
        self.counts: Counter[str] = Counter()
        self.add_classes(_CLASSES)
        for _ in range(self.rng.randint(2, 4)):
            self._make_node()
        for name in ("a", "b", "c"):
            self.add_queue(name, self._queue_spec())

    @property
    def config(self) -> str:
        """Return a random configuration of the preset."""
        tiers = self.rng.choice(_VOLCANO_TIERS) if self.preset == "volcano" else ""
        return CONFIG % (self.preset, _ACTIONS[self.preset], tiers)

    def _make_node(self) -> None:
        self.made += 1
        self.add_node(f"n{self.made}")

    def _queue_spec(self) -> dict[str, Any]:
        """Return random quotas, limits, weights, flags and least run times."""
        rng = self.rng
        if self.preset != "kai":
            spec: dict[str, Any] = {"weight": rng.randint(1, 4)}
            if rng.random() < 0.2:
                spec["capability"] = {"cpu": "64", "memory": "64Gi", _GPU: str(rng.choice([4, 8]))}
            if self.preset == "volcano":
                spec["reclaimable"] = rng.random() < 0.8
                spec["deserved"] = {"cpu": "64", "memory": "64Gi", _GPU: str(rng.choice([0, 2, 4, 6]))}
            return spec
        free = {"quota": -1, "limit": -1, "overQuotaWeight": 1}
        gpu = {"quota": rng.choice([0, 2, 4, 6]), "limit": rng.choice([-1, -1, -1, 8])}
        spec = {"resources": {"gpu": {**gpu, "overQuotaWeight": rng.choice([0, 1, 3])}, "cpu": free, "memory": free}}
        if rng.random() < 0.3:
            spec |= {"preemptMinRuntime": rng.choice(["20s", "5m"]), "reclaimMinRuntime": rng.choice(["30s", "2m"])}
        return spec

    # What happens

    def add_job(self) -> None:
        """Create a random gang; some are elastic."""
        rng = self.rng
        size = rng.randint(1, 4)
        classes = [*_CLASSES][: 3 + (rng.random() < 0.4)]
        name = f"job{len(self.jobs)}-{self.made}"
        annotations = {}
        if self.preset == "volcano" and rng.random() < 0.2:
            annotations["volcano.sh/preemptable"] = rng.choice(["true", "false"])
        gpus, priority = rng.choice([1, 1, 2, 4]), rng.choice(classes)
        spec: dict[str, Any] = {"minMember": rng.choice([size, rng.randint(1, size)])}
        queue = rng.choice("abc")
        if self.preset == "kai" and rng.random() < 0.2:
            spec["preemptibility"] = rng.choice(["preemptible", "non-preemptible"])
        self.add_gang(Job(name, queue, size, gpus, priority, annotations), **spec)
        self.counts["job with a minimum of all" if spec["minMember"] == size else "elastic job"] += 1

    def change(self) -> None:
        """Change something from outside."""
        chance = self.rng.random()
        if chance < 0.7 or not self.jobs:
            self.add_job()
        elif chance < 0.8:
            self.counts["change: quotas of a queue"] += 1
            self.change_queue(self.rng.choice("abc"), self._queue_spec())
        elif chance < 0.85:
            self.counts["change: node added"] += 1
            self._make_node()
        else:
            self.counts["change: job ended"] += 1
            self.end_job(self.jobs.pop(self.rng.choice([*self.jobs])))

    async def live(self, seconds: float, step: float) -> None:
        """Let time pass."""
        end = self.cluster.clock.now() + seconds
        while self.cluster.clock.now() < end:
            await self.cluster.clock.advance(min(step, end - self.cluster.clock.now()))
            self.recreate()


async def storm(preset: str, seed: int, *, without_guards: bool = False) -> Outcome:
    """Let one random cluster live, and rest long after its last change; judge its evictions."""
    cluster = FakeCluster(seed=seed)
    rivals = Rivals(cluster, preset, seed)
    rng, counts = rivals.rng, rivals.counts
    log = WriteLog(cluster.server)
    log.start()
    lifecycle = cluster.server.lifecycle(start_seconds=1.0, stop_seconds=rng.choice([0.0, 2.0, 20.0]))
    lifecycle.start()
    config = loads(rivals.config, source="storm")
    scheduler = build(config, cluster.transport(), cluster.clock, random.Random(seed), registry=discover())
    for session in sessions_of(scheduler):
        session.submission.commitments = CountingGuards(counts, is_off=without_guards)
    starting = asyncio.create_task(scheduler.start())
    await cluster.clock.advance(0)
    await starting
    running = asyncio.create_task(scheduler.run())
    for _ in range(rng.randint(6, 18)):
        rivals.change()
        await rivals.live(rng.choice([1.0, 5.0, 30.0, 120.0]), 1.0 if rng.random() < 0.5 else 5.0)
    await rivals.live(_FINE_REST, 5.0)
    await rivals.live(_REST - _FINE_REST, 60.0)
    problems = ["the scheduling loop ended"] if running.done() else []
    scheduler.check_invariants()
    history = log.history()
    pods = cluster.pods()
    counts["pod runs at the end"] += sum(bool(pod.node_name) for pod in pods)
    counts["pod waits at the end"] += sum(not pod.node_name for pod in pods)
    counts["pass"] += sum(session.passes for session in sessions_of(scheduler))
    await scheduler.stop()
    lifecycle.stop()
    log.stop()
    await cluster.close()
    verdict = check(history, _options(preset))
    problems += [str(each) for each in verdict.violations if each.rule in RULES]
    for record in _evictions(history):
        counts[f"eviction: {record}"] += 1
    return Outcome(preset=preset, seed=seed, verdict=verdict, history=history, counts=counts, problems=problems)


def _options(preset: str) -> Options:
    """Return what the audit must know."""
    is_kai = preset == "kai"
    return Options(schedulers=frozenset({"batch"}), formula="kai" if is_kai else "none", evicts_stale_gangs=is_kai)


def _evictions(history: History) -> list[str]:
    """Return the action of each eviction; those whose pod was promised another node are counted as moves."""
    found = []
    for change in history.changes:
        if change.obj["kind"] == "Pod" and change.type == "DELETED":
            record = record_of_pod(change.obj)
            if record is not None:
                found.append(record.action + (", moved" if record.moved else ""))
    return found
