"""One scheduler from one configuration and one seed."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from kube_testserver.virtual_time import settle
from pyscheduler.config.load import loads
from pyscheduler.scheduler.assembly import build
from pyscheduler.testing import FakeCluster, VirtualClock, node_manifest

if TYPE_CHECKING:
    from pyscheduler.scheduler.scheduler import Scheduler

_CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {qps: -1}
profiles: [{schedulerName: pyscheduler}]
"""


def new_scheduler(cluster: FakeCluster, seed: int) -> Scheduler:
    """Return a scheduler on the cluster, not started."""
    return build(loads(_CONFIG, source="test"), cluster.transport(), cluster.clock, random.Random(seed))


async def placements(seed: int, *, extra_draws: int = 0) -> list[str]:
    """Schedule thirty equal pods onto twenty equal nodes; return where they went."""
    cluster = FakeCluster(clock=VirtualClock())
    cluster.server.add(*(node_manifest(f"n{number:02d}") for number in range(20)))
    framework = cluster.framework(seed=seed)
    for _ in range(extra_draws):
        # What the runtime draws, to choose the cycles it measures, is a stream of its own.
        framework.profile._dependencies.rng.random()
    nodes = []
    for number in range(30):
        result = await framework.schedule(f"p{number:02d}")
        nodes.append(result.node or "")
    await cluster.close()
    return nodes


@pytest.mark.slow
async def test_the_same_seed_gives_the_same_placements() -> None:
    """Ties are drawn, and drawn the same way again; another seed draws otherwise."""
    first = await placements(1)
    assert first == await placements(1)
    assert first != await placements(2)


async def test_each_consumer_has_a_random_stream_of_its_own() -> None:
    """One draw more in one place shifts no decision in another."""
    assert await placements(1, extra_draws=7) == await placements(1)


async def test_building_reads_and_starts_nothing() -> None:
    """Until `start` the API server is not asked anything, and there are no tasks."""
    cluster = FakeCluster(clock=VirtualClock())
    cluster.add_node("n1")
    scheduler = new_scheduler(cluster, 1)
    await settle()
    assert (scheduler.cache.node_count, scheduler.synced, scheduler.idle) == (0, False, True)


async def test_a_scheduler_that_never_ran_stops() -> None:
    """`stop` is good before `start`, and twice."""
    cluster = FakeCluster(clock=VirtualClock())
    scheduler = new_scheduler(cluster, 1)
    await scheduler.stop()
    await scheduler.stop()
    assert scheduler.idle
