"""The barrier between PreBind and Bind: a failing volume leaves no gang half bound."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar

import attrs
import pytest

from pyscheduler.framework import PreBindPlugin, Status
from pyscheduler.runtime.permit.release import PermitReleases
from pyscheduler_batch.sessions.gang_barrier import GangBarrier
from tests.batch.sessions import test_passes
from tests.batch.sessions.test_passes import Jobs, add, nodes_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyscheduler.api import Pod
    from pyscheduler.testing import FakeCluster, FakeFramework
    from pyscheduler_batch.model.job_spec import JobSpec


class Gangs(Jobs):
    """Jobs that need `minimum` pods."""

    name: ClassVar[str] = "Jobs"
    gang_barrier = True
    minimum: ClassVar[int] = 3

    def job_spec(self, key: str, pods: Sequence[Pod]) -> JobSpec | None:
        spec = super().job_spec(key, pods)
        return spec and attrs.evolve(spec, min_member=self.minimum)


class Volumes(PreBindPlugin):
    """Prepares volumes: those of `broken` pods fail, those of `slow` pods come when `provisioned` is set."""

    name: ClassVar[str] = "Volumes"
    broken: ClassVar[set[str]] = set()
    slow: ClassVar[set[str]] = set()
    provisioned: ClassVar[asyncio.Event]
    prepared: ClassVar[list[str]] = []

    async def pre_bind(self, state: object, pod: Pod, node_name: str) -> Status | None:
        if pod.name in self.slow:
            await self.provisioned.wait()
        if pod.name in self.broken:
            return Status.from_error(RuntimeError("no volume"))
        self.prepared.append(pod.name)
        return None


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forget what earlier tests set."""
    Volumes.broken, Volumes.slow, Volumes.prepared = set(), set(), []
    Volumes.provisioned = asyncio.Event()
    Gangs.gang_barrier, Gangs.minimum = True, 3


async def begin(cluster: FakeCluster, cpu: str = "8") -> FakeFramework:
    """Start a scheduler with one node."""
    cluster.add_node("n1", allocatable={"cpu": cpu})
    return await test_passes.begin(cluster, Volumes, jobs=Gangs)


async def test_no_pod_of_a_gang_is_bound_before_all_are_prepared(cluster: FakeCluster) -> None:
    """While the volume of one pod is provisioned, the others wait; then all are bound."""
    Volumes.slow = {"a-2"}
    await begin(cluster)
    names = add(cluster, "a", members=3)
    await cluster.clock.advance(2)
    assert Volumes.prepared == ["a-0", "a-1"]
    assert not any(nodes_of(cluster, names))
    Volumes.provisioned.set()
    await cluster.clock.advance(1)
    assert nodes_of(cluster, names) == ["n1"] * 3


async def test_a_failing_volume_leaves_no_gang_half_bound(cluster: FakeCluster) -> None:
    """All pods return to the queue and give their room back; the gang is bound once the volume can be provisioned."""
    Volumes.broken = {"a-1"}
    framework = await begin(cluster, cpu="3")
    names = add(cluster, "a", members=3)
    await cluster.clock.advance(2)
    assert not any(nodes_of(cluster, names))
    assert len(framework.scheduler.queue) == 3
    Volumes.broken = set()
    await cluster.clock.advance(60)
    assert nodes_of(cluster, names) == ["n1"] * 3


async def test_surplus_pods_do_not_hold_a_gang_up(cluster: FakeCluster) -> None:
    """A gang that needs 2 of its 3 pods is bound although the volume of one cannot be provisioned."""
    Gangs.minimum = 2
    Volumes.broken = {"a-0"}
    await begin(cluster)
    names = add(cluster, "a", members=3)
    await cluster.clock.advance(1)
    assert nodes_of(cluster, names) == ["", "n1", "n1"]


async def test_without_the_barrier_pods_are_bound_one_by_one(cluster: FakeCluster) -> None:
    """`gangBarrier: false` binds each pod as soon as it is prepared."""
    Gangs.gang_barrier = False
    Volumes.broken = {"a-1"}
    await begin(cluster)
    names = add(cluster, "a", members=3)
    await cluster.clock.advance(0.5)
    assert nodes_of(cluster, names) == ["n1", "", "n1"]


async def test_a_member_that_is_cut_short_calls_the_others_off() -> None:
    """A member that ends before it is prepared counts as failed; one that was prepared before changes nothing."""
    barrier = GangBarrier(["a", "b"], 2, PermitReleases())
    waiting = asyncio.create_task(barrier.wait("a"))
    await asyncio.sleep(0)
    barrier.leave("b")
    status = await waiting
    assert status is not None
    assert status.is_rejected
    opened = GangBarrier(["a", "b"], 1, PermitReleases())
    assert await opened.wait("a") is None
    opened.leave("a")
    opened.leave("b")
    assert await opened.wait("b") is None
