"""Pods in backoff that stand for a group: an event has them looked at, and tried where there is room."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.framework import ClusterEvent
from pyscheduler.framework.cycle_state import AfterFailure
from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.queue.sub_queues import QueuePlace
from tests.queue.conftest import Kit


@pytest.fixture(name="kit")
def _kit(make_kit: Callable[..., Kit]) -> Kit:
    """Make a queue that runs, from which nobody is popped early for other reasons; A waits for nodes, B for volumes."""
    kit = make_kit(hints={Kit.NODE_ADD: [("A", None)], Kit.PV_ADD: [("B", None)]})
    kit.queue.start()
    return kit


def fail(kit: Kit, info: QueuedPodInfo, *, room_for: int = 1, missed: bool = True, plugin: str = "A") -> None:
    """Bring a popped pod back, rejected by one plugin; to backoff if it `missed` an event."""
    after = AfterFailure()
    after.serve_backoff = True
    after.room_for = room_for
    if missed:
        kit.queue.move_all(kit.NODE_ADD, None, None)
    info.unschedulable_plugins, info.pending_plugins = {plugin}, set()
    kit.queue.requeue_failed(info, after)


def listening(kit: Kit, *, failures: int = 4) -> None:
    """Add a pod that has failed some times, was looked at in vain since, and backs off."""
    kit.add()
    for number in range(failures):
        fail(kit, kit.pop())
        kit.clock.advance(0.1)
        assert not kit.queue.settle_early(kit.pop(), has_room=False)
        if number < failures - 1:
            kit.clock.advance(20)


def test_an_event_ends_the_backoff_where_there_is_room(kit: Kit) -> None:
    """Within a tenth of a second, and it counts as brought to activeQ by that event."""
    listening(kit)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    assert kit.place() is QueuePlace.BACKOFF
    kit.clock.advance(0.1)
    info = kit.pop()
    assert kit.queue.settle_early(info, has_room=True)
    assert kit.recorder.incoming["active", "NodeAdd"] == 1
    assert info.attempts == 5


@pytest.mark.parametrize(
    ("event", "room_for"),
    [
        pytest.param(Kit.PV_ADD, 1, id="an event that the rejecting plugin did not register"),
        pytest.param(Kit.NODE_ADD, 0, id="a pod that stands for no group"),
    ],
)
def test_other_events_do_not_end_the_backoff(kit: Kit, event: ClusterEvent, room_for: int) -> None:
    """The pod serves its backoff."""
    kit.add()
    info = kit.pop()
    fail(kit, info, room_for=room_for)
    if room_for:
        kit.clock.advance(0.1)
        assert not kit.queue.settle_early(kit.pop(), has_room=False)
    assert kit.place() is QueuePlace.BACKOFF
    kit.queue.move_all(event, None, None)
    kit.clock.advance(0.5)
    assert kit.queue.pop() is None


def test_without_room_the_pod_returns_unchanged(kit: Kit) -> None:
    """No attempt is counted, and the backoff ends when it would have ended."""
    listening(kit)
    info = kit.get()
    before = (
        info.attempts,
        info.unschedulable_count,
        kit.queue._backoff.end_of_backoff(info),
        kit.queue.sub_queues.rejections,
    )
    for _ in range(5):
        kit.queue.move_all(kit.NODE_ADD, None, None)
        kit.clock.advance(0.1)
        assert not kit.queue.settle_early(kit.pop(), has_room=False)
    after = (
        info.attempts,
        info.unschedulable_count,
        kit.queue._backoff.end_of_backoff(info),
        kit.queue.sub_queues.rejections,
    )
    assert after == before
    assert kit.place() is QueuePlace.BACKOFF
    kit.clock.advance(10)
    assert kit.pop().woken_by == ""


def test_early_attempts_that_fail_do_not_lengthen_the_backoff(kit: Kit) -> None:
    """The next one waits, twice as long each time, whatever happens meanwhile; until there is no room once."""
    listening(kit)
    count = kit.get().unschedulable_count
    began = kit.clock.now()
    made = []
    for _ in range(70):
        kit.queue.move_all(kit.NODE_ADD, None, None)
        kit.clock.advance(0.1)
        info = kit.queue.pop()
        if info is not None and info.woken_by and kit.queue.settle_early(info, has_room=True):
            made.append(round(kit.clock.now() - began, 1))
            fail(kit, info)
    assert made == [0.1, 1.2, 3.3]
    info = kit.get()
    assert info.unschedulable_count == count
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.clock.advance(0.1)
    assert not kit.queue.settle_early(kit.pop(), has_room=False)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.clock.advance(0.1)
    assert kit.queue.settle_early(kit.pop(), has_room=True)


def test_an_event_soon_after_a_failure_is_kept(kit: Kit) -> None:
    """The pod is tried as soon as it may be, not at the end of its backoff."""
    listening(kit)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.clock.advance(0.1)
    info = kit.pop()
    assert kit.queue.settle_early(info, has_room=True)
    fail(kit, info)
    kit.clock.advance(0.1)
    assert not kit.queue.settle_early(kit.pop(), has_room=True)
    kit.clock.advance(2)
    assert kit.pop() is info


def test_an_event_during_the_attempt_counts(kit: Kit) -> None:
    """It is looked at as soon as it is back."""
    kit.add()
    fail(kit, kit.pop())
    kit.clock.advance(0.1)
    assert kit.pop().woken_by == "ScheduleAttemptFailure"


def test_an_update_of_the_pod_counts(make_kit: Callable[..., Kit]) -> None:
    """It may be asking for less now."""
    kit = make_kit(hints={Kit.NODE_ADD: [("A", None)], Kit.POD_UPDATE: [("A", None)]})
    kit.queue.start()
    old = kit.add()
    fail(kit, kit.pop())
    kit.clock.advance(0.1)
    assert not kit.queue.settle_early(kit.pop(), has_room=False)
    kit.update(old, kit.pod(labels={"a": "b"}))
    kit.clock.advance(0.1)
    assert kit.pop().pod.labels == {"a": "b"}


def test_pods_that_ignore_an_event_stay_in_backoff(kit: Kit) -> None:
    """What its own group gives back wakes nobody."""
    listening(kit)
    kit.queue.move_all(kit.NODE_ADD, None, None, ignored_by=lambda _pod: True)
    kit.clock.advance(0.1)
    assert kit.queue.pop() is None


def test_an_activated_pod_is_tried_without_a_check_for_room(kit: Kit) -> None:
    """Also when it waits to be looked at."""
    listening(kit)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.clock.advance(0.1)
    kit.queue.activate([kit.get().pod])
    assert kit.pop().woken_by == ""


def test_a_pod_deleted_during_the_check_does_not_return(kit: Kit) -> None:
    """Neither from the look, nor before it."""
    listening(kit)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.clock.advance(0.1)
    info = kit.pop()
    kit.queue.delete(info.pod)
    assert not kit.queue.settle_early(info, has_room=False)
    assert kit.place() is None
    assert not kit.queue.sub_queues.rejections


def test_woken_pods_are_checked_twenty_at_a_time(kit: Kit) -> None:
    """Twenty are looked at every tenth of a second."""
    names = [f"p{number}" for number in range(50)]
    for name in names:
        kit.add(name)
    for info in [kit.pop() for _ in names]:
        fail(kit, info, missed=False)
    kit.queue.move_all(kit.NODE_ADD, None, None)
    seen = []
    for _ in range(3):
        kit.clock.advance(0.1)
        popped = list(iter(kit.queue.pop, None))
        seen.append(len(popped))
        for info in popped:
            assert not kit.queue.settle_early(info, has_room=False)
    assert seen == [20, 20, 10]
