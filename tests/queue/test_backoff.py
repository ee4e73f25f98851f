"""Backoff: how long, in which order, and when it is over."""

from __future__ import annotations

from math import inf
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


@pytest.mark.parametrize(
    ("rejections", "errors", "longest", "pop_early", "end"),
    [
        pytest.param(0, 0, 32, True, -inf, id="never failed"),
        pytest.param(16, 0, 32, True, 1032.0, id="by rejections"),
        pytest.param(5, 2, 32, True, 1002.0, id="errors go before rejections"),
        pytest.param(16, 0, 0, True, -inf, id="a maximum of 0 means no backoff at all"),
        pytest.param(2, 0, 32, False, 1002.75, id="exact, where pods are not popped early"),
        pytest.param(0, 3, 32, False, 1004.75, id="errors, exact"),
    ],
)
def test_end_of_backoff(
    make_backoff: Callable[..., BackoffQueue],
    queued: Callable[..., QueuedPodInfo],
    rejections: int,
    errors: int,
    longest: float,
    pop_early: bool,
    end: float,
) -> None:
    """It is counted from when the pod came back, and cut down to whole seconds where pods are popped early."""
    backoff = make_backoff(1, longest, pop_early=pop_early)
    info = queued(at=1000.75, rejections=rejections, errors=errors)
    assert backoff.end_of_backoff(info) == end
    assert backoff.end_of_backoff(info) == end


def test_end_of_backoff_is_kept_until_it_is_cleared(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo]
) -> None:
    """Once worked out it stays, until the next failure sets it back."""
    backoff = make_backoff()
    info = queued(rejections=1)
    info.backoff_until = 1234.0
    assert backoff.end_of_backoff(info) == 1234.0
    info.backoff_until = None
    assert backoff.end_of_backoff(info) == 1001.0


@pytest.mark.parametrize(
    ("pop_early", "now", "waits"),
    [
        pytest.param(True, 1001.0, True, id="before the window"),
        pytest.param(True, 1002.0, True, id="in the window in which it ends"),
        pytest.param(True, 1002.999, True, id="still in that window"),
        pytest.param(True, 1003.0, False, id="after the window"),
        pytest.param(False, 1002.5, True, id="exact: at its end"),
        pytest.param(False, 1002.501, False, id="exact: just after"),
    ],
)
def test_a_pod_backs_off_until_its_window_is_over(
    make_backoff: Callable[..., BackoffQueue],
    queued: Callable[..., QueuedPodInfo],
    pop_early: bool,
    now: float,
    waits: bool,
) -> None:
    """A window leaves as a whole; without windows the end itself still counts as waiting."""
    backoff = make_backoff(2, pop_early=pop_early)
    assert backoff.is_backing_off(queued(at=1000.5, rejections=1), now) is waits


@pytest.mark.parametrize(
    ("pop_early", "order"),
    [
        pytest.param(True, ["p5", "p4", "p2", "p3"], id="within a window by QueueSort"),
        pytest.param(False, ["p5", "p3", "p4", "p2"], id="by the end of backoff alone"),
    ],
)
def test_order_within_a_window(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo], pop_early: bool, order: list[str]
) -> None:
    """Pods popped early come out by priority within a second; pods whose backoff runs stay."""
    backoff = make_backoff(pop_early=pop_early)
    for name, at, priority in [
        ("p0", 1000.0, 1),
        ("p1", 999.0, 1),
        ("p2", 998.001, 2),
        ("p3", 998.0, 1),
        ("p4", 998.0, 2),
        ("p5", 997.0, 1),
    ]:
        backoff.add(queued(name, at, rejections=1, priority=priority), "test")
    backoff.check_invariants()
    assert [info.pod.name for info in backoff.pop_completed(1000.0)] == order
    assert len(backoff) == 2


@pytest.mark.parametrize("pop_early", [True, False])
def test_both_kinds_complete(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo], pop_early: bool
) -> None:
    """Rejected and failed pods leave when their backoff is over; the others stay."""
    backoff = make_backoff(pop_early=pop_early)
    for name, at, errors in [("old", 998, 0), ("new", 1001, 0), ("old error", 998, 1), ("new error", 1001, 1)]:
        backoff.add(queued(name, at, rejections=1, errors=errors), "test")
    assert {info.pod.name for info in backoff.in_order()[:2]} == {"old", "old error"}
    assert [info.pod.name for info in backoff.pop_completed(1000.0)] == ["old", "old error"]
    assert {info.pod.name for info in backoff} == {"new", "new error"}


def test_only_rejected_pods_are_popped_early(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo]
) -> None:
    """An error protects somebody from load, so its backoff is kept."""
    backoff = make_backoff()
    backoff.add(queued("failed", errors=1), "test")
    assert backoff.pop_early_one() is None
    rejected = queued("rejected", rejections=1)
    backoff.add(rejected, "test")
    assert backoff.pop_early_one() is rejected
    assert len(backoff) == 1


def test_nothing_is_popped_early_without_the_feature(
    make_backoff: Callable[..., BackoffQueue], queued: Callable[..., QueuedPodInfo]
) -> None:
    """SchedulerPopFromBackoffQ off: backoff is backoff."""
    backoff = make_backoff(pop_early=False)
    backoff.add(queued(rejections=1), "test")
    assert backoff.pop_early_one() is None


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
