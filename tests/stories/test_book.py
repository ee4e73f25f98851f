"""The stories of pods: runs of equal reasons, the ring of finished stories, and the lines about changes."""

from __future__ import annotations

import asyncio
import logging
import random
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from kube_testserver.serving.faults import Fault
from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler.config.load import load
from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo
from pyscheduler.scheduler.assembly import Settings, build
from pyscheduler.scheduler.scheduler import Scheduler
from pyscheduler.stories.book import StoryBook
from pyscheduler.testing import FakeCluster

PROFILE = "pyscheduler"
NO_NODE = "0/5000 nodes are available: 4000 Insufficient cpu, 1000 node(s) had untolerated taint(s)."


def pod_of(name: str, uid: str = "") -> Pod:
    """Return a pod without anything to schedule."""
    uid = uid or f"{name}-7f1c1a0e-6c1b-4b5e-9a1f-1d2e3f4a5b6c"
    return Pod(metadata=ObjectMeta(name=name, namespace="web", uid=uid), spec=PodSpec(scheduler_name=PROFILE))


def queued(name: str, gate: str = "SchedulingGates") -> QueuedPodInfo:
    """Return a pod in the queue, which a plugin keeps out of the active queue."""
    return QueuedPodInfo(pod_info=PodInfo.of(pod_of(name)), enqueued_at=0.0, gating_plugin=gate)


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock that a test advances."""
    return VirtualClock()


@pytest.fixture
def book(clock: VirtualClock) -> StoryBook:
    """Return the book of a leader."""
    found = StoryBook(clock)
    found.begin()
    return found


async def test_repeated_reason_is_counted(book: StoryBook, clock: VirtualClock) -> None:
    """The same reason of the same plugins is one run, with the newest message; other plugins begin another."""
    pod = pod_of("p")
    for number in range(3):
        book.waits(pod, "Unschedulable", f"0/{number} nodes", plugins=("NodeResourcesFit",))
        await clock.advance(10)
    book.waits(pod, "Unschedulable", "tainted", plugins=("TaintToleration",))
    (story,) = book.of("web/p")
    first, second = story.runs
    assert (first.count, first.message, first.last - first.first) == (3, "0/2 nodes", 20)
    assert (second.count, second.plugins) == (1, ("TaintToleration",))
    assert story.is_pending


def test_a_story_that_changes_all_the_time_stays_small(book: StoryBook) -> None:
    """The first four runs and the newest ones are kept, and the number of the others."""
    pod = pod_of("p")
    for number in range(100):
        book.waits(pod, "Unschedulable", "x" * 2000, plugins=(f"P{number}",))
    (story,) = book.of("web/p")
    assert [run.plugins[0] for run in story.runs[:5]] == ["P0", "P1", "P2", "P3", "P80"]
    assert (len(story.runs), story.omitted, story.runs[-1].plugins) == (24, 76, ("P99",))
    assert [len(run.message) for run in story.runs[-2:]] == [300, 1024]


def test_text_that_cannot_be_encoded_is_no_error(book: StoryBook) -> None:
    """A plugin's text may have half a surrogate pair; the story ends all the same."""
    book.waits(pod_of("p"), "Unschedulable", "\u00e9t\u00e9 \ud800 \U0001f600")
    book.bound(pod_of("p"), "n")
    (story,) = book.of("web/p")
    assert story.runs[0].message == "\u00e9t\u00e9 ? \U0001f600"


def test_records_of_one_pod_are_one_story(book: StoryBook) -> None:
    """A preemption after the binding is part of the same story. A later pod of the same name has its own story."""
    book.waits(pod_of("p", "1"), "Unschedulable", NO_NODE)
    book.bound(pod_of("p", "1"), "cpu-1")
    book.ended(pod_of("p", "1"), "Preempted", node="cpu-1", others=("ml/train",))
    book.waits(pod_of("p", "2"), "Unschedulable", NO_NODE)
    book.waits(pod_of("pp", "3"), "Unschedulable", NO_NODE)
    stories = {story.uid: [run.reason for run in story.runs] for story in book.of("web/p")}
    assert stories == {"1": ["Unschedulable", "Scheduled", "Preempted"], "2": ["Unschedulable"]}
    assert [story.is_pending for story in book.of("web/p") if story.uid == "1"] == [False]


def test_ring_forgets_the_oldest(clock: VirtualClock) -> None:
    """The number of finished stories is limited; the count of bytes follows."""
    book = StoryBook(clock, most_finished=10)
    book.begin()
    for number in range(30):
        book.waits(pod_of(f"p{number}"), "Unschedulable", NO_NODE)
        book.bound(pod_of(f"p{number}"), "n")
    assert len(book._finished) == 10
    assert not book.of("web/p19")
    assert len(book.of("web/p20")) == 1
    assert 0 < book.bytes() < 10 * 500


