"""Work for the loop: sources take turns, a third kind of work needs no change of the loop, and no pod is lost."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from kube_testserver.serving.faults import Fault
from pyscheduler.api import Pod
from pyscheduler.queue.sub_queues import QueuePlace
from pyscheduler.scheduler.debugger import Debugger
from pyscheduler.scheduler.work import Work, WorkResult, WorkSources
from tests.scheduler.measured import Measured

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyscheduler.framework import QueuedPodInfo
    from pyscheduler.scheduler.scheduler import Scheduler
    from pyscheduler.testing import FakeCluster

CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: pyscheduler
  plugins: {multiPoint: {enabled: [%s]}}
- schedulerName: batch
"""


class Jobs:
    """A source of another kind: pods of the profile `batch` wait until their job has `size` of them."""

    held_profiles = ("batch",)

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.done: list[str] = []
        #: Jobs that raise, and jobs whose decision is dropped, once.
        self.broken: list[str] = []
        self.dropped: list[str] = []

    @property
    def has_work(self) -> bool:
        return next(self._due(), None) is not None

    def next(self) -> Work | None:
        name = next(self._due(), None)
        return None if name is None else Work(f"job={name}", partial(self._schedule, name))

    async def _schedule(self, job: str, has_waited: bool) -> WorkResult:
        """Take all held pods of a job by name and place them one after the other."""
        taken = self.scheduler.queue.take([info.pod for info in self.ready(job)])
        if job in self.broken:
            self.broken.remove(job)
            raise RuntimeError("this job has a bug")
        if job in self.dropped:
            self.dropped.remove(job)
            for info in taken:
                self.scheduler.queue.put_back(info)
            return WorkResult()
        profile = self.scheduler.profiles["batch"]
        attempts = [await self.scheduler.scheduling.run_scheduling_cycle(profile, info) for info in taken]
        self.done.append(job)
        return WorkResult([attempt for attempt in attempts if attempt is not None])

    def ready(self, job: str) -> list[QueuedPodInfo]:
        held = self.scheduler.queue.sub_queues.held.values()
        return [info for info in held if info.pod.labels["job"] == job]

    def _due(self) -> Iterator[str]:
        for info in self.scheduler.queue.sub_queues.held.values():
            job = info.pod.labels["job"]
            if len(self.ready(job)) >= int(info.pod.labels["size"]):
                yield job


def add(cluster: FakeCluster, job: str, *, size: int = 1, members: int = 1, cpu: str = "1") -> list[str]:
    """Create pods of a job; return their names."""
    names = [f"{job}-{number}" for number in range(members)]
    for name in names:
        labels = {"job": job, "size": str(size)}
        cluster.add_pod(name, requests={"cpu": cpu}, labels=labels, scheduler_name="batch")
    return names


async def begin(cluster: FakeCluster) -> tuple[Measured, Jobs]:
    """Start a scheduler with a third kind of work."""
    measured = Measured(cluster, config=CONFIG)
    jobs = Jobs(measured.scheduler)
    measured.scheduler.add_source(jobs)
    await measured.start()
    return measured, jobs


def place(scheduler: Scheduler, cluster: FakeCluster, name: str) -> QueuePlace | None:
    """Return where a pod waits."""
    return scheduler.queue.place_of(cluster.pod(name).uid)


@pytest.mark.slow
async def test_another_kind_of_work_takes_held_pods_by_name(cluster: FakeCluster) -> None:
    """A job waits until it is complete and is bound then, while the loop schedules other pods as before."""
    cluster.add_node("n1", allocatable={"cpu": "8"})
    measured, jobs = await begin(cluster)
    first = add(cluster, "a", size=3, members=2)
    cluster.add_pod("plain", requests={"cpu": "1"})
    await cluster.clock.advance(1)
    assert cluster.pod("plain").node_name == "n1"
    assert [place(measured.scheduler, cluster, name) for name in first] == [QueuePlace.HELD] * 2
    assert measured.values("scheduler_pending_pods", by="queue")["held"] == 2
    assert measured.scheduler.idle
    add(cluster, "b", size=1)
    cluster.add_pod("a-2", requests={"cpu": "1"}, labels={"job": "a", "size": "3"}, scheduler_name="batch")
    await cluster.clock.advance(1)
    assert [cluster.pod(name).node_name for name in (*first, "a-2", "b-0")] == ["n1"] * 4
    assert sorted(jobs.done) == ["a", "b"]
    assert measured.values("scheduler_pending_pods", by="queue")["held"] == 0
    assert measured.values("scheduler_pod_scheduling_attempts_sum", by="")[""] == 5, "each pod took one attempt"
    measured.scheduler.check_invariants()
    await measured.stop()


async def test_a_rejected_held_pod_waits_for_a_hint(cluster: FakeCluster) -> None:
    """It gets its event and condition, waits for an event that helps, and its job is tried again then."""
    cluster.add_node("n1", allocatable={"cpu": "1"})
    measured, jobs = await begin(cluster)
    (name,) = add(cluster, "big", cpu="4")
    await cluster.clock.advance(1)
    assert place(measured.scheduler, cluster, name) is QueuePlace.UNSCHEDULABLE
    assert [condition.reason for condition in cluster.pod(name).status.conditions] == ["Unschedulable"]
    queued = measured.scheduler.queue.get(cluster.pod(name).uid)
    assert queued is not None
    assert (queued.attempts, queued.unschedulable_plugins) == (1, {"NodeResourcesFit"})
    await cluster.clock.advance(20)
    assert jobs.done == ["big"], "nothing happened that could help"
    cluster.add_node("n2", allocatable={"cpu": "8"})
    await cluster.clock.advance(1)
    assert (cluster.pod(name).node_name, jobs.done) == ("n2", ["big", "big"])
    assert measured.values("scheduler_pod_scheduling_attempts_sum", by="")[""] == 2
    await measured.stop()


