"""Two replicas with queues and gangs over HTTP: the leader is killed at each kind of write."""

from __future__ import annotations

import asyncio
import re
import signal
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pyscheduler.audit import check
from pyscheduler.cluster.embedded.serving.router import UnansweredError
from pyscheduler.framework.clock import LoopClock
from tests.batch.chaos.mortal_scheduler import WRITES
from tests.batch.chaos.troubled_cluster import SETUPS, TroubledCluster
from tests.integration.chaos import Books, until
from tests.integration.conftest import Served
from tests.integration.programs import Api
from tests.integration.test_chaos_kills import kept_running

if TYPE_CHECKING:
    from pyscheduler.cluster.embedded.requests import Request

CONFIG = f"""
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{qps: -1}}
leaderElection: {{leaseDuration: 2s, renewDeadline: 1500ms, retryPeriod: 300ms}}
profiles:
- schedulerName: batch
  plugins: {{multiPoint: {{enabled: [{{name: Batch}}], disabled: [{{name: DefaultPreemption}}]}}}}
  pluginConfig: [{{name: Batch, args: {{preset: kai, actions: "{SETUPS["kai"].actions}"}}}}]
"""
#: Rules of the checker: whole gangs, limits, and repeated evictions. The run is too short for the others.
RULES = {1, 2, 6}


class Trap:
    """Kills the sender of a write of a kind, before or after the server carries it out."""

    def __init__(self, troubled: TroubledCluster) -> None:
        self.kind = ""
        self.is_lost = False
        self.caught: Counter[str] = Counter()
        self.replicas: list[Any] = []
        router = troubled.cluster.server.router
        self._handle = router.handle
        router.handle = self._note  # type: ignore[method-assign]  # the server's own ear

    async def _note(self, request: Request) -> Any:
        method, path = WRITES.get(self.kind, ("", "^$"))
        is_write = request.method != "GET" and method in {"", request.method}
        if not is_write or not re.search(path, request.path):
            return await self._handle(request)
        for replica in self.replicas:
            if replica.url.endswith(request.host) and replica.is_alive:
                replica.strike(signal.SIGKILL)
                self.caught[self.kind] += 1
                self.kind = ""
        if self.is_lost:
            raise UnansweredError
        return await self._handle(request)


async def live(troubled: TroubledCluster) -> None:
    """Let jobs come and end, and create evicted pods again, until cancelled."""
    jobs = 0
    while True:
        troubled.add_job()
        jobs += 1
        if jobs > 6:
            troubled.finish_job()
        for _ in range(5):
            await asyncio.sleep(0.1)
            troubled.recreate()


@pytest.mark.slow
async def test_leaders_that_are_killed_at_each_kind_of_write(tmp_path: Path) -> None:
    """The other replica goes on after each kill, and no limit, gang or node has more than it may."""
    troubled = TroubledCluster("kai", 7, LoopClock())
    cluster = troubled.cluster.server
    server = cluster.server()
    await server.start()
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG, encoding="utf-8")
    books, trap = Books(cluster), Trap(troubled)
    async with kept_running(Served(cluster, Api(server.url)), config) as replicas:
        trap.replicas = replicas.replicas
        await until(lambda: books.lease)
        living = asyncio.create_task(live(troubled))
        for number, kind in enumerate(WRITES):
            trap.is_lost, trap.kind = number % 2 == 0, kind
            before = books.lease[-1].holder
            await until(lambda kind=kind: trap.caught[kind])
            await until(lambda before=before: books.lease[-1].holder not in {"", before})
        living.cancel()
        await asyncio.gather(living, return_exceptions=True)
        made = sum(books.made.values())
        troubled.add_job()
        for _ in range(30):
            await asyncio.sleep(0.1)
            troubled.recreate()
    await server.stop()
    history = troubled.log.history()
    verdict = check(history, SETUPS["kai"].options)
    troubled.lifecycle.stop()
    troubled.log.stop()
    print(f"killed at: {dict(trap.caught)}; bound: {made}; {verdict.table()}")  # noqa: T201 - for whoever reads of a failure
    assert [str(each) for each in verdict.violations if each.rule in RULES] == []
    assert set(trap.caught) == set(WRITES)
    assert troubled.lifecycle.rejections == 0, "a node was overcommitted"
    assert set(books.made.values()) == {1}, "a pod was bound twice"
    assert verdict.judged[2] > 10
    assert verdict.judged[3] > 0
