"""Pods in flight and the events that are kept for them."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.api import ObjectMeta, Pod
from pyscheduler.framework import ActionType, ClusterEvent, EventResource, PodInfo, QueuedPodInfo
from pyscheduler.queue.in_flight import InFlight

NODE_ADD = ClusterEvent(EventResource.NODE, ActionType.ADD)
NODE_DELETE = ClusterEvent(EventResource.NODE, ActionType.DELETE)


def begin(in_flight: InFlight, name: str) -> None:
    """Put a pod in flight."""
    pod = Pod(metadata=ObjectMeta(name=name, namespace="default", uid=f"uid-{name}"))
    in_flight.begin(QueuedPodInfo(pod_info=PodInfo.of(pod), enqueued_at=0))


def missed(in_flight: InFlight, name: str) -> list[object]:
    """Return what came since the pod was popped."""
    flight = in_flight.get(f"uid-{name}")
    assert flight is not None
    return [observed.new for observed in in_flight.events_since_pop(flight)]


def test_no_event_is_kept_while_nobody_is_in_flight() -> None:
    """Without pods in flight events are nobody's."""
    in_flight = InFlight()
    in_flight.observe(NODE_ADD, None, "n1")
    assert list(in_flight._events) == []
    assert in_flight.event_counts == {}


def test_a_pod_misses_only_what_came_after_its_pop() -> None:
    """Each pod sees the events since its own pop, in order."""
    in_flight = InFlight()
    begin(in_flight, "a")
    in_flight.observe(NODE_ADD, None, 1)
    begin(in_flight, "b")
    in_flight.observe(NODE_ADD, None, 2)
    in_flight.observe(NODE_DELETE, 3, None)
    begin(in_flight, "c")
    assert missed(in_flight, "a") == [1, 2, None]
    assert missed(in_flight, "b") == [2, None]
    assert missed(in_flight, "c") == []
    assert in_flight.event_counts == {"NodeAdd": 2, "NodeDelete": 1}


def test_events_go_with_the_last_pod_that_needs_them() -> None:
    """The end of the pod in front drops what stood before the next one; the end of another drops nothing."""
    in_flight = InFlight()
    begin(in_flight, "a")
    in_flight.observe(NODE_ADD, None, 1)
    begin(in_flight, "b")
    in_flight.observe(NODE_DELETE, 2, None)
    begin(in_flight, "c")
    in_flight.observe(NODE_ADD, None, 3)
    in_flight.end("uid-b")
    assert len(in_flight._events) == 3
    in_flight.end("uid-a")
    assert [observed.new for observed in in_flight._events] == [3]
    assert in_flight.event_counts == {"NodeAdd": 1}
    assert missed(in_flight, "c") == [3]
    in_flight.end("uid-c")
    assert list(in_flight._events) == []
    assert in_flight.event_counts == {}
    in_flight.check_invariants()


def test_the_end_may_be_told_twice() -> None:
    """Binding cycle and failure handling may both say that a pod is done with."""
    in_flight = InFlight()
    begin(in_flight, "a")
    in_flight.end("uid-a")
    in_flight.end("uid-a")
    assert len(in_flight) == 0


def test_a_pod_is_in_flight_once() -> None:
    """Two attempts for one pod at a time would be a bug of the queue."""
    in_flight = InFlight()
    begin(in_flight, "a")
    with pytest.raises(AssertionError, match="pod default/a is in flight already"):
        begin(in_flight, "a")


STEPS = st.lists(st.tuples(st.sampled_from(["pop", "event", "end"]), st.integers(0, 5)), max_size=60)


@given(steps=STEPS)
def test_it_behaves_like_one_list_per_pod(steps: list[tuple[str, int]]) -> None:
    """Against keeping a list of missed events for each pod."""
    in_flight = InFlight()
    lists: dict[str, list[object]] = {}
    for turn, (step, number) in enumerate(steps):
        name = f"p{number}"
        if step == "pop" and name not in lists:
            begin(in_flight, name)
            lists[name] = []
        elif step == "event":
            in_flight.observe((NODE_ADD, NODE_DELETE)[number % 2], None, turn)
            for events in lists.values():
                events.append(turn)
        elif step == "end":
            in_flight.end(f"uid-{name}")
            lists.pop(name, None)
        in_flight.check_invariants()
        assert {name: missed(in_flight, name) for name in lists} == lists
        assert len(in_flight._events) == max(map(len, lists.values()), default=0)
