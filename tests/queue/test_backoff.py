"""Backoff: how long, in which order, and when it is over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.backoff import BackoffQueue

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.conftest import Kit


@pytest.fixture
def make_backoff(kit: Kit) -> Callable[..., BackoffQueue]:
    """Make backoff queues on the kit's clock."""

    def make(initial_seconds: float = 1, max_seconds: float = 10, *, pop_early: bool = True) -> BackoffQueue:
        return BackoffQueue(
            clock=kit.clock,
            recorder=kit.recorder,
            sort_key=lambda info: (-info.pod.priority, info.enqueued_at),
            initial_seconds=initial_seconds,
            max_seconds=max_seconds,
            pop_early=pop_early,
        )

    return make


@pytest.fixture
def queued(kit: Kit) -> Callable[..., QueuedPodInfo]:
    """Make pods that came back at a time, rejected or failed so many times."""

    def make(
        name: str = "p", at: float = 1000.0, *, rejections: int = 0, errors: int = 0, priority: int = 0
    ) -> QueuedPodInfo:
        return QueuedPodInfo(
            pod_info=kit.info(kit.pod(name, priority=priority)),
            enqueued_at=at,
            unschedulable_count=rejections,
            consecutive_errors=errors,
            unschedulable_plugins=set() if errors else {"A"},
        )

    return make


@pytest.mark.parametrize(
    ("initial", "longest", "failures", "seconds"),
    [
        pytest.param(1, 10, 0, 0, id="no failure, no backoff"),
        pytest.param(1, 10, 1, 1, id="the initial backoff"),
        pytest.param(1, 10, 2, 2, id="doubled"),
        pytest.param(1, 10, 4, 8, id="doubled three times"),
        pytest.param(1, 10, 5, 10, id="at most the maximum"),
        pytest.param(3, 1000, 5, 48, id="three seconds doubled four times"),
        pytest.param(1, 10, 2000, 10, id="after thousands of failures"),
        pytest.param(20, 10, 1, 10, id="an initial backoff beyond the maximum"),
        pytest.param(0, 10, 3, 0, id="an initial backoff of nothing"),
    ],
)
def test_backoff_doubles_up_to_the_maximum(
    make_backoff: Callable[..., BackoffQueue], initial: float, longest: float, failures: int, seconds: float
) -> None:
    """The wait grows with the number of failures."""
    assert make_backoff(initial, longest).duration(failures) == seconds


@pytest.mark.parametrize("errors", [0, 1])
def test_a_pod_can_be_found_changed_and_removed(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo], errors: int
) -> None:
    """Both heaps look like one queue."""
    backoff = make_backoff()
    info = queued(rejections=1, errors=errors)
    backoff.add(info, "test")
    assert "uid-p" in backoff
    assert backoff.get("uid-p") is info
    info.enqueued_at = 500.0
    backoff.resort([info])
    backoff.check_invariants()
    assert len(backoff) == 1
    assert backoff.remove("uid-p") is info
    assert backoff.remove("uid-p") is None
    assert "uid-p" not in backoff


@pytest.mark.parametrize(
    ("pop_early", "start", "tick"),
    [
        pytest.param(True, 1000.25, 1002.0, id="at the whole second after its window"),
        pytest.param(False, 1000.25, 1002.25, id="at the next second counted from the start"),
    ],
)
def test_one_timer_for_the_next_end(
    make_backoff: Callable[..., BackoffQueue],
    queued: Callable[..., QueuedPodInfo],
    kit: Kit,
    pop_early: bool,
    start: float,
    tick: float,
) -> None:
    """The timer is set for the tick at which the first pod leaves, and there is none while nobody is in backoff."""
    kit.clock.time = start
    backoff = make_backoff(pop_early=pop_early)
    ticks: list[float] = []
    backoff.start(ticks.append)
    assert kit.clock.pending == []
    backoff.add(queued("late", 1000.5, rejections=4), "test")
    backoff.add(queued("soon", 1000.5, rejections=1), "test")
    assert kit.clock.pending == [tick]
    backoff.stop()
    assert kit.clock.pending == []


def test_a_start_finds_the_pods_that_are_there(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo], kit: Kit
) -> None:
    """Pods that went into backoff before the start are flushed like any others."""
    backoff = make_backoff()
    backoff.add(queued(errors=1), "test")
    assert kit.clock.pending == []
    backoff.start(lambda _: None)
    assert kit.clock.pending == [1002.0]
