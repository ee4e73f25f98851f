"""The sub-queues in which pods wait, and the moves between them.

    add ──────────────► active ──pop──► in flight ──► bound, or back:
                       (or held, ──take──►)             │
                          ▲  ▲                          │
          backoff is over │  │ event, not backing off   │
                          │  │                          ▼
                        backoff ◄──event── unschedulable (rejected, or gated)

A plugin that decides about many pods at once can hold back the pods of its profile. These pods wait in `held` instead
of activeQ, and the plugin takes them by name.

PreEnqueue plugins run before a pod enters activeQ or `held`. If one of them rejects the pod, the pod is gated: it waits
among the unschedulable pods.

Source: kube-scheduler 1.36, `moveToActiveQ`, `moveToBackoffQ`, `requeuePodWithQueueingStrategy`.
"""

from __future__ import annotations

import logging
from collections import Counter
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final, TypeAlias

from pyscheduler.framework.events import UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE
from pyscheduler.framework.pod_info import QueuedPodInfo
from pyscheduler.framework.stories import NullStories
from pyscheduler.queue.backoff import must_serve_backoff
from pyscheduler.queue.hints import Strategy
from pyscheduler.queue.retry_times import LEAST_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from kube_objects.clock import Clock
    from pyscheduler.api import Pod
    from pyscheduler.framework.events import ClusterEvent
    from pyscheduler.framework.pod_info import PodInfo
    from pyscheduler.framework.recorder import Recorder
    from pyscheduler.framework.status import Status
    from pyscheduler.framework.stories import Stories
    from pyscheduler.queue.active import ActiveQueue
    from pyscheduler.queue.backoff import BackoffQueue
    from pyscheduler.queue.nominator import Nominator
    from pyscheduler.queue.unschedulable import UnschedulablePods

__all__ = ["HeldPods", "PreEnqueue", "QueuePlace", "SubQueues"]

_log = logging.getLogger(__name__)

#: Run a profile's PreEnqueue plugins: None, or the rejection, which names its plugin. Must not raise.
PreEnqueue: TypeAlias = "Callable[[Pod], Status | None]"

#: Labels of the events that bring a pod, or a new version of it.
_NEWS: Final = frozenset({UNSCHEDULED_POD_ADD.label, UNSCHEDULED_POD_UPDATE.label})


class QueuePlace(StrEnum):
    """The place of a pod. All but the last are also the `queue` label of scheduler_queue_incoming_pods_total."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    HELD = "held"
    IN_FLIGHT = "in_flight"


#: So many changes of held pods are remembered until a source reads them; then it has to read all pods.
_MOST_CHANGES: Final = 200_000


class HeldPods(dict[str, QueuedPodInfo]):
    """The held pods by uid, in the order in which they came, with the changes since a source last read them."""

    def __init__(self) -> None:
        super().__init__()
        #: By profile, uids in order; no entry if the changes are unknown.
        self._changed: dict[str, dict[str, None]] = {}

    def put(self, info: QueuedPodInfo) -> None:
        """Add a pod, or take notice that it changed."""
        self[info.pod.uid] = info
        self._note(info)

    def take(self, uid: str) -> QueuedPodInfo | None:
        """Remove the pod and return it; None if it is not held."""
        info = self.pop(uid, None)
        if info is not None:
            self._note(info)
        return info

    def _note(self, info: QueuedPodInfo) -> None:
        changed = self._changed.get(info.pod.scheduler_name)
        if changed is not None:
            changed[info.pod.uid] = None
            if len(changed) > _MOST_CHANGES:
                del self._changed[info.pod.scheduler_name]

    def take_changes(self, profile: str) -> Collection[str] | None:
        """Return the uids of the profile's pods that came, changed or left since the last call; None if unknown."""
        changed = self._changed.get(profile)
        self._changed[profile] = {}
        return changed


