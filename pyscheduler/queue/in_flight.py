"""Pods in flight, and the events that came while they were in flight.

A pod is in flight while the scheduler decides about it: from `pop` until Permit has allowed the pod, or until the pod
is back in the queue. The scheduler decides from a snapshot, which lacks the events that come meanwhile. The queue keeps
these events: if the pod cannot be scheduled, one of them may cause a retry.

Source: kube-scheduler 1.36, `active_queue.go` (`inFlightPods`, `inFlightEvents`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import attrs
import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyscheduler.api import Pod
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo

    #: Returns True for pods that ignore an event. Equal predicates have equal results.
    Ignores: TypeAlias = Callable[[Pod], bool]

__all__ = ["Flight", "InFlight", "ObservedEvent", "is_changed"]

#: The name under which a pop counts in scheduler_inflight_events.
POD_POPPED: Final = "PodPopped"


class ObservedEvent(NamedTuple):
    """An event, its objects before and after, and the predicate of the pods that ignore it."""

    event: ClusterEvent
    old: object | None
    new: object | None
    ignored_by: Ignores | None = None
    #: The attempt that took the room which the event gives back; None: the room is new.
    taken_in: int | None = None


@attrs.define(kw_only=True, eq=False)
class Flight:
    """One pod in flight, and the changes to it since it was popped."""

    info: QueuedPodInfo
    #: Number of the first event that came after the pop.
    first_event: int
    #: The newest version of the pod, if an update came.
    latest: PodInfo | None = None
    #: Whether the pod was deleted, or bound by another scheduler.
    is_gone: bool = False
    #: Whether `activate` asked for the pod. This concerns this pod alone and is kept once.
    is_named: bool = False
    #: Whether the pod must serve its whole backoff if the attempt fails.
    serves_backoff: bool = False


class _Line:
    """The numbers of the kept events of one kind, ascending, and the first number of each row."""

    __slots__ = ("_last_ignored_by", "dropped", "numbers", "rows")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        #: The first number of each row: events in sequence with equal predicates. A pod that ignores one skips the row.
        self.rows: list[int] = []
        #: How many numbers at the beginning belong to dropped events. They are removed when they are the larger part.
        self.dropped = 0
        self._last_ignored_by: Ignores | None = None

    def append(self, number: int, ignored_by: Ignores | None) -> None:
        if not self.numbers or ignored_by != self._last_ignored_by:
            self.rows.append(number)
            self._last_ignored_by = ignored_by
        self.numbers.append(number)

    def place_of(self, number: int) -> int:
        """Return the index of the first event with this number or a later one."""
        # Most pods return soon, so it is near the end, or beyond the end.
        return len(self.numbers) if self.numbers[-1] < number else bisect_left(self.numbers, number)

    def drop_first(self) -> None:
        self.dropped += 1
        if 2 * self.dropped > len(self.numbers):
            # New lists, because an iteration over the old ones may be under way.
            self.numbers = self.numbers[self.dropped :]
            first = self.numbers[0] if self.numbers else 0
            self.rows = [first, *self.rows[bisect_right(self.rows, first) :]] if self.numbers else []
            self.dropped = 0


class InFlight:
    """The pods in flight by uid, in the order in which they were popped, and the events since the first pop."""

    __slots__ = ("_dropped", "_events", "_flights", "_lines", "_next", "event_counts", "seen_labels")

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        #: By number.
        self._events: dict[int, ObservedEvent] = {}
        #: The number of the first kept event, and the number for the next event.
        self._dropped = 0
        self._next = 0
        self._lines: dict[ClusterEvent, _Line] = {}
        #: Kept events by label, for scheduler_inflight_events.
        self.event_counts: Counter[str] = Counter()
        #: Every label that `counts` has had so far: its series goes on with 0.
        self.seen_labels: set[str] = set()

    def begin(self, info: QueuedPodInfo) -> None:
        """Begin the flight of a popped pod."""
        uid = info.pod.uid
        assert uid not in self._flights, f"pod {info.pod.key} is in flight already"
        self._flights[uid] = Flight(info=info, first_event=self._next)
        self.seen_labels.add(POD_POPPED)

    def get(self, uid: str) -> Flight | None:
        """Return the pod's flight, or None."""
        return self._flights.get(uid)

    def observe(
        self,
        event: ClusterEvent,
        old: object | None,
        new: object | None,
        ignored_by: Ignores | None = None,
        taken_in: int | None = None,
    ) -> None:
        """Keep an event if any pod is in flight; pods for which `ignored_by` is true ignore it."""
        if not self._flights:
            return
        line = self._lines.get(event)
        if line is None:
            line = self._lines[event] = _Line()
        line.append(self._next, ignored_by)
        self._events[self._next] = ObservedEvent(event, old, new, ignored_by, taken_in)
        self._next += 1
        self.event_counts[event.label] += 1
        self.seen_labels.add(event.label)

    def has_missed(self, flight: Flight) -> bool:
        """Return True if any event came since the pod was popped."""
        return flight.first_event < self._next

    def events_since_pop(
        self,
        flight: Flight,
        may_matter: Callable[[ClusterEvent], bool] | None = None,
        ignores: Callable[[Ignores], bool] | None = None,
    ) -> Iterator[ObservedEvent]:
        """Yield the events between the pod's pop and this call, oldest first.

        Kinds of events for which `may_matter` is false are left out, and rows for whose predicate `ignores` is true;
        `ignores` is called once for each row. Events that come during the iteration do not change it.
        """
        end = self._next
        # The number of the next event of each line, its place there, and the lists of the line.
        steps = [
            (line.numbers[place], place, line.numbers, line.rows)
            for event, line in self._lines.items()
            if (place := line.place_of(flight.first_event)) < len(line.numbers)
            and (may_matter is None or may_matter(event))
        ]
        heapq.heapify(steps)
        while steps:
            number, place, numbers, rows = steps[0]
            observed = self._events.get(number)
            if observed is None:
                return  # `ignores` stopped the queue
            place += 1
            if ignores is None or observed.ignored_by is None or not ignores(observed.ignored_by):
                yield observed
            else:
                row = bisect_right(rows, number)
                place = bisect_left(numbers, rows[row], place) if row < len(rows) else len(numbers)
            if place < len(numbers) and numbers[place] < end:
                heapq.heapreplace(steps, (numbers[place], place, numbers, rows))
            else:
                heapq.heappop(steps)

    def end(self, uid: str) -> None:
        """End a flight and drop the events that were kept only for it; idempotent."""
        if self._flights.pop(uid, None) is None:
            return
        first = next(iter(self._flights.values()), None)
        if first is None:
            self.clear()
            return
        while self._dropped < first.first_event:
            event = self._events.pop(self._dropped).event
            self._dropped += 1
            line = self._lines[event]
            line.drop_first()
            if not line.numbers:
                del self._lines[event]
            label = event.label
            self.event_counts[label] -= 1
            if not self.event_counts[label]:
                del self.event_counts[label]

    def clear(self) -> None:
        """Forget all pods and events."""
        self._flights.clear()
        self._events.clear()
        self._lines.clear()
        self._dropped = self._next
        self.event_counts.clear()

    def counts(self) -> dict[str, int]:
        """Return the values of scheduler_inflight_events, by its `event` label, without zeros."""
        return {**self.event_counts, POD_POPPED: len(self._flights)} if self._flights else dict(self.event_counts)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __len__(self) -> int:
        return len(self._flights)

    def __iter__(self) -> Iterator[Flight]:
        yield from self._flights.values()

    def check_invariants(self) -> None:
        """Raise AssertionError if events are kept for no pod, or are counted wrongly."""
        numbers = [flight.first_event for flight in self._flights.values()]
        assert numbers == sorted(numbers), "pods in flight are out of order"
        assert not numbers or numbers[0] == self._dropped, "events are kept that no pod in flight needs"
        assert self._flights or not self._events, "events are kept though no pod is in flight"
        assert list(self._events) == list(range(self._dropped, self._next)), "numbers are missing"
        kept = Counter(observed.event.label for observed in self._events.values())
        assert kept == self.event_counts, f"kept events are counted wrongly: {kept} != {self.event_counts}"
        lines: dict[ClusterEvent, list[int]] = {}
        for number, observed in self._events.items():
            lines.setdefault(observed.event, []).append(number)
        assert {event: line.numbers[line.dropped :] for event, line in self._lines.items()} == lines, "lines are wrong"
        for line in self._lines.values():
            assert line.numbers[0] == line.rows[0], "a line begins before its first row, or after it"
        for uid, flight in self._flights.items():
            assert flight.info.pod.uid == uid, f"pod {flight.info.pod.key} is filed under uid {uid}"


def is_changed(old: Pod, new: Pod) -> bool:
    """Return True if a pod changed in anything but its status, and what each write changes."""
    return _essence(old) != _essence(new)


def _essence(pod: Pod) -> tuple[object, ...]:
    metadata = msgspec.structs.replace(pod.metadata, resource_version="", generation=0, finalizers=())
    return metadata, pod.spec, pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status
