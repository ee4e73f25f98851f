"""Pods that were popped and are not done with, and what happened meanwhile.

An event that comes while a pod is being scheduled may be the very one that pod will need: the snapshot it is judged by
is older than the event. So as long as any pod is in flight, events are kept, and a pod that comes back is shown those
that came since it was popped. An event is dropped as soon as every pod in flight was popped after it.

Events stand in one line, numbered through; a pod remembers the number of the first one that came after its pop. Pods
are popped one after the other, so the pod in front has the smallest number, and what stands before that can go.
Source: kube-scheduler 1.36, `active_queue.go` (`inFlightPods`, `inFlightEvents`).
"""

from __future__ import annotations

from collections import Counter, deque
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import PodInfo, QueuedPodInfo

__all__ = ["Flight", "InFlight", "ObservedEvent"]

#: The name under which a pop counts in scheduler_inflight_events.
POD_POPPED: Final = "PodPopped"


class ObservedEvent(NamedTuple):
    """An event with the objects it is about, and for whom it does not count."""

    event: ClusterEvent
    old: object | None
    new: object | None
    quiet_for: Callable[[Pod], bool] | None = None


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


class InFlight:
    """The pods in flight by uid, in the order of their pops, and the events since the first of these pops."""

    __slots__ = ("_dropped", "_events", "_flights", "event_counts", "seen_labels")

    def __init__(self) -> None:
        self._flights: dict[str, Flight] = {}
        self._events: deque[ObservedEvent] = deque()
        #: How many events were dropped: the number of the first one that is kept.
        self._dropped = 0
        #: Kept events by label, for scheduler_inflight_events.
        self.event_counts: Counter[str] = Counter()
        #: Labels of all events that were ever kept: their series go on with 0.
        self.seen_labels: set[str] = set()

    def begin(self, info: QueuedPodInfo) -> None:
        """Note that a pod was popped."""
        uid = info.pod.uid
        assert uid not in self._flights, f"pod {info.pod.key} is in flight already"
        self._flights[uid] = Flight(info=info, first_event=self._dropped + len(self._events))

    def get(self, uid: str) -> Flight | None:
        """Return the pod's flight, or None."""
        return self._flights.get(uid)

    def observe(
        self,
        event: ClusterEvent,
        old: object | None,
        new: object | None,
        quiet_for: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Keep an event, if any pod is in flight; it does not count for pods for which `quiet_for` is true."""
        if self._flights:
            self._events.append(ObservedEvent(event, old, new, quiet_for))
            self.event_counts[event.label] += 1
            self.seen_labels.add(event.label)

    def events_since_pop(self, flight: Flight) -> Sequence[ObservedEvent]:
        """Return the events that came since the pod was popped, oldest first."""
        number = self._dropped + len(self._events) - flight.first_event
        # From the far end, so that the cost is the events returned and not those kept for pods that linger at Permit.
        return list(islice(reversed(self._events), number))[::-1]

    def end(self, uid: str) -> None:
        """Note that a pod is done with, and drop the events that were kept only for it; idempotent."""
        if self._flights.pop(uid, None) is None:
            return
        first = next(iter(self._flights.values()), None)
        if first is None:
            self.clear()
            return
        while self._dropped < first.first_event:
            label = self._events.popleft().event.label
            self._dropped += 1
            self.event_counts[label] -= 1
            if not self.event_counts[label]:
                del self.event_counts[label]

    def clear(self) -> None:
        """Forget all pods and events."""
        self._flights.clear()
        self._events.clear()
        self._dropped = 0
        self.event_counts.clear()

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
        kept = Counter(observed.event.label for observed in self._events)
        assert kept == self.event_counts, f"kept events are counted wrongly: {kept} != {self.event_counts}"
        for uid, flight in self._flights.items():
            assert flight.info.pod.uid == uid, f"pod {flight.info.pod.key} is filed under uid {uid}"
