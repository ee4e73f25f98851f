"""The gauges of stories: how long the oldest pods wait, and the memory of all stories."""

from __future__ import annotations

import time

import pytest

from kube_testserver.virtual_time import VirtualClock
from pyscheduler.api import ObjectMeta, Pod, PodSpec
from pyscheduler.stories.book import StoryBook
from pyscheduler.stories.gauges import register_gauges
from pyscheduler.telemetry.metrics import Metrics
from tests.cpu import slowness

OLDEST = "pyscheduler_oldest_pending_seconds"
REASONS = ("Unschedulable", "SchedulerError", "WaitingOnPermit")


def pod_of(name: str, profile: str = "a") -> Pod:
    """Return a pod without anything to schedule."""
    return Pod(metadata=ObjectMeta(name=name, namespace="web", uid=name), spec=PodSpec(scheduler_name=profile))


@pytest.fixture
def clock() -> VirtualClock:
    """Return a clock that a test advances."""
    return VirtualClock()


@pytest.fixture
def book(clock: VirtualClock) -> StoryBook:
    """Return the book of a standby."""
    return StoryBook(clock)


@pytest.fixture
def metrics(book: StoryBook) -> Metrics:
    """Return the metrics with the gauges of the book."""
    found = Metrics()
    register_gauges(found, book)
    return found


def shown(metrics: Metrics, name: str) -> dict[str, float]:
    """Return the series of a family, by their labels as the page writes them."""
    lines = [line for line in metrics.render()[0].decode().splitlines() if line.startswith(name)]
    return {line.rpartition(" ")[0].removeprefix(name): float(line.rpartition(" ")[2]) for line in lines}


async def test_oldest_pod_of_each_reason_is_shown(metrics: Metrics, book: StoryBook, clock: VirtualClock) -> None:
    """The longest wait counts for each reason; a series ends with its last pod."""
    book.begin()
    first, second, third = (pod_of(name) for name in ("first", "second", "third"))
    book.waits(first, "Unschedulable")
    await clock.advance(10)
    book.waits(second, "Unschedulable")
    book.waits(third, "SchedulerError")
    await clock.advance(5)
    labels = '{profile="a",queue="",reason="%s"}'
    assert shown(metrics, OLDEST) == {labels % "Unschedulable": 15, labels % "SchedulerError": 5}
    book.bound(first, "n")
    book.deleted(third)
    assert shown(metrics, OLDEST) == {labels % "Unschedulable": 5}


async def test_standby_shows_no_waits(metrics: Metrics, book: StoryBook, clock: VirtualClock) -> None:
    """A standby sees pending pods and does not know why they wait; as a leader, it knows since when."""
    book.waits(pod_of("p"), "Unschedulable")
    await clock.advance(10)
    assert shown(metrics, OLDEST) == {}
    book.begin()
    assert [*shown(metrics, OLDEST).values()] == [10]


def test_bytes_grow_with_stories(metrics: Metrics, book: StoryBook) -> None:
    """Pending and finished stories take memory, and the gauge shows how much."""
    book.begin()
    (empty,) = shown(metrics, "pyscheduler_stories_bytes").values()
    for number in range(100):
        book.waits(pod_of(f"p{number}"), "Unschedulable", "0/5000 nodes are available: 5000 Insufficient cpu.")
    (pending,) = shown(metrics, "pyscheduler_stories_bytes").values()
    for number in range(100):
        book.bound(pod_of(f"p{number}"), "n")
    (finished,) = shown(metrics, "pyscheduler_stories_bytes").values()
    assert empty == 0
    assert pending > 100 * 300
    assert 100 * 100 < finished < pending


@pytest.mark.slow
def test_ten_thousand_pending_pods_cost_less_than_ten_milliseconds(book: StoryBook) -> None:
    """A scrape holds the event loop while it reads both gauges, once each."""
    book.begin()
    reads = {"oldest": 0, "bytes": 0}
    metrics = Metrics()

    class Counted(StoryBook):
        """Counts how often it is asked."""

        def oldest(self) -> dict[tuple[str, str, str], float]:
            reads["oldest"] += 1
            return book.oldest()

        def bytes(self) -> int:
            reads["bytes"] += 1
            return book.bytes()

    register_gauges(metrics, Counted(VirtualClock()))
    for number in range(10_000):
        book.waits(pod_of(f"p{number}", f"profile{number % 3}"), REASONS[number % 2], "0/5000 nodes", plugins=("Fit",))
    metrics.render()
    assert reads == {"oldest": 1, "bytes": 1}
    seconds = []
    for _ in range(5):
        slow = slowness()
        began = time.thread_time()
        book.oldest()
        book.bytes()
        seconds.append((time.thread_time() - began) / max(slow, slowness()))
    assert min(seconds) < 0.010
