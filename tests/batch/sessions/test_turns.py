"""A session lets other tasks of the scheduler run, also while it deals with one large gang."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from pyscheduler.framework import PreBindPlugin, ReservePlugin, Status
from pyscheduler.runtime.cooperative_yield import CooperativeYield
from pyscheduler.runtime.permit.release import PermitReleases
from pyscheduler.runtime.preemption.disruption import delete_with_condition
from pyscheduler_batch.sessions import eviction
from pyscheduler_batch.sessions.gang_barrier import GangBarrier
from tests.batch.sessions.test_passes import Jobs, add, begin, nodes_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework import CycleState
    from pyscheduler.testing import FakeCluster
    from pyscheduler_batch.model.batch_plugin import TaskFacts
    from pyscheduler_batch.model.job_spec import JobSpec


class Turns:
    """Counts how often something happens in each turn of the event loop in which it happens."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self._is_new = True

    def note(self) -> None:
        """Count one in this turn."""
        if self._is_new:
            self._is_new = False
            self.counts.append(0)
            asyncio.get_running_loop().call_soon(self._end)
        self.counts[-1] += 1

    def _end(self) -> None:
        self._is_new = True


@pytest.fixture
def always_due(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each turn due that a session could take: no work takes any virtual time."""

    async def yield_at_once(_: CooperativeYield) -> None:
        await asyncio.sleep(0)

    monkeypatch.setattr(CooperativeYield, "yield_if_due", yield_at_once)


class Noted(ReservePlugin, PreBindPlugin):
    """Notes in which turn a pod is reserved for real, and prepared."""

    name: ClassVar[str] = "Noted"
    reserved: ClassVar[Turns]
    prepared: ClassVar[Turns]
    #: The names of the pods that cannot be reserved, and of those that are.
    refused: ClassVar[set[str]]
    held: ClassVar[set[str]]

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        if state.trial is None:
            if pod.name in self.refused:
                return Status.unschedulable("no")
            self.reserved.note()
            self.held.add(pod.name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        if state.trial is None:
            self.held.discard(pod.name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        self.prepared.note()
        return None


@pytest.fixture(autouse=True)
def fresh() -> None:
    """Forget what earlier tests noted."""
    Noted.reserved, Noted.prepared, Noted.refused, Noted.held = Turns(), Turns(), set(), set()


@pytest.mark.slow
@pytest.mark.usefixtures("always_due")
async def test_a_large_gang_is_reserved_and_prepared_in_turns(cluster: FakeCluster) -> None:
    """Other tasks run between any two reservations of a gang, and after at most 50 of its binding cycles."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "1000"})
    await begin(cluster, Noted)
    names = add(cluster, "large", members=120)
    await cluster.clock.advance(5)
    assert nodes_of(cluster, names) == ["n1"] * 120
    assert sum(Noted.reserved.counts) == sum(Noted.prepared.counts) == 120
    assert max(Noted.reserved.counts) == 1
    assert max(Noted.prepared.counts) <= 50


class ReadInTurns(Jobs):
    """Notes in which turn a pod is read into the tables."""

    read: ClassVar[Turns]

    def are_plain(self, spec: JobSpec, pods: Sequence[Pod]) -> bool:
        return False

    def task_facts(self, spec: JobSpec, pod: Pod) -> TaskFacts:
        self.read.note()
        return super().task_facts(spec, pod)


@pytest.mark.slow
@pytest.mark.usefixtures("always_due")
async def test_the_pods_of_a_large_job_are_read_in_turns(cluster: FakeCluster) -> None:
    """The tables read at most 256 pods of one job in one turn."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "1000"})
    ReadInTurns.read = Turns()
    names = add(cluster, "large", members=300)
    await begin(cluster, jobs=ReadInTurns)
    await cluster.clock.advance(5)
    assert nodes_of(cluster, names) == ["n1"] * 300
    assert sum(ReadInTurns.read.counts) >= 300
    assert max(ReadInTurns.read.counts) <= 256


@pytest.mark.usefixtures("always_due")
async def test_a_gang_that_cannot_be_reserved_is_taken_back(cluster: FakeCluster) -> None:
    """If the last pod of a gang cannot be reserved, the others give back what they hold; all are bound later."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "1000"})
    await begin(cluster, Noted)
    Noted.refused = {"large-49"}
    names = add(cluster, "large", members=50)
    await cluster.clock.advance(0.5)
    assert sum(Noted.reserved.counts) >= 49
    assert not any(nodes_of(cluster, names))
    assert not Noted.held
    Noted.refused = set()
    await cluster.clock.advance(60)
    assert nodes_of(cluster, names) == ["n1"] * 50


async def test_a_scheduler_that_stops_amid_a_gang_gives_all_back(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No pod stays reserved, neither those of the gang nor those of jobs that were reserved before it."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "1000"})
    framework = await begin(cluster, Noted)
    amid = asyncio.Event()

    async def wait_amid(_: CooperativeYield) -> None:
        if sum(Noted.reserved.counts) >= 10:
            amid.set()
            await asyncio.Event().wait()

    monkeypatch.setattr(CooperativeYield, "yield_if_due", wait_amid)
    names = [*add(cluster, "first", members=2), *add(cluster, "large", members=20)]
    await cluster.clock.advance(0.5)
    assert amid.is_set()
    assert len(Noted.held) == 10
    stop = asyncio.create_task(framework.close())
    await cluster.clock.advance(60)
    await stop
    assert not Noted.held
    assert not any(nodes_of(cluster, names))


async def test_a_barrier_lets_a_few_members_go_on_at_once() -> None:
    """The members of a large gang go on in several turns of the loop once the last one is prepared."""
    members = [f"m-{number}" for number in range(500)]
    turns, barrier = Turns(), GangBarrier(members, len(members), PermitReleases())

    async def go(uid: str) -> None:
        assert await barrier.wait(uid) is None
        turns.note()

    await asyncio.gather(*(go(uid) for uid in members))
    assert sum(turns.counts) == 500
    assert max(turns.counts) <= 100


async def test_a_barrier_survives_members_that_are_cancelled() -> None:
    """A member whose binding is cancelled while it waits does not hold the others up."""
    barrier = GangBarrier(["a", "b", "c"], 2, PermitReleases())
    first = asyncio.create_task(barrier.wait("a"))
    await asyncio.sleep(0)
    first.cancel()
    await asyncio.sleep(0)
    assert await barrier.wait("b") is None


@pytest.mark.slow
async def test_many_victims_are_evicted_in_turns(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the nomination is written, at most 50 victims of one job are marked in one turn, and deleted in one."""
    cluster.add_node("n1", allocatable={"cpu": "1000", "pods": "121"})
    await begin(cluster)
    low = add(cluster, "low", members=120)
    await cluster.clock.advance(5)
    assert nodes_of(cluster, low) == ["n1"] * 120
    begun, marked = Turns(), Turns()

    async def delete(*args: Any, between: Callable[[], Awaitable[object]], **keywords: Any) -> bool:
        async def wait() -> None:
            await between()
            marked.note()

        begun.note()
        return await delete_with_condition(*args, between=wait, **keywords)

    monkeypatch.setattr(eviction, "delete_with_condition", delete)
    add(cluster, "high", members=1, priority=10, cpu="1000")
    await cluster.clock.advance(5)
    assert all(cluster.pod(name).is_terminating for name in low)
    for turns in (begun, marked):
        assert sum(turns.counts) == 120
        assert max(turns.counts) <= 50
