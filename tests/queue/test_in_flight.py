"""Pods in flight and the events that are kept for them."""

from __future__ import annotations

from collections.abc import Callable

import hypothesis.strategies as st
import pytest
from hypothesis import given

from pyscheduler.api import ObjectMeta, Pod
from pyscheduler.framework import ActionType, ClusterEvent, EventResource, PodInfo, QueuedPodInfo
from pyscheduler.queue.in_flight import InFlight, ObservedEvent

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


def test_end_is_idempotent() -> None:
    """Binding cycle and failure handling may both say that a pod is done with."""
    in_flight = InFlight()
    begin(in_flight, "a")
    in_flight.end("uid-a")
    in_flight.end("uid-a")
    assert len(in_flight) == 0


def test_a_pod_cannot_be_in_flight_twice() -> None:
    """Two attempts for one pod at a time would be a bug of the queue."""
    in_flight = InFlight()
    begin(in_flight, "a")
    with pytest.raises(AssertionError, match="pod default/a is in flight already"):
        begin(in_flight, "a")


def test_clear_ends_an_iteration_over_events() -> None:
    """Whoever looks at what was missed then sees no more of it."""
    in_flight = InFlight()
    begin(in_flight, "a")
    for number in range(3):
        in_flight.observe(NODE_ADD, None, number)
    flight = in_flight.get("uid-a")
    assert flight is not None
    seen = in_flight.events_since_pop(flight)
    assert next(seen).new == 0
    in_flight.clear()
    assert list(seen) == []
    begin(in_flight, "a")
    in_flight.observe(NODE_ADD, None, "later")
    assert missed(in_flight, "a") == ["later"]
    in_flight.check_invariants()


def test_changes_during_an_iteration_do_not_affect_it() -> None:
    """Events that come while a pod looks are not among those it missed, though lists are cut off meanwhile."""
    in_flight = InFlight()
    begin(in_flight, "first")
    for number in range(10):
        in_flight.observe(NODE_ADD, None, number)
    begin(in_flight, "a")
    for number in range(10, 14):
        in_flight.observe((NODE_ADD, NODE_DELETE)[number % 2], None, number)
    flight = in_flight.get("uid-a")
    assert flight is not None
    seen = []
    for observed in in_flight.events_since_pop(flight):
        seen.append(observed.new)
        in_flight.observe(NODE_ADD, None, "later")
        in_flight.end("uid-first")
    assert seen == [10, 11, 12, 13]
    in_flight.check_invariants()


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


QUIETS = [None, "a".__eq__, "b".__eq__]
WIDER_STEPS = st.lists(
    st.tuples(st.sampled_from(["pop", "event", "event", "end"]), st.integers(0, 5), st.sampled_from([0, 0, 1, 2])),
    max_size=60,
)


@given(steps=WIDER_STEPS, wanted=st.sets(st.sampled_from([NODE_ADD, NODE_DELETE])), quiet=st.sampled_from(QUIETS))
def test_only_filtered_events_are_left_out(
    steps: list[tuple[str, int, int]], wanted: set[ClusterEvent], quiet: Callable[[object], bool] | None
) -> None:
    """By kind, and by for whom it is quiet, the same events are seen as in a list of all, in the same order."""
    in_flight = InFlight()
    lists: dict[str, list[ObservedEvent]] = {}

    def is_quiet(other: object) -> bool:
        return other == quiet

    for turn, (step, number, quiet_number) in enumerate(steps):
        name = f"p{number}"
        if step == "pop" and name not in lists:
            begin(in_flight, name)
            lists[name] = []
        elif step == "event":
            missed_event = ObservedEvent((NODE_ADD, NODE_DELETE)[number % 2], None, turn, QUIETS[quiet_number])  # type: ignore[arg-type]  # it is compared only
            in_flight.observe(*missed_event)
            for events in lists.values():
                events.append(missed_event)
        elif step == "end":
            in_flight.end(f"uid-{name}")
            lists.pop(name, None)
        in_flight.check_invariants()
        for other, events in lists.items():
            flight = in_flight.get(f"uid-{other}")
            assert flight is not None
            seen = list(in_flight.events_since_pop(flight, wanted.__contains__, is_quiet))
            assert seen == [
                one for one in events if one.event in wanted and (one.ignored_by is None or one.ignored_by != quiet)
            ]


def test_ignores_is_called_once_for_each_row() -> None:
    """Of five hundred pods that give up their places together each asks once whether that is news."""
    in_flight = InFlight()
    names = [f"p{number}" for number in range(500)]
    for name in names:
        begin(in_flight, name)
    asked = 0

    def is_quiet(_other: object) -> bool:
        nonlocal asked
        asked += 1
        return True

    for name in names:
        flight = in_flight.get(f"uid-{name}")
        assert flight is not None
        assert list(in_flight.events_since_pop(flight, None, is_quiet)) == []
        in_flight.end(f"uid-{name}")
        in_flight.observe(NODE_DELETE, name, None, "a".__eq__)
    assert asked == len(names) - 1