async def test_a_held_pod_returns_after_a_failed_binding(cluster: FakeCluster) -> None:
    """The error counts as an attempt, and the pod is held again when its backoff is over."""
    cluster.add_node("n1", allocatable={"cpu": "8"})
    measured, jobs = await begin(cluster)
    cluster.server.faults.add(Fault(path="/binding$", status=403))
    (name,) = add(cluster, "a")
    await cluster.clock.advance(0.5)
    cluster.server.faults.clear()
    assert place(measured.scheduler, cluster, name) is QueuePlace.BACKOFF
    await cluster.clock.advance(10)
    assert (cluster.pod(name).node_name, jobs.done) == ("n1", ["a", "a"])
    await measured.stop()


async def test_a_deleted_held_pod_is_forgotten(cluster: FakeCluster) -> None:
    """Deletion removes a held pod from the queue; an update is there when its job is complete."""
    cluster.add_node("n1", allocatable={"cpu": "8"})
    measured, jobs = await begin(cluster)
    gone, stays = add(cluster, "a", size=2, members=1)[0], add(cluster, "b", size=2, members=1)[0]
    await cluster.clock.advance(1)
    uid = cluster.pod(gone).uid
    cluster.delete_pod(gone)
    cluster.patch(Pod, stays, {"metadata": {"labels": {"size": "1"}}})
    await cluster.clock.advance(1)
    assert measured.scheduler.queue.place_of(uid) is None
    assert (cluster.pod(stays).node_name, jobs.done) == ("n1", ["b"])
    await measured.stop()


async def test_a_failed_work_loses_no_pod(cluster: FakeCluster) -> None:
    """A bug in a work costs its pods one attempt: they return after a backoff, and the loop goes on."""
    cluster.add_node("n1", allocatable={"cpu": "8"})
    measured, jobs = await begin(cluster)
    jobs.broken.append("a")
    names = add(cluster, "a", size=2, members=2)
    cluster.add_pod("plain", requests={"cpu": "1"})
    await cluster.clock.advance(0.5)
    assert cluster.pod("plain").node_name == "n1"
    assert [place(measured.scheduler, cluster, name) for name in names] == [QueuePlace.BACKOFF] * 2
    assert measured.warnings() == {"schedule_one_failed": 1}
    await cluster.clock.advance(10)
    assert [cluster.pod(name).node_name for name in names] == ["n1"] * 2
    assert measured.values("scheduler_pod_scheduling_attempts_sum", by="")[""] == 5
    await measured.stop()


async def test_a_dropped_decision_costs_no_attempt(cluster: FakeCluster) -> None:
    """Pods that are put back are held at once, and the next decision takes them."""
    cluster.add_node("n1", allocatable={"cpu": "8"})
    measured, jobs = await begin(cluster)
    jobs.dropped.append("a")
    (name,) = add(cluster, "a")
    await cluster.clock.advance(0.5)
    assert (cluster.pod(name).node_name, jobs.done) == ("n1", ["a"])
    assert measured.values("scheduler_pod_scheduling_attempts_sum", by="")[""] == 1
    await measured.stop()


async def test_the_debugger_shows_held_pods(cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
    """The dump counts and lists them, and the comparison with the API server finds them known."""
    measured, _ = await begin(cluster)
    add(cluster, "a", size=2)
    await cluster.clock.advance(0)
    debugger = Debugger(measured.scheduler)
    await debugger.dump()
    assert "summary=activeQ:0; backoffQ:0; unschedulablePods:0; heldPods:1" in caplog.text
    assert "pod=default/a-0 queue=held" in caplog.text
    comparing = asyncio.create_task(debugger.compare())
    await cluster.clock.advance(5)
    assert not await comparing
    await measured.stop()


# The sources alone


class Numbers:
    """A source that hands out names."""

    held_profiles = ()

    def __init__(self, letter: str, count: int) -> None:
        self.names = [f"{letter}{number}" for number in range(count)]

    @property
    def has_work(self) -> bool:
        return bool(self.names)

    def next(self) -> Any:
        return self.names.pop(0) if self.names else None


async def test_sources_take_turns() -> None:
    """A source with much work does not starve another one."""
    work = WorkSources()
    work.add(Numbers("b", 2))
    work.add(Numbers("a", 4))
    assert work.has_work
    assert [await work.next() for _ in range(6)] == ["a0", "b0", "a1", "b1", "a2", "a3"]
    assert not work.has_work


async def test_next_waits_until_a_source_has_work() -> None:
    """`wake` ends the wait only if some source has work; cancelling the wait loses none."""
    work, source = WorkSources(), Numbers("a", 0)
    work.add(source)
    waiting = asyncio.create_task(work.next())
    await asyncio.sleep(0)
    work.wake()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    waiting.cancel()
    await asyncio.gather(waiting, return_exceptions=True)
    source.names.append("a0")
    work.wake()
    assert await asyncio.wait_for(work.next(), 5) == "a0"


async def test_close_ends_a_waiting_next() -> None:
    """A waiting `next` returns None, and so does every later one, also if a source has work."""
    work = WorkSources()
    waiting = asyncio.create_task(work.next())
    await asyncio.sleep(0)
    work.close()
    assert await waiting is None
    work.add(Numbers("a", 1))
    assert await work.next() is None
