"""The queue of pods without a node: where and why each pod waits, and when it is retried.

A pod enters through `add`. `pop` returns the next ready pod. Then the pod is in flight, until the caller calls `done`
or returns the pod to the queue with `requeue_failed`:

* After an error, the pod waits in backoffQ until its backoff is over.
* After a rejection by a plugin, the pod waits among the unschedulable pods until an event may help it (see `hints`).

Differs from kube-scheduler: PreEnqueue plugins run in the order of the profile.

Source: kube-scheduler 1.36, `scheduling_queue.go`.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import TYPE_CHECKING

from pyscheduler.framework.changes import pod_changes
from pyscheduler.framework.events import UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE
from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.queue.active import ActiveQueue
from pyscheduler.queue.backoff import BackoffQueue, must_serve_backoff
from pyscheduler.queue.early_retry import EarlyRetries, listens
from pyscheduler.queue.hints import FORCE_ACTIVATE, RETRY_AFTER, UNSCHEDULABLE_TIMEOUT, QueueingHints, Strategy
from pyscheduler.queue.in_flight import Flight, InFlight, is_changed
from pyscheduler.queue.sub_queues import QueuePlace, SubQueues
from pyscheduler.queue.unschedulable import RejectionGroup, UnschedulablePods

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.cycle_state import AfterFailure
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.plugin_failures import PluginFailures
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.stories import Stories
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
_PUT_BACK = "PutBack"


class SchedulingQueue:
    """The pods that wait for a node, and the pods in flight.

    `sort_key` is the QueueSort plugin's. `pre_enqueue`, `hints` and `gating_events` are looked up by the pod's
    `schedulerName`: the profile's PreEnqueue, its registrations by event, and the events that each plugin registered.
    `pop_from_backoff` is the feature gate SchedulerPopFromBackoffQ. `max_backoff_seconds` 0 means no backoff.
    `adjacency_key` returns the group whose pods leave activeQ back to back; without it `sort_key` alone decides.
    `is_placed` returns whether a pod in flight (by uid) has a node.
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
        is_placed: Callable[[str], bool] = lambda _uid: False,
        on_ready: Callable[[], object] = lambda: None,
        failures: PluginFailures | None = None,
        stories: Stories | None = None,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self.nominator = nominator
        self._hints = QueueingHints(hints, clock=clock, recorder=recorder, failures=failures)
        self._active = ActiveQueue(sort_key=sort_key, recorder=recorder, adjacency_key=adjacency_key)
        self._is_placed = is_placed
        self._holding: set[str] = set()
        #: How many pods were popped or taken so far.
        self.scheduling_cycle = 0
        self._backoff = BackoffQueue(
            clock=clock,
            recorder=recorder,
            sort_key=sort_key,
            initial_seconds=initial_backoff_seconds,
            max_seconds=max_backoff_seconds,
            pop_early=pop_from_backoff,
            holding=self._holding,
        )
        self._unschedulable = UnschedulablePods(clock=clock, recorder=recorder, max_seconds=max_unschedulable_seconds)
        self.sub_queues = SubQueues(
            clock=clock,
            recorder=recorder,
            active=self._active,
            backoff=self._backoff,
            unschedulable=self._unschedulable,
            holding=self._holding,
            nominator=nominator,
            pre_enqueue=pre_enqueue,
            gating_events=gating_events,
            on_ready=on_ready,
            stories=stories,
        )
        self._early = EarlyRetries(
            clock=clock,
            recorder=recorder,
            hints=self._hints,
            active=self._active,
            backoff=self._backoff,
            on_ready=on_ready,
        )
        self.in_flight = InFlight()

    def start(self) -> None:
        """Start the timers: pods leave backoffQ each second, and the unschedulable pods each thirty seconds."""
        self._backoff.start(self._flush_backoff)
        self._unschedulable.start(self._flush_unschedulable, self._retry_due)
        self._early.start()

    def stop(self) -> None:
        """Stop the timers and forget the pods in flight. All other pods stay where they are."""
        self._backoff.stop()
        self._unschedulable.stop()
        self._early.stop()
        self.in_flight.clear()

    def hold(self, profiles: Iterable[str]) -> None:
        """Hold the pods of these profiles from now on: `take` returns them, `pop` never does.

        Raises ValueError if a pod of such a profile is in the queue already.
        """
        wanted = set(profiles) - self._holding
        for info in self.sub_queues:
            if info.pod.scheduler_name in wanted:
                raise ValueError(
                    f"profile {info.pod.scheduler_name} has pods in the queue: hold its pods before it starts"
                )
        self._holding |= wanted

    def pop(self) -> QueuedPodInfo | None:
        """Return the first pod of activeQ, or else of backoffQ if pods may be popped from there; None if there is none.

        The pod is in flight until `done` or `requeue_failed`. It keeps the names of the plugins that rejected it until
        its next failure.
        """
        info = self._active.pop()
        if info is None and (info := self._backoff.pop_early_one()) is not None:
            self._recorder.count("scheduler_queue_incoming_pods_total", "active", _POP_FROM_BACKOFF)
        if info is not None:
            self._begin_flight(info, is_taken=False)
        return info

    def pop_these(self, pods: Iterable[Pod]) -> list[QueuedPodInfo]:
        """Return the pods that wait in the queue, wherever; they are in flight then.

        Pods that PreEnqueue rejects and pods of profiles that hold their pods are left out.
        Source: kube-scheduler 1.36, `PopSpecificPod`.
        """
        names = [pod for pod in pods if pod.scheduler_name not in self._holding]
        return self._remove_by_name(names, self._active.remove, is_taken=False)

    def take(self, pods: Iterable[Pod]) -> list[QueuedPodInfo]:
        """Return the pods that a profile holds and that wait in the queue, wherever; they are in flight then.

        Pods that PreEnqueue rejects and pods of other profiles are left out. Taking a pod does not count as an attempt:
        `requeue_failed` counts it if the attempt fails, `put_back` does not.
        """
        names = [pod for pod in pods if pod.scheduler_name in self._holding]
        return self._remove_by_name(names, self.sub_queues.held.take, is_taken=True)

    def put_back(self, info: QueuedPodInfo) -> None:
        """Return a taken pod to `held` without counting an attempt or a failure; use it for a dropped decision.

        If PreEnqueue rejects the pod now, it goes to the unschedulable pods. A pod that was deleted is dropped.
        """
        self._end_unattempted(info, lambda: self.sub_queues.to_ready(info, _PUT_BACK))

    def _remove_by_name(
        self, pods: Iterable[Pod], remove: Callable[[str], QueuedPodInfo | None], *, is_taken: bool
    ) -> list[QueuedPodInfo]:
        """Make the pods ready, remove those that PreEnqueue let through, and return them in flight."""
        found = []
        for pod in pods:
            self._activate(pod.uid)
            info = remove(pod.uid)
            if info is not None:
                self._begin_flight(info, is_taken=is_taken)
                found.append(info)
        return found

    def _begin_flight(self, info: QueuedPodInfo, *, is_taken: bool) -> None:
        self._begin_attempt(info, is_taken=is_taken)
        self.in_flight.begin(info)
        self.sub_queues.uncount_rejections(info)

    def _begin_attempt(self, info: QueuedPodInfo, *, is_taken: bool) -> None:
        self.scheduling_cycle += 1
        info.is_taken = is_taken
        info.attempts += not is_taken
        info.tried_in, info.taken_in = self.scheduling_cycle, None

    def _end_unattempted(self, info: QueuedPodInfo, put: Callable[[], object]) -> None:
        """Return a pod in flight that was not tried: `put` adds it to its sub-queue. Drop it if it was deleted."""
        uid = info.pod.uid
        flight = self.in_flight.get(uid)
        self.done(uid)
        if (flight is not None and flight.is_gone) or self.sub_queues.find(uid) is not None:
            return
        if flight is not None and flight.latest is not None:
            info.pod_info = flight.latest
        self.sub_queues.count_rejections(info)
        put()

    def add(self, info: PodInfo) -> None:
        """Add a new pod that has no node. If the queue knows the pod, update it."""
        self._apply(None, info, UNSCHEDULED_POD_ADD)

    def update(self, old: Pod, info: PodInfo) -> None:
        """Update a pod that has no node; add it if the queue does not know it.

        In activeQ and backoffQ the pod is sorted again. An unschedulable pod moves if a plugin that rejected it finds
        the change worth an attempt; a gated pod must then pass PreEnqueue. A pod in flight is updated when it returns.
        """
        self._apply(old, info, UNSCHEDULED_POD_UPDATE)

    def update_placed(self, old: Pod, info: PodInfo) -> None:
        """Keep the new version of a pod that waits at Permit for its return, unless only the status changed.

        Differs from kube-scheduler, which ignores these changes: a pod that was rejected for a field that changed waits
        there until the end of its nomination wakes it.
        """
        flight = self.in_flight.get(info.pod.uid)
        if flight is not None and is_changed(old, info.pod):
            self._update_in_flight(flight, old, info)

    def delete(self, pod: Pod) -> None:
        """Remove a pod that was deleted, or bound by another scheduler. A pod in flight will not return."""
        self.nominator.delete(pod)
        self.sub_queues.remove(pod.uid)
        if (flight := self.in_flight.get(pod.uid)) is not None:
            flight.is_gone = True

    def activate(self, pods: Iterable[Pod]) -> None:
        """Make pods ready that are unschedulable or in backoff, unless PreEnqueue rejects them.

        A pod in flight goes to activeQ or backoffQ when it returns. Other pods do not change.

        Differs from kube-scheduler: a pod that waits at Permit or is being bound does not change either. There, it is
        retried at once if it fails later.
        """
        for pod in pods:
            if self._activate(pod.uid) or self._is_placed(pod.uid):
                continue
            if (flight := self.in_flight.get(pod.uid)) is not None and not flight.is_named:
                flight.is_named = True
                self.in_flight.observe(FORCE_ACTIVATE, None, pod)

    def retry_after_backoff(self, pods: Iterable[Pod], *, in_full: bool = True) -> None:
        """Retry pods once they have served their whole backoff, that after this attempt if they are in flight.

        PreEnqueue may reject them. Without `in_full`, retry unschedulable pods as after an event that helps them.
        """
        for pod in pods:
            if (flight := self.in_flight.get(pod.uid)) is not None:
                if not self._is_placed(pod.uid):
                    flight.is_named, flight.serves_backoff = True, flight.serves_backoff or in_full
            elif in_full:
                self.sub_queues.serve_backoff(pod.uid, FORCE_ACTIVATE.label)
            elif (info := self._unschedulable.get(pod.uid)) is not None:
                self._retry_due((info,))

    def resort(self, pods: Iterable[Pod]) -> None:
        """Sort these pods again in activeQ and backoffQ, because their sort keys have changed."""
        uids = dict.fromkeys(pod.uid for pod in pods)
        self._active.resort(info for uid in uids if (info := self._active.get(uid)) is not None)
        self._backoff.resort(info for uid in uids if (info := self._backoff.get(uid)) is not None)

    def requeue_failed(
        self,
        info: QueuedPodInfo,
        after_failure: AfterFailure | None = None,
        *,
        retry_after_seconds: float | None = None,
        retry_plugin: str = "",
    ) -> None:
        """Return a pod to the queue whose attempt failed; it is not in flight any more.

        The caller has set `unschedulable_plugins` and `pending_plugins` to those of this attempt, both empty after an
        error. A pod that was deleted meanwhile is dropped. `after_failure` has the wishes of plugins for this failure.
        If the pod becomes unschedulable, it is retried after `retry_after_seconds`, which `retry_plugin` gave.
        """
        uid = info.pod.uid
        flight = self.in_flight.get(uid)
        try:
            if flight is not None and flight.is_gone:
                return
            if self.sub_queues.find(uid) is not None:
                self._recorder.warning("pod_queued_twice")
                _log.error("Pod is in the queue already and is not requeued pod=%s", info.pod.key)
                return
            if flight is not None and flight.latest is not None:
                info.pod_info = flight.latest
            info.after_failure = after_failure
            self._count_failure(info)
            self.sub_queues.count_rejections(info)
            if flight is not None and flight.serves_backoff:
                must_serve_backoff(info)
            self.sub_queues.set_retry(info, retry_after_seconds, retry_plugin)
            strategy = self._strategy_after_flight(info, flight)
            place = self.sub_queues.requeue(info, strategy, _SCHEDULE_ATTEMPT_FAILURE)
            if place is QueuePlace.BACKOFF and strategy is not Strategy.SKIP:
                self._early.wake(info, _SCHEDULE_ATTEMPT_FAILURE)
        finally:
            self.done(uid)

    def settle_early(self, info: QueuedPodInfo, *, has_room: bool) -> bool:
        """Return True if a pod that an event woke is to be tried now; otherwise return it to backoffQ, unattempted."""
        if self._early.settle(info, has_room=has_room):
            return True
        stays = has_room or self._backoff.is_backing_off(info)
        put = self._backoff.put if stays else partial(self.sub_queues.to_unschedulable, event=info.moved_by)
        self._end_unattempted(info, lambda: put(info))
        return False

    def fail_first(self) -> None:
        """Count a failed attempt of the next pod without trying it: the plugins that rejected it last did so again."""
        info = self._active.pop() or self._backoff.pop_early_one()
        assert info is not None, "there is a first pod"
        self._begin_attempt(info, is_taken=False)
        self._count_failure(info)
        self.sub_queues.to_unschedulable(info, _SCHEDULE_ATTEMPT_FAILURE)

    def done(self, uid: str) -> None:
        """End the pod's flight: it will not return, or no event matters to it any more. Idempotent."""
        self.in_flight.end(uid)

    def move_all(
        self,
        event: ClusterEvent,
        old: object | None,
        new: object | None,
        pre_check: Callable[[Pod], bool] | None = None,
        ignored_by: Callable[[Pod], bool] | None = None,
        taken_in: int | None = None,
    ) -> None:
        """Announce an event: move the unschedulable pods that it may help to activeQ, backoffQ or `held`.

        `old` and `new` are the object before and after, as hint functions expect them. Pods for which `pre_check` is
        false are left out. Pods in flight are judged by the event when they return (without `pre_check`). Pods for
        which `ignored_by` is true ignore the event, in flight or not. So do pods whose last attempt was before
        `taken_in`, the attempt that took what the event gives back: the room was free when they failed.
        """
        matches = self._hints.match(event)
        if not matches.is_of_interest:
            return

        def is_concerned(group: RejectionGroup) -> bool:
            return group.lets_through(event) and matches.may_move(group.scheduler_name, group.rejectors)

        def hears(info: QueuedPodInfo) -> bool:
            if self.sub_queues.failed_before(info, taken_in) or (pre_check is not None and not pre_check(info.pod)):
                return False
            return not (ignored_by and self._hints.ignores(ignored_by, info.pod))

        pods = [info for info in self._unschedulable.select(is_concerned, ignored_by) if hears(info)]
        self._move(pods, matches, old, new, ignored_by, taken_in)
        self._early.announce(matches, old, new, hears)

    def last_release(self, uid: str) -> tuple[Callable[[Pod], bool] | None, int | None]:
        """Return `ignored_by` and `taken_in` of what this pod released after its last attempt."""
        flight = self.in_flight.get(uid)
        info = flight.info if flight is not None else self.get(uid)
        after = info.after_failure if info is not None else None
        return after.ignored_by if after is not None else None, info.taken_in if info is not None else None

    @property
    def active_count(self) -> int:
        """Return how many pods `pop` would return now, one after the other."""
        return len(self._active) + (len(self._backoff.rejected) if self._backoff.pop_early else 0)

    def place_of(self, uid: str) -> QueuePlace | None:
        """Return where the pod is; None if the queue does not know it."""
        if uid in self.in_flight:
            return QueuePlace.IN_FLIGHT
        found = self.sub_queues.find(uid)
        return None if found is None else found[0]

    def get(self, uid: str) -> QueuedPodInfo | None:
        """Return a pod that waits (is not in flight), or None. The caller must not change it."""
        found = self.sub_queues.find(uid)
        return None if found is None else found[1]

    def pending_pods(self) -> list[Pod]:
        """Return all pods that wait (are not in flight); activeQ first."""
        return [info.pod for info in self.sub_queues]

    def __len__(self) -> int:
        """Return how many pods wait (are not in flight)."""
        return len(self.sub_queues)

    def dump(self) -> Iterator[dict[str, object]]:
        """Yield each pod and its place as plain data, pods in flight last. The queue may change in between."""
        waiting = (*self._active.in_order(), *self._backoff.in_order(), *self._unschedulable)
        flying = (flight.info for flight in self.in_flight)
        for info in (*waiting, *self.sub_queues.held.values(), *flying):
            uid = info.pod.uid
            place = self.place_of(uid)
            if place is not None:
                nominated = self.nominator.node_of(uid)
                facts = self.sub_queues.describe(info)
                yield {"pod": info.pod.key, "queue": str(place), **facts, "nominatedNode": nominated}

    def check_invariants(self) -> None:
        """Raise AssertionError if a sub-queue is inconsistent or a pod both waits and is in flight."""
        self.sub_queues.check_invariants()
        self.in_flight.check_invariants()
        self.nominator.check_invariants()
        for info in self.sub_queues:
            assert info.pod.uid not in self.in_flight, f"pod {info.pod.key} waits and is in flight"

    def _apply(self, old: Pod | None, info: PodInfo, event: ClusterEvent) -> None:
        """Add or update a pod; without `old` the change is the difference from the known version."""
        uid = info.pod.uid
        flight = self.in_flight.get(uid)
        if flight is not None:
            self._update_in_flight(flight, old, info)
            return
        found = self.sub_queues.find(uid)
        if found is None:
            self.sub_queues.to_ready(QueuedPodInfo(pod_info=info, enqueued_at=self._clock.now()), event.label)
            return
        place, queued = found
        queued.moved_by = ""
        before = old if old is not None else queued.pod
        self.sub_queues.update(place, queued, info)
        if place is QueuePlace.UNSCHEDULABLE:
            self._move_updated(queued, before)
        elif place is QueuePlace.BACKOFF and listens(queued):
            for change in pod_changes(before, info.pod):
                self._early.hear(queued, self._hints.match(change), before, info.pod)

    def _update_in_flight(self, flight: Flight, old: Pod | None, info: PodInfo) -> None:
        if old is None:
            old = (flight.latest if flight.latest is not None else flight.info.pod_info).pod
        flight.latest = info
        flight.is_gone = False
        for event in pod_changes(old, info.pod):
            self.in_flight.observe(event, old, info.pod)

    def _move_updated(self, info: QueuedPodInfo, old: Pod) -> None:
        """Move an unschedulable pod if its update may have made it schedulable."""
        for event in pod_changes(old, info.pod):
            strategy = self._hints.evaluate(info, self._hints.match(event), old, info.pod)
            if self.sub_queues.requeue(info, strategy, event.label) is not QueuePlace.UNSCHEDULABLE:
                return

    def _activate(self, uid: str) -> bool:
        """Make a waiting pod ready; return False if it waits nowhere, is ready already, or PreEnqueue rejects it."""
        ready = self._active.get(uid)
        if ready is not None:
            was_woken, ready.moved_by, ready.woken_by = bool(ready.woken_by), "", ""
            return was_woken
        sleeping = self._unschedulable.get(uid)
        info = sleeping or self._backoff.remove(uid)
        if info is None:
            return False
        info.moved_by = ""
        place = self.sub_queues.to_ready(info, FORCE_ACTIVATE.label, from_backoff=sleeping is None)
        return place is not QueuePlace.UNSCHEDULABLE

    def _count_failure(self, info: QueuedPodInfo) -> None:
        info.enqueued_at = self._clock.now()
        info.attempts += info.is_taken
        if info.woken_by:
            self._early.count_failure(info)
        elif info.unschedulable_plugins or info.pending_plugins:
            info.unschedulable_count += 1
            if info.after_failure is None or not info.after_failure.is_unfinished:
                info.consecutive_errors = 0
        else:
            info.consecutive_errors += 1
        info.backoff_until = None
        info.moved_by, info.was_flushed = "", False

    def _strategy_after_flight(self, info: QueuedPodInfo, flight: Flight | None) -> Strategy:
        """Return the strategy that follows from the events that came while the pod was in flight."""
        if flight is None or not (info.unschedulable_plugins or info.pending_plugins):
            # No plugin rejected the pod, or its flight is unknown: only another attempt can tell.
            return Strategy.AFTER_BACKOFF
        if flight.is_named and not info.pending_plugins:
            return Strategy.AFTER_BACKOFF
        worth = self._hints.evaluate_all(info, self._missed(info, flight))
        return Strategy.AFTER_BACKOFF if flight.is_named and worth is Strategy.SKIP else worth

    def _missed(self, info: QueuedPodInfo, flight: Flight) -> Iterable[ObservedEvent]:
        """Return the events since the pop of a rejected pod, without those that cannot matter to it."""
        if not self.in_flight.has_missed(flight):
            return ()
        own = info.after_failure.ignored_by if info.after_failure is not None else None
        if own is not None and not self._hints.ignores(own, info.pod):
            own = None
        scheduler_name = info.pod.scheduler_name
        rejectors = info.rejectors

        def may_matter(event: ClusterEvent) -> bool:
            # An `activate` concerns one pod, and its flight has it in `is_named`.
            return event is not FORCE_ACTIVATE and self._hints.match(event).may_move(scheduler_name, rejectors)

        def ignores(ignored_by: Callable[[Pod], bool]) -> bool:
            # Most often the pod's own group released its nodes; then the answer is known.
            return ignored_by == own or self._hints.ignores(ignored_by, info.pod)

        missed = self.in_flight.events_since_pop(flight, may_matter, ignores)
        return (each for each in missed if not self.sub_queues.failed_before(info, each.taken_in))

    def _move(
        self,
        pods: Iterable[QueuedPodInfo],
        matches: Matches,
        old: object | None,
        new: object | None,
        ignored_by: Callable[[Pod], bool] | None = None,
        taken_in: int | None = None,
    ) -> None:
        """Move those of `pods` that the event may help; none of them is behind a gate that ignores the event."""
        for info in pods:
            uid = info.pod.uid
            if self._unschedulable.get(uid) is not info:
                continue  # a hint or PreEnqueue of an earlier pod moved this one
            strategy = self._hints.evaluate(info, matches, old, new)
            if strategy is Strategy.SKIP:
                continue
            self._unschedulable.remove(uid)
            info.moved_by = "" if matches.is_wildcard else matches.label
            place = self.sub_queues.requeue(info, strategy, matches.label)
            if place is QueuePlace.BACKOFF:
                self._early.wake(info, matches.label)
            elif place is QueuePlace.ACTIVE and listens(info):
                info.woken_by = info.moved_by
        self.in_flight.observe(matches.event, old, new, ignored_by, taken_in)

    def _flush_backoff(self, now: float) -> None:
        for info in self._backoff.pop_completed(now):
            self.sub_queues.to_ready(info, _BACKOFF_COMPLETE, from_backoff=True)
        self._backoff.arm()

    def _retry_due(self, due: Iterable[QueuedPodInfo]) -> None:
        """Move pods at the moment that a plugin gave, as after an event that this plugin finds worth an attempt."""
        for info in due:
            if self._unschedulable.get(info.pod.uid) is not info:
                continue  # PreEnqueue of an earlier pod moved this one
            is_pending = info.retry_plugin in info.pending_plugins
            self._unschedulable.remove(info.pod.uid)
            strategy = Strategy.IMMEDIATELY if is_pending else Strategy.AFTER_BACKOFF
            if self.sub_queues.requeue(info, strategy, RETRY_AFTER.label) is QueuePlace.BACKOFF:
                self._early.wake(info, RETRY_AFTER.label)

    def _flush_unschedulable(self, now: float) -> None:
        overdue = self._unschedulable.overdue(now)
        if overdue:
            self.sub_queues.flushed_in = self.scheduling_cycle
            for info in overdue:
                info.was_flushed = True
            self._move(overdue, self._hints.match(UNSCHEDULABLE_TIMEOUT), None, None)
        self._unschedulable.arm()
