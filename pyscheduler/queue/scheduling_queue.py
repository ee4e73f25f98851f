"""The queue of pods to be scheduled: who waits, where, and what brings them back.

A pod enters through `add`, is popped, and is then in flight until `done`, or until `requeue_failed` brings it back.
What becomes of a failed pod depends on who is to blame:

* an error (no plugin rejected it): backoffQ, and another attempt when the backoff is over;
* a rejection: the unschedulable pods, until an event comes that one of the rejecting plugins finds worth an attempt
  (`move_all`), the pod itself changes (`update`), somebody names it (`activate`), or five minutes have passed. If such
  an event came while the pod was in flight, the pod goes to backoffQ or activeQ at once.

Everything here is synchronous, on the event loop, and takes effect at once; only `pop` waits. Nothing polls: there is
one timer for the next backoff that ends and one for the next pod that has been unschedulable for too long.

Pods are known by uid. An update or an `add` of a pod that is in flight is remembered for its return, and a pod that was
deleted in flight does not return.

Differs from kube-scheduler: that a pod in flight was named, which concerns nobody else, is kept once, however often it
is. A pod leaves scheduler_unschedulable_pods also when it is deleted from activeQ or backoffQ. PreEnqueue plugins run
in profile order, not the gating one first, so that where several refuse a pod the first of them is named.
Source: kube-scheduler 1.36, `scheduling_queue.go`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import msgspec

from pyscheduler.framework.changes import pod_changes
from pyscheduler.framework.errors import PLUGIN_FAILURES
from pyscheduler.framework.events import UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE
from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.queue.active import ActiveQueue
from pyscheduler.queue.backoff import BackoffQueue
from pyscheduler.queue.early_retry import EarlyRetries, listens
from pyscheduler.queue.hints import FORCE_ACTIVATE, UNSCHEDULABLE_TIMEOUT, QueueingHints, Strategy
from pyscheduler.queue.in_flight import POD_POPPED, Flight, InFlight
from pyscheduler.queue.sub_queues import QueuePlace, SubQueues
from pyscheduler.queue.unschedulable import RejectionGroup, UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyscheduler.api import Pod
    from pyscheduler.framework.clock import Clock
    from pyscheduler.framework.cycle_state import AfterFailure
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.queue.group_adjacency import AdjacencyKey
    from pyscheduler.queue.heap import SortKey
    from pyscheduler.queue.hints import HintMap, Matches
    from pyscheduler.queue.in_flight import ObservedEvent
    from pyscheduler.queue.nominator import Nominator
    from pyscheduler.queue.sub_queues import PreEnqueue

__all__ = ["SchedulingQueue"]

_log = logging.getLogger(__name__)

# Reasons for which pods enter a queue, as scheduler_queue_incoming_pods_total spells them.
_SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
_BACKOFF_COMPLETE = "BackoffComplete"
_POP_FROM_BACKOFF = "PopFromBackoffQ"


def _nobody(_uid: str) -> bool:
    """Say of nobody that it has its place."""
    return False


class SchedulingQueue:
    """The pods that want a node, and those for which one is being sought.

    `sort_key` is the QueueSort plugin's. `pre_enqueue`, `hints` and `gating_events` are looked up by the pod's
    `schedulerName`: the profile's PreEnqueue, its registrations by event, and the events that each plugin registered.
    `pop_from_backoff` is the feature gate SchedulerPopFromBackoffQ.
    `max_backoff_seconds` 0 means no backoff at all. `adjacency_key` tells which pods leave activeQ back to back;
    without it all go by `sort_key`. `is_placed` tells by uid whether a pod in flight has its place. With
    `generic_workload`, the feature gate, pods of a `spec.schedulingGroup` are tried again after their backoff, whatever
    happened meanwhile: nobody knows what would help their group.
    """

    def __init__(  # noqa: PLR0913 - wiring, all by keyword
        self,
        *,
        clock: Clock,
        recorder: Recorder,
        sort_key: SortKey,
        nominator: Nominator,
        pre_enqueue: Mapping[str, PreEnqueue],
        hints: Mapping[str, HintMap],
        gating_events: Mapping[str, Mapping[str, Sequence[ClusterEvent]]],
        initial_backoff_seconds: float = 1.0,
        max_backoff_seconds: float = 10.0,
        max_unschedulable_seconds: float = 300.0,
        pop_from_backoff: bool = True,
        adjacency_key: AdjacencyKey | None = None,
        is_placed: Callable[[str], bool] = _nobody,
        generic_workload: bool = False,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self.nominator = nominator
        self._hints = QueueingHints(hints, clock=clock, recorder=recorder)
        self._active = ActiveQueue(sort_key=sort_key, recorder=recorder, adjacency_key=adjacency_key)
        self._is_placed = is_placed
        self._generic_workload = generic_workload
        self._backoff = BackoffQueue(
            clock=clock,
            recorder=recorder,
            sort_key=sort_key,
            initial_seconds=initial_backoff_seconds,
            max_seconds=max_backoff_seconds,
            pop_early=pop_from_backoff,
        )
        self._unschedulable = UnschedulablePods(clock=clock, recorder=recorder, max_seconds=max_unschedulable_seconds)
        self._places = SubQueues(
            clock=clock,
            active=self._active,
            backoff=self._backoff,
            unschedulable=self._unschedulable,
            nominator=nominator,
            pre_enqueue=pre_enqueue,
            gating_events=gating_events,
        )
        self._early = EarlyRetries(
            clock=clock, recorder=recorder, hints=self._hints, active=self._active, backoff=self._backoff
        )
        self._in_flight = InFlight()
        self._closed = False

    def start(self) -> None:
        """Let time move pods: out of backoff each second, out of the unschedulable pods each thirty seconds."""
        self._backoff.start(self._flush_backoff)
        self._unschedulable.start(self._flush_unschedulable)
        self._early.start()

    def close(self) -> None:
        """End: timers stop, and `pop` returns None, to whoever waits in it as well. Pods stay where they are."""
        self._closed = True
        self._backoff.stop()
        self._unschedulable.stop()
        self._early.stop()
        self._in_flight.clear()
        self._active.wake()

    async def pop(self) -> QueuedPodInfo | None:
        """Return the first pod, waiting until there is one; None once the queue is closed.

        Returns without giving up the loop when a pod is there already. Cancelling it loses no pod.
        """
        while not self._closed:
            info = self.pop_nowait()
            if info is not None:
                return info
            await self._active.wait()
        return None

    def pop_nowait(self) -> QueuedPodInfo | None:
        """Return the first pod of activeQ, or else of backoffQ where pods may be popped from there; None for none.

        The pod is in flight then, until `done` or `requeue_failed`. Which plugins rejected it stays on it until the
        next failure.
        """
        if self._closed:
            return None
        info = self._active.pop()
        from_backoff = info is None
        if info is None:
            info = self._backoff.pop_early_one()
            if info is None:
                return None
            self._recorder.incoming_pod(queue="active", event=_POP_FROM_BACKOFF)
        info.popped_from_backoff = from_backoff
        self._take_off(info)
        return info

    def pop_these(self, pods: Iterable[Pod]) -> list[QueuedPodInfo]:
        """Return those of the pods that wait in the queue, wherever, unless PreEnqueue refuses them; in flight then.

        Source: kube-scheduler 1.36, `PopSpecificPod`.
        """
        popped = []
        for pod in pods:
            self._activate(pod.uid)
            info = self._active.remove(pod.uid)
            if info is not None:
                info.popped_from_backoff = False
                self._take_off(info)
                popped.append(info)
        return popped

    def _take_off(self, info: QueuedPodInfo) -> None:
        """Note that a pod leaves the queue to be tried."""
        info.attempts += 1
        self._active.scheduling_cycle += 1
        self._in_flight.begin(info)
        self._places.uncount_rejections(info)

    def add(self, info: PodInfo) -> None:
        """Take in a new pod that has no node. One that is here already, or in flight, counts as updated."""
        uid = info.pod.uid
        flight = self._in_flight.get(uid)
        if flight is not None:
            self._update_in_flight(flight, None, info)
        elif (found := self._places.find(uid)) is not None:
            self.update(found[1].pod, info)
        else:
            self._places.to_active(self._new(info), UNSCHEDULED_POD_ADD.label)

    def update(self, old: Pod | None, info: PodInfo) -> None:
        """Take in a new version of a pod that has no node, wherever it is; a pod that is nowhere is added.

        In activeQ and backoffQ it is sorted anew. An unschedulable pod moves if a plugin that rejected it finds the
        change worth an attempt, and a gated one must then pass PreEnqueue. In flight the change is kept for its return.
        """
        uid = info.pod.uid
        if old is not None and old.uid != uid:
            # A relist can show a pod that was deleted and made again under its name as one update.
            self.delete(old)
            self.add(info)
            return
        flight = self._in_flight.get(uid)
        if flight is not None:
            self._update_in_flight(flight, old, info)
            return
        found = self._places.find(uid)
        if found is None:
            self._places.to_active(self._new(info), UNSCHEDULED_POD_UPDATE.label)
            return
        place, queued = found
        before = old if old is not None else queued.pod
        self._places.update(place, queued, info)
        if place is QueuePlace.UNSCHEDULABLE:
            self._move_updated(queued, before)
        elif place is QueuePlace.BACKOFF and listens(queued):
            for event in pod_changes(before, info.pod):
                self._early.hear(queued, self._hints.match(event), before, info.pod)

    def is_in_flight(self, uid: str) -> bool:
        """Tell whether the pod was popped and may come back."""
        return uid in self._in_flight

    def update_placed(self, old: Pod, info: PodInfo) -> None:
        """Keep for the return of a pod that waits at Permit what of it was changed, but for its status.

        Differs from kube-scheduler, which ignores such changes: a pod that is rejected for what it was waits on there
        until its nomination, taken back, wakes it.
        """
        flight = self._in_flight.get(info.pod.uid)
        if flight is not None and _is_changed(old, info.pod):
            self._update_in_flight(flight, old, info)

    def delete(self, pod: Pod) -> None:
        """Forget a pod that was deleted, or bound by somebody else; in flight, it will not come back."""
        self.nominator.delete(pod)
        self._places.remove(pod.uid)
        flight = self._in_flight.get(pod.uid)
        if flight is not None:
            flight.is_gone = True

    def activate(self, pods: Iterable[Pod]) -> None:
        """Move pods to activeQ that are unschedulable or in backoff, without regard to either.

        PreEnqueue may still refuse them. A pod in flight goes to activeQ or backoffQ if it comes back; others are left
        alone.

        Differs from kube-scheduler: a pod that has its place, because it waits at Permit or is being bound, is left
        alone, too. There it remembers, and where that ends badly it is tried again for having been named.
        """
        for pod in pods:
            if self._activate(pod.uid) or self._is_placed(pod.uid):
                continue
            flight = self._in_flight.get(pod.uid)
            if flight is not None and not flight.is_named:
                flight.is_named = True
                self._in_flight.observe(FORCE_ACTIVATE, None, pod)

    def resort(self, pods: Iterable[Pod]) -> None:
        """Sort these pods anew where they are in activeQ or backoffQ, because their sort keys have changed."""
        uids = dict.fromkeys(pod.uid for pod in pods)
        self._active.resort(info for uid in uids if (info := self._active.get(uid)) is not None)
        self._backoff.resort(info for uid in uids if (info := self._backoff.get(uid)) is not None)

    def requeue_failed(self, info: QueuedPodInfo, after_failure: AfterFailure | None = None) -> None:
        """Take back a pod whose attempt failed; it is not in flight any more.

        The caller has set `unschedulable_plugins` and `pending_plugins` to those of this attempt, both empty after an
        error. A pod that was deleted meanwhile is dropped. `after_failure` is what plugins want to hold from now on.
        """
        uid = info.pod.uid
        flight = self._in_flight.get(uid)
        try:
            if flight is not None and flight.is_gone:
                return
            if self._places.find(uid) is not None:
                self._recorder.warning("pod_queued_twice")
                _log.error("Pod is in the queue already and is not requeued pod=%s", info.pod.key)
                return
            if flight is not None and flight.latest is not None:
                info.pod_info = flight.latest
            self._count_failure(info)
            info.after_failure = after_failure
            worth = self._strategy_after_flight(info, flight)
            place = self._places.requeue(info, self._at_least(worth, info), _SCHEDULE_ATTEMPT_FAILURE)
            if place is QueuePlace.BACKOFF and worth is not Strategy.SKIP:
                self._early.wake(info, _SCHEDULE_ATTEMPT_FAILURE)
        finally:
            self.done(uid)

    def settle_early(self, info: QueuedPodInfo, *, has_room: bool) -> bool:
        """Tell whether a pod that was popped because an event woke it is to be tried; else it is put back.

        What was popped in vain does not count as an attempt.
        """
        if self._early.settle(info, has_room=has_room):
            return True
        uid, flight = info.pod.uid, self._in_flight.get(info.pod.uid)
        if flight is None or not flight.is_gone:
            if flight is not None and flight.latest is not None:
                info.pod_info = flight.latest
            self._places.count_rejections(info)
            self._backoff.put(info)
        self.done(uid)
        return False

    def done(self, uid: str) -> None:
        """Note that a popped pod is not coming back, or that no event can matter to it any more; idempotent."""
        self._in_flight.end(uid)

    def move_all(
        self,
        event: ClusterEvent,
        old: object | None,
        new: object | None,
        pre_check: Callable[[Pod], bool] | None = None,
        quiet_for: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Announce an event: unschedulable pods that it may help move to activeQ or backoffQ.

        `old` and `new` are the object before and after, as hint functions expect them; `pre_check` leaves out pods for
        which it is false. Pods in flight will be judged by the event, too, when they come back (without `pre_check`).
        Pods for which `quiet_for` is true never hear of it, in flight or not.
        """
        matches = self._hints.match(event)
        if not matches.is_of_interest:
            return

        def is_concerned(group: RejectionGroup) -> bool:
            return group.lets_through(event) and matches.may_move(group.scheduler_name, group.rejectors)

        def hears(pod: Pod) -> bool:
            return (pre_check is None or pre_check(pod)) and not (quiet_for and self._is_quiet(quiet_for, pod))

        pods = self._unschedulable.select(is_concerned, quiet_for)
        if pre_check is not None or quiet_for is not None:
            pods = [info for info in pods if hears(info.pod)]
        self._move(pods, matches, old, new, quiet_for)
        self._early.announce(matches, old, new, hears)

    def quiet_for(self, uid: str) -> Callable[[Pod], bool] | None:
        """Return which pods are not to hear of what the pod gives back after its last attempt; None where all are."""
        flight = self._in_flight.get(uid)
        info = flight.info if flight is not None else self.get(uid)
        return info.after_failure.quiet_for if info is not None and info.after_failure is not None else None

    @property
    def scheduling_cycle(self) -> int:
        """Return how many pods were popped so far."""
        return self._active.scheduling_cycle

    @property
    def active_count(self) -> int:
        """Return how many pods `pop` would hand out now, one after the other: activeQ, and what may be popped early."""
        return len(self._active) + (len(self._backoff.rejected) if self._backoff.pop_early else 0)

    def place_of(self, uid: str) -> QueuePlace | None:
        """Return where the pod is, or None when the queue does not know it."""
        if uid in self._in_flight:
            return QueuePlace.IN_FLIGHT
        found = self._places.find(uid)
        return None if found is None else found[0]

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return a pod that waits (is not in flight), or None. It is the queue's own: read it only."""
        found = self._places.find(uid)
        return None if found is None else found[1]

    def pending_pods(self) -> list[Pod]:
        """Return all pods that wait, those in flight not among them; activeQ first."""
        return [info.pod for info in self._places]

    def counts(self) -> dict[str, int]:
        """Return the values of scheduler_pending_pods, by its `queue` label."""
        gated = self._unschedulable.gated_count
        return {
            "active": len(self._active),
            "backoff": len(self._backoff),
            "unschedulable": len(self._unschedulable) - gated,
            "gated": gated,
        }

    def rejections(self) -> Mapping[tuple[str, str], int]:
        """Return the values of scheduler_unschedulable_pods, by (plugin, profile); the zeros are left out."""
        return dict(self._places.rejections)

    @property
    def in_flight_labels(self) -> frozenset[str]:
        """Return every `event` label that `in_flight_events` has had so far."""
        return frozenset(self._in_flight.seen_labels | ({POD_POPPED} if self.scheduling_cycle else set()))

    def in_flight_events(self) -> Mapping[str, int]:
        """Return the values of scheduler_inflight_events, by its `event` label; the zeros are left out."""
        counts = dict(self._in_flight.event_counts)
        if len(self._in_flight):
            counts[POD_POPPED] = len(self._in_flight)
        return counts

    def __len__(self) -> int:
        """Return how many pods wait, those in flight not among them."""
        return len(self._places)

    def dump(self) -> Iterator[dict[str, object]]:
        """Yield each pod with its place as plain data, those in flight last; the queue may change in between."""
        waiting = (*self._active.in_order(), *self._backoff.in_order(), *self._unschedulable)
        for info in (*waiting, *[flight.info for flight in self._in_flight]):
            uid = info.pod.uid
            place = self.place_of(uid)
            if place is not None:
                nominated = self.nominator.node_of(uid)
                yield {"pod": info.pod.key, "queue": str(place), **self._describe(info), "nominatedNode": nominated}

    def _describe(self, info: QueuedPodInfo) -> dict[str, object]:
        now, until = self._clock.now(), info.backoff_until
        return {
            "attempts": info.attempts,
            "unschedulablePlugins": sorted(info.unschedulable_plugins),
            "pendingPlugins": sorted(info.pending_plugins),
            "gatingPlugin": info.gating_plugin,
            "waitingSeconds": round(now - info.enqueued_at, 3),
            "backoffSeconds": round(max(until - now, 0.0), 3) if until is not None else 0.0,
        }

    def check_invariants(self) -> None:
        """Raise AssertionError where the queue contradicts itself: see the places', and no pod is also in flight."""
        self._places.check_invariants()
        self._in_flight.check_invariants()
        self.nominator.check_invariants()
        for info in self._places:
            assert info.pod.uid not in self._in_flight, f"pod {info.pod.key} waits and is in flight"

    def _new(self, info: PodInfo) -> QueuedPodInfo:
        return QueuedPodInfo(pod_info=info, enqueued_at=self._clock.now())

    def _update_in_flight(self, flight: Flight, old: Pod | None, info: PodInfo) -> None:
        if old is None:
            old = (flight.latest if flight.latest is not None else flight.info.pod_info).pod
        flight.latest = info
        flight.is_gone = False
        for event in pod_changes(old, info.pod):
            self._in_flight.observe(event, old, info.pod)

    def _move_updated(self, info: QueuedPodInfo, old: Pod) -> None:
        """Move an unschedulable pod that was updated, if that may have made it schedulable."""
        for event in pod_changes(old, info.pod):
            strategy = self._hints.evaluate(info, self._hints.match(event), old, info.pod)
            if self._places.requeue(info, strategy, event.label) is not QueuePlace.UNSCHEDULABLE:
                return

    def _activate(self, uid: str) -> bool:
        """Move one pod to activeQ; return False when it is not waiting elsewhere, or PreEnqueue refused it."""
        ready = self._active.get(uid)
        if ready is not None and ready.woken_by:
            ready.woken_by = ""
            return True
        info = self._unschedulable.get(uid)
        from_backoff = info is None
        if info is None:
            info = self._backoff.remove(uid)
            if info is None:
                return False
        return self._places.to_active(info, FORCE_ACTIVATE.label, from_backoff=from_backoff) is QueuePlace.ACTIVE

    def _count_failure(self, info: QueuedPodInfo) -> None:
        info.enqueued_at = self._clock.now()
        if info.woken_by:
            self._early.count_failure(info)
        elif info.unschedulable_plugins or info.pending_plugins:
            info.unschedulable_count += 1
            info.consecutive_errors = 0
        else:
            info.consecutive_errors += 1
        info.backoff_until = None
        info.was_flushed = False
        self._places.count_rejections(info)

    def _strategy_after_flight(self, info: QueuedPodInfo, flight: Flight | None) -> Strategy:
        """Return what the events that came while the pod was in flight are worth to it."""
        if flight is None or not (info.unschedulable_plugins or info.pending_plugins):
            # Nobody rejected it, or nobody knows what it missed: only another attempt can tell.
            return Strategy.AFTER_BACKOFF
        if self._generic_workload and info.pod.spec.scheduling_group is not None and not listens(info):
            return Strategy.AFTER_BACKOFF
        best = Strategy.SKIP
        if flight.is_named:
            best = Strategy.AFTER_BACKOFF
            if not info.pending_plugins:
                return best
        for event, old, new, _ in self._missed(info, flight):
            strategy = self._hints.evaluate(info, self._hints.match(event), old, new)
            if strategy is Strategy.IMMEDIATELY:
                return strategy
            if strategy is Strategy.AFTER_BACKOFF:
                best = strategy
                if not info.pending_plugins:
                    break
        return best

    def _at_least(self, worth: Strategy, info: QueuedPodInfo) -> Strategy:
        """Return what becomes of the pod: one of Kubernetes' own groups is tried after its backoff in any case."""
        by_backoff = self._generic_workload and info.pod.spec.scheduling_group is not None
        return Strategy.AFTER_BACKOFF if by_backoff else worth

    def _missed(self, info: QueuedPodInfo, flight: Flight) -> Iterable[ObservedEvent]:
        """Return the events since the pop of a pod that was rejected, but for those that cannot matter to it."""
        if not self._in_flight.has_missed(flight):
            return ()
        own = info.after_failure.quiet_for if info.after_failure is not None else None
        if own is not None and not self._is_quiet(own, info.pod):
            own = None
        scheduler_name = info.pod.scheduler_name
        rejectors = info.rejectors

        def may_matter(event: ClusterEvent) -> bool:
            # That a pod was named concerns nobody else, and its own flight knows it.
            return event is not FORCE_ACTIVATE and self._hints.match(event).may_move(scheduler_name, rejectors)

        def is_quiet(quiet_for: Callable[[Pod], bool]) -> bool:
            # Most often it is its own group that gives up its places; then there is nobody to ask.
            return quiet_for == own or self._is_quiet(quiet_for, info.pod)

        return self._in_flight.events_since_pop(flight, may_matter, is_quiet)

    def _is_quiet(self, quiet_for: Callable[[Pod], bool], pod: Pod) -> bool:
        """Ask a plugin whether the pod is not to hear of an event; where it fails, the pod does."""
        try:
            return bool(quiet_for(pod))
        except PLUGIN_FAILURES:
            self._recorder.warning("plugin_error")
            _log.exception("Plugin failed to say whether an event concerns pod=%s", pod.key)
            return False

    def _move(
        self,
        pods: Iterable[QueuedPodInfo],
        matches: Matches,
        old: object | None,
        new: object | None,
        quiet_for: Callable[[Pod], bool] | None = None,
    ) -> None:
        """Move those of `pods` (unschedulable, not shut off from the event by a gate) that the event may help."""
        for info in pods:
            uid = info.pod.uid
            if self._unschedulable.get(uid) is not info:
                continue  # a hint or PreEnqueue called for an earlier pod moved this one
            strategy = self._hints.evaluate(info, matches, old, new)
            if strategy is Strategy.SKIP:
                continue
            self._unschedulable.remove(uid)
            if self._places.requeue(info, strategy, matches.label) is QueuePlace.BACKOFF:
                self._early.wake(info, matches.label)
        self._in_flight.observe(matches.event, old, new, quiet_for)

    def _flush_backoff(self, now: float) -> None:
        for info in self._backoff.pop_completed(now):
            self._places.to_active(info, _BACKOFF_COMPLETE, from_backoff=True)
        self._backoff.arm()

    def _flush_unschedulable(self, now: float) -> None:
        overdue = self._unschedulable.overdue(now)
        if overdue:
            for info in overdue:
                info.was_flushed = True
            self._move(overdue, self._hints.match(UNSCHEDULABLE_TIMEOUT), None, None)
        self._unschedulable.arm()


def _is_changed(old: Pod, new: Pod) -> bool:
    """Tell whether a pod changed in anything but its status, and what each write changes."""
    return _essence(old) != _essence(new)


def _essence(pod: Pod) -> tuple[object, ...]:
    metadata = msgspec.structs.replace(pod.metadata, resource_version="", generation=0, finalizers=())
    return metadata, pod.spec, pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status
