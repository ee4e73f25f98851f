"""What time does: backoff ends, pods that wait for too long are tried again, and an idle queue sleeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from pyscheduler.framework import ActionType, ClusterEvent, EventResource
from pyscheduler.queue.sub_queues import QueuePlace

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.queue.conftest import Kit


@pytest.mark.parametrize("pop_from_backoff", [True, False])
@pytest.mark.parametrize("plugins", ["A", ""], ids=["rejected", "failed"])
def test_backoff_grows_from_one_attempt_to_the_next(
    make_kit: Callable[..., Kit], pop_from_backoff: bool, plugins: str
) -> None:
    """1, 2, 4, 8 seconds, then 10 for ever; pods come back at the tick after that."""
    kit = make_kit(hints={make_kit().NODE_ADD: [("A", None)]}, pop_from_backoff=pop_from_backoff)
    kit.queue.start()
    kit.add()
    for seconds in (1, 2, 4, 8, 10, 10):
        # Whole seconds, so that an end of backoff falls on a tick: the pod waits for the one after it.
        failed_at = kit.clock.now()
        info = kit.pop()
        kit.fail(info, *plugins)
        kit.queue.move_all(kit.NODE_ADD, None, None)
        assert kit.place() is QueuePlace.BACKOFF
        assert info.backoff_until == failed_at + seconds
        kit.clock.advance(seconds + 0.999)
        assert kit.place() is QueuePlace.BACKOFF
        kit.clock.advance(0.001)
        assert kit.place() is QueuePlace.ACTIVE
    assert kit.recorder.incoming["active", "BackoffComplete"] == 6


def test_the_maximum_stay_is_a_setting(make_kit: Callable[..., Kit]) -> None:
    """A pod that is flushed while it backs off goes to backoffQ."""
    kit = make_kit(max_unschedulable_seconds=20.0, initial_backoff_seconds=60.0, max_backoff_seconds=60.0)
    kit.queue.start()
    kit.rejected("p", "A")
    kit.clock.advance(30)
    assert kit.place() is QueuePlace.BACKOFF
    assert kit.recorder.incoming["backoff", "UnschedulableTimeout"] == 1


def test_gated_pods_are_not_flushed(make_kit: Callable[..., Kit]) -> None:
    """Their gate decides, not the time; unless the gating plugin registered everything."""
    anything = ClusterEvent(EventResource.WILDCARD, ActionType.ALL)
    kit = make_kit(hints={anything: [("W", None)]}, gating_events={"G": [make_kit().NODE_ADD], "W": [anything]})
    kit.queue.start()
    kit.shut["shy"] = "G"
    kit.shut["eager"] = "W"
    kit.add("shy")
    kit.add("eager")
    kit.clock.advance(390)
    assert kit.pre_enqueue_runs == {"shy": 1, "eager": 1 + 3}
    assert kit.queue.sub_queues.counts()["gated"] == 2


def test_an_idle_queue_sets_no_timer(kit: Kit) -> None:
    """Nothing polls: hours go by without a call, and a spent timer is not set again for pods that have left."""
    kit.queue.start()
    kit.clock.advance(3600)
    assert kit.clock.calls_made == 0
    kit.rejected("failed")
    kit.rejected("rejected", "A")
    assert kit.clock.pending == [4602.0, 4930.0]
    for name in ("failed", "rejected"):
        kit.queue.delete(kit.get(name).pod)
    kit.clock.advance(3600)
    assert kit.clock.calls_made == 2
    assert kit.clock.pending == []


def test_time_moves_nothing_before_the_start(kit: Kit) -> None:
    """Until leadership is won the queue only takes in."""
    kit.rejected("failed")
    kit.rejected("rejected", "A")
    kit.clock.advance(3600)
    assert (kit.place("failed"), kit.place("rejected")) == (QueuePlace.BACKOFF, QueuePlace.UNSCHEDULABLE)
    kit.queue.start()
    kit.clock.advance(30)
    assert (kit.place("failed"), kit.place("rejected")) == (QueuePlace.ACTIVE, QueuePlace.ACTIVE)


def test_an_early_pop_leaves_the_timer_of_the_next_pod(kit: Kit) -> None:
    """A pod that is popped out of backoff takes nobody's wake-up with it."""
    kit.queue.start()
    kit.rejected("first", "A")
    kit.queue.move_all(kit.NODE_ADD, None, None)
    kit.clock.advance(0.5)
    kit.rejected("second")
    kit.queue.done(kit.pop().pod.uid)
    kit.clock.advance(5)
    assert kit.place("second") is QueuePlace.ACTIVE