class SubQueues:
    """activeQ, backoffQ, the unschedulable pods and the held pods. A pod is in one of them, or in none.

    `holding` names the profiles whose pods are held; it may grow while no pod of such a profile is here.
    `on_ready` is called when a pod becomes ready for an attempt.
    """

    def __init__(  # noqa: PLR0913 - wiring, all by keyword
        self,
        *,
        clock: Clock,
        recorder: Recorder,
        active: ActiveQueue,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        holding: Collection[str],
        nominator: Nominator,
        pre_enqueue: Mapping[str, PreEnqueue],
        gating_events: Mapping[str, Mapping[str, Sequence[ClusterEvent]]],
        on_ready: Callable[[], object],
        stories: Stories | None = None,
    ) -> None:
        self._clock = clock
        self._recorder = recorder
        self.active = active
        self.backoff = backoff
        self.unschedulable = unschedulable
        self.held = HeldPods()
        #: How often a pod entered `held`; sources of work compare it to learn of new pods.
        self.entered_held = 0
        self._holding = holding
        self._nominator = nominator
        self._pre_enqueue = pre_enqueue
        self._gating_events = gating_events
        self._on_ready = on_ready
        self._moved = (stories if stories is not None else NullStories()).moved
        #: The number of attempts when pods last left because they had been unschedulable for too long.
        self.flushed_in = 0
        #: How many pods have become ready so far.
        self._entered = 0
        #: The values of scheduler_unschedulable_pods, by (plugin, profile), without zeros: how many pods each plugin
        #: rejected or gates, until the pods leave the queue.
        self.rejections: Counter[tuple[str, str]] = Counter()

    def find(self, uid: str) -> tuple[QueuePlace, QueuedPodInfo] | None:
        """Return the pod and its sub-queue; None if it is in none of them."""
        if (info := self.active.get(uid)) is not None:
            return QueuePlace.ACTIVE, info
        if (info := self.unschedulable.get(uid)) is not None:
            return QueuePlace.UNSCHEDULABLE, info
        if (info := self.backoff.get(uid)) is not None:
            return QueuePlace.BACKOFF, info
        if (info := self.held.get(uid)) is not None:
            return QueuePlace.HELD, info
        return None

    def first(self) -> QueuedPodInfo | None:
        """Return the pod that `SchedulingQueue.pop` would return; None if there is none."""
        return self.active.first() or (self.backoff.rejected.peek() if self.backoff.pop_early else None)

    def to_ready(self, info: QueuedPodInfo, event: str, *, from_backoff: bool = False) -> QueuePlace:
        """Move the pod to activeQ or `held`; to the unschedulable pods if PreEnqueue rejects it. Return the place.

        `from_backoff`: the pod was in backoffQ until now, where it may have passed PreEnqueue already.
        """
        if not (from_backoff and self.backoff.pop_early) and not self._passes(info):
            return self.to_unschedulable(info, event)
        pod = info.pod
        if info.first_attempt_at is None:
            info.first_attempt_at = self._clock.now()
            self._entered += 1
            info.first_attempt_rank = self._entered
        self.unschedulable.remove(pod.uid)
        if self._holding and pod.scheduler_name in self._holding:
            place = QueuePlace.HELD
            self.held.put(info)
            self.entered_held += 1
            self._recorder.count("scheduler_queue_incoming_pods_total", "held", event)
        else:
            place = QueuePlace.ACTIVE
            self.active.add(info, event)
        self._on_ready()
        if event in _NEWS:
            self._nominator.add(info.pod_info)
        return self._went(info, place, event)

    def to_backoff(self, info: QueuedPodInfo, event: str) -> QueuePlace:
        """Move the pod to backoffQ; to the unschedulable pods if PreEnqueue is due and rejects it. Return the place."""
        if self.backoff.pop_early and not self._passes(info):
            return self.to_unschedulable(info, event)
        self.unschedulable.remove(info.pod.uid)
        self.backoff.add(info, event)
        if self.backoff.pop_early:
            self._on_ready()
        return self._went(info, QueuePlace.BACKOFF, event)

    def to_unschedulable(self, info: QueuedPodInfo, event: str) -> QueuePlace:
        """Put the pod among the unschedulable pods, or leave it there."""
        self.unschedulable.put(info, event)
        return self._went(info, QueuePlace.UNSCHEDULABLE, event)

    def requeue(self, info: QueuedPodInfo, strategy: Strategy, event: str) -> QueuePlace:
        """Move the pod as `strategy` says, and return its place."""
        if strategy is Strategy.SKIP:
            return self.to_unschedulable(info, event)
        # The backoff may have ended while the pod was unschedulable.
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(info):
            return self.to_backoff(info, event)
        return self.to_ready(info, event)

    def serve_backoff(self, uid: str, event: str) -> None:
        """Move a pod that is unschedulable or in backoff to the pods that serve their whole backoff."""
        info = self.unschedulable.get(uid) or self.backoff.remove(uid)
        if info is not None:
            must_serve_backoff(info)
            self.requeue(info, Strategy.AFTER_BACKOFF, event)

    def update(self, place: QueuePlace, info: QueuedPodInfo, newer: PodInfo) -> None:
        """Replace the pod by a newer version in its sub-queue, sort it again, and update its nomination."""
        old = info.pod
        info.pod_info = newer
        if place is QueuePlace.ACTIVE:
            self.active.put(info)
        elif place is QueuePlace.BACKOFF:
            self.backoff.resort((info,))
        elif place is QueuePlace.HELD:
            self.held.put(info)
            self._on_ready()  # the source that takes it may decide differently now
        self._nominator.update(old, newer)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove the pod and return it; None if it is in none of the sub-queues."""
        info = (
            self.active.remove(uid) or self.backoff.remove(uid) or self.unschedulable.remove(uid) or self.held.take(uid)
        )
        if info is not None:
            self.uncount_rejections(info)
        return info

    def failed_before(self, info: QueuedPodInfo, taken_in: int | None) -> bool:
        """Return True if the pod failed before the attempt that took some room: the room was free, and did not help.

        Otherwise groups that fit in part would wake each other without end. Held pods do not count, because they are
        not tried in the order in which they are taken. Nor do gated pods: a gate may count what others hold. Nor do
        pods that had a node and lost it, for example at Permit: it was not for lack of room that they failed.
        """
        came_first = taken_in is not None and info.taken_in is None and 0 < info.tried_in < taken_in
        return came_first and not info.is_gated and info.pod.scheduler_name not in self._holding

    def set_retry(self, info: QueuedPodInfo, after_seconds: float | None, plugin: str) -> None:
        """Set when a rejected pod is retried if no event comes; None: an event must come."""
        if after_seconds is None or not isfinite(after_seconds):
            info.retry_at, info.retry_plugin = None, ""
        else:
            info.retry_at, info.retry_plugin = self._clock.now() + max(after_seconds, LEAST_SECONDS), plugin

    def count_rejections(self, info: QueuedPodInfo) -> None:
        """Count the plugins that rejected a pod that returns."""
        for plugin in info.rejectors:
            self.rejections[plugin, info.pod.scheduler_name] += 1

    def uncount_rejections(self, info: QueuedPodInfo) -> None:
        """Undo `count_rejections` for a pod that leaves."""
        for plugin in info.rejectors:
            key = plugin, info.pod.scheduler_name
            self.rejections[key] -= 1
            if not self.rejections[key]:
                del self.rejections[key]

    def describe(self, info: QueuedPodInfo) -> dict[str, object]:
        """Return the facts about a pod as plain data, for the debugger."""
        now, until = self._clock.now(), info.backoff_until
        return {
            "attempts": info.attempts,
            "unschedulablePlugins": sorted(info.unschedulable_plugins),
            "pendingPlugins": sorted(info.pending_plugins),
            "gatingPlugin": info.gating_plugin,
            "waitingSeconds": round(now - info.enqueued_at, 3),
            "backoffSeconds": round(max(until - now, 0.0), 3) if until is not None else 0.0,
            **({"retrySeconds": round(info.retry_at - now, 3)} if info.retry_at is not None else {}),
        }

    def counts(self) -> dict[str, int]:
        """Return the values of scheduler_pending_pods, by its `queue` label.

        `held` is among them only if a profile holds its pods.
        """
        gated = self.unschedulable.gated_count
        counts = {
            "active": len(self.active),
            "backoff": len(self.backoff),
            "unschedulable": len(self.unschedulable) - gated,
            "gated": gated,
        }
        return {**counts, "held": len(self.held)} if self._holding else counts

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable) + len(self.held)

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """Yield every pod. The caller must not move pods before the iteration ends."""
        yield from self.active
        yield from self.backoff
        yield from self.unschedulable
        yield from self.held.values()

    def check_invariants(self) -> None:
        """Raise AssertionError if a sub-queue is inconsistent, a pod is in two of them, or a count is wrong."""
        self.active.check_invariants()
        self.backoff.check_invariants()
        self.unschedulable.check_invariants()
        uids = [info.pod.uid for info in self]
        assert len(uids) == len(set(uids)), "a pod is in two sub-queues"
        for info in self.active:
            assert info.pod.scheduler_name not in self._holding, f"pod {info.pod.key} is in activeQ and not held"
        for uid, info in self.held.items():
            assert info.pod.uid == uid, f"pod {info.pod.key} is filed under uid {uid}"
            assert info.pod.scheduler_name in self._holding, f"pod {info.pod.key} is held and its profile holds none"
        # With pop_early False a gated pod may be in backoffQ, because PreEnqueue runs when it leaves.
        ready = (*self.active, *self.held.values(), *(self.backoff if self.backoff.pop_early else ()))
        for info in ready:
            assert not info.is_gated, f"pod {info.pod.key} is gated by {info.gating_plugin} and not unschedulable"
        rejections: Counter[tuple[str, str]] = Counter()
        for info in self:
            rejections.update((plugin, info.pod.scheduler_name) for plugin in info.rejectors)
        assert rejections == self.rejections, f"rejections are miscounted: {self.rejections} != {rejections}"

    def _passes(self, info: QueuedPodInfo) -> bool:
        """Run PreEnqueue; record the plugin that rejects the pod, and the events it registered."""
        pod = info.pod
        run = self._pre_enqueue.get(pod.scheduler_name)
        status = run(pod) if run is not None else None
        if status is None or status.is_success:
            info.gating_plugin = info.gating_reason = ""
            return True
        plugin = status.plugin
        assert plugin, "a rejection names its plugin"
        if status.is_error:
            _log.error("Unexpected error running PreEnqueue plugin=%s pod=%s err=%s", plugin, pod.key, status.message)
        if plugin not in info.unschedulable_plugins and plugin not in info.pending_plugins:
            self.rejections[plugin, pod.scheduler_name] += 1
        # A new set, because the diagnosis may share the old one.
        info.unschedulable_plugins = info.unschedulable_plugins | {plugin}
        info.gating_plugin, info.gating_reason = plugin, status.message
        # Only the gate decides now; what filters wanted was for an attempt.
        self.set_retry(info, status.retry_after_seconds, plugin)
        info.gating_plugin_events = tuple(self._gating_events.get(pod.scheduler_name, {}).get(plugin, ()))
        return False

    def _went(self, info: QueuedPodInfo, place: QueuePlace, event: str) -> QueuePlace:
        self._moved(info, place, event)
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("Pod moved to an internal scheduling queue pod=%s event=%s queue=%s", info.pod.key, event, place)
        return place
