"""Room that a failed attempt took and gives back: news only for pods that failed while it was taken."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyscheduler.framework import QueuedPodInfo
from pyscheduler.queue.sub_queues import QueuePlace
from tests.queue.conftest import Kit


@pytest.fixture
def kit(make_kit: Callable[..., Kit]) -> Kit:
    """Return a queue in which plugin A finds every deleted pod worth an attempt."""
    return make_kit(hints={Kit.ASSIGNED_POD_DELETE: [("A", None)]})


def take(kit: Kit, name: str) -> QueuedPodInfo:
    """Pop a new pod that takes free room."""
    kit.add(name)
    info = kit.pop()
    info.taken_in = info.tried_in
    return info


def give_back(kit: Kit, holder: QueuedPodInfo) -> None:
    """Announce that the pod does not hold its room any more."""
    kit.queue.move_all(kit.ASSIGNED_POD_DELETE, holder.pod, None, taken_in=holder.taken_in)


def test_a_pod_that_failed_before_ignores_it(kit: Kit) -> None:
    """The room was free when the pod failed."""
    kit.rejected("early", "A")
    give_back(kit, take(kit, "holder"))
    assert kit.place("early") is QueuePlace.UNSCHEDULABLE


def test_a_pod_that_had_a_node_is_moved(kit: Kit) -> None:
    """It failed at Permit, so lack of room was not the reason, and the plugin may wait for any pod to go."""
    early, late = take(kit, "early"), take(kit, "late")
    kit.fail(early, "A")
    give_back(kit, late)
    assert kit.place("early") is not QueuePlace.UNSCHEDULABLE


def test_a_pod_that_failed_meanwhile_is_moved(kit: Kit) -> None:
    """It may need just that room."""
    holder = take(kit, "holder")
    kit.rejected("late", "A")
    give_back(kit, holder)
    assert kit.place("late") is not QueuePlace.UNSCHEDULABLE


@pytest.mark.parametrize("is_earlier", [pytest.param(True, id="before"), pytest.param(False, id="meanwhile")])
def test_a_pod_in_flight_is_judged_in_the_same_way(kit: Kit, is_earlier: bool) -> None:
    """The event came before the pod returned."""
    holder = None if is_earlier else take(kit, "holder")
    kit.add("flying")
    flying = kit.pop()
    give_back(kit, holder if holder is not None else take(kit, "holder"))
    kit.fail(flying, "A")
    assert (kit.place("flying") is QueuePlace.UNSCHEDULABLE) is is_earlier


def test_room_that_was_kept_for_the_pod_is_news(kit: Kit) -> None:
    """A nominated pod takes what no other pod could take before."""
    kit.rejected("early", "A")
    holder = take(kit, "holder")
    holder.taken_in = None
    give_back(kit, holder)
    assert kit.place("early") is not QueuePlace.UNSCHEDULABLE


def test_the_first_pod_is_the_one_that_is_popped(kit: Kit) -> None:
    """It may be in backoffQ; once it failed again, only events of the plugins that rejected it can move it."""
    for name in ("p", "q"):
        kit.rejected(name, "A")
    kit.clock.advance(20)
    kit.queue.move_all(kit.ASSIGNED_POD_DELETE, kit.pod("gone"), None)
    sub_queues, seen = kit.queue.sub_queues, []
    for _ in range(3):
        first = sub_queues.first()
        assert first is not None
        seen.append((first.pod.name, kit.place(first.pod.name)))
        assert kit.pop() is first
        kit.fail(first, "A")
        assert sub_queues.unschedulable.sleeper(first.pod.uid) is first
        if len(seen) == 2:
            kit.queue.move_all(kit.ASSIGNED_POD_DELETE, kit.pod("gone"), None)
    assert seen == [("p", QueuePlace.ACTIVE), ("q", QueuePlace.ACTIVE), ("p", QueuePlace.BACKOFF)]
    kit.pop()
    assert sub_queues.first() is None
