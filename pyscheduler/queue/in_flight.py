"""Pods that were popped and are not done with, and what happened meanwhile.

An event that comes while a pod is being scheduled may be the very one that pod will need: the snapshot it is judged by
is older than the event. So as long as any pod is in flight, events are kept, and a pod that comes back is shown those
that came since it was popped. An event is dropped as soon as every pod in flight was popped after it.

Events are numbered through; a pod remembers the number of the first one that came after its pop. Pods are popped one
after the other, so the pod in front has the smallest number, and what came before that can go.

Thousands of pods may come back at once, each of them one more event for those that come after it. So events stand in
lines, one for each kind of event, and a pod that comes back looks along those lines only that can matter to it; and of
events in a row that are quiet for the same pods it looks at one.
Source: kube-scheduler 1.36, `active_queue.go` (`inFlightPods`, `inFlightEvents`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyscheduler.api import Pod
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo

    #: Says of pods whether an event is no news to them; those that are equal say the same.
    Quiet: TypeAlias = Callable[[Pod], bool]

__all__ = ["Flight", "InFlight", "ObservedEvent"]

#: The name under which a pop counts in scheduler_inflight_events.
POD_POPPED: Final = "PodPopped"


class ObservedEvent(NamedTuple):
    """An event with the objects it is about, and for whom it does not count."""

    event: ClusterEvent
    old: object | None
    new: object | None
    quiet_for: Quiet | None = None


@attrs.define(kw_only=True, eq=False)
class Flight:
    """One pod in flight, and what the queue learnt about it since it was popped."""

    info: QueuedPodInfo
    #: Number of the first event that came after the pop.
    first_event: int
    #: The newest version of the pod, where one came.
    latest: PodInfo | None = None
    #: Whether the pod was deleted, or bound by somebody else.
    is_gone: bool = False
    #: Whether somebody named it to be tried: an event that is about this pod alone, and kept once.
    is_named: bool = False


class _Step(NamedTuple):
    """How far a line was looked along: the number to look at next, its place in the line, and the line's lists."""

    number: int
    place: int
    numbers: list[int]
    rows: list[int]


class _Line:
    """The numbers of the kept events of one kind, ascending, and where among them rows of equal quiet begin."""

    __slots__ = ("_last_quiet", "dropped", "numbers", "rows")

    def __init__(self) -> None:
        self.numbers: list[int] = []
        #: The number with which each row begins.
        self.rows: list[int] = []
        #: How many of the first numbers are those of dropped events. They are cut off when they are the larger part.
        self.dropped = 0
        self._last_quiet: Quiet | None = None

    def append(self, number: int, quiet_for: Quiet | None) -> None:
        """Take in the next event."""
        if not self.numbers or quiet_for != self._last_quiet:
            self.rows.append(number)
            self._last_quiet = quiet_for
        self.numbers.append(number)

    def place_of(self, number: int) -> int:
        """Return the place of the first event that has this number or a later one."""
        # Most pods come back at once, so it is near the end, or beyond it.
        return len(self.numbers) if self.numbers[-1] < number else bisect_left(self.numbers, number)

    def drop_first(self) -> None:
        """Note that the first event that is not dropped is dropped now."""
        self.dropped += 1
        if 2 * self.dropped > len(self.numbers):
            # New lists: whoever is looking along the old ones goes on doing so.
            self.numbers = self.numbers[self.dropped :]
            first = self.numbers[0] if self.numbers else 0
            self.rows = [first, *self.rows[bisect_right(self.rows, first) :]] if self.numbers else []
            self.dropped = 0


class InFlight:
    """The pods in flight by uid, in the order of their pops, and the events since the first of these pops."""

    __slots__ = ("_dropped", "_events", "_flights", "_lines", "_next", "event_counts", "seen_labels")

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        #: By number.
        self._events: dict[int, ObservedEvent] = {}
        #: The number of the first event that is kept, and that of the next one that comes.
        self._dropped = 0
        self._next = 0
        self._lines: dict[ClusterEvent, _Line] = {}
        #: Kept events by label, for scheduler_inflight_events.
        self.event_counts: Counter[str] = Counter()
        #: Every label that `counts` has had so far: its series goes on with 0.
        self.seen_labels: set[str] = set()

    def begin(self, info: QueuedPodInfo) -> None:
        """Note that a pod was popped."""
        uid = info.pod.uid
        assert uid not in self._flights, f"pod {info.pod.key} is in flight already"
        self._flights[uid] = Flight(info=info, first_event=self._next)
        self.seen_labels.add(POD_POPPED)

    def get(self, uid: str) -> Flight | None:
        """Return the pod's flight, or None."""
        return self._flights.get(uid)

    def observe(
        self, event: ClusterEvent, old: object | None, new: object | None, quiet_for: Quiet | None = None
    ) -> None:
        """Keep an event, if any pod is in flight; it does not count for pods for which `quiet_for` is true."""
        if not self._flights:
            return
        line = self._lines.get(event)
        if line is None:
            line = self._lines[event] = _Line()
        line.append(self._next, quiet_for)
        self._events[self._next] = ObservedEvent(event, old, new, quiet_for)
        self._next += 1
        self.event_counts[event.label] += 1
        self.seen_labels.add(event.label)

    def has_missed(self, flight: Flight) -> bool:
        """Tell whether any event came since the pod was popped."""
        return flight.first_event < self._next

    def events_since_pop(
        self,
        flight: Flight,
        may_matter: Callable[[ClusterEvent], bool] | None = None,
        is_quiet: Callable[[Quiet], bool] | None = None,
    ) -> Iterator[ObservedEvent]:
        """Yield the events that came since the pod was popped and before this was called for, oldest first.

        Left out are those of kinds for which `may_matter` is false, and those that are quiet for pods for which
        `is_quiet` is true; it is asked once about each row of them. What happens between two events, to the queue say,
        changes nothing for those that follow.
        """
        end = self._next
        steps = [
            _Step(line.numbers[place], place, line.numbers, line.rows)
            for event, line in self._lines.items()
            if (place := line.place_of(flight.first_event)) < len(line.numbers)
            and (may_matter is None or may_matter(event))
        ]
        heapq.heapify(steps)
        while steps:
            number, place, numbers, rows = steps[0]
            observed = self._events.get(number)
            if observed is None:
                return  # whoever was asked about the last one has closed the queue
            place += 1
            if is_quiet is None or observed.quiet_for is None or not is_quiet(observed.quiet_for):
                yield observed
            else:
                row = bisect_right(rows, number)
                place = bisect_left(numbers, rows[row], place) if row < len(rows) else len(numbers)
            if place < len(numbers) and numbers[place] < end:
                heapq.heapreplace(steps, _Step(numbers[place], place, numbers, rows))
            else:
                heapq.heappop(steps)

    def end(self, uid: str) -> None:
        """Note that a pod is done with, and drop the events that were kept only for it; idempotent."""
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
        """Raise AssertionError where events are kept for nobody, or are counted wrongly."""
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
