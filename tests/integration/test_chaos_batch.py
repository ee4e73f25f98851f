"""Two replicas with queues and gangs over HTTP: the leader is killed at each kind of write."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from kube_objects.clock import LoopClock
from pyscheduler_lab.audit import check
from tests.batch.chaos.mortal_scheduler import WRITES
from tests.batch.chaos.troubled_cluster import TroubledCluster
from tests.integration.chaos import Books, until
from tests.integration.chaos_batch import LEADERS, Trap, run
from tests.integration.conftest import Served
from tests.integration.programs import Api
from tests.integration.test_chaos_kills import kept_running

#: Rules 8 and 9 are about seconds, and a busy machine is late with reasons and statuses. The commands judge them, too.
RULES = range(1, 8)


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
    config.write_text(troubled.setup.config.replace("profiles:", f"{LEADERS}profiles:", 1), encoding="utf-8")
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
    verdict = check(history, troubled.setup.options)
    troubled.lifecycle.stop()
    troubled.log.stop()
    print(f"killed at: {dict(trap.caught)}; bound: {made}; {verdict.table()}")  # noqa: T201 - for whoever reads of a failure
    assert [str(each) for each in verdict.violations if each.rule in RULES] == []
    assert set(trap.caught) == set(WRITES)
    assert troubled.lifecycle.rejections == 0, "a node was overcommitted"
    assert set(books.made.values()) == {1}, "a pod was bound twice"
    assert verdict.judged[2] > 10
    assert verdict.judged[3] > 0


@pytest.mark.slow
async def test_random_troubles_over_http(tmp_path: Path) -> None:
    """Replicas that are killed between failing requests break no rule; ``tests.integration.chaos_batch`` runs more."""
    for found in await asyncio.gather(*(run(preset, 1, tmp_path) for preset in ("kai", "volcano"))):
        print(f"{dict(found.troubles)}; bound: {found.bound}; {found.verdict.table()}")  # noqa: T201 - for whoever reads of a failure
        assert [str(each) for each in found.verdict.violations if each.rule in RULES] == []
        assert (found.refused, found.twice) == (0, 0)
        assert found.bound > 0
        assert {1, 2, 8} <= found.verdict.judged.keys()