def test_standby_keeps_no_finished_stories(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """It knows since when pods wait, and leaves the lines to the leader."""
    caplog.set_level(logging.INFO, logger="decision")
    book = StoryBook(clock)
    book.waits(pod_of("p"), "SchedulingGated")
    book.waits(pod_of("q"), "SchedulingGated")
    book.bound(pod_of("p"), "n")
    assert [story.pod for story in book.pending.values()] == ["web/q"]
    assert (len(book._finished), caplog.messages) == (0, [])


async def test_new_leader_logs_the_reasons_that_it_knows(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """The gates that a standby has seen are logged in chunks, unless the gate was removed or the reason changes."""
    caplog.set_level(logging.INFO, logger="decision")
    book = StoryBook(clock)
    for number in range(201):
        book.moved(queued(f"p{number}"), "unschedulable", "UnschedulablePodAdd")
    book.moved(queued("last"), "unschedulable", "UnschedulablePodAdd")
    book.moved(queued("open"), "unschedulable", "UnschedulablePodAdd")
    book.moved(queued("open", ""), "active", "UnschedulablePodUpdate")
    book.begin()
    assert len(caplog.messages) == 200
    assert "pod=web/p0 " in caplog.messages[0]
    book.waits(pod_of("last"), "Unschedulable")
    await clock.advance(1)
    assert len(caplog.messages) == 202
    assert "before=SchedulingGated" in caplog.messages[200]
    assert "pod=web/p200 " in caplog.messages[201]


async def test_counts_are_logged_seldom(book: StoryBook, clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A count that is a power of two is logged, and the first one of each ten minutes."""
    caplog.set_level(logging.INFO, logger="decision")
    logged = []
    for number in range(1, 201):
        caplog.clear()
        book.waits(pod_of("p"), "Unschedulable", NO_NODE)
        logged += [number] * len(caplog.messages)
        await clock.advance(10)
    assert logged == [1, 2, 4, 8, 16, 32, 61, 64, 121, 128, 181]


async def test_final_counts_are_logged_at_the_end(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """A leader that stops logs a line for each pod that waits, and lets others work meanwhile; a standby logs none."""
    caplog.set_level(logging.INFO, logger="decision")
    book = StoryBook(clock)
    for number in range(300):
        book.waits(pod_of(f"p{number}"), "SchedulingGated")
    await book.close()
    assert caplog.messages == []
    book.begin()
    await clock.advance(1)
    book.waits(pod_of("p0"), "SchedulingGated")
    book.bound(pod_of("p1"), "n")
    caplog.clear()
    closing = asyncio.create_task(book.close())
    await asyncio.sleep(0)
    assert len(caplog.messages) == 200
    await closing
    assert len(caplog.messages) == 299
    first = caplog.messages[0]
    assert first.startswith("Pod story closed pod=web/p0 ")
    assert "since=2026-01-01T00:00:00.000000Z last=2026-01-01T00:00:01.000000Z count=2" in first


@pytest.mark.slow
def test_memory_of_many_stories(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """Stories of 10,000 pending and 50,000 finished pods take at most 32 MiB, and the metric says about how much."""
    caplog.set_level(logging.WARNING, logger="decision")  # captured lines would be counted, too
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        book = StoryBook(clock)
        book.begin()
        for number in range(60_000):
            pod = pod_of(f"frontend-7d4b9c6f5d-{number:05d}")
            message = NO_NODE.replace("4000", str(number))
            book.waits(pod, "Unschedulable", message, plugins=("NodeResourcesFit", "TaintToleration"))
            if number < 50_000:
                book.bound(pod, f"node-{number % 5000}")
        used = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(book.pending) == 10_000
    assert len(book._finished) == 50_000
    assert used <= 32 << 20
    assert used * 0.7 <= book.bytes() <= used * 1.3


# --- with a scheduler ----------------------------------------------------------------------------


@pytest.fixture
async def scheduler(cluster: FakeCluster) -> AsyncIterator[Scheduler]:
    """Run a scheduler with a book on a cluster of one node of two CPUs."""
    cluster.add_node("n1", allocatable={"cpu": "2"})
    book = StoryBook(cluster.clock)
    made = build(load(None), cluster.transport(), cluster.clock, random.Random(1), settings=Settings(stories=book))
    await made.start()
    loop = asyncio.create_task(made.run())
    yield made
    stop = asyncio.create_task(made.stop())
    await cluster.clock.advance(20)
    await stop
    await loop


def runs(scheduler: Scheduler, name: str) -> list[tuple[str, int, tuple[str, ...], str]]:
    """Return reason, count, plugins and node of each run of a pod's story."""
    assert isinstance(scheduler.stories, StoryBook)
    (story,) = scheduler.stories.of(f"default/{name}")
    return [(run.reason, run.count, run.plugins, run.node) for run in story.runs]


async def test_story_of_a_pod_without_room(
    cluster: FakeCluster, scheduler: Scheduler, caplog: pytest.LogCaptureFixture
) -> None:
    """It has the reason, the event that woke the pod, and its node; each change is a line."""
    caplog.set_level(logging.INFO, logger="decision")
    pod = cluster.add_pod("p", requests={"cpu": "4"})
    await cluster.clock.advance(1)
    cluster.add_node(
        "n2", allocatable={"cpu": "8"}, taints=[{"key": "only", "value": "others", "effect": "NoSchedule"}]
    )
    await cluster.clock.advance(30)
    waits = [
        ("Unschedulable", 1, ("NodeResourcesFit",), ""),
        ("Unschedulable", 1, ("NodeResourcesFit", "TaintToleration"), ""),
    ]
    assert runs(scheduler, "p") == waits
    assert isinstance(scheduler.stories, StoryBook)
    assert scheduler.stories.of("default/p")[0].runs[0].woken == {"NodeAdd": 1}
    assert [*scheduler.stories.oldest()] == [(PROFILE, "unschedulable", "Unschedulable")]
    cluster.add_node("n3", allocatable={"cpu": "8"})
    await cluster.clock.advance(30)
    assert runs(scheduler, "p") == [*waits, ("Scheduled", 1, (), "n3")]
    assert not scheduler.stories.pending
    first, _, last = caplog.messages
    assert f"pod=default/p uid={pod.uid} profile={PROFILE} reason=Unschedulable" in first
    assert 'queue=unschedulable message="0/1 nodes are available: 1 Insufficient cpu. no new claims' in first
    assert first.endswith('1 Preemption is not helpful for scheduling."')
    assert "reason=Scheduled" in last
    assert "node=n3 queue=active before=Unschedulable beforeCount=1" in last
    assert "beforeWokenBy=NodeAdd:1" in last


async def test_story_of_a_gated_pod_and_of_a_deleted_one(cluster: FakeCluster, scheduler: Scheduler) -> None:
    """A gate is a reason with its plugin; a deletion ends the story."""
    cluster.add_pod("p", scheduling_gates=["example.com/wait"])
    await cluster.clock.advance(1)
    assert [run[:3] for run in runs(scheduler, "p")] == [("SchedulingGated", 1, ("SchedulingGates",))]
    assert isinstance(scheduler.stories, StoryBook)
    assert [*scheduler.stories.oldest()] == [(PROFILE, "gated", "SchedulingGated")]
    cluster.delete_pod("p")
    await cluster.clock.advance(1)
    assert [run[0] for run in runs(scheduler, "p")] == ["SchedulingGated", "Deleted"]


async def test_stories_of_preemptor_and_victim(cluster: FakeCluster, scheduler: Scheduler) -> None:
    """The preemptor's story names its victims and its nomination, the victim's story names the preemptor."""
    cluster.add_pod("low", requests={"cpu": "2"}, priority=1)
    await cluster.clock.advance(1)
    cluster.add_pod("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(1)
    cluster.delete_pod("low")
    await cluster.clock.advance(20)
    assert runs(scheduler, "high") == [
        ("Unschedulable", 1, ("NodeResourcesFit",), "n1"),
        ("Scheduled", 1, (), "n1"),
    ]
    assert isinstance(scheduler.stories, StoryBook)
    assert scheduler.stories.of("default/high")[0].runs[0].others == ("default/low",)
    (victim,) = scheduler.stories.of("default/low")
    assert [(run.reason, run.others) for run in victim.runs] == [("Scheduled", ()), ("Preempted", ("default/high",))]


async def test_victim_has_a_record_once_it_is_evicted(cluster: FakeCluster, scheduler: Scheduler) -> None:
    """A refused eviction leaves none in the victim's story; the preemptor's story names the chosen victim."""
    cluster.server.faults.add(Fault(method="DELETE", path=r"/pods/low$", status=403, times=1))
    cluster.add_pod("low", requests={"cpu": "2"}, priority=1)
    await cluster.clock.advance(1)
    cluster.add_pod("high", requests={"cpu": "2"}, priority=10)
    await cluster.clock.advance(0.5)
    assert isinstance(scheduler.stories, StoryBook)
    assert scheduler.stories.of("default/high")[0].runs[0].others == ("default/low",)
    assert [run[0] for run in runs(scheduler, "low")] == ["Scheduled"]
    await cluster.clock.advance(30)
    assert [run[0] for run in runs(scheduler, "low")] == ["Scheduled", "Preempted"]
