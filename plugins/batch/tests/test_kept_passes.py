"""Passes that keep what did not change decide as passes that read everything anew and try every job."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.config.load import loads
from pyscheduler.runtime.assembly.discovery import discover
from pyscheduler.scheduler.assembly import build
from pyscheduler.scheduler.sessions.source import Pass, Sessions
from pyscheduler.scheduler.sessions.tables import ClusterTables
from pyscheduler.testing import FakeCluster
from pyscheduler_batch.kai import cycle
from pyscheduler_batch.kai.evictions import Preempt, Reclaim
from pyscheduler_batch.kai.placement import Placement

from .test_evictions_end import CONFIG, Rivals

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.scheduler.sessions.pending import PendingPods

#: Consolidation takes the first candidates in the order in which jobs were read, which is another one here.
ACTIONS = "allocate, reclaim, preempt"


class EveryPod:
    """The waiting pods, read anew."""

    def __init__(self, pods: PendingPods) -> None:
        self._pods = pods

    def all(self) -> list[PodInfo]:
        return self._pods.all()

    def changes(self) -> None:
        return None


def summary(found: Pass) -> dict[str, Any]:
    """Return the decisions of a pass and the reasons of the jobs that wait."""
    decisions = Counter(
        (each.kind.name, each.task.key, found.tables.names[each.node], each.action) for each in found.decisions
    )
    return {"decisions": decisions, "reasons": found.session.reasons}


class Twins:
    """Decides each pass twice and compares."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self._decide = Sessions.decide
        self._patch = monkeypatch
        monkeypatch.setattr(cycle, "_SMALL", 0)
        monkeypatch.setattr(Sessions, "decide", self._twice())
        for kind in (Reclaim, Preempt):
            self._count(kind, "may_help", f"no {kind.name}", expected=False)
        self._count(Placement, "is_full", "full", expected=True)

    def _count(self, kind: type, method: str, name: str, *, expected: bool) -> None:
        ask = getattr(kind, method)

        def counted(*args: Any) -> bool:
            answer = ask(*args)
            self.counts[name] += answer is expected
            return bool(answer)

        self._patch.setattr(kind, method, counted)

    def _twice(self) -> Callable[..., Any]:
        decide, patch = self._decide, self._patch

        async def twice(sessions: Sessions, **keywords: Any) -> Pass:
            kept = sessions.tables, sessions._pending
            sessions.tables = ClusterTables(sessions.plugin, sessions.profile.name)
            sessions._pending = EveryPod(kept[1])  # type: ignore[assignment]  # has what is needed
            with patch.context() as plain:
                plain.setattr(Reclaim, "may_help", lambda *_: True)
                plain.setattr(Preempt, "may_help", lambda *_: True)
                plain.setattr(Placement, "is_full", lambda *_: False)
                anew = await decide(sessions, **keywords)
            expected = summary(anew)
            anew.session.ledger.put_back()
            sessions.tables, sessions._pending = kept
            found = await decide(sessions, **keywords)
            assert summary(found) == expected
            self.counts["passes"] += 1
            self.counts["decisions"] += len(found.decisions)
            return found

        return twice


async def live(cluster: FakeCluster, seed: int) -> None:
    """Let random jobs come and go."""
    rivals = Rivals(cluster, "kai", seed)
    rng = rivals.rng
    config = loads(CONFIG % ("kai", ACTIONS), source="test")
    scheduler = build(config, cluster.server.transport(), cluster.clock, random.Random(seed), registry=discover())
    starting = asyncio.create_task(scheduler.start())
    await cluster.clock.advance(0)
    await starting
    running = asyncio.create_task(scheduler.run())
    for _ in range(15):
        for _ in range(rng.randint(1, 3)):
            rivals.add_job()
        await rivals.live(rng.choice([1.0, 3.0, 20.0]), 1.0)
        bound = [pod for pod in cluster.pods() if pod.node_name and not pod.is_terminating]
        for pod in rng.sample(bound, min(len(bound), rng.randint(0, 2))):
            cluster.delete_pod(pod.name)
    await rivals.live(60.0, 5.0)
    assert not running.done(), "the scheduling loop ended"
    await scheduler.stop()


async def test_a_pass_that_keeps_decides_as_one_that_reads_all(
    monkeypatch: pytest.MonkeyPatch, record_property: Callable[[str, object], None]
) -> None:
    """Decisions and reasons are those of a pass with new tables that looks at every job."""
    twins = Twins(monkeypatch)
    for seed in range(4):
        cluster = FakeCluster(seed=seed)
        await live(cluster, seed)
        await cluster.close()
    for name, count in twins.counts.items():
        record_property(name, count)
    assert min(twins.counts[name] for name in ("passes", "decisions", "full", "no reclaim", "no preempt")) > 10
